/* config.h: what the agent was told at boot (enum wire_boot), read once from a descriptor. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "wire/auth.h"
#include "wire/proto.h"

#define CONFIG_JOIN_FDS 8
#define CONFIG_HOLD_FDS 4

struct config_mount {
	char *name;
	char *path;
	int fd; /* O_PATH directory, or -1 where it cannot be opened */
};

struct config {
	uint8_t key[AUTH_KEY];
	uint8_t boot_id[16];
	char *workspace;
	int workspace_fd; /* O_PATH directory */
	char *tmp;
	char *empty; /* NULL: mounts are seen as they are */
	struct config_mount mounts[LIMIT_MOUNTS];
	size_t n_mounts;
	char *env[LIMIT_ARGS + 1]; /* NULL-terminated */
	size_t n_env;
	int join_fds[CONFIG_JOIN_FDS];
	size_t n_join_fds;
	int hold_fds[CONFIG_HOLD_FDS];
	size_t n_hold_fds;
	int lifeline_fd;                                /* -1: none */
	int oom_fd, pids_events_fd, memory_fd, pids_fd; /* -1: none */
	uint64_t memory_max, pids_max;                  /* 0: unknown */
	uint32_t confine;                               /* bits of enum boot_confine */
	uint64_t rlimit_nproc, rlimit_data;             /* 0: leave alone */
	uint32_t lease_ms, orphan_ms;
	uint64_t spool_head, spool_tail, spool_session;
};

/* Reads fd to its end and closes it; where it comes ahead of other bytes, as many as the be32 in
 * front of it says, and leaves fd open. Opens workspace and mounts. 0, or a negative errno with a
 * line on stderr. Every descriptor named in it is CLOEXEC afterwards. */
int config_read(int fd, bool ahead, struct config *ret);

/* The same from n bytes, without key and id, opening nothing: what a kernel that was forked from a
 * template needs to confine itself (agent/enter.h). 0 or a negative errno. */
int config_parse(const void *p, size_t n, struct config *ret);
