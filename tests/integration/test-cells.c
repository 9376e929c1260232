/* Cells and kernels through exec, the link and the real agent, in a sandbox of one provider. */
#include "live.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"

static struct {
	struct exec_usage usage;
	uint64_t number;
	char text[400];
	bool flag;
} got;

static void on_simple(void *user, const struct err *err)
{
	(void)user;
	live_keep(err);
}

static void on_list(void *user, struct exec_status *jobs, size_t n, const struct err *err)
{
	(void)user;
	got.number = n;
	got.flag = false;
	for (size_t i = 0; i < n; i++)
		got.flag |= jobs[i].state != JOB_DONE;
	live_keep(err);
}

static void on_kernels(
	void *user, const struct exec_kernel *kernels, size_t n, const struct err *err)
{
	(void)user;
	got.number = n;
	if (n)
		(void)snprintf(got.text, sizeof(got.text), "%s %s %s %d", kernels[0].name,
			kernels[0].language, kernels[0].engine ? "engine" : "no engine",
			kernels[0].alive);
	live_keep(err);
}

static void on_usage(void *user, const struct exec_usage *u, const struct err *err)
{
	(void)user;
	got.usage = u ? *u : (struct exec_usage){0};
	live_keep(err);
}

/* ---- cells ---- */

static void cells(void **state)
{
	(void)state;
	live_cell("x = 41\nprint('hello')\nx + 1");
	live_assert_result("42");
	live_assert_stdout("hello\n");
	assert_int_equal(live.status.kind, JOB_KIND_CELL);
	assert_string_equal(live.status.kernel, "python");
	assert_int_equal(live.status.generation, 1);
	assert_false(live.status.kernel_restarted);
	live_cell("x");
	live_assert_result("41");
	live_cell("1/0");
	live_assert_done(REASON_EXIT);
	assert_string_equal(live.status.error_name, "ZeroDivisionError");
	assert_non_null(live.status.error_message);
	assert_non_null(strstr(live.status.traceback, "1/0"));
	live_cell("import os; print(os.getcwd()); 'SCB_KERNEL_FD' in os.environ");
	live_assert_result("False");
	_cleanup_free_ char *line = xasprintf("%s\n", live.sandbox->workspace);
	live_assert_stdout(line);
	live_run(&(struct exec_request){
		.code = "print(input() + '!')", .stdin_data = "typed\n", .stdin_len = 6});
	live_assert_exit(0);
	live_assert_stdout("typed!\n");
	/* Another kernel knows nothing of x. */
	live_run(&(struct exec_request){.code = "x", .kernel = "second"});
	assert_string_equal(live.status.error_name, "NameError");
}

static void cells_wait_in_line(void **state)
{
	(void)state;
	char first[ID_TEXT_SIZE];
	live_run(&(struct exec_request){
		.code = "import time; order = []; time.sleep(0.3); order.append(1)",
		.wait_us = 1000});
	assert_int_equal(live.status.state, JOB_RUNNING);
	memcpy(first, live_job, sizeof(first));
	live_run(&(struct exec_request){.code = "order.append(2)", .wait_us = 1000});
	assert_int_equal(live.status.state, JOB_QUEUED);
	assert_int_equal(live.status.queue_position, 1);
	live_run(&(struct exec_request){.code = "order.append(3)", .wait_us = 1000});
	assert_int_equal(live.status.queue_position, 2);
	exec_cancel(live.exec, live_job, NULL, on_simple, NULL);
	live_until(&live.answered);
	live_wait();
	live_assert_done(REASON_CANCELLED);
	live_cell("order");
	live_assert_result("[1, 2]");
}

static void cell_out_of_time(void **state)
{
	(void)state;
	live_cell("kept = 'still here'");
	live_run(&(struct exec_request){
		.code = "while True: pass", .timeout_us = 300 * USEC_PER_MSEC});
	live_assert_done(REASON_TIMEOUT);
	live_cell("kept");
	live_assert_result("'still here'");
	live_run(&(struct exec_request){.code = "import time; time.sleep(60)", .wait_us = 1000});
	exec_kernel_interrupt(live.exec, NULL, NULL, on_simple, NULL);
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_NONE);
	live_wait();
	assert_int_equal(live.status.state, JOB_DONE);
	assert_string_equal(live.status.error_name, "KeyboardInterrupt");
	exec_kernel_interrupt(live.exec, NULL, NULL, on_simple, NULL); /* idle */
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_NONE);
	live_cell("kept");
	live_assert_result("'still here'");
	exec_kernel_interrupt(live.exec, "unheard-of", NULL, on_simple, NULL);
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_INVALID_ARGUMENT);
}

static void kernel_dies(void **state)
{
	(void)state;
	live_cell("y = 1");
	live_assert_exit(0);
	uint32_t generation = live.status.generation;
	live_cell("import os, signal; os.kill(os.getpid(), signal.SIGKILL)");
	live_assert_done(REASON_INTERPRETER_DIED);
	assert_false(live.status.kernel_restarted);
	live_run(&(struct exec_request){
		.code = "import time; time.sleep(0.2); 'y' in globals()", .wait_us = 1000});
	live_wait();
	live_assert_result("False");
	assert_true(live.status.kernel_restarted);
	assert_int_equal(live.status.generation, generation + 1);
	live_wait(); /* says it again */
	assert_true(live.status.kernel_restarted);
	live_cell("y = 2");
	assert_false(live.status.kernel_restarted);
}

static void kernel_restart(void **state)
{
	(void)state;
	live_cell("z = 1");
	uint32_t generation = live.status.generation;
	exec_kernel_restart(live.exec, NULL, NULL, on_simple, NULL);
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_NONE);
	live_cell("'z' in globals()");
	live_assert_result("False");
	assert_int_equal(live.status.generation, generation + 1);
	assert_false(live.status.kernel_restarted);
	/* With a cell behind it before it has ended. */
	exec_kernel_restart(live.exec, "python", NULL, NULL, NULL);
	live_cell("1");
	live_assert_result("1");
	assert_false(live.status.kernel_restarted);
	exec_kernel_restart(live.exec, "unheard-of", NULL, on_simple, NULL);
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_NONE);
}

/* ---- what there is ---- */

static void lists_and_usage(void **state)
{
	(void)state;
	live_cell("1");
	(void)exec_list(live.exec, on_list, NULL);
	live_until(&live.answered);
	assert_in_range(got.number, 10, LIMIT_JOBS);
	assert_false(got.flag);
	(void)exec_kernels(live.exec, on_kernels, NULL);
	live_until(&live.answered);
	assert_in_range(got.number, 2, LIMIT_KERNELS);
	assert_string_equal(got.text, "python python engine 1");
	(void)exec_usage(live.exec, on_usage, NULL);
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_NONE);
	assert_true(got.usage.disk_total > 0 && got.usage.disk_free <= got.usage.disk_total);
}

int main(int argc, char **argv)
{
	int r;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cells),
		cmocka_unit_test(cells_wait_in_line),
		cmocka_unit_test(cell_out_of_time),
		cmocka_unit_test(kernel_dies),
		cmocka_unit_test(kernel_restart),
		cmocka_unit_test(lists_and_usage),
	};
	if (live_begin(argc, argv, &r) < 0)
		return r;
	return cmocka_run_group_tests_name(argv[1], tests, live_set_up, live_tear_down);
}
