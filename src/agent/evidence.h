/* evidence.h: counters that tell why a program failed: the cgroup's through inherited descriptors,
 * free space of workspace and temporary directory, and the process limit. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/config.h"

struct evidence {
	uint64_t oom_kills, pids_max; /* counted so far; 0 where there is no counter */
	bool disk_full;               /* less than 64 KiB or no inode free where code can write */
};

/* c is kept. Call once. */
void evidence_init(const struct config *c);
/* As it is now: five system calls. */
void evidence_read(struct evidence *ret);
/* As it was when it was last read, no more than EVIDENCE_AGE_US ago: cells that follow each other
 * in milliseconds need not look each time. */
void evidence_recent(struct evidence *ret);
#define EVIDENCE_AGE_US (50 * USEC_PER_MSEC)
/* For a moment in which nobody waits: what comes next shall not have to read it. */
void evidence_renew(void);
/* As many processes and threads as are allowed: by the counter, else by RLIMIT_NPROC. */
bool evidence_crowded(void);
/* No counter, but RLIMIT_NPROC, and as many threads as it allows, with those that have just ended.
 */
bool evidence_at_process_limit(size_t ended);
/* A cgroup's number file. 0 where there is none. */
uint64_t evidence_number(int fd);
