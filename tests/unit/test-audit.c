/* test-audit.c: one valid JSON line each, private, chained, all of a write or nothing; what
 * happened once is not written twice. (What is done to a log: test-audit-verify.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/hash.h"
#include "audit/logset.h"
#include "base/id.h"
#include "base/limits.h"
#include "provider/record.h"
#include "secret/redact.h"
#include "secret/value.h"

static char dir[] = "/tmp/test-audit-XXXXXX";
static char path[64], key[64];

static struct audit *opened_with(const struct audit_config *config)
{
	struct audit *a = NULL;
	struct err err = {0};
	if (audit_open(path, key, config, &a, &err) < 0)
		fail_msg("%s", err.text);
	return a;
}

static struct audit *opened(void)
{
	return opened_with(NULL);
}

static void start_anew(void)
{
	assert_int_equal(record_remove_tree(dir), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/audit.jsonl", dir);
	(void)snprintf(key, sizeof(key), "%s/audit.key", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return record_remove_tree(dir);
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
	struct audit *a = opened();
	struct err err = {0};
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

static off_t size_of_log(void)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void two_lines_in_one_write(void **state)
{
	(void)state;
	struct audit *a = opened();
	struct err err = {0};
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
	json_int_t seq = 0;
	for (size_t i = 0; i < 4; i++) {
		json_t *line = read_line(f);
		assert_string_equal(json_string_value(json_object_get(line, "event")), events[i]);
		json_int_t this = json_integer_value(json_object_get(line, "seq"));
		assert_true(i == 0 || this == seq + 1);
		seq = this;
		json_decref(line);
	}
	assert_null(read_line(f));
	fclose(f);
}

static size_t lines_with(const char *event);

/* All lines are whole, numbered without a hole, and hold the hash of the one before. How many. */
static size_t check_chain(const char *file, json_int_t *seq, char prev[static HASH_TEXT])
{
	static char line[256 * 1024];
	size_t n = 0;
	FILE *f = fopen(file, "re");
	assert_non_null(f);
	for (; fgets(line, sizeof(line), f); n++) {
		uint8_t hash[HASH_SIZE];
		size_t len = strcspn(line, "\n");
		assert_int_equal(line[len], '\n');
		json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(o);
		if (*seq)
			assert_string_equal(json_string_value(json_object_get(o, "prev")), prev);
		assert_true(!*seq || json_integer_value(json_object_get(o, "seq")) == *seq + 1);
		*seq = json_integer_value(json_object_get(o, "seq"));
		json_decref(o);
		hash_bytes(line, len, hash);
		id_hex(hash, sizeof(hash), prev);
	}
	fclose(f);
	return n;
}

static size_t check_log(void)
{
	char prev[HASH_TEXT] = "";
	json_int_t seq = 0;
	return check_chain(path, &seq, prev);
}

static void write_some(struct audit *a, unsigned n)
{
	struct err err = {0};
	const struct audit_event e = {
		.event = "tool.call", .tool = "files", .detail = "one of many"};
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(audit_event(a, &e, &err), 0);
}

static void limit_files(off_t size)
{
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = size < 0 ? limit.rlim_max : (rlim_t)size;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* RLIMIT_FSIZE stands for a disk that is full after so many bytes. */
static void all_of_a_write_or_nothing(void **state)
{
	(void)state;
	start_anew();
	struct audit *a = opened();
	struct err err = {0};
	const struct audit_event first = {.event = "tool.call", .with_next = true};
	const struct audit_event second = {.event = "exec.start"};
	write_some(a, 60); /* beyond what the head's file has */
	off_t before = size_of_log();
	(void)signal(SIGXFSZ, SIG_IGN);
	for (off_t room = 0; room < 800; room += 50) {
		limit_files(before + room);
		int r = audit_event(a, &first, &err);
		if (r == 0)
			r = audit_event(a, &second, &err);
		limit_files(-1);
		if (r == 0) {
			assert_true(room > 300);
			break;
		}
		assert_int_equal(err.code, ERR_AUDIT_UNAVAILABLE);
		assert_int_equal(size_of_log(), before);
	}
	assert_true(size_of_log() > before);
	assert_int_equal(audit_event(a, &second, &err), 0);
	audit_close(a);
	assert_int_equal(check_log(), 60 + 3);
	assert_int_equal(lines_with("audit.gap") + lines_with("audit.recover"), 0);
}

/* ---- a disk that is full ---- */

#define NO_DISK 77
/* In a child: where something is not as it should be. */
#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			(void)fprintf(stderr, "# line %d: %s: %s\n", __LINE__, #cond, err.text);   \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* All that there is but a page at most. */
static void fill_disk(const char *file)
{
	static char page[4096];
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	while (write(fd, page, sizeof(page)) > 0)
		continue;
	close(fd);
}

/* On a file system of 1 MiB of its own. */
static NORETURN void live_on_a_full_disk(void)
{
	struct err err = {0};
	char filler[64];
	const struct audit_event start = {.event = "exec.start", .job = "j"};
	const struct audit_event end = {.event = "exec.end", .job = "j"};
	int begun = 0, ended = 0;
	(void)snprintf(filler, sizeof(filler), "%s/filler", dir);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", dir, "tmpfs", 0, "size=1M") < 0)
		_exit(NO_DISK);
	struct audit *a = opened();
	MUST(audit_event(a, &start, &err) == 0);
	fill_disk(filler);
	for (begun = 1; begun < 5000 && audit_event(a, &start, &err) == 0;)
		begun++;
	/* what is kept is for what has begun */
	MUST(err.code == ERR_AUDIT_UNAVAILABLE && err.errnum == ENOSPC && begun < 5000);
	MUST(strstr(err.text, "make room"));
	for (; ended < begun && audit_event(a, &end, &err) == 0;)
		ended++;
	MUST(ended == begun);
	MUST(unlink(filler) == 0);
	MUST(audit_event(a, &start, &err) == 0);
	MUST(audit_event(a, &end, &err) == 0);
	audit_close(a);
	MUST((int)check_log() == begun + ended + 2);
	_exit(0);
}

static void on_a_full_disk_what_began_ends(void **state)
{
	(void)state;
	int status;
	start_anew();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		live_on_a_full_disk();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_DISK)
		skip(); /* not root: no file system of its own */
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- killed while it wrote ---- */

/* A broker that writes n lines and one more, in which SIGXFSZ ends it: at the first byte of
 * whatever file that lies beyond so many. (A write that begins before it is short, and gone on
 * with.) */
static void die_writing(unsigned n, off_t (*limit)(void))
{
	pid_t pid = fork();
	int status;
	assert_true(pid >= 0);
	if (pid == 0) {
		const struct rlimit none = {0, 0};
		const struct audit_event e = {.event = "tool.call", .delivery = "last"};
		struct err err;
		struct audit *a = opened();
		write_some(a, n);
		(void)setrlimit(RLIMIT_CORE, &none);
		(void)signal(SIGXFSZ, SIG_DFL);
		limit_files(limit());
		(void)!audit_event(a, &e, &err);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
}

static json_t *last_line(void)
{
	json_t *last = NULL;
	FILE *f = fopen(path, "re");
	for (json_t *o; (o = read_line(f)); last = o)
		json_decref(last);
	fclose(f);
	return last;
}

static off_t at_its_end(void)
{
	return size_of_log();
}

static off_t in_the_line(void)
{
	return size_of_log() + 50;
}

static void assert_recovered(json_int_t torn, bool counts)
{
	struct audit *a = opened();
	assert_int_equal(audit_recorded(a, "tool.call", "last"), counts);
	audit_close(a);
	assert_int_equal(lines_with("audit.recover"), 1);
	assert_int_equal(lines_with("audit.gap"), 0);
	json_t *o = last_line(), *bytes = json_object_get(o, "tornBytes");
	assert_string_equal(json_string_value(json_object_get(o, "event")), "audit.recover");
	assert_int_equal(bytes ? json_integer_value(bytes) : -1, torn);
	if (torn > 0)
		assert_memory_equal(
			json_string_value(json_object_get(o, "torn")), "{\"ts\":\"2", 8);
	json_decref(o);
	(void)check_log();
	a = opened(); /* once */
	audit_close(a);
	assert_int_equal(lines_with("audit.recover"), 1);
}

static void killed_before_the_line(void **state)
{
	(void)state;
	start_anew();
	die_writing(60, at_its_end);
	assert_recovered(0, false);
}

static void killed_within_the_line(void **state)
{
	(void)state;
	start_anew();
	die_writing(60, in_the_line);
	assert_recovered(50, false);
}

static void killed_after_the_line(void **state)
{
	(void)state;
	char head[64], slot[4096];
	const struct audit_event e = {.event = "tool.call", .delivery = "last"};
	struct err err = {0};
	(void)snprintf(head, sizeof(head), "%s/audit.head", dir);
	start_anew();
	struct audit *a = opened();
	write_some(a, 3);
	int fd = open(head, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, slot, sizeof(slot), sizeof(slot)), sizeof(slot));
	assert_int_equal(audit_event(a, &e, &err), 0);
	audit_close(a);
	/* the commit that did not come any more */
	assert_int_equal(pwrite(fd, slot, sizeof(slot), sizeof(slot)), sizeof(slot));
	close(fd);
	assert_recovered(-1, true);
}

static void killed_at_any_time(void **state)
{
	(void)state;
	const struct audit_config small = {.max_bytes = 4 * KIB, .keep = 1000};
	start_anew();
	for (unsigned i = 0; i < 60; i++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct audit *a = opened_with(&small);
			for (;;)
				write_some(a, 10);
		}
		(void)usleep(2000 + i * 331 % 15000);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	audit_close(opened_with(&small));
	char prev[HASH_TEXT] = "", name[100];
	struct logset set;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(logset_read(fd, &set), 0);
	close(fd);
	assert_true(set.n > 2);
	json_int_t seq = 0;
	for (size_t i = 0; i < set.n; i++) {
		char file[LOGSET_FILE];
		logset_name(set.numbers[i], file);
		(void)snprintf(name, sizeof(name), "%s/%s", dir, file);
		(void)check_chain(name, &seq, prev);
	}
	(void)check_chain(path, &seq, prev);
	assert_int_equal(lines_with("audit.gap"), 0);
	logset_done(&set);
}

/* ---- files ---- */

static void files_follow_one_another(void **state)
{
	(void)state;
	const struct audit_config small = {.max_bytes = 8 * KIB, .keep = 3};
	struct err err = {0};
	char name[100], file[LOGSET_FILE], prev[HASH_TEXT] = "";
	start_anew();
	struct audit *a = opened_with(&small);
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
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(logset_read(fd, &set), 0);
	close(fd);
	assert_int_equal(set.n, 3);
	json_int_t seq = 0;
	size_t n = 0;
	for (size_t i = 0; i < set.n; i++) {
		logset_name(set.numbers[i], file);
		(void)snprintf(name, sizeof(name), "%s/%s", dir, file);
		n += check_chain(name, &seq, prev);
		assert_int_equal(seq, set.numbers[i]);
	}
	n += check_chain(path, &seq, prev);
	assert_int_equal(lines_with("audit.drop"), 1);
	logset_done(&set);

	/* what stands in a former file is on record, too */
	a = opened_with(&small);
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
	start_anew();
	struct audit *a = opened(), *other = NULL;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct err err = {0};
		int r = audit_open(path, key, NULL, &other, &err);
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
	struct audit *a = opened();
	write_some(a, 1);
	audit_close(a);
	assert_int_equal(lines_with("audit.gap"), 1);
	FILE *f = fopen(path, "re");
	json_t *o = read_line(f);
	fclose(f);
	assert_string_equal(json_string_value(json_object_get(o, "event")), "audit.gap");
	assert_non_null(strstr(json_string_value(json_object_get(o, "detail")), what));
	json_decref(o);
	assert_int_equal(check_log(), 2);
}

static void append(const char *text)
{
	FILE *f = fopen(path, "ae");
	assert_true(fputs(text, f) >= 0);
	fclose(f);
}

static void what_others_did_is_recorded(void **state)
{
	(void)state;
	char head[64];
	(void)snprintf(head, sizeof(head), "%s/audit.head", dir);
	start_anew();
	struct audit *first = opened();
	write_some(first, 3);
	audit_close(first);
	append("{\"a\":1}\n");
	assert_gap("knows nothing of");
	assert_int_equal(truncate(path, size_of_log() - 10), 0);
	assert_gap("shorter");
	assert_int_equal(unlink(path), 0);
	assert_gap("not there");
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "X", 1, size_of_log() - 20), 1);
	close(fd);
	assert_gap("not the one that its head names");
	assert_int_equal(unlink(head), 0);
	assert_gap("head is not there");
	assert_int_equal(unlink(key), 0);
	assert_gap("not written with this key");

	/* under a broker that runs, too */
	struct audit *a = opened();
	write_some(a, 2);
	assert_int_equal(lines_with("audit.gap"), 1);
	append("{\"a\":1}\n");
	(void)usleep(20 * 1000);
	write_some(a, 2);
	assert_int_equal(check_log(), 3);
	assert_int_equal(unlink(path), 0);
	(void)usleep(20 * 1000);
	write_some(a, 2);
	assert_int_equal(check_log(), 3);
	assert_int_equal(lines_with("audit.gap"), 1);
	audit_close(a);
}

static void durable_as_asked(void **state)
{
	(void)state;
	struct err err = {0};
	for (int i = 0; i < 3; i++) {
		const struct audit_config c = {(enum audit_fsync)i, 10, 8 * KIB, 10};
		start_anew();
		struct audit *a = opened_with(&c);
		write_some(a, 100);
		(void)usleep(30 * 1000);
		write_some(a, 10);
		assert_int_equal(audit_configure(a, &AUDIT_CONFIG_DEFAULT, &err), 0);
		write_some(a, 10);
		audit_close(a);
		(void)check_log();
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
	start_anew();
	struct audit *a = opened();
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
	json_t *o = last_line();
	assert_string_equal(json_string_value(json_object_get(o, "path")), "a/**************/b");
	assert_null(strstr(json_string_value(json_object_get(o, "detail")), "hunter"));
	assert_int_equal(json_string_length(json_object_get(o, "detail")), 4096);
	json_decref(o);
	(void)check_log();
	redactor_unref(r);
	secret_value_unref(v);
}

static void no_file_no_log(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	start_anew();
	assert_true(audit_open("/nonexistent/audit.jsonl", key, NULL, &a, &err) < 0);
	assert_int_equal(err.code, ERR_AUDIT_UNAVAILABLE);
	/* never through a link, never into a device */
	assert_int_equal(symlink("elsewhere", path), 0);
	assert_true(audit_open(path, key, NULL, &a, &err) < 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_true(audit_open(path, key, NULL, &a, &err) < 0);
	assert_int_equal(unlink(path), 0);
	/* nor with a key that others can read */
	audit_close(opened());
	assert_int_equal(chmod(key, 0640), 0);
	assert_true(audit_open(path, key, NULL, &a, &err) < 0);
	assert_int_equal(err.code, ERR_AUDIT_UNAVAILABLE);
	assert_null(a);
	start_anew();
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
	start_anew();
	a = opened();
	assert_int_equal(audit_event(a, &e, &err), 0);
	x.job = "j-1";
	assert_int_equal(audit_event(a, &x, &err), 0);
	x.job = "j-2";
	x.delivery = "d1"; /* a job's, whatever request began it */
	assert_int_equal(audit_event(a, &x, &err), 0);
	audit_close(a);

	a = opened();
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
	a = opened();
	assert_int_equal(audit_event(a, &odd, &err), 0);
	assert_int_equal(audit_event(a, &x, &err), 0);
	audit_each_open_job(a, on_open_job, text);
	assert_string_equal(text, "j-2/s-1/run_code ");
	audit_close(a);
}

/* Only the end of a long log is read: what stands there is found, and nothing is cut in two. */
static void a_long_log_is_read_from_its_end(void **state)
{
	(void)state;
	struct err err = {0};
	static char detail[3001];
	char delivery[20];
	unsigned n = 0;
	start_anew();
	const struct audit_config config = {.max_bytes = 3 * MIB, .keep = 10};
	struct audit *a = opened_with(&config);
	(void)memset(detail, 'x', sizeof(detail) - 1);
	struct audit_event e = {.event = "tool.call", .delivery = delivery};
	for (uint64_t size = 0; size < LIMIT_AUDIT_TAIL + MIB; n++) {
		(void)snprintf(delivery, sizeof(delivery), "d%u", n);
		e.detail = detail + sizeof(detail) - 1 - n * 7919 % 3000;
		size += 200 + strlen(e.detail);
		assert_int_equal(audit_event(a, &e, &err), 0);
	}
	audit_close(a);
	a = opened_with(&config);
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
		cmocka_unit_test(two_lines_in_one_write),
		cmocka_unit_test(all_of_a_write_or_nothing),
		cmocka_unit_test(on_a_full_disk_what_began_ends),
		cmocka_unit_test(killed_before_the_line),
		cmocka_unit_test(killed_within_the_line),
		cmocka_unit_test(killed_after_the_line),
		cmocka_unit_test(killed_at_any_time),
		cmocka_unit_test(files_follow_one_another),
		cmocka_unit_test(one_writer),
		cmocka_unit_test(what_others_did_is_recorded),
		cmocka_unit_test(durable_as_asked),
		cmocka_unit_test(secrets_are_masked),
		cmocka_unit_test(no_file_no_log),
		cmocka_unit_test(what_is_on_record_is_not_written_again),
		cmocka_unit_test(jobs_without_an_end_are_named),
		cmocka_unit_test(a_long_log_is_read_from_its_end),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
