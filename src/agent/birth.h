/* birth.h: how a kernel comes from a process that has everything loaded, with as little copied as
 * can be. Part of scb-enter.so, which Python loads (kernels/python/scb_kernel/birth.py).
 *
 * fork() copies page tables, and each side then pays for every page that it writes to: with 90 MB
 * of libraries that is most of a kernel's start. So no process stands in between that has a copy.
 * Supervisor and helper share the memory of the caller, as after vfork(), until they execute
 * another program or end, and the kernel
 *
 *   takes it over (scb_birth_take), where the caller exists for one kernel only: the caller ends,
 *   and its memory is the kernel's, with not one page to copy; or
 *   has a copy, the only one that is made (scb_birth_twin), where the caller goes on.
 *
 *        take:  caller ═══▶ supervisor ── exec scb-agent supervise PID
 *               (ends)           ╚══════▶ kernel: goes on where the caller was
 *        twin:  caller ═══▶ helper ═══▶ supervisor ── exec scb-agent supervise PID
 *               (goes on)   (ends)           └──────▶ kernel: goes on where the caller was
 *               ═══▶ shares memory   ───▶ fork()
 *
 * Nothing of the kernel runs while anybody shares memory with it: it waits until it is alone. The
 * caller has one thread. Not for callers that hold a lock of the C library. */
#pragma once

#include <stddef.h>

/* What both need. 0 or more as said below, or a negative errno, and the name of the failed step in
 * ret_step (ENTER_STEP bytes): then nothing was made, and the caller goes on. */

/* Can this process be taken over? Asked once, in the template. 0, or a negative errno. */
int scb_birth_check(char *ret_step);
/* Returns 0 in the kernel, which is a session of its own and confined (scb_enter_confine()) with
 * config. Also returns in the kernel, negative, where it could not be confined: it must end then.
 * supervisor_fd: the supervisor's socket to the agent; closed in the kernel. program: scb-agent.
 * joins: descriptors to write "0" to, for the supervisor's groups. */
int scb_birth_take(int supervisor_fd, const char *program, const int *joins, int n_joins,
	const void *config, size_t config_size, char *ret_step);
/* Returns 0 in the twin, a session of its own, and in the caller the pid of the helper, a child
 * that has ended: so the supervisor is none of the caller's children. program_fd: scb-agent,
 * CLOEXEC. */
int scb_birth_twin(int supervisor_fd, int program_fd, char *ret_step);
