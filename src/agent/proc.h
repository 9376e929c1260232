/* proc.h: one running program with its supervisor (agent/supervise.h), its output pipes and, for a
 * kernel, its control socket. Jobs and kernels are built on it.
 *
 * Most are started here. One may be adopted instead: a program that was forked elsewhere (from a
 * template outside the sandbox, or from another kernel in it), with a supervisor of its own that is
 * no child of the agent. Who supervisor and leader are is learnt from the credentials that the
 * kernel gives with their first messages, in the agent's own numbering, never from what a message
 * says. An adopted supervisor's death is its socket's end of file; what it still had is killed
 * then, since nobody could tell its end any more. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/config.h"
#include "agent/supervise.h"

struct proc;

struct proc_ops {
	void (*started)(void *user, pid_t pid);
	/* Adopted ones only, may be NULL else: its supervisor watches, and every supervisor that
	 * could take it for a part of its own tree has been told not to. */
	void (*supervised)(void *user);
	/* A signal of proc_signal() has been sent. May be NULL. */
	void (*signalled)(void *user);
	/* It never became the program. Nothing but gone() follows. errnum is positive; name is that
	 * of the failed step, or "". */
	void (*failed)(void *user, enum supervise_step step, int errnum, const char *name);
	/* stream: wire_channel. */
	void (*output)(void *user, int stream, const uint8_t *p, size_t n);
	/* The leader has ended; wait_status as of waitpid(2), or -1 where nobody could learn it;
	 * left: how many processes it left behind. Its output up to here has been given to
	 * output(). */
	void (*ended)(void *user, int wait_status, unsigned left);
	/* The last process of its tree has ended, and its output too. The last call: proc is freed
	 * after it. */
	void (*gone)(void *user);
};

struct proc_spec {
	char **argv; /* ends with NULL */
	char **env;
	const char *cwd; /* NULL: the workspace */
	bool want_stdin, want_control;
};

/* c is kept. Call once. */
int proc_init(const struct config *c) MUST_CHECK;
/* 0 with *ret, and the agent's ends in *ret_stdin and *ret_control where the spec wants them
 * (caller's), or a negative errno: -EAGAIN where no process can be made. ops must outlive it. */
int proc_start(const struct proc_spec *spec, const struct proc_ops *ops, void *user,
	struct proc **ret, int *ret_stdin, int *ret_control) MUST_CHECK;

/* What an adopted program comes with. The socket must have had SO_PASSCRED since before anything
 * was sent to it. */
struct proc_ends {
	int supervisor; /* SOCK_SEQPACKET, of struct supervise_msg */
	int control;    /* SOCK_STREAM; proc.c leaves it to the caller */
	int out, err;   /* reading ends of pipes */
};
void proc_ends_close(struct proc_ends *e);
/* True where the four are what they are said to be. */
bool proc_ends_valid(const struct proc_ends *e);
/* As proc_start(), for a program that runs already. Takes the descriptors but control, only where
 * it succeeds. parent is the one that it was forked from, or NULL. */
int proc_adopt(struct proc_ends *e, const struct proc *parent, const struct proc_ops *ops,
	void *user, struct proc **ret) MUST_CHECK;
/* What code in the sandbox could have told instead of a supervisor of the agent's own. */
bool proc_adopted(const struct proc *p);

/* No call any more; what still runs goes on unwatched until it ends or the agent does. */
void proc_abandon(struct proc *p);
/* Ends the whole tree; gone() follows, soon: where the supervisor does not do it, the agent does.
 */
void proc_kill(struct proc *p);
bool proc_killing(const struct proc *p);
/* To the leader's process group, and after the leader's end to all that it left. True where
 * signalled() follows, once that has been done (unless the supervisor dies first). */
bool proc_signal(struct proc *p, int sig);
/* Reads what the program's pipes hold right now. */
void proc_drain(struct proc *p);
/* Whether one of its output pipes is still open. */
bool proc_has_output(const struct proc *p);
/* Ends what has come to the agent from supervisors that are no more. */
void proc_kill_orphans(void);
/* Threads of all that code runs: what RLIMIT_NPROC counts. */
size_t proc_count_threads(void);
/* Collects children that have ended: for the loop's hook. */
void proc_reap(void);
/* Ends every process but the agent itself, and waits up to a second for it. */
void proc_end_all(void);
