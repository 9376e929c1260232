/* cgroup.h: the two control groups of a sandbox, on cgroup v1, v2 and both at once.
 *
 * `agent` holds the agent, `code` everything that it starts, with the limits. On a hybrid machine
 * the controllers are on v1 and an otherwise empty v2 tree offers cgroup.kill. A root broker has a
 * group "scb" in each hierarchy; an ordinary user one in the v2 group that was delegated to it, if
 * one was. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };

/* What this process can use, found out once. */
struct cgroup_host {
	enum cgroup_kind memory, pids, cpu;
	bool kill; /* cgroup.kill */
	/* base groups; NULL where that hierarchy is not used */
	char *v1_memory, *v1_pids, *v1_cpu, *v2;
	bool v2_controllers; /* v2 holds at least one of the three */
};

/* Never fails: what cannot be used is NONE. Makes the base groups; may move this process into a
 * leaf of its delegated group. The same answer every time (looked up once a process). */
const struct cgroup_host *cgroup_host(void);
/* The same without a cache, on other roots, for tests: mounts in mountinfo's format, own groups in
 * that of /proc/PID/cgroup. */
void cgroup_host_find(
	const char *mountinfo_path, const char *self_path, bool root, struct cgroup_host *ret);
void cgroup_host_done(struct cgroup_host *h);

struct cgroup_limits {
	uint64_t memory, agent_memory; /* bytes */
	uint32_t pids, cpus;
};

#define CGROUP_DIRS 6
#define CGROUP_JOIN 3

struct cgroup_box {
	char *dirs[CGROUP_DIRS]; /* to be removed, last one first */
	size_t n_dirs;
	/* For the launcher: write "0" to each of these, and be born in v2_fd (a directory, for
	 * CLONE_INTO_CGROUP; -1: none). */
	int agent_join[CGROUP_JOIN];
	size_t n_agent_join;
	int v2_fd;
	/* For the agent: see BOOT_JOIN_FD and the following in wire/proto.h; -1: none. */
	int code_join[CGROUP_JOIN];
	size_t n_code_join;
	int oom_fd, pids_events_fd, memory_fd, pids_fd;
	char *kill_path; /* cgroup.kill of the whole sandbox, or NULL */
};

#define CGROUP_BOX_NONE                                                                            \
	((struct cgroup_box){.agent_join = {-1, -1, -1},                                           \
		.v2_fd = -1,                                                                       \
		.code_join = {-1, -1, -1},                                                         \
		.oom_fd = -1,                                                                      \
		.pids_events_fd = -1,                                                              \
		.memory_fd = -1,                                                                   \
		.pids_fd = -1})

/* All descriptors CLOEXEC. On failure nothing is left. With an empty host: an empty box. */
int cgroup_box_create(const struct cgroup_host *h, const char *id,
	const struct cgroup_limits *limits, struct cgroup_box *ret, struct err *err) MUST_CHECK;
/* The box of those groups, which another process made: to be killed and removed. Copies. */
void cgroup_box_found(char *const *dirs, size_t n, struct cgroup_box *ret);
/* SIGKILL to all of it; -ENOSYS where there is no cgroup.kill. */
int cgroup_box_kill(const struct cgroup_box *b);
/* Removes the groups; -EBUSY where something still lives in one (ask again). */
int cgroup_box_remove(struct cgroup_box *b);
/* Removes one group of a box, by path. 0 also where it is gone already. */
int cgroup_remove_group(const char *dir);
/* For a process that joins later ("0" written to each): the agent's groups or the code's. How many
 * (≤ CGROUP_JOIN), or a negative errno. */
int cgroup_box_open(const struct cgroup_box *b, bool code, int ret_join[static CGROUP_JOIN]);
/* Closes the descriptors that only launcher and agent need. */
void cgroup_box_close(struct cgroup_box *b);
/* Closes and frees; does not remove. */
void cgroup_box_done(struct cgroup_box *b);

/* Removes the groups of sandboxes that nobody lives in and that no record names any more (a runtime
 * directory was deleted): at least ten seconds old, because a fresh one is empty, too. The number
 * of sandboxes. */
int cgroup_sweep(const struct cgroup_host *h);
