/* evidence.h: counters that tell why a program failed: the cgroup's through inherited descriptors,
 * free space of workspace and temporary directory, and the process limit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/config.h"

struct evidence {
	uint64_t oom_kills, pids_max; /* counted so far; 0 where there is no counter */
};

/* c is kept. Call once. */
void evidence_init(const struct config *c);
void evidence_read(struct evidence *ret);
/* Less than 64 KiB or no inode free where code can write. */
bool evidence_disk_full(void);
/* As many processes and threads as are allowed: by the counter, else by RLIMIT_NPROC. */
bool evidence_crowded(void);
/* No counter, but RLIMIT_NPROC, and as many threads as it allows. */
bool evidence_at_process_limit(void);
/* A cgroup's number file. 0 where there is none. */
uint64_t evidence_number(int fd);
