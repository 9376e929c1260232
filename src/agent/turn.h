/* turn.h: work that takes long (searching, deleting a tree, hashing), done in slices between two
 * rounds of the agent's loop, so that no operation keeps the others waiting.
 *
 * The loop polls without waiting while turn_pending(), and calls turn_run() once a round. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* One slice. A file system answers 10,000 questions in about as long, and nobody notices it. */
#define TURN_SLICE_US 2000

struct turn {
	struct list node; /* list_init() before the first use */
	/* Works until about deadline_us (CLOCK_MONOTONIC). Is called again in a later round unless
	 * it has called turn_remove(), after which it may free what it stands in. */
	void (*step)(struct turn *t, uint64_t deadline_us);
};

/* At the end of the queue; where it is queued already, nothing changes. */
void turn_add(struct turn *t);
/* Harmless when it is not queued. */
void turn_remove(struct turn *t);
bool turn_pending(void);
/* One slice of the work that has waited longest. */
void turn_run(void);
