/* live.h: a real sandbox of a provider, with link and exec over it, driven from a test: one at a
 * time, one loop, and what was answered last.
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
#include <limits.h>
#include <uv.h>

#include "base/limits.h"
#include "exec/exec.h"
#include "link/link.h"
#include "provider/provider.h"

#define LIVE_PATIENCE_US (30 * USEC_PER_SEC)

struct live {
	const struct provider *provider;
	char agent_path[PATH_MAX], kernels_dir[PATH_MAX];
	uv_loop_t loop;
	uv_timer_t beat; /* so that no wait is longer than it */
	char dir[32];
	struct sandbox *sandbox;
	struct link *link;
	struct exec *exec;
	bool ready, lost, destroyed, answered;
	struct err why; /* lost */
	/* the last answer */
	struct err err;
	struct exec_status status;
};
extern struct live live;

/* Runs the loop until the flag is set, and clears it. Fails when nothing comes. */
void live_until(bool *flag);

/* The loop and a directory. Close: everything must be closed; the directory stays. */
void live_open_loop(void);
/* Without the directory. */
void live_start_loop(void);
void live_close_loop(void);
/* The loop, and a sandbox whose link is up. spec: mounts and sizes; the rest is filled in. 0, or -1
 * where there is none. */
int live_open(const struct sandbox_spec *spec);
void live_destroy(void);
void live_close(void);
/* For cmocka: a sandbox of the default sizes. */
int live_set_up(void **state);
int live_tear_down(void **state);

/* Callbacks that keep the answer. */
void live_keep(const struct err *err);
void live_on_status(void *user, struct exec_status *status, const struct err *err);
/* Runs a command or a cell and waits for its answer; kind, job (live_job) and wait_us are filled
 * in. */
extern char live_job[ID_TEXT_SIZE];
void live_run(struct exec_request *r);
void live_shell(const char *text);
void live_cell(const char *code);
/* Waits for the end of live_job. */
void live_wait(void);

void live_assert_done(enum wire_reason reason);
void live_assert_exit(int code);
void live_assert_bytes(const struct buf *b, const char *text);
void live_assert_stdout(const char *text);
/* Exit 0 with one result, whose text/plain this is. */
void live_assert_result(const char *text);

/* Reads the arguments and probes. 0: go on; else the exit status is *ret: they are wrong, or the
 * provider cannot be used here (and TAP says why). */
int live_begin(int argc, char **argv, int *ret);
