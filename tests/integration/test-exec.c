/* Commands through exec, the link and the real agent, in a sandbox of one provider. */
#include "live.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"

static struct {
	struct exec_usage usage;
	struct buf bytes;
	uint64_t number;
	char text[400];
	bool flag;
} got = {.bytes = BUF_INIT(64 * MIB)};

static void on_simple(void *user, const struct err *err)
{
	(void)user;
	live_keep(err);
}

static void on_read(void *user, struct exec_read *r, const struct err *err)
{
	(void)user;
	buf_clear(&got.bytes);
	got.text[0] = '\0';
	if (r) {
		assert_int_equal(buf_append(&got.bytes, r->bytes.data, r->bytes.len), 0);
		got.number = r->total;
		got.flag = r->ended;
		for (size_t i = 0, n = 0; i < r->n_pieces && n < sizeof(got.text); i++)
			n += (size_t)snprintf(got.text + n, sizeof(got.text) - n, "%d:%.*s|",
				r->pieces[i].channel, (int)r->pieces[i].n, r->pieces[i].p);
	}
	live_keep(err);
}

static void on_input(void *user, uint64_t accepted, const struct err *err)
{
	(void)user;
	got.number = accepted;
	live_keep(err);
}

/* ---- commands ---- */

static void commands(void **state)
{
	(void)state;
	live_shell("echo out; echo err >&2; exit 3");
	live_assert_exit(3);
	assert_int_equal(live.status.evidence, EVIDENCE_MEASURED);
	live_assert_stdout("out\n");
	live_assert_bytes(&live.status.err.head, "err\n");
	assert_int_equal(live.status.out.total, 4);
	assert_string_equal(live.status.job, live_job);
	assert_true(live.status.started_us > 1700000000ULL * USEC_PER_SEC);

	const char *const argv[] = {
		"/bin/sh", "-c", "printf '%s|%s|' \"$1\" \"$X\"; pwd", "sh", "a b\n$c"};
	const char *const env[] = {"X=y z"};
	live_run(&(struct exec_request){
		.argv = argv, .n_argv = 5, .env = env, .n_env = 1, .cwd = "/usr/bin"});
	live_assert_exit(0);
	live_assert_stdout("a b\n$c|y z|/usr/bin\n");

	live_shell("pwd");
	_cleanup_free_ char *line = xasprintf("%s\n", live.sandbox->workspace);
	live_assert_stdout(line);
	live_shell("mkdir -p deep/er");
	live_run(&(struct exec_request){.shell_text = "basename \"$PWD\"", .cwd = "deep/er"});
	live_assert_stdout("er\n");

	live_shell("kill -SEGV $$");
	live_assert_done(REASON_SIGNAL);
	assert_int_equal(live.status.signal, 11);
}

static void missing_programs(void **state)
{
	(void)state;
	const char *const argv[] = {"/no/such/program"};
	live_run(&(struct exec_request){.argv = argv, .n_argv = 1});
	assert_int_equal(live.err.code, ERR_INTERPRETER_MISSING);
	assert_non_null(strstr(live.err.text, "/no/such/program"));
	assert_non_null(strstr(live.err.text, live_job));
	live_shell("no-such-program");
	live_assert_exit(127);
}

static void standard_input(void **state)
{
	(void)state;
	live_shell("cat; echo end");
	live_assert_stdout("end\n");

	static char big[3 * MIB];
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)('a' + i % 23);
	live_run(&(struct exec_request){
		.shell_text = "wc -c", .stdin_data = big, .stdin_len = sizeof(big)});
	live_assert_exit(0);
	assert_int_equal(strtol((char *)live.status.out.head.data, NULL, 10), sizeof(big));

	live_run(&(struct exec_request){.shell_text = "read a; read b; echo \"<$a> <$b>\"; cat",
		.stdin_data = "first\n",
		.stdin_len = 6,
		.stdin_open = true,
		.wait_us = 1000});
	assert_int_equal(live.status.state, JOB_RUNNING);
	(void)exec_input(live.exec, live_job, "second\nrest", 11, true, NULL, on_input, NULL);
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_NONE);
	assert_int_equal(got.number, 11);
	live_wait();
	live_assert_exit(0);
	live_assert_stdout("<first> <second>\nrest");
	(void)exec_input(live.exec, live_job, "more", 4, true, NULL, on_input, NULL);
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_INVALID_ARGUMENT);
}

static void read_output(enum wire_channel channel, uint64_t offset, uint64_t length)
{
	(void)exec_read(live.exec, live_job, channel, offset, length, on_read, NULL);
	live_until(&live.answered);
}

static void long_output(void **state)
{
	(void)state;
	live_shell("seq 1 200000");
	live_assert_exit(0);
	const struct exec_output *o = &live.status.out;
	assert_int_equal(o->total, 1288895);
	assert_int_equal(o->lost, 0);
	assert_int_equal(o->head.len, LIMIT_INLINE_OUTPUT);
	assert_memory_equal(o->head.data, "1\n2\n3\n", 6);
	assert_int_equal(o->tail.len, LIMIT_INLINE_OUTPUT);
	assert_memory_equal(o->tail.data + o->tail.len - 14, "199999\n200000\n", 14);
	read_output(CHANNEL_STDOUT, 588895, 14); /* 1 to 99999 have 488,889 bytes with 5 digits … */
	assert_int_equal(got.number, o->total);
	assert_true(got.flag);
	assert_int_equal(got.bytes.len, 14);
	long first = strtol((char *)got.bytes.data, NULL, 10);
	assert_in_range(first, 100000, 200000);
	read_output(CHANNEL_STDOUT, 0, LIMIT_READ_TEXT);
	assert_int_equal(got.bytes.len, LIMIT_READ_TEXT);
	assert_memory_equal(got.bytes.data, o->head.data, o->head.len);
	read_output(CHANNEL_STDOUT, 2000000, 10);
	assert_int_equal(got.bytes.len, 0);

	live_shell("echo a; sleep 0.05; echo b >&2; sleep 0.05; echo c");
	read_output(CHANNEL_BOTH, 0, 100);
	assert_string_equal(got.text, "1:a\n|2:b\n|1:c\n|");
	assert_int_equal(got.number, 6);
}

static void on_found(void *user, const struct exec_found *f, const struct err *err)
{
	(void)user;
	got.text[0] = '\0';
	for (size_t i = 0, n = 0; f && i < f->n && n < sizeof(got.text); i++)
		n += (size_t)snprintf(got.text + n, sizeof(got.text) - n, "%d@%d:%s|",
			f->hits[i].channel, (int)f->hits[i].offset, f->hits[i].text);
	got.flag = f && f->more;
	got.number = f ? f->next_offset : 0;
	live_keep(err);
}

static void find(enum wire_channel channel, uint64_t offset, const char *pattern, uint64_t limit)
{
	(void)exec_search(live.exec, live_job, channel, offset, pattern, limit, on_found, NULL);
	live_until(&live.answered);
}

static void searching(void **state)
{
	(void)state;
	live_shell("seq 1 200000; echo wrong 77777 >&2");
	find(CHANNEL_BOTH, 0, "77777", 20);
	assert_string_equal(got.text, "1@455550:77777|1@1133328:177777|2@6:wrong 77777|");
	assert_false(got.flag);
	find(CHANNEL_BOTH, 0, "77777", 2);
	assert_string_equal(got.text, "1@455550:77777|1@1133328:177777|");
	assert_true(got.flag);
	assert_true(got.number > 1133328);
	find(CHANNEL_STDOUT, 455551, "77777", 20);
	assert_string_equal(got.text, "1@1133328:177777|");
	find(CHANNEL_STDERR, 0, "nothing", 20);
	assert_string_equal(got.text, "");
	assert_false(got.flag);
	assert_int_equal(live.err.code, ERR_NONE);
	id_new('j', live_job);
	find(CHANNEL_BOTH, 0, "x", 1);
	assert_int_equal(live.err.code, ERR_NO_SUCH_JOB);
}

static void time_limits(void **state)
{
	(void)state;
	uint64_t start = clock_monotonic_us();
	live_run(&(struct exec_request){.shell_text = "sleep 60 & echo begun; sleep 60",
		.timeout_us = 300 * USEC_PER_MSEC});
	live_assert_done(REASON_TIMEOUT);
	live_assert_stdout("begun\n");
	assert_true(clock_monotonic_us() - start < 10 * USEC_PER_SEC);
	live_shell("pgrep -x sleep >/dev/null; echo $?");
	if (strcmp(live.provider->name, "local") != 0) /* sees the machine's other processes */
		live_assert_stdout("1\n");

	live_run(&(struct exec_request){.shell_text = "sleep 0.3; echo late", .wait_us = 1000});
	assert_int_equal(live.status.state, JOB_RUNNING);
	live_wait();
	live_assert_exit(0);
	live_assert_stdout("late\n");

	live_run(&(struct exec_request){.shell_text = "sleep 60", .wait_us = 1000});
	exec_cancel(live.exec, live_job, NULL, on_simple, NULL);
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_NONE);
	live_wait();
	live_assert_done(REASON_CANCELLED);
	exec_cancel(live.exec, live_job, NULL, on_simple,
		NULL); /* again: nothing is left to be ended */
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_NONE);

	live_run(&(struct exec_request){
		.shell_text =
			"trap 'echo got it; exit 7' USR1; echo set; while :; do sleep 0.05; done",
		.wait_us = 300 * USEC_PER_MSEC});
	exec_signal(live.exec, live_job, 10, NULL, on_simple, NULL);
	live_until(&live.answered);
	live_wait();
	live_assert_exit(7);
	live_assert_stdout("set\ngot it\n");
}

static void same_job_again(void **state)
{
	(void)state;
	struct exec_request r = {.shell_text = "echo x >>again; wc -l <again"};
	live_run(&r);
	live_assert_stdout("1\n");
	live_run(&r);
	live_assert_exit(0);
	live_assert_stdout("1\n");
	r.shell_text = "echo other";
	live_run(&r);
	assert_int_equal(live.err.code, ERR_CONFLICT);
}

static void unknown_and_refused(void **state)
{
	(void)state;
	id_new('j', live_job);
	live_wait();
	assert_int_equal(live.err.code, ERR_NO_SUCH_JOB);
	read_output(CHANNEL_STDOUT, 0, 10);
	assert_int_equal(live.err.code, ERR_NO_SUCH_JOB);
	(void)exec_wait(live.exec, "j-nonsense", 0, live_on_status, NULL);
	assert_false(live.answered); /* not from inside the call */
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_NO_SUCH_JOB);

	live_run(&(struct exec_request){.code = "1", .language = "cobol"});
	assert_int_equal(live.err.code, ERR_INVALID_ARGUMENT);
	live_run(&(struct exec_request){.code = "1", .kernel = "a/b"});
	assert_int_equal(live.err.code, ERR_INVALID_ARGUMENT);
	_cleanup_free_ char *large = xmalloc(MIB + 1);
	memset(large, ' ', MIB);
	large[MIB] = '\0';
	live_run(&(struct exec_request){.code = large});
	assert_int_equal(live.err.code, ERR_LIMIT_REACHED);
	live_shell(large);
	assert_int_equal(live.err.code, ERR_LIMIT_REACHED);
	live_run(&(struct exec_request){.shell_text = "true", .cwd = "/nowhere"});
	assert_int_equal(live.err.code, ERR_NO_SUCH_FILE);
	assert_non_null(strstr(live.err.text, "/nowhere"));
	live_wait(); /* and says the same again */
	assert_int_equal(live.err.code, ERR_NO_SUCH_FILE);
	/* Abandoned calls do not call back, and their jobs go on. */
	id_new('j', live_job);
	struct exec_request r = {.kind = JOB_KIND_COMMAND,
		.job = live_job,
		.shell_text = "echo went on",
		.wait_us = LIVE_PATIENCE_US};
	exec_abandon(exec_run(live.exec, &r, live_on_status, NULL));
	live_wait();
	live_assert_exit(0);
	live_assert_stdout("went on\n");
}

/* ---- how fast ---- */

static void on_usage(void *user, const struct exec_usage *u, const struct err *err)
{
	(void)user;
	got.usage = u ? *u : (struct exec_usage){0};
	live_keep(err);
}

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
		(void)exec_usage(live.exec, on_usage, NULL);
		live_until(&live.answered);
		us[i] = clock_monotonic_us() - start;
	}
	report("usage", us);
	for (size_t i = 0; i < ROUNDS; i++) {
		uint64_t start = clock_monotonic_us();
		live_cell("1+1");
		us[i] = clock_monotonic_us() - start;
		live_assert_result("2");
	}
	report("cell 1+1", us);
	assert_true(us[ROUNDS / 2] < 100 * USEC_PER_MSEC);
}

/* ---- the end ---- */

static void sandbox_goes_away(void **state)
{
	(void)state;
	live_run(&(struct exec_request){.shell_text = "sleep 60", .wait_us = 1000});
	assert_int_equal(live.status.state, JOB_RUNNING);
	(void)exec_wait(live.exec, live_job, LIVE_PATIENCE_US, live_on_status, NULL);
	live_destroy();
	live_until(&live.answered);
	live_assert_done(REASON_SANDBOX_LOST);
	assert_int_equal(live.status.n_notes, 1);
	assert_string_equal(live.status.job, live_job);
	live_shell("echo too late");
	assert_int_equal(live.err.code, ERR_SANDBOX_LOST);
	assert_non_null(strstr(live.err.text, "open a new session"));
}

int main(int argc, char **argv)
{
	int r;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands),
		cmocka_unit_test(missing_programs),
		cmocka_unit_test(standard_input),
		cmocka_unit_test(long_output),
		cmocka_unit_test(searching),
		cmocka_unit_test(time_limits),
		cmocka_unit_test(same_job_again),
		cmocka_unit_test(unknown_and_refused),
		cmocka_unit_test(round_trips),
		cmocka_unit_test(sandbox_goes_away),
	};
	if (live_begin(argc, argv, &r) < 0)
		return r;
	return cmocka_run_group_tests_name(argv[1], tests, live_set_up, live_tear_down);
}
