/* supervise.h: the small process between the agent and each program that it runs.
 *
 * It is a subreaper: everything that the program starts and leaves behind comes back to it, so that
 * it can tell what is left and end the whole tree (agent/tree.h). It stays in the agent's cgroup
 * and user namespace, without capabilities and with no descriptor but its socket, and lives until
 * the last process of its tree is gone. Agent and supervisor speak over a SOCK_SEQPACKET pair; when
 * the agent's end closes, the tree is ended.
 *
 * Code can kill it (it has the same uid in the kernel's eyes). Its orphans then come to the agent,
 * which is a subreaper too.
 *
 * A kernel that was forked from another process (the template, or another kernel) brings a
 * supervisor that the agent did not start: the process that forked it, which then executes
 * `scb-agent supervise PID` with the socket as descriptor 0, so that it holds nothing of the memory
 * it was forked with. Its messages count only with the credentials that the kernel gives them
 * (agent/proc.h). Where one such tree grew out of another, each supervisor is told which of its
 * children is not of its tree (SUPERVISE_KEEP). */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/config.h"
#include "base/mem.h"

struct supervise_spec {
	const struct config *config;
	char *const *argv;
	char *const *env;
	const char *cwd; /* NULL: the workspace; relative ones begin there */
	int stdin_fd, stdout_fd, stderr_fd;
	int control_fd; /* becomes descriptor 3; -1: none */
};

/* Why a program did not start. */
enum supervise_step { STEP_FORK = 1, STEP_CONFINE, STEP_CWD, STEP_EXEC };

enum supervise_kind {
	/* from the supervisor */
	SUPERVISE_STARTED = 1, /* value: the leader's pid */
	SUPERVISE_FAILED,      /* value: errno; step, and its name where it was STEP_CONFINE */
	SUPERVISE_ENDED,       /* value: the leader's wait status; left: processes still there */
	/* to the supervisor */
	SUPERVISE_KILL,   /* the whole tree */
	SUPERVISE_SIGNAL, /* value: signal for the leader's group, or for the whole tree once it
			     has ended */
	SUPERVISE_KEEP, /* value: pid of a supervisor that is below it, now or later, with a tree of
			   its own; left: 1, or 0 where it is no more */
	/* from the supervisor */
	SUPERVISE_HERE,      /* an adopted one watches; the sender is the supervisor */
	SUPERVISE_SIGNALLED, /* SUPERVISE_SIGNAL was done */
	/* from the leader, before it can run anybody's code; value: its pid. The code's first act
	   may be to kill the supervisor, which then tells of no start and no end. */
	SUPERVISE_BORN,
};
/* STARTED of an adopted kernel is sent by the leader itself: the sender is the leader, and value is
 * not looked at. */

struct supervise_msg {
	uint8_t kind;
	uint8_t step;
	int32_t value;
	int32_t left;
	char name[32];
};

/* In a freshly forked child of the agent. socket: its end of the pair. */
NORETURN void supervise_run(const struct supervise_spec *spec, int socket);
/* The program `scb-agent supervise PID`: socket is descriptor 0, the leader a child already. */
NORETURN void supervise_adopted(pid_t leader_pid);
