/* test-render.c: a job's status as text and structured content. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/limits.h"
#include "mcp/fit.h"
#include "mcp/jsonrpc.h"
#include "mcp/remedy.h"
#include "mcp/render.h"

static struct policy *policy;
static struct buf text;
static json_t *structured, *blocks;

static int setup(void **state)
{
	(void)state;
	policy = policy_new_default();
	buf_init(&text, MIB);
	structured = json_object();
	blocks = json_array();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	policy_free(policy);
	buf_done(&text);
	json_decref(structured);
	json_decref(blocks);
	return 0;
}

static struct exec_status done(enum wire_job_kind kind, enum wire_reason reason)
{
	struct exec_status s = {
		.job = "j-00000000000000000000000000000001",
		.kind = kind,
		.state = JOB_DONE,
		.reason = reason,
		.evidence = EVIDENCE_MEASURED,
		.duration_us = 123456,
	};
	buf_init(&s.out.head, MIB);
	buf_init(&s.out.tail, MIB);
	buf_init(&s.err.head, MIB);
	buf_init(&s.err.tail, MIB);
	return s;
}

static void free_output(struct exec_status *s)
{
	buf_done(&s->out.head);
	buf_done(&s->out.tail);
	buf_done(&s->err.head);
	buf_done(&s->err.tail);
}

static void print(struct exec_output *o, const void *p, size_t n)
{
	assert_int_equal(buf_append(&o->head, p, n), 0);
	o->total += n;
}

static const char *render(const struct exec_status *s, uint64_t timeout_us)
{
	const struct render_context ctx = {
		.limits = policy_limits(policy, NULL), .timeout_us = timeout_us};
	render_status(s, &ctx, &text, structured, blocks);
	assert_int_equal(buf_append(&text, "", 1), 0);
	return (const char *)text.data;
}

static const char *member(const char *name)
{
	return json_string_value(json_object_get(structured, name));
}

static const char *exit_member(const char *name)
{
	return json_string_value(json_object_get(json_object_get(structured, "exit"), name));
}

static void has(const char *in, const char *what)
{
	if (!in || !strstr(in, what))
		fail_msg("\"%s\" is not in \"%s\"", what, in ? in : "(null)");
}

static void a_command_that_fails_is_a_result(void **state)
{
	(void)state;
	struct exec_status s = done(JOB_KIND_COMMAND, REASON_EXIT);
	s.has_exit_code = true;
	s.exit_code = 7;
	print(&s.out, "a\nc\n", 4);
	print(&s.err, "b\n", 2);
	const char *t = render(&s, 0);
	has(t, "exit code 7");
	has(t, "stdout:\na\nc\nstderr:\nb\n");
	assert_string_equal(member("stdout"), "a\nc\n");
	assert_string_equal(member("stderr"), "b\n");
	assert_string_equal(member("status"), "done");
	assert_string_equal(exit_member("reason"), "exit");
	assert_int_equal(json_integer_value(json_object_get(structured, "exitCode")), 7);
	assert_null(json_object_get(structured, "omitted"));
	free_output(&s);
}

static void endings_have_remedies(void **state)
{
	(void)state;
	struct exec_status s = done(JOB_KIND_COMMAND, REASON_TIMEOUT);
	const char *t = render(&s, 1500000);
	has(t, "timeout_s=1.5");
	has(exit_member("remedy"), "process tree");
	assert_null(json_object_get(structured, "exitCode"));
	free_output(&s);
}

static void a_cell_out_of_time_keeps_its_variables_or_says_not(void **state)
{
	(void)state;
	char *notes[] = {(char *)"kernel_killed"};
	struct exec_status s = done(JOB_KIND_CELL, REASON_TIMEOUT);
	has(render(&s, 1000000), "Variables are kept");
	buf_clear(&text);
	s.notes = notes;
	s.n_notes = 1;
	const char *t = render(&s, 1000000);
	has(t, "variables are lost");
	assert_null(strstr(t, "Variables are kept"));
	free_output(&s);
}

static void signals_have_names(void **state)
{
	(void)state;
	struct exec_status s = done(JOB_KIND_COMMAND, REASON_SIGNAL);
	s.signal = SIGSEGV;
	has(render(&s, 0), "killed by SIGSEGV");
	assert_string_equal(exit_member("signal"), "SIGSEGV");
	free_output(&s);
}

static void notes_are_for_people(void **state)
{
	(void)state;
	char *notes[] = {
		(char *)"children_left:2", (char *)"oom_kill:1", (char *)"something new:1"};
	struct exec_status s = done(JOB_KIND_COMMAND, REASON_EXIT);
	s.has_exit_code = true;
	s.notes = notes;
	s.n_notes = ARRAY_SIZE(notes);
	const char *t = render(&s, 0);
	has(t, "2 background processes");
	has(t, "one process was killed because the memory limit");
	has(t, "something new:1");
	free_output(&s);
}

static void binary_output_is_not_shown(void **state)
{
	(void)state;
	struct exec_status s = done(JOB_KIND_COMMAND, REASON_EXIT);
	uint8_t bytes[4096];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(0x80 | (i * 7));
	print(&s.out, bytes, sizeof(bytes));
	const char *t = render(&s, 0);
	has(t, "4096 bytes that are not text");
	has(t, "encoding=base64");
	assert_string_equal(member("stdout"), "");
	assert_int_equal(json_integer_value(
				 json_object_get(json_object_get(structured, "omitted"), "stdout")),
		4096);
	free_output(&s);
}

static void a_stray_nul_hides_nothing(void **state)
{
	(void)state;
	struct exec_status s = done(JOB_KIND_COMMAND, REASON_EXIT);
	static const char bytes[] = "uid=1000(sandbox)\n/.scb/scb-agent\0listen:3\0"
				    "4\0bin\nusr\n";
	print(&s.out, bytes, sizeof(bytes) - 1);
	has(render(&s, 0), "uid=1000(sandbox)");
	assert_non_null(strstr(member("stdout"), "listen:3\xe2\x90\x80"));
	free_output(&s);
}

static void long_output_is_bounded(void **state)
{
	(void)state;
	struct exec_status s = done(JOB_KIND_COMMAND, REASON_EXIT);
	for (int i = 0; i < 500; i++) {
		print(&s.out, "0123456789012345678901234567890123456789012345678901234567890123\n",
			65);
		print(&s.err, "0123456789012345678901234567890123456789012345678901234567890123\n",
			65);
	}
	const char *t = render(&s, 0);
	assert_true(strlen(t) < LIMIT_ANSWER_TEXT + 2048);
	has(t, "bytes of stdout left out: job=j-00000000000000000000000000000001 with "
	       "action=search");
	has(t, "bytes of stderr left out");
	assert_true(strlen(member("stdout")) > LIMIT_ANSWER_TEXT / 2 - 1024);
	free_output(&s);
}

static void no_network_is_said(void **state)
{
	(void)state;
	struct exec_status s = done(JOB_KIND_COMMAND, REASON_EXIT);
	s.has_exit_code = true;
	s.exit_code = 6;
	const char *line = "curl: (6) Could not resolve host: example.com\n";
	print(&s.err, line, strlen(line));
	has(render(&s, 0), "This sandbox has no network");
	assert_true(remedy_wants_network(&s));
	/* a program that prints such words and succeeds wanted none */
	free_output(&s);
	s = done(JOB_KIND_COMMAND, REASON_EXIT);
	s.has_exit_code = true;
	print(&s.out, line, strlen(line));
	assert_false(remedy_wants_network(&s));
	free_output(&s);
}

static void missing_packages_are_named(void **state)
{
	(void)state;
	static const struct {
		const char *says, *remedy;
	} cases[] = {
		{"ModuleNotFoundError: No module named 'torch.nn'\n",
			"sudo apt install python3-torch)"},
		{"/usr/bin/python3: No module named cv2\n", "sudo apt install python3-opencv)"},
		{"ERROR: No matching distribution found for Foo_bar==2\n", "python3-foo-bar)"},
		{"error: externally-managed-environment\n", "python3-NAME"},
		{"bash: line 1: jq: command not found\n", "a program were missing"},
		{"MemoryError\n", "Work on less at a time"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct exec_status s = done(JOB_KIND_COMMAND, REASON_EXIT);
		s.has_exit_code = true;
		s.exit_code = 1;
		print(&s.err, cases[i].says, strlen(cases[i].says));
		const struct render_context ctx = {.limits = policy_limits(policy, NULL)};
		_cleanup_buf_ struct buf said = BUF_INIT(KIB);
		remedy_missing(&s, &ctx, &said);
		remedy_advice(&s, &ctx, &said);
		assert_int_equal(buf_append(&said, "", 1), 0);
		has((const char *)said.data, cases[i].remedy);
		/* An image is nobody's host. */
		const struct render_context inside = {.limits = ctx.limits, .image = true};
		_cleanup_buf_ struct buf image = BUF_INIT(KIB);
		remedy_missing(&s, &inside, &image);
		assert_int_equal(buf_append(&image, "", 1), 0);
		assert_null(strstr((const char *)image.data, "the host"));
		assert_null(strstr((const char *)image.data, "sudo"));
		assert_int_equal(strstr((const char *)image.data, "image") != NULL, image.len > 1);
		s.exit_code = 0; /* a log that quotes it */
		_cleanup_buf_ struct buf quiet = BUF_INIT(KIB);
		remedy_missing(&s, &ctx, &quiet);
		remedy_advice(&s, &ctx, &quiet);
		assert_int_equal(quiet.len, 0);
		free_output(&s);
	}
}

static void cells_show_values_figures_and_errors(void **state)
{
	(void)state;
	static uint8_t png[1000], large[LIMIT_IMAGE_BLOCK + 1];
	struct exec_mime value[] = {{(char *)"text/plain", (uint8_t *)"42", 2},
		{(char *)"application/json", (uint8_t *)"{\"a\":[1]}", 9}};
	struct exec_mime figure[] = {{(char *)"text/plain", (uint8_t *)"<Figure>", 8},
		{(char *)"image/png", png, sizeof(png)}};
	struct exec_mime huge[] = {{(char *)"image/png", large, sizeof(large)}};
	char *skipped[] = {(char *)"image/png 5000000"};
	struct exec_bundle bundles[] = {
		{.is_result = true, .mimes = value, .n_mimes = 2},
		{.mimes = figure, .n_mimes = 2},
		{.mimes = huge, .n_mimes = 1, .skipped = skipped, .n_skipped = 1},
	};
	struct exec_status s = done(JOB_KIND_CELL, REASON_EXIT);
	s.results = bundles;
	s.n_results = ARRAY_SIZE(bundles);
	s.error_name = (char *)"ZeroDivisionError";
	s.error_message = (char *)"division by zero";
	s.traceback = (char *)"Traceback (most recent call last):\n  line 1\nZeroDivisionError";
	s.kernel = (char *)"python";
	const char *t = render(&s, 0);
	has(t, "failed with ZeroDivisionError");
	has(t, "result:\n42\n");
	has(t, "figure 1: image/png, 1.0 KB, attached");
	has(t, "figure 2: image/png");
	has(t, "Traceback (most recent call last)");
	assert_null(strstr(t, "<Figure>"));

	assert_int_equal(json_array_size(blocks), 1);
	char *list = json_dumps(json_object_get(structured, "results"), JSON_COMPACT);
	assert_string_equal(list,
		"[{\"mime\":{\"text/plain\":\"42\",\"application/json\":{\"a\":[1]}}},"
		"{\"mime\":{\"text/plain\":\"<Figure>\",\"image/"
		"png\":{\"bytes\":1000,\"ref\":\"content["
		"1]\"}}},"
		"{\"mime\":{\"image/png\":{\"bytes\":5000000}}}]");
	free(list);
	free_output(&s);
}

/* JSON from a kernel is no more to be trusted than its text. */
static void deep_json_stays_text(void **state)
{
	(void)state;
	static uint8_t deep[2000];
	memset(deep, '[', sizeof(deep));
	struct exec_mime value[] = {{(char *)"application/json", deep, sizeof(deep)}};
	struct exec_bundle bundle = {.is_result = true, .mimes = value, .n_mimes = 1};
	struct exec_status s = done(JOB_KIND_CELL, REASON_EXIT);
	s.results = &bundle;
	s.n_results = 1;
	(void)render(&s, 0);
	const json_t *mime =
		json_object_get(json_array_get(json_object_get(structured, "results"), 0), "mime");
	assert_true(json_is_string(json_object_get(mime, "application/json")));
	free_output(&s);
}

static void running_jobs_name_the_way_on(void **state)
{
	(void)state;
	struct exec_status s = done(JOB_KIND_CELL, REASON_EXIT);
	s.state = JOB_RUNNING;
	has(render(&s, 0), "job action=wait job=j-00000000000000000000000000000001");
	assert_string_equal(member("status"), "running");
	assert_null(json_object_get(structured, "exit"));
	free_output(&s);
}

/* ---- fit ---- */

static void what_is_too_large_is_cut(void **state)
{
	(void)state;
	static char long_text[1200 * 1000];
	memset(long_text, 1, sizeof(long_text)); /* six bytes each in JSON */
	json_t *result = json_pack("{s:[{s:s,s:s},{s:s,s:s%}],s:{s:s%}}", "content", "type",
		"image", "data", "aaaa", "type", "text", "text", long_text, sizeof(long_text),
		"structuredContent", "stdout", long_text, sizeof(long_text));
	assert_non_null(result);
	_cleanup_buf_ struct buf out = BUF_INIT(LIMIT_MCP_RESULT);
	int r = jsonrpc_encode(result, &out);
	assert_true(r < 0);
	for (unsigned round = 0; r < 0; round++) {
		assert_true(fit_shrink(result, round));
		r = jsonrpc_encode(result, &out);
	}
	json_t *content = json_object_get(result, "content");
	assert_string_equal(
		json_string_value(json_object_get(json_array_get(content, 0), "type")), "text");
	has(json_string_value(json_object_get(json_array_get(content, 1), "text")), "left out");
	assert_false(fit_shrink(result, 100));
	json_decref(result);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_command_that_fails_is_a_result),
		TEST(endings_have_remedies),
		TEST(a_cell_out_of_time_keeps_its_variables_or_says_not),
		TEST(signals_have_names),
		TEST(notes_are_for_people),
		TEST(binary_output_is_not_shown),
		TEST(a_stray_nul_hides_nothing),
		TEST(long_output_is_bounded),
		TEST(no_network_is_said),
		TEST(missing_packages_are_named),
		TEST(cells_show_values_figures_and_errors),
		TEST(deep_json_stays_text),
		TEST(running_jobs_name_the_way_on),
		cmocka_unit_test(what_is_too_large_is_cut),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
