/* launch.h: how the first process of a sandbox comes to be: the one path for root and ordinary
 * brokers.
 *
 * A child of the broker joins the agent's control groups, stages what its future uid cannot reach,
 * becomes that uid for good, places the descriptors, and only then executes bubblewrap (or, for
 * `local`, the agent). Between fork and exec it makes system calls and nothing else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"

/* Where a root broker's launcher binds what lies in places that the sandbox's uid cannot enter (a
 * clone under /root, a 0700 home): a tmpfs in a mount namespace that only this sandbox has. */
#define LAUNCH_STAGE_DIR "/run/scb/stage"

struct launch_stage {
	const char *source; /* on the host */
	char *target;       /* below LAUNCH_STAGE_DIR, one new name */
	bool directory;
	bool writable;
	bool mount;
};

#define LAUNCH_FIRST_FD 3
#define LAUNCH_FDS      48
#define LAUNCH_STAGES   (LIMIT_MOUNTS + 4)

struct launch {
	const char *program;
	char *const *argv;
	char *const *env;
	uid_t uid;   /* to become, with a gid of the same number; 0: stay who we are */
	bool reaper; /* adopts what its descendants orphan (where there is no PID namespace) */
	/* root only: in mount, network, IPC and host-name namespaces of its own, in which nothing
	 * but writable stages can be written */
	bool sealed;
	uint64_t keep_caps; /* bits of the capabilities that uid has nevertheless, for good */
	struct launch_stage stages[LAUNCH_STAGES]; /* root only */
	size_t n_stages;
	const int *join; /* "0" is written to each */
	size_t n_join;
	int cgroup2_fd; /* born in this group; -1: none */
	int stderr_fd;  /* standard error; standard input and output are /dev/null */
	/* It does nothing before a byte comes here, and ends at the end of file; gate_writer is the
	 * other end, for the child to close; 0: no gate. */
	int gate, gate_writer;
	int fds[LAUNCH_FDS];    /* become 3, 4, …; everything else is closed */
	bool owned[LAUNCH_FDS]; /* closed by launch_done() */
	size_t n_fds;
};

/* Gives the process one more descriptor, borrowed or owned; the number that it has there. */
int launch_give(struct launch *l, int fd);
int launch_give_owned(struct launch *l, int fd);
/* How the process will see a source of binds: by its own path, or, where the future uid could not
 * reach it, staged. source is borrowed until launch_done(), the result lives as long. */
const char *launch_see(struct launch *l, const char *source, bool directory, bool writable);
/* The same of a folder that is mounted, whose path has no link in it. Where one is put there later,
 * by whoever owns a folder above, it is not followed. */
const char *launch_see_mount(struct launch *l, const char *source);

/* The pid, with a pidfd for it, or a negative errno. What goes wrong in the child is one line on
 * stderr_fd, "scb launch: STEP: ENAME", and exit status 125. */
pid_t launch_start(const struct launch *l, int *ret_pidfd, struct err *err) MUST_CHECK;
void launch_done(struct launch *l);
