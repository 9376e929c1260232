/* proc_internal.h: what proc.c (the life of a program and its supervisor) and proc_start.c (how it
 * comes to be) share. */
#pragma once

#include "agent/loop.h"
#include "agent/proc.h"
#include "base/list.h"

struct pipe_end {
	struct source source;
	struct proc *proc;
	int stream;
	bool enlarged;
};

struct proc {
	struct list node;
	const struct proc_ops *ops; /* NULL: abandoned */
	void *user;
	pid_t supervisor; /* 0: reaped; adopted: not known yet, or gone */
	pid_t leader;     /* 0: not started, or ended */
	bool adopted;
	int supervisor_fd, leader_fd; /* pidfds, adopted only; -1: none */
	unsigned family;              /* common to all that were forked from each other */
	struct source socket;
	struct pipe_end pipes[2];
	struct timer patience;
	bool started, ended; /* started() has been called; ended() or failed() */
	bool killing;
	bool socket_closed;
};

/* In no list yet, with no descriptor. */
struct proc *proc_new(const struct proc_ops *ops, void *user);

/* Watches the supervisor's socket and the reading ends of both outputs, and takes them (-1 then),
 * as far as it comes. */
int proc_watch(struct proc *p, int *socket, int *out, int *err);

/* Among those that the agent knows. */
void proc_add(struct proc *p);

void proc_free(struct proc *p);
