/* boot.h: what an agent reads at its start (enum wire_boot), and the environment of its jobs. */
#pragma once

#include "base/buf.h"
#include "provider/provider.h"

struct boot {
	const struct sandbox_spec *spec;
	const uint8_t *key;          /* AUTH_KEY bytes */
	const char *workspace, *tmp; /* as the agent sees them */
	/* The parent of the mounts, as the agent sees it; NULL: their sources' own paths. */
	const char *mnt;
	const char *empty; /* an empty directory there (BOOT_EMPTY); NULL: none */
	uint32_t confine;  /* bits of enum boot_confine */
	uint64_t rlimit_nproc, rlimit_data;
	/* Numbers of the descriptors in the agent; -1: none. */
	const int *join_fds;
	size_t n_join_fds;
	int hold_fds[2]; /* BOOT_HOLD_FD */
	int lifeline_fd; /* BOOT_LIFELINE_FD */
	int oom_fd, pids_events_fd, memory_fd, pids_fd;
	/* The same four as paths inside the sandbox; NULL: none. */
	const char *oom_path, *pids_events_path, *memory_path, *pids_path;
	uint64_t memory_max, pids_max; /* 0: nothing bounds it */
};

/* The part of it that confines a kernel which is forked from a template (TEMPLATE_FORK): no key,
 * and only join_fds among the descriptors. 0, or -ENOBUFS. */
int boot_kernel_config(const struct boot *b, struct buf *ret) MUST_CHECK;

/* All of it; the caller frees. 0, or -ENOBUFS. */
int boot_config_bytes(const struct boot *b, struct buf *ret) MUST_CHECK;
/* A memfd with it, CLOEXEC, or a negative errno. */
int boot_config(const struct boot *b) MUST_CHECK;
