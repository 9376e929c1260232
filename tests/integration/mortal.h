/* mortal.h: a broker in a process of its own, to be killed and followed by another on the same
 * state: store, audit log, outputs and sandboxes; driven message by message, as a front does it.
 *
 * A program of these tests is called as: test-NAME PROVIDER AGENT KERNELS-DIR */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

#include "base/id.h"
#include "provider/provider.h"

#define MORTAL_PATIENCE_MS 30000

/* What the broker does with the next end of a message (an answer, or word that it is done). */
enum mortal_fate {
	MORTAL_TELLS, /* it arrives */
	MORTAL_KEEPS, /* it is lost, and the broker lives */
	MORTAL_DIES,  /* it is lost, since the broker dies of SIGKILL before */
};

struct mortal {
	const struct provider *provider;
	char agent_path[PATH_MAX], kernels_dir[PATH_MAX];
	char dir[32], audit_path[48], outputs_dir[48];
	pid_t pid; /* 0: none runs */
	int fd;
	char session[ID_TEXT_SIZE]; /* the connection's own; kept for the next broker */
	uint64_t number;            /* of the last message */
};
extern struct mortal mortal;

/* A directory with nothing in it, and a first broker. For cmocka. */
int mortal_set_up(void **state);
/* Ends the broker in order; nothing may be left of its sandboxes. */
int mortal_tear_down(void **state);

void mortal_start(void);
/* In order: its sandboxes end with it. */
void mortal_stop(void);
/* With SIGKILL, unless it is dead already. */
void mortal_kill(void);

/* One message under this number. */
void mortal_send(uint64_t number, bool replayed, enum mortal_fate fate, const json_t *message);
/* The end of that message: its answer (owned by the caller), or NULL where it is done without one.
 * Of one that was lost *ret_lost is set. Notifications are thrown away. */
json_t *mortal_end(uint64_t number, bool *ret_lost);
/* Nothing ends within so long. */
void mortal_nothing(int ms);

/* Reads the arguments and probes. 0: go on; else the exit status is *ret. */
int mortal_begin(int argc, char **argv, int *ret);
