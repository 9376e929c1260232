/* Commands and cells through exec, the link and the real agent, in a sandbox of one provider.
 *
 *   test-exec PROVIDER AGENT KERNELS-DIR */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "exec/exec.h"
#include "link/link.h"
#include "provider/provider.h"

#define PATIENCE_US (30 * USEC_PER_SEC)

static const struct provider *provider;
static char agent_path[PATH_MAX], kernels_dir[PATH_MAX];

struct fixture {
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
	struct exec_usage usage;
	struct buf bytes;
	uint64_t number;
	char text[400];
	bool flag;
};

static struct fixture *fx;

static void until(bool *flag)
{
	uint64_t end = clock_monotonic_us() + PATIENCE_US;
	while (!*flag) {
		if (clock_monotonic_us() > end)
			fail_msg("no answer in %d s%s%s", (int)(PATIENCE_US / USEC_PER_SEC),
				fx->lost ? "; lost: " : "", fx->lost ? fx->why.text : "");
		(void)uv_run(&fx->loop, UV_RUN_ONCE);
	}
	*flag = false;
}

static void on_beat(uv_timer_t *t)
{
	(void)t;
}

static void on_ready(void *user, const struct link_hello *hello)
{
	(void)user;
	(void)hello;
	fx->ready = true;
}

static void on_lost(void *user, const struct err *why)
{
	(void)user;
	fx->lost = true;
	fx->why = *why;
	fx->ready = true;
}

static void on_exited(void *user, const struct err *why)
{
	(void)user;
	link_fail(fx->link, why);
}

static void on_destroyed(void *user, const char *leftovers)
{
	(void)user;
	if (leftovers)
		fail_msg("left behind: %s", leftovers);
	fx->destroyed = true;
}

static int open_sandbox(void **state)
{
	static const struct link_events link_events = {.ready = on_ready, .lost = on_lost};
	static const struct sandbox_events sandbox_events = {.exited = on_exited};
	char id[ID_TEXT_SIZE];
	struct err err;
	(void)state;
	fx = xcalloc(1, sizeof(*fx));
	(void)snprintf(fx->dir, sizeof(fx->dir), "/tmp/scb-test-XXXXXX");
	fx->bytes = BUF_INIT(64 * MIB);
	assert_non_null(mkdtemp(fx->dir));
	assert_int_equal(uv_loop_init(&fx->loop), 0);
	assert_int_equal(uv_timer_init(&fx->loop, &fx->beat), 0);
	assert_int_equal(uv_timer_start(&fx->beat, on_beat, 20, 20), 0);
	id_new('x', id);
	struct sandbox_spec spec = {
		.id = id,
		.runtime_dir = fx->dir,
		.agent_path = agent_path,
		.kernels_dir = kernels_dir,
		.memory_max = DEFAULT_MEMORY,
		.workspace_size = DEFAULT_WORKSPACE,
		.tmp_size = DEFAULT_TMP,
		.shm_size = DEFAULT_SHM,
		.cpus = DEFAULT_CPUS,
		.pids_max = DEFAULT_PIDS,
		.lease_ms = 60000,
	};
	if (provider->create(&fx->loop, &spec, &sandbox_events, NULL, &fx->sandbox, &err) < 0) {
		print_error("%s\n", err.text);
		return -1;
	}
	assert_int_equal(link_new(&fx->loop, TAKE_FD(fx->sandbox->link_fd), fx->sandbox->key,
				 &link_events, NULL, &fx->link),
		0);
	fx->exec = exec_new(fx->link, fx->sandbox->kernels_dir, fx->sandbox->workspace);
	until(&fx->ready);
	if (fx->lost)
		print_error("%s\n", fx->why.text);
	return fx->lost ? -1 : 0;
}

static void destroy(void)
{
	if (fx->sandbox)
		provider->destroy(TAKE_PTR(fx->sandbox), on_destroyed, NULL);
}

static int close_sandbox(void **state)
{
	(void)state;
	destroy();
	exec_free(fx->exec);
	link_close(fx->link);
	until(&fx->destroyed);
	uv_close((uv_handle_t *)&fx->beat, NULL);
	(void)uv_run(&fx->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&fx->loop), 0);
	assert_int_equal(rmdir(fx->dir), 0);
	exec_status_done(&fx->status);
	buf_done(&fx->bytes);
	free(fx);
	return 0;
}

/* ---- answers, kept in the fixture ---- */

static void keep(const struct err *err)
{
	fx->err = err ? *err : (struct err){0};
	fx->answered = true;
}

static void on_status(void *user, struct exec_status *status, const struct err *err)
{
	(void)user;
	exec_status_done(&fx->status);
	if (status) {
		fx->status = *status;
		*status = (struct exec_status){0};
	}
	keep(err);
}

static void on_simple(void *user, const struct err *err)
{
	(void)user;
	keep(err);
}

static void on_read(void *user, struct exec_read *r, const struct err *err)
{
	(void)user;
	buf_clear(&fx->bytes);
	fx->text[0] = '\0';
	if (r) {
		assert_int_equal(buf_append(&fx->bytes, r->bytes.data, r->bytes.len), 0);
		fx->number = r->total;
		fx->flag = r->ended;
		for (size_t i = 0, n = 0; i < r->n_pieces && n < sizeof(fx->text); i++)
			n += (size_t)snprintf(fx->text + n, sizeof(fx->text) - n, "%d:%.*s|",
				r->pieces[i].channel, (int)r->pieces[i].n, r->pieces[i].p);
	}
	keep(err);
}

static void on_input(void *user, uint64_t accepted, const struct err *err)
{
	(void)user;
	fx->number = accepted;
	keep(err);
}

static void on_list(void *user, struct exec_status *jobs, size_t n, const struct err *err)
{
	(void)user;
	fx->number = n;
	fx->flag = false;
	for (size_t i = 0; i < n; i++)
		fx->flag |= jobs[i].state != JOB_DONE;
	keep(err);
}

static void on_kernels(
	void *user, const struct exec_kernel *kernels, size_t n, const struct err *err)
{
	(void)user;
	fx->number = n;
	if (n)
		(void)snprintf(fx->text, sizeof(fx->text), "%s %s %s %d", kernels[0].name,
			kernels[0].language, kernels[0].engine ? "engine" : "no engine",
			kernels[0].alive);
	keep(err);
}

static void on_usage(void *user, const struct exec_usage *u, const struct err *err)
{
	(void)user;
	fx->usage = u ? *u : (struct exec_usage){0};
	keep(err);
}

/* ---- shorthands ---- */

static char job[ID_TEXT_SIZE];

static void run(struct exec_request *r)
{
	if (!r->job) {
		id_new('j', job);
		r->job = job;
	}
	if (!r->kind)
		r->kind = r->code ? JOB_KIND_CELL : JOB_KIND_COMMAND;
	if (!r->wait_us)
		r->wait_us = PATIENCE_US;
	(void)exec_run(fx->exec, r, on_status, NULL);
	until(&fx->answered);
}

static void shell(const char *text)
{
	run(&(struct exec_request){.shell_text = text});
}

static void cell(const char *code)
{
	run(&(struct exec_request){.code = code});
}

static void wait_for_job(void)
{
	(void)exec_wait(fx->exec, job, PATIENCE_US, on_status, NULL);
	until(&fx->answered);
}

static void assert_done(enum wire_reason reason)
{
	if (fx->err.code)
		fail_msg("%s", fx->err.text);
	assert_int_equal(fx->status.state, JOB_DONE);
	assert_string_equal(exec_reason_name(fx->status.reason), exec_reason_name(reason));
}

static void assert_exit(int code)
{
	assert_done(REASON_EXIT);
	assert_true(fx->status.has_exit_code);
	assert_int_equal(fx->status.exit_code, code);
}

static void assert_bytes(const struct buf *b, const char *text)
{
	if (b->len != strlen(text) || (b->len && memcmp(b->data, text, b->len) != 0))
		fail_msg("\"%.*s\" instead of \"%s\"", (int)b->len, b->data, text);
}

static void assert_stdout(const char *text)
{
	assert_bytes(&fx->status.out.head, text);
}

static void assert_result(const char *text)
{
	assert_exit(0);
	assert_int_equal(fx->status.n_results, 1);
	const struct exec_bundle *b = &fx->status.results[0];
	assert_true(b->is_result);
	assert_string_equal(b->mimes[0].type, "text/plain");
	assert_int_equal(b->mimes[0].n, strlen(text));
	assert_memory_equal(b->mimes[0].data, text, strlen(text));
}

/* ---- commands ---- */

static void commands(void **state)
{
	(void)state;
	shell("echo out; echo err >&2; exit 3");
	assert_exit(3);
	assert_int_equal(fx->status.evidence, EVIDENCE_MEASURED);
	assert_stdout("out\n");
	assert_bytes(&fx->status.err.head, "err\n");
	assert_int_equal(fx->status.out.total, 4);
	assert_string_equal(fx->status.job, job);
	assert_true(fx->status.started_us > 1700000000ULL * USEC_PER_SEC);

	const char *const argv[] = {
		"/bin/sh", "-c", "printf '%s|%s|' \"$1\" \"$X\"; pwd", "sh", "a b\n$c"};
	const char *const env[] = {"X=y z"};
	run(&(struct exec_request){
		.argv = argv, .n_argv = 5, .env = env, .n_env = 1, .cwd = "/usr/bin"});
	assert_exit(0);
	assert_stdout("a b\n$c|y z|/usr/bin\n");

	shell("pwd");
	_cleanup_free_ char *line = xasprintf("%s\n", fx->sandbox->workspace);
	assert_stdout(line);
	shell("mkdir -p deep/er");
	run(&(struct exec_request){.shell_text = "basename \"$PWD\"", .cwd = "deep/er"});
	assert_stdout("er\n");

	shell("kill -SEGV $$");
	assert_done(REASON_SIGNAL);
	assert_int_equal(fx->status.signal, 11);
}

static void missing_programs(void **state)
{
	(void)state;
	const char *const argv[] = {"/no/such/program"};
	run(&(struct exec_request){.argv = argv, .n_argv = 1});
	assert_int_equal(fx->err.code, ERR_INTERPRETER_MISSING);
	assert_non_null(strstr(fx->err.text, "/no/such/program"));
	assert_non_null(strstr(fx->err.text, job));
	shell("no-such-program");
	assert_exit(127);
}

static void standard_input(void **state)
{
	(void)state;
	shell("cat; echo end");
	assert_stdout("end\n");

	static char big[3 * MIB];
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)('a' + i % 23);
	run(&(struct exec_request){
		.shell_text = "wc -c", .stdin_data = big, .stdin_len = sizeof(big)});
	assert_exit(0);
	assert_int_equal(strtol((char *)fx->status.out.head.data, NULL, 10), sizeof(big));

	run(&(struct exec_request){.shell_text = "read a; read b; echo \"<$a> <$b>\"; cat",
		.stdin_data = "first\n",
		.stdin_len = 6,
		.stdin_open = true,
		.wait_us = 1000});
	assert_int_equal(fx->status.state, JOB_RUNNING);
	(void)exec_input(fx->exec, job, "second\nrest", 11, true, on_input, NULL);
	until(&fx->answered);
	assert_int_equal(fx->err.code, ERR_NONE);
	assert_int_equal(fx->number, 11);
	wait_for_job();
	assert_exit(0);
	assert_stdout("<first> <second>\nrest");
	(void)exec_input(fx->exec, job, "more", 4, true, on_input, NULL);
	until(&fx->answered);
	assert_int_equal(fx->err.code, ERR_INVALID_ARGUMENT);
}

static void read_output(enum wire_channel channel, uint64_t offset, uint64_t length)
{
	(void)exec_read(fx->exec, job, channel, offset, length, on_read, NULL);
	until(&fx->answered);
}

static void long_output(void **state)
{
	(void)state;
	shell("seq 1 200000");
	assert_exit(0);
	const struct exec_output *o = &fx->status.out;
	assert_int_equal(o->total, 1288895);
	assert_int_equal(o->lost, 0);
	assert_int_equal(o->head.len, LIMIT_INLINE_OUTPUT);
	assert_memory_equal(o->head.data, "1\n2\n3\n", 6);
	assert_int_equal(o->tail.len, LIMIT_INLINE_OUTPUT);
	assert_memory_equal(o->tail.data + o->tail.len - 14, "199999\n200000\n", 14);
	read_output(CHANNEL_STDOUT, 588895, 14); /* 1 to 99999 have 488,889 bytes with 5 digits … */
	assert_int_equal(fx->number, o->total);
	assert_true(fx->flag);
	assert_int_equal(fx->bytes.len, 14);
	long first = strtol((char *)fx->bytes.data, NULL, 10);
	assert_in_range(first, 100000, 200000);
	read_output(CHANNEL_STDOUT, 0, LIMIT_READ_TEXT);
	assert_int_equal(fx->bytes.len, LIMIT_READ_TEXT);
	assert_memory_equal(fx->bytes.data, o->head.data, o->head.len);
	read_output(CHANNEL_STDOUT, 2000000, 10);
	assert_int_equal(fx->bytes.len, 0);

	shell("echo a; sleep 0.05; echo b >&2; sleep 0.05; echo c");
	read_output(CHANNEL_BOTH, 0, 100);
	assert_string_equal(fx->text, "1:a\n|2:b\n|1:c\n|");
	assert_int_equal(fx->number, 6);
}

static void time_limits(void **state)
{
	(void)state;
	uint64_t start = clock_monotonic_us();
	run(&(struct exec_request){.shell_text = "sleep 60 & echo begun; sleep 60",
		.timeout_us = 300 * USEC_PER_MSEC});
	assert_done(REASON_TIMEOUT);
	assert_stdout("begun\n");
	assert_true(clock_monotonic_us() - start < 10 * USEC_PER_SEC);
	shell("pgrep -x sleep >/dev/null; echo $?");
	if (strcmp(provider->name, "local") != 0) /* sees the machine's other processes */
		assert_stdout("1\n");

	run(&(struct exec_request){.shell_text = "sleep 0.3; echo late", .wait_us = 1000});
	assert_int_equal(fx->status.state, JOB_RUNNING);
	wait_for_job();
	assert_exit(0);
	assert_stdout("late\n");

	run(&(struct exec_request){.shell_text = "sleep 60", .wait_us = 1000});
	exec_cancel(fx->exec, job, on_simple, NULL);
	until(&fx->answered);
	assert_int_equal(fx->err.code, ERR_NONE);
	wait_for_job();
	assert_done(REASON_CANCELLED);
	exec_cancel(fx->exec, job, on_simple, NULL); /* again: nothing is left to be ended */
	until(&fx->answered);
	assert_int_equal(fx->err.code, ERR_NONE);

	run(&(struct exec_request){
		.shell_text =
			"trap 'echo got it; exit 7' USR1; echo set; while :; do sleep 0.05; done",
		.wait_us = 300 * USEC_PER_MSEC});
	exec_signal(fx->exec, job, 10, on_simple, NULL);
	until(&fx->answered);
	wait_for_job();
	assert_exit(7);
	assert_stdout("set\ngot it\n");
}

static void same_job_again(void **state)
{
	(void)state;
	struct exec_request r = {.shell_text = "echo x >>again; wc -l <again"};
	run(&r);
	assert_stdout("1\n");
	run(&r);
	assert_exit(0);
	assert_stdout("1\n");
	r.shell_text = "echo other";
	run(&r);
	assert_int_equal(fx->err.code, ERR_CONFLICT);
}

static void unknown_and_refused(void **state)
{
	(void)state;
	id_new('j', job);
	wait_for_job();
	assert_int_equal(fx->err.code, ERR_NO_SUCH_JOB);
	read_output(CHANNEL_STDOUT, 0, 10);
	assert_int_equal(fx->err.code, ERR_NO_SUCH_JOB);
	(void)exec_wait(fx->exec, "j-nonsense", 0, on_status, NULL);
	assert_false(fx->answered); /* not from inside the call */
	until(&fx->answered);
	assert_int_equal(fx->err.code, ERR_NO_SUCH_JOB);

	run(&(struct exec_request){.code = "1", .language = "cobol"});
	assert_int_equal(fx->err.code, ERR_INVALID_ARGUMENT);
	run(&(struct exec_request){.code = "1", .kernel = "a/b"});
	assert_int_equal(fx->err.code, ERR_INVALID_ARGUMENT);
	_cleanup_free_ char *large = xmalloc(MIB + 1);
	memset(large, ' ', MIB);
	large[MIB] = '\0';
	run(&(struct exec_request){.code = large});
	assert_int_equal(fx->err.code, ERR_LIMIT_REACHED);
	shell(large);
	assert_int_equal(fx->err.code, ERR_LIMIT_REACHED);
	run(&(struct exec_request){.shell_text = "true", .cwd = "/nowhere"});
	assert_int_equal(fx->err.code, ERR_NO_SUCH_FILE);
	assert_non_null(strstr(fx->err.text, "/nowhere"));
	wait_for_job(); /* and says the same again */
	assert_int_equal(fx->err.code, ERR_NO_SUCH_FILE);
	/* Abandoned calls do not call back, and their jobs go on. */
	id_new('j', job);
	struct exec_request r = {.kind = JOB_KIND_COMMAND,
		.job = job,
		.shell_text = "echo went on",
		.wait_us = PATIENCE_US};
	exec_abandon(exec_run(fx->exec, &r, on_status, NULL));
	wait_for_job();
	assert_exit(0);
	assert_stdout("went on\n");
}

/* ---- cells ---- */

static void cells(void **state)
{
	(void)state;
	cell("x = 41\nprint('hello')\nx + 1");
	assert_result("42");
	assert_stdout("hello\n");
	assert_int_equal(fx->status.kind, JOB_KIND_CELL);
	assert_string_equal(fx->status.kernel, "python");
	assert_int_equal(fx->status.generation, 1);
	assert_false(fx->status.kernel_restarted);
	cell("x");
	assert_result("41");
	cell("1/0");
	assert_done(REASON_EXIT);
	assert_string_equal(fx->status.error_name, "ZeroDivisionError");
	assert_non_null(fx->status.error_message);
	assert_non_null(strstr(fx->status.traceback, "1/0"));
	cell("import os; print(os.getcwd()); 'SCB_KERNEL_FD' in os.environ");
	assert_result("False");
	_cleanup_free_ char *line = xasprintf("%s\n", fx->sandbox->workspace);
	assert_stdout(line);
	run(&(struct exec_request){
		.code = "print(input() + '!')", .stdin_data = "typed\n", .stdin_len = 6});
	assert_exit(0);
	assert_stdout("typed!\n");
	/* Another kernel knows nothing of x. */
	run(&(struct exec_request){.code = "x", .kernel = "second"});
	assert_string_equal(fx->status.error_name, "NameError");
}

static void cells_wait_in_line(void **state)
{
	(void)state;
	char first[ID_TEXT_SIZE];
	run(&(struct exec_request){
		.code = "import time; order = []; time.sleep(0.3); order.append(1)",
		.wait_us = 1000});
	assert_int_equal(fx->status.state, JOB_RUNNING);
	memcpy(first, job, sizeof(first));
	run(&(struct exec_request){.code = "order.append(2)", .wait_us = 1000});
	assert_int_equal(fx->status.state, JOB_QUEUED);
	assert_int_equal(fx->status.queue_position, 1);
	run(&(struct exec_request){.code = "order.append(3)", .wait_us = 1000});
	assert_int_equal(fx->status.queue_position, 2);
	exec_cancel(fx->exec, job, on_simple, NULL);
	until(&fx->answered);
	wait_for_job();
	assert_done(REASON_CANCELLED);
	cell("order");
	assert_result("[1, 2]");
}

static void cell_out_of_time(void **state)
{
	(void)state;
	cell("kept = 'still here'");
	run(&(struct exec_request){.code = "while True: pass", .timeout_us = 300 * USEC_PER_MSEC});
	assert_done(REASON_TIMEOUT);
	cell("kept");
	assert_result("'still here'");
	run(&(struct exec_request){.code = "import time; time.sleep(60)", .wait_us = 1000});
	exec_kernel_interrupt(fx->exec, NULL, on_simple, NULL);
	until(&fx->answered);
	assert_int_equal(fx->err.code, ERR_NONE);
	wait_for_job();
	assert_int_equal(fx->status.state, JOB_DONE);
	assert_string_equal(fx->status.error_name, "KeyboardInterrupt");
	exec_kernel_interrupt(fx->exec, NULL, on_simple, NULL); /* idle */
	until(&fx->answered);
	assert_int_equal(fx->err.code, ERR_NONE);
	cell("kept");
	assert_result("'still here'");
	exec_kernel_interrupt(fx->exec, "unheard-of", on_simple, NULL);
	until(&fx->answered);
	assert_int_equal(fx->err.code, ERR_INVALID_ARGUMENT);
}

static void kernel_dies(void **state)
{
	(void)state;
	cell("y = 1");
	assert_exit(0);
	uint32_t generation = fx->status.generation;
	cell("import os, signal; os.kill(os.getpid(), signal.SIGKILL)");
	assert_done(REASON_INTERPRETER_DIED);
	assert_false(fx->status.kernel_restarted);
	run(&(struct exec_request){
		.code = "import time; time.sleep(0.2); 'y' in globals()", .wait_us = 1000});
	wait_for_job();
	assert_result("False");
	assert_true(fx->status.kernel_restarted);
	assert_int_equal(fx->status.generation, generation + 1);
	wait_for_job(); /* says it again */
	assert_true(fx->status.kernel_restarted);
	cell("y = 2");
	assert_false(fx->status.kernel_restarted);
}

static void kernel_restart(void **state)
{
	(void)state;
	cell("z = 1");
	uint32_t generation = fx->status.generation;
	exec_kernel_restart(fx->exec, NULL, on_simple, NULL);
	until(&fx->answered);
	assert_int_equal(fx->err.code, ERR_NONE);
	cell("'z' in globals()");
	assert_result("False");
	assert_int_equal(fx->status.generation, generation + 1);
	assert_false(fx->status.kernel_restarted);
	/* With a cell behind it before it has ended. */
	exec_kernel_restart(fx->exec, "python", NULL, NULL);
	cell("1");
	assert_result("1");
	assert_false(fx->status.kernel_restarted);
	exec_kernel_restart(fx->exec, "unheard-of", on_simple, NULL);
	until(&fx->answered);
	assert_int_equal(fx->err.code, ERR_NONE);
}

static void lists_and_usage(void **state)
{
	(void)state;
	cell("1");
	(void)exec_list(fx->exec, on_list, NULL);
	until(&fx->answered);
	assert_in_range(fx->number, 10, LIMIT_JOBS);
	assert_false(fx->flag);
	(void)exec_kernels(fx->exec, on_kernels, NULL);
	until(&fx->answered);
	assert_in_range(fx->number, 2, LIMIT_KERNELS);
	assert_string_equal(fx->text, "python python engine 1");
	(void)exec_usage(fx->exec, on_usage, NULL);
	until(&fx->answered);
	assert_int_equal(fx->err.code, ERR_NONE);
	assert_true(fx->usage.disk_total > 0 && fx->usage.disk_free <= fx->usage.disk_total);
}

/* ---- how fast ---- */

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

#define ROUNDS 500

static void report(const char *what, uint64_t *us)
{
	qsort(us, ROUNDS, sizeof(*us), by_size);
	print_message("# %s: p50 %llu µs, p99 %llu µs\n", what, (unsigned long long)us[ROUNDS / 2],
		(unsigned long long)us[ROUNDS * 99 / 100]);
}

static void round_trips(void **state)
{
	(void)state;
	static uint64_t us[ROUNDS];
	for (size_t i = 0; i < ROUNDS; i++) {
		uint64_t start = clock_monotonic_us();
		(void)exec_usage(fx->exec, on_usage, NULL);
		until(&fx->answered);
		us[i] = clock_monotonic_us() - start;
	}
	report("usage", us);
	for (size_t i = 0; i < ROUNDS; i++) {
		uint64_t start = clock_monotonic_us();
		cell("1+1");
		us[i] = clock_monotonic_us() - start;
		assert_result("2");
	}
	report("cell 1+1", us);
	assert_true(us[ROUNDS / 2] < 100 * USEC_PER_MSEC);
}

/* ---- the end ---- */

static void sandbox_goes_away(void **state)
{
	(void)state;
	run(&(struct exec_request){.shell_text = "sleep 60", .wait_us = 1000});
	assert_int_equal(fx->status.state, JOB_RUNNING);
	(void)exec_wait(fx->exec, job, PATIENCE_US, on_status, NULL);
	destroy();
	until(&fx->answered);
	assert_done(REASON_SANDBOX_LOST);
	assert_int_equal(fx->status.n_notes, 1);
	assert_string_equal(fx->status.job, job);
	shell("echo too late");
	assert_int_equal(fx->err.code, ERR_SANDBOX_LOST);
	assert_non_null(strstr(fx->err.text, "open a new session"));
}

static bool usable(const char *name)
{
	struct provider_probe probe = {0};
	struct err err;
	provider = provider_by_name(name);
	if (!provider) {
		(void)printf("Bail out! no provider %s\n", name);
		exit(1);
	}
	if (provider->probe(&probe, &err) == 0 && probe.usable)
		return true;
	(void)printf("1..0 # SKIP %s: %s\n", name, probe.reason);
	return false;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands),
		cmocka_unit_test(missing_programs),
		cmocka_unit_test(standard_input),
		cmocka_unit_test(long_output),
		cmocka_unit_test(time_limits),
		cmocka_unit_test(same_job_again),
		cmocka_unit_test(unknown_and_refused),
		cmocka_unit_test(cells),
		cmocka_unit_test(cells_wait_in_line),
		cmocka_unit_test(cell_out_of_time),
		cmocka_unit_test(kernel_dies),
		cmocka_unit_test(kernel_restart),
		cmocka_unit_test(lists_and_usage),
		cmocka_unit_test(round_trips),
		cmocka_unit_test(sandbox_goes_away),
	};
	if (argc != 4 || !realpath(argv[2], agent_path) || !realpath(argv[3], kernels_dir)) {
		(void)fprintf(stderr, "usage: test-exec PROVIDER AGENT KERNELS-DIR\n");
		return 2;
	}
	(void)setenv("SCB_AGENT", agent_path, 1); /* for the probe */
	(void)setenv("SCB_KERNELS", kernels_dir, 1);
	if (!usable(argv[1]))
		return 0;
	return cmocka_run_group_tests_name(argv[1], tests, open_sandbox, close_sandbox);
}
