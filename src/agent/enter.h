/* enter.h: how a process that was forked from a kernel template comes into a sandbox: the same code
 * that confines the agent's own children, as a shared object (scb-enter.so) that template.py loads.
 * birth.h is the other half of it.
 *
 * Each function makes system calls and allocates little; the process has one thread. 0, or a
 * negative errno and a name of the failed step in ret_step (NUL-terminated, ENTER_STEP bytes). */
#pragma once

#include <stddef.h>

#define ENTER_STEP 64

/* Enters the namespaces that n descriptors of /proc/PID/ns refer to, in this order; a user
 * namespace comes first, and the process becomes uid and gid 0 of it. A PID namespace is that of
 * the next children. The process is non-dumpable before, so that nobody in there looks into it. */
int scb_enter_namespaces(const int *fds, int n, char *ret_step);
/* In the kernel itself: child_confine() with a configuration of n bytes (enum wire_boot), then the
 * workspace as working directory, and dumpable as a program is that has just been executed. */
int scb_enter_confine(const void *config, size_t n, char *ret_step);
