/* live.c: see live.h. */
#include "live.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

struct live live;
char live_job[ID_TEXT_SIZE];

void live_until(bool *flag)
{
	uint64_t end = clock_monotonic_us() + LIVE_PATIENCE_US;
	while (!*flag) {
		if (clock_monotonic_us() > end)
			fail_msg("nothing in %d s%s%s", (int)(LIVE_PATIENCE_US / USEC_PER_SEC),
				live.lost ? "; lost: " : "", live.lost ? live.why.text : "");
		(void)uv_run(&live.loop, UV_RUN_ONCE);
	}
	*flag = false;
}

static void on_beat(uv_timer_t *t)
{
	(void)t;
}

void live_open_loop(void)
{
	(void)snprintf(live.dir, sizeof(live.dir), "/tmp/scb-test-XXXXXX");
	assert_non_null(mkdtemp(live.dir));
	live_start_loop();
}

void live_start_loop(void)
{
	live.sandbox = NULL;
	live.link = NULL;
	live.exec = NULL;
	live.ready = live.lost = live.destroyed = live.answered = false;
	live.err = live.why = (struct err){0};
	assert_int_equal(uv_loop_init(&live.loop), 0);
	assert_int_equal(uv_timer_init(&live.loop, &live.beat), 0);
	assert_int_equal(uv_timer_start(&live.beat, on_beat, 20, 20), 0);
}

void live_close_loop(void)
{
	uv_close((uv_handle_t *)&live.beat, NULL);
	(void)uv_run(&live.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&live.loop), 0); /* nothing is left on it */
	exec_status_done(&live.status);
}

/* ---- a sandbox ---- */

static void on_ready(void *user, const struct link_hello *hello)
{
	(void)user;
	(void)hello;
	live.ready = true;
}

static void on_lost(void *user, const struct err *why)
{
	(void)user;
	live.lost = true;
	live.why = *why;
	live.ready = true;
}

static void on_exited(void *user, const struct err *why)
{
	(void)user;
	link_fail(live.link, why);
}

static void on_destroyed(void *user, const char *leftovers)
{
	(void)user;
	if (leftovers)
		fail_msg("left behind: %s", leftovers);
	live.destroyed = true;
}

int live_open(const struct sandbox_spec *wanted)
{
	static const struct link_events link_events = {.ready = on_ready, .lost = on_lost};
	static const struct sandbox_events sandbox_events = {.exited = on_exited};
	char id[ID_TEXT_SIZE];
	struct err err;
	struct sandbox_spec spec = *wanted;
	id_new('x', id);
	spec.id = id;
	spec.runtime_dir = live.dir;
	spec.agent_path = live.agent_path;
	spec.kernels_dir = live.kernels_dir;
	spec.memory_max = DEFAULT_MEMORY;
	spec.cpus = DEFAULT_CPUS;
	spec.pids_max = DEFAULT_PIDS;
	spec.lease_ms = 60000;
	if (live.provider->create(&live.loop, &spec, &sandbox_events, NULL, &live.sandbox, &err) <
		0) {
		print_error("%s\n", err.text);
		return -1;
	}
	assert_int_equal(link_new(&live.loop, TAKE_FD(live.sandbox->link_fd), live.sandbox->key,
				 &link_events, NULL, &live.link),
		0);
	live.exec = exec_new(live.link, live.sandbox->kernels_dir, live.sandbox->workspace);
	live_until(&live.ready);
	if (live.lost)
		print_error("%s\n", live.why.text);
	return live.lost ? -1 : 0;
}

void live_destroy(void)
{
	if (live.sandbox)
		live.provider->destroy(TAKE_PTR(live.sandbox), on_destroyed, NULL);
}

void live_close(void)
{
	live_destroy();
	exec_free(live.exec);
	link_close(live.link);
	live_until(&live.destroyed);
	live_close_loop();
}

int live_set_up(void **state)
{
	(void)state;
	live_open_loop();
	return live_open(&(struct sandbox_spec){.workspace_size = DEFAULT_WORKSPACE,
		.tmp_size = DEFAULT_TMP,
		.shm_size = DEFAULT_SHM});
}

int live_tear_down(void **state)
{
	(void)state;
	live_close();
	assert_int_equal(rmdir(live.dir), 0);
	return 0;
}

/* ---- jobs ---- */

void live_keep(const struct err *err)
{
	live.err = err ? *err : (struct err){0};
	live.answered = true;
}

void live_on_status(void *user, struct exec_status *status, const struct err *err)
{
	(void)user;
	exec_status_done(&live.status);
	if (status) {
		live.status = *status;
		*status = (struct exec_status){0};
	}
	live_keep(err);
}

void live_run(struct exec_request *r)
{
	if (!r->job) {
		id_new('j', live_job);
		r->job = live_job;
	}
	if (!r->kind)
		r->kind = r->code ? JOB_KIND_CELL : JOB_KIND_COMMAND;
	if (!r->wait_us)
		r->wait_us = LIVE_PATIENCE_US;
	(void)exec_run(live.exec, r, live_on_status, NULL);
	live_until(&live.answered);
}

void live_shell(const char *text)
{
	live_run(&(struct exec_request){.shell_text = text});
}

void live_cell(const char *code)
{
	live_run(&(struct exec_request){.code = code});
}

void live_wait(void)
{
	(void)exec_wait(live.exec, live_job, LIVE_PATIENCE_US, live_on_status, NULL);
	live_until(&live.answered);
}

void live_assert_done(enum wire_reason reason)
{
	if (live.err.code)
		fail_msg("%s", live.err.text);
	assert_int_equal(live.status.state, JOB_DONE);
	assert_string_equal(exec_reason_name(live.status.reason), exec_reason_name(reason));
}

void live_assert_exit(int code)
{
	live_assert_done(REASON_EXIT);
	assert_true(live.status.has_exit_code);
	assert_int_equal(live.status.exit_code, code);
}

void live_assert_bytes(const struct buf *b, const char *text)
{
	if (b->len != strlen(text) || (b->len && memcmp(b->data, text, b->len) != 0))
		fail_msg("\"%.*s\" instead of \"%s\"", (int)b->len, b->data, text);
}

void live_assert_stdout(const char *text)
{
	live_assert_bytes(&live.status.out.head, text);
}

void live_assert_result(const char *text)
{
	live_assert_exit(0);
	assert_int_equal(live.status.n_results, 1);
	const struct exec_bundle *b = &live.status.results[0];
	assert_true(b->is_result);
	assert_string_equal(b->mimes[0].type, "text/plain");
	assert_int_equal(b->mimes[0].n, strlen(text));
	assert_memory_equal(b->mimes[0].data, text, strlen(text));
}

/* ---- the program ---- */

int live_begin(int argc, char **argv, int *ret)
{
	struct provider_probe probe = {0};
	struct err err;
	if (argc != 4 || !realpath(argv[2], live.agent_path) ||
		!realpath(argv[3], live.kernels_dir)) {
		(void)fprintf(stderr, "usage: %s PROVIDER AGENT KERNELS-DIR\n", argv[0]);
		*ret = 2;
		return -1;
	}
	(void)setenv("SCB_AGENT", live.agent_path, 1); /* for the probe */
	(void)setenv("SCB_KERNELS", live.kernels_dir, 1);
	live.provider = provider_by_name(argv[1]);
	if (!live.provider) {
		(void)printf("Bail out! no provider %s\n", argv[1]);
		*ret = 1;
		return -1;
	}
	*ret = 0;
	if (live.provider->probe(&probe, &err) == 0 && probe.usable)
		return 0;
	(void)printf("1..0 # SKIP %s: %s\n", argv[1], probe.reason);
	return -1;
}
