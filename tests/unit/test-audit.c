/* test-audit.c: one valid JSON line each, private, chained; files that follow one another; other
 * hands. (What is done to a log: test-audit-verify.c. A full disk, a broker that dies:
 * test-audit-crash.c.) */
#include "audit-fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/logset.h"
#include "base/limits.h"
#include "secret/redact.h"
#include "secret/value.h"

static void lines_are_json(void **state)
{
	(void)state;
	struct audit *a = al_opened();
	struct err err = {0};
	struct stat st;
	assert_int_equal(stat(al_path, &st), 0);
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

	FILE *f = fopen(al_path, "re");
	/* nor do anything to a terminal: C1 controls, marks that turn the direction of text */
	for (int c; (c = fgetc(f)) != EOF;)
		assert_true(c == '\n' || (c >= ' ' && c <= '~'));
	rewind(f);
	json_t *one = al_read_line(f), *two = al_read_line(f), *three = al_read_line(f);
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
	assert_null(al_read_line(f));
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

static void two_lines_in_one_write(void **state)
{
	(void)state;
	struct audit *a = al_opened();
	struct err err = {0};
	const struct audit_event first = {.event = "tool.call", .with_next = true};
	const struct audit_event second = {.event = "exec.start"};
	off_t before = al_size();
	assert_int_equal(audit_event(a, &first, &err), 0);
	assert_int_equal(al_size(), before);
	assert_int_equal(audit_event(a, &second, &err), 0);

	/* what waits is written when it is asked for, and at the end */
	assert_int_equal(audit_event(a, &first, &err), 0);
	assert_int_equal(audit_flush(a, &err), 0);
	off_t flushed = al_size();
	assert_int_equal(audit_flush(a, &err), 0);
	assert_int_equal(al_size(), flushed);
	assert_int_equal(audit_event(a, &first, &err), 0);
	audit_close(a);

	FILE *f = fopen(al_path, "re");
	assert_int_equal(fseeko(f, before, SEEK_SET), 0);
	static const char *const events[] = {"tool.call", "exec.start", "tool.call", "tool.call"};
	json_int_t seq = 0;
	for (size_t i = 0; i < 4; i++) {
		json_t *line = al_read_line(f);
		assert_string_equal(json_string_value(json_object_get(line, "event")), events[i]);
		json_int_t this = json_integer_value(json_object_get(line, "seq"));
		assert_true(i == 0 || this == seq + 1);
		seq = this;
		json_decref(line);
	}
	assert_null(al_read_line(f));
	fclose(f);
}

/* ---- files ---- */

static void files_follow_one_another(void **state)
{
	(void)state;
	const struct audit_config small = {.max_bytes = 8 * KIB, .keep = 3};
	struct err err = {0};
	char name[100], file[LOGSET_FILE], prev[HASH_TEXT] = "";
	al_start_anew();
	struct audit *a = al_opened_with(&small);
	struct audit_event e = {.event = "exec.start", .tool = "run_code", .session = "s-1"};
	for (int i = 0; i < 200; i++) {
		char job[20];
		(void)snprintf(job, sizeof(job), "j-%d", i);
		e.job = job;
		assert_int_equal(audit_event_once(a, &e, &err), 0);
		assert_int_equal(audit_event_once(a, &e, &err), 0);
	}
	audit_close(a);

	struct logset set;
	int fd = open(al_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(logset_read(fd, &set), 0);
	close(fd);
	assert_int_equal(set.n, 3);
	json_int_t seq = 0;
	size_t n = 0;
	for (size_t i = 0; i < set.n; i++) {
		logset_name(set.numbers[i], file);
		(void)snprintf(name, sizeof(name), "%s/%s", al_dir, file);
		n += al_check_chain(name, &seq, prev);
		assert_int_equal(seq, set.numbers[i]);
	}
	n += al_check_chain(al_path, &seq, prev);
	assert_int_equal(al_lines_with("audit.drop"), 1);
	logset_done(&set);

	/* what stands in a former file is on record, too */
	a = al_opened_with(&small);
	assert_true(audit_recorded(a, "exec.start", "j-199"));
	size_t known = 0;
	for (int i = 0; i < 200; i++) {
		(void)snprintf(name, sizeof(name), "j-%d", i);
		known += audit_recorded(a, "exec.start", name);
	}
	assert_in_range(known, n - 10, n);
	audit_close(a);
}

/* ---- two writers, other keys, other hands ---- */

static void one_writer(void **state)
{
	(void)state;
	al_start_anew();
	struct audit *a = al_opened(), *other = NULL;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct err err = {0};
		int r = audit_open(al_path, al_key, NULL, &other, &err);
		_exit(r == -EBUSY && err.code == ERR_AUDIT_UNAVAILABLE ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	audit_close(a);
}

/* The chain goes on in a new file, and says what it found. */
static void assert_gap(const char *what)
{
	struct audit *a = al_opened();
	al_write_some(a, 1);
	audit_close(a);
	assert_int_equal(al_lines_with("audit.gap"), 1);
	FILE *f = fopen(al_path, "re");
	json_t *o = al_read_line(f);
	fclose(f);
	assert_string_equal(json_string_value(json_object_get(o, "event")), "audit.gap");
	assert_non_null(strstr(json_string_value(json_object_get(o, "detail")), what));
	json_decref(o);
	assert_int_equal(al_check(), 2);
}

static void append(const char *text)
{
	FILE *f = fopen(al_path, "ae");
	assert_true(fputs(text, f) >= 0);
	fclose(f);
}

static void what_others_did_is_recorded(void **state)
{
	(void)state;
	char head[64];
	(void)snprintf(head, sizeof(head), "%s/audit.head", al_dir);
	al_start_anew();
	struct audit *first = al_opened();
	al_write_some(first, 3);
	audit_close(first);
	append("{\"a\":1}\n");
	assert_gap("knows nothing of");
	assert_int_equal(truncate(al_path, al_size() - 10), 0);
	assert_gap("shorter");
	assert_int_equal(unlink(al_path), 0);
	assert_gap("not there");
	int fd = open(al_path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "X", 1, al_size() - 20), 1);
	close(fd);
	assert_gap("not the one that its head names");
	assert_int_equal(unlink(head), 0);
	assert_gap("head is not there");
	assert_int_equal(unlink(al_key), 0);
	assert_gap("not written with this key");

	/* under a broker that runs, too */
	struct audit *a = al_opened();
	al_write_some(a, 2);
	assert_int_equal(al_lines_with("audit.gap"), 1);
	append("{\"a\":1}\n");
	(void)usleep(20 * 1000);
	al_write_some(a, 2);
	assert_int_equal(al_check(), 3);
	assert_int_equal(unlink(al_path), 0);
	(void)usleep(20 * 1000);
	al_write_some(a, 2);
	assert_int_equal(al_check(), 3);
	assert_int_equal(al_lines_with("audit.gap"), 1);
	audit_close(a);
}

static void durable_as_asked(void **state)
{
	(void)state;
	struct err err = {0};
	for (int i = 0; i < 3; i++) {
		const struct audit_config c = {(enum audit_fsync)i, 10, 8 * KIB, 10};
		al_start_anew();
		struct audit *a = al_opened_with(&c);
		al_write_some(a, 100);
		(void)usleep(30 * 1000);
		al_write_some(a, 10);
		assert_int_equal(audit_configure(a, &AUDIT_CONFIG_DEFAULT, &err), 0);
		al_write_some(a, 10);
		audit_close(a);
		(void)al_check();
	}
}

static void secrets_are_masked(void **state)
{
	(void)state;
	struct err err = {0};
	struct secret_value *v = NULL;
	struct redactor *r = NULL;
	assert_int_equal(secret_value_new("TOKEN", "hunter2hunter2", 14, &v, &err), 0);
	assert_int_equal(redactor_new(&v, 1, &r, &err), 0);
	al_start_anew();
	struct audit *a = al_opened();
	char long_text[5000];
	(void)memset(long_text, 'x', sizeof(long_text));
	(void)memcpy(
		long_text + 4096 - 7, "hunter2hunter2", 14); /* over the edge of what is kept */
	long_text[sizeof(long_text) - 1] = '\0';
	const struct audit_event e = {.event = "file.refused",
		.path = "a/hunter2hunter2/b",
		.detail = long_text,
		.redactor = r};
	assert_int_equal(audit_event(a, &e, &err), 0);
	audit_close(a);
	json_t *o = al_last_line();
	assert_string_equal(json_string_value(json_object_get(o, "path")), "a/**************/b");
	assert_null(strstr(json_string_value(json_object_get(o, "detail")), "hunter"));
	assert_int_equal(json_string_length(json_object_get(o, "detail")), 4096);
	json_decref(o);
	(void)al_check();
	redactor_unref(r);
	secret_value_unref(v);
}

static void no_file_no_log(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	al_start_anew();
	assert_true(audit_open("/nonexistent/audit.jsonl", al_key, NULL, &a, &err) < 0);
	assert_int_equal(err.code, ERR_AUDIT_UNAVAILABLE);
	/* never through a link, never into a device */
	assert_int_equal(symlink("elsewhere", al_path), 0);
	assert_true(audit_open(al_path, al_key, NULL, &a, &err) < 0);
	assert_int_equal(unlink(al_path), 0);
	assert_int_equal(mkfifo(al_path, 0600), 0);
	assert_true(audit_open(al_path, al_key, NULL, &a, &err) < 0);
	assert_int_equal(unlink(al_path), 0);
	/* nor with a al_key that others can read */
	audit_close(al_opened());
	assert_int_equal(chmod(al_key, 0640), 0);
	assert_true(audit_open(al_path, al_key, NULL, &a, &err) < 0);
	assert_int_equal(err.code, ERR_AUDIT_UNAVAILABLE);
	assert_null(a);
	al_start_anew();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_json),
		cmocka_unit_test(two_lines_in_one_write),
		cmocka_unit_test(files_follow_one_another),
		cmocka_unit_test(one_writer),
		cmocka_unit_test(what_others_did_is_recorded),
		cmocka_unit_test(durable_as_asked),
		cmocka_unit_test(secrets_are_masked),
		cmocka_unit_test(no_file_no_log),
	};
	return cmocka_run_group_tests(tests, al_setup, al_teardown);
}
