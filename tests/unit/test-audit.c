/* test-audit.c: one valid JSON line each, private, and an error when it cannot be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/limits.h"

static char dir[] = "/tmp/test-audit-XXXXXX";
static char path[64];

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/audit.jsonl", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(path);
	return rmdir(dir);
}

static json_t *read_line(FILE *f)
{
	static char line[256 * 1024];
	if (!fgets(line, sizeof(line), f))
		return NULL;
	return json_loads(line, JSON_REJECT_DUPLICATES, NULL);
}

static void lines_are_json(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	assert_int_equal(audit_open(path, &a, &err), 0);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);

	assert_int_equal(audit_event(a,
				 &(struct audit_event){.event = "exec.start",
					 .tool = "run_code",
					 .principal = "uid:0",
					 .policy_rule = "default.tools"},
				 &err),
		0);
	/* what comes from the sandbox cannot break out of its field */
	assert_int_equal(audit_event(a,
				 &(struct audit_event){.event = "exec.end",
					 .path = "a\"\n\xff\x01{}\xc2\x9b"
						 "2J\xe2\x80\xae\xf0\x9f\x90\x8d",
					 .has_exit = true,
					 .exit_code = -1,
					 .exit_reason = "timeout",
					 .duration_us = 1500},
				 &err),
		0);
	const struct audit_pair limits[] = {{"memoryBytes", NULL, 1 << 30}};
	const struct audit_pair enforced[] = {{"memory", "cgroup2", 0}, {"disk", "none", 0}};
	assert_int_equal(audit_event(a,
				 &(struct audit_event){.event = "session.open",
					 .limits = limits,
					 .n_limits = 1,
					 .enforced = enforced,
					 .n_enforced = 2},
				 &err),
		0);
	audit_close(a);

	FILE *f = fopen(path, "re");
	/* nor do anything to a terminal: C1 controls, marks that turn the direction of text */
	for (int c; (c = fgetc(f)) != EOF;)
		assert_true(c == '\n' || (c >= ' ' && c <= '~'));
	rewind(f);
	json_t *one = read_line(f), *two = read_line(f), *three = read_line(f);
	assert_non_null(one);
	assert_non_null(two);
	json_t *pairs = json_pack("{s:{s:i},s:{s:s,s:s}}", "limits", "memoryBytes", 1 << 30,
		"enforced", "memory", "cgroup2", "disk", "none");
	assert_true(json_equal(json_object_get(three, "limits"), json_object_get(pairs, "limits")));
	assert_true(
		json_equal(json_object_get(three, "enforced"), json_object_get(pairs, "enforced")));
	assert_null(json_object_get(one, "limits"));
	json_decref(pairs);
	json_decref(three);
	assert_null(read_line(f));
	fclose(f);
	assert_string_equal(json_string_value(json_object_get(one, "event")), "exec.start");
	assert_int_equal(json_integer_value(json_object_get(one, "seq")), 1);
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(one, "owasp"), 0)), "ASI05");
	assert_null(json_object_get(one, "exitCode"));
	assert_int_equal(json_integer_value(json_object_get(two, "exitCode")), -1);
	assert_string_equal(json_string_value(json_object_get(two, "path")),
		"a\"\n\xef\xbf\xbd\x01{}\xc2\x9b"
		"2J\xe2\x80\xae\xf0\x9f\x90\x8d");
	assert_true(json_real_value(json_object_get(two, "durationMs")) == 1.5);
	/* a limit's end also bears on cascading failures and resource overload */
	char *ids = json_dumps(json_object_get(two, "owasp"), JSON_COMPACT);
	assert_string_equal(ids, "[\"ASI05\",\"T11\",\"ASI08\",\"ASI02\",\"T4\"]");
	free(ids);
	json_decref(one);
	json_decref(two);
}

static void a_full_disk_is_an_error(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	assert_int_equal(audit_open(path, &a, &err), 0);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);

	/* RLIMIT_FSIZE stands for a full disk: the first write is short, the next fails */
	struct rlimit old, small = {(rlim_t)st.st_size + 10, RLIM_INFINITY};
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	const struct audit_event e = {.event = "tool.call"};
	assert_true(audit_event(a, &e, &err) < 0);
	assert_int_equal(err.code, ERR_AUDIT_UNAVAILABLE);
	assert_true(audit_event(a, &e, &err) < 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);

	/* room again: the torn line stays alone */
	assert_int_equal(audit_event(a, &e, &err), 0);
	audit_close(a);
	FILE *f = fopen(path, "re");
	json_t *last = NULL;
	size_t whole = 0, torn = 0;
	while (!feof(f)) {
		json_t *line = read_line(f);
		if (line) {
			json_decref(last);
			last = line;
			whole++;
		} else if (!feof(f)) {
			torn++;
		}
	}
	fclose(f);
	assert_int_equal(whole, 4);
	assert_int_equal(torn, 1);
	assert_string_equal(json_string_value(json_object_get(last, "event")), "tool.call");
	json_decref(last);
}

static off_t size_of_log(void)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void two_lines_in_one_write(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	assert_int_equal(audit_open(path, &a, &err), 0);
	const struct audit_event first = {.event = "tool.call", .with_next = true};
	const struct audit_event second = {.event = "exec.start"};
	off_t before = size_of_log();
	assert_int_equal(audit_event(a, &first, &err), 0);
	assert_int_equal(size_of_log(), before);
	assert_int_equal(audit_event(a, &second, &err), 0);

	/* what waits is written when it is asked for, and at the end */
	assert_int_equal(audit_event(a, &first, &err), 0);
	assert_int_equal(audit_flush(a, &err), 0);
	off_t flushed = size_of_log();
	assert_int_equal(audit_flush(a, &err), 0);
	assert_int_equal(size_of_log(), flushed);
	assert_int_equal(audit_event(a, &first, &err), 0);
	audit_close(a);

	FILE *f = fopen(path, "re");
	assert_int_equal(fseeko(f, before, SEEK_SET), 0);
	static const char *const events[] = {"tool.call", "exec.start", "tool.call", "tool.call"};
	for (size_t i = 0; i < 4; i++) {
		json_t *line = read_line(f);
		assert_string_equal(json_string_value(json_object_get(line, "event")), events[i]);
		assert_int_equal(json_integer_value(json_object_get(line, "seq")), i + 1);
		json_decref(line);
	}
	assert_null(read_line(f));
	fclose(f);
}

/* Where there is room for the first line of a write alone, the second is the torn one. */
static void half_of_two_lines(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	assert_int_equal(audit_open(path, &a, &err), 0);
	const struct audit_event first = {.event = "tool.call", .with_next = true};
	const struct audit_event second = {.event = "exec.start"};
	off_t before = size_of_log();
	assert_int_equal(audit_event(a, &first, &err), 0);
	assert_int_equal(audit_flush(a, &err), 0);
	off_t line = size_of_log() - before;

	struct rlimit old, small = {(rlim_t)(before + 2 * line), RLIM_INFINITY};
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(audit_event(a, &first, &err), 0);
	assert_true(audit_event(a, &second, &err) < 0);
	assert_int_equal(err.code, ERR_AUDIT_UNAVAILABLE);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(size_of_log(), before + 2 * line);
	assert_int_equal(audit_event(a, &second, &err), 0);
	audit_close(a);

	FILE *f = fopen(path, "re");
	assert_int_equal(fseeko(f, before, SEEK_SET), 0);
	for (int i = 1; i <= 3; i++) {
		json_t *o = read_line(f);
		assert_int_equal(json_integer_value(json_object_get(o, "seq")), i);
		json_decref(o);
	}
	assert_null(read_line(f));
	fclose(f);
}

static void no_file_no_log(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	assert_true(audit_open("/nonexistent/audit.jsonl", &a, &err) < 0);
	assert_int_equal(err.code, ERR_AUDIT_UNAVAILABLE);
	/* never through a link, never into a device */
	char link_path[64];
	(void)snprintf(link_path, sizeof(link_path), "%s/link", dir);
	assert_int_equal(symlink(path, link_path), 0);
	assert_true(audit_open(link_path, &a, &err) < 0);
	assert_int_equal(unlink(link_path), 0);
	assert_true(audit_open("/dev/null", &a, &err) < 0);
	assert_null(a);
}

/* ---- after a broker's death ---- */

static size_t lines_with(const char *event)
{
	size_t n = 0;
	FILE *f = fopen(path, "re");
	for (json_t *line; (line = read_line(f)); json_decref(line))
		n += strcmp(json_string_value(json_object_get(line, "event")), event) == 0;
	fclose(f);
	return n;
}

static void what_is_on_record_is_not_written_again(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	struct audit_event e = {.event = "tool.call", .tool = "files", .delivery = "d1"};
	struct audit_event x = {.event = "exec.start", .tool = "run_code", .session = "s-1"};
	(void)unlink(path);
	assert_int_equal(audit_open(path, &a, &err), 0);
	assert_int_equal(audit_event(a, &e, &err), 0);
	x.job = "j-1";
	assert_int_equal(audit_event(a, &x, &err), 0);
	x.job = "j-2";
	x.delivery = "d1"; /* a job's, whatever request began it */
	assert_int_equal(audit_event(a, &x, &err), 0);
	audit_close(a);

	assert_int_equal(audit_open(path, &a, &err), 0);
	assert_true(audit_recorded(a, "tool.call", "d1"));
	assert_false(audit_recorded(a, "tool.call", "d2"));
	assert_false(audit_recorded(a, "tool.end", "d1"));
	assert_true(audit_recorded(a, "exec.start", "j-1"));
	assert_false(audit_recorded(a, "exec.end", "j-1"));

	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(lines_with("tool.call"), 1);
	e.event = "tool.end"; /* new: and then known, too */
	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(lines_with("tool.end"), 1);
	/* what is of no delivery, or happens again and again, is written each time */
	e.event = "link.auth_failed";
	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(lines_with("link.auth_failed"), 2);
	e = (struct audit_event){.event = "tool.call", .delivery = ""};
	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(lines_with("tool.call"), 2);
	audit_close(a);
}

static void on_open_job(void *user, const struct audit_job *j)
{
	char *text = user;
	(void)snprintf(
		text + strlen(text), 100 - strlen(text), "%s/%s/%s ", j->job, j->session, j->tool);
}

static void jobs_without_an_end_are_named(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	struct audit_event x = {
		.event = "exec.end", .tool = "run_code", .session = "s-1", .job = "j-1"};
	/* what a caller says cannot pass for a member */
	struct audit_event odd = {.event = "file.refused",
		.detail = "\",\"event\":\"exec.start\",\"job\":\"j-9\"",
		.session = "s-1"};
	char text[100] = "";
	assert_int_equal(audit_open(path, &a, &err), 0);
	assert_int_equal(audit_event(a, &odd, &err), 0);
	assert_int_equal(audit_event(a, &x, &err), 0);
	audit_each_open_job(a, on_open_job, text);
	assert_string_equal(text, "j-2/s-1/run_code ");
	audit_close(a);
}

/* As a broker that was killed in the middle of it leaves it. */
static void a_torn_line_is_ended(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	FILE *f = fopen(path, "we");
	(void)fputs("{\"ts\":\"2026-11-29T20:45:01.123456Z\",\"seq\":1,\"event\":\"tool.call\","
		    "\"delivery\":\"d1\"}\n{\"ts\":\"2026-11-29T20:45:01.123456Z\",\"seq\":2,"
		    "\"event\":\"tool.call\",\"delivery\":\"d2\"",
		f);
	fclose(f);
	assert_int_equal(audit_open(path, &a, &err), 0);
	assert_false(audit_recorded(a, "tool.call", "d2")); /* it never was whole */
	struct audit_event e = {.event = "tool.call", .delivery = "d2"};
	assert_int_equal(audit_event_once(a, &e, &err), 0);
	audit_close(a);
	f = fopen(path, "re");
	json_t *first = read_line(f), *torn = read_line(f), *last = read_line(f);
	fclose(f);
	assert_non_null(first);
	assert_null(torn);
	assert_string_equal(json_string_value(json_object_get(last, "delivery")), "d2");
	json_decref(first);
	json_decref(last);
}

/* Only the end of a long log is read: what stands there is found, and nothing is cut in two. */
static void a_long_log_is_read_from_its_end(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	char delivery[20];
	FILE *f = fopen(path, "we");
	unsigned n = 0;
	for (uint64_t size = 0; size < LIMIT_AUDIT_TAIL + MIB; n++)
		size += (uint64_t)fprintf(f,
			"{\"ts\":\"2026-11-29T20:45:01.123456Z\",\"event\":\"tool.call\","
			"\"delivery\":\"d%u\",\"detail\":\"%0*d\"}\n",
			n, (int)(n * 7919 % 3000), 0);
	fclose(f);
	assert_int_equal(audit_open(path, &a, &err), 0);
	unsigned found = 0;
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(delivery, sizeof(delivery), "d%u", i);
		bool there = audit_recorded(a, "tool.call", delivery);
		assert_true(there || found == 0);
		found += there;
	}
	assert_in_range(found, n * 8 / 10, n - 1);
	audit_close(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_json),
		cmocka_unit_test(a_full_disk_is_an_error),
		cmocka_unit_test(two_lines_in_one_write),
		cmocka_unit_test(half_of_two_lines),
		cmocka_unit_test(no_file_no_log),
		cmocka_unit_test(what_is_on_record_is_not_written_again),
		cmocka_unit_test(jobs_without_an_end_are_named),
		cmocka_unit_test(a_torn_line_is_ended),
		cmocka_unit_test(a_long_log_is_read_from_its_end),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
