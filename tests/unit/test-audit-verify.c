/* test-audit-verify.c: what is done to a log is found, and said of the right line; what is not an
 * attack is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/verify.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "provider/record.h"

/* A log of four files as it was written, kept; and the copy that is attacked. */
static char top[] = "/tmp/test-verify-XXXXXX";
static char good[64], bad[64], key[64];
static struct logset set; /* of good */
static struct verify_result result;

static const struct audit_config small = {.max_bytes = 4 * KIB, .keep = 3};

static void path_in(char ret[static 128], const char *dir, const char *name)
{
	(void)snprintf(ret, 128, "%.60s/%.60s", dir, name);
}

static char *slurp(const char *path, size_t *ret_n)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	char *p = xcalloc((size_t)st.st_size + 1, 1);
	assert_int_equal(fd_read_full(fd, p, (size_t)st.st_size), 0);
	close(fd);
	*ret_n = (size_t)st.st_size;
	return p;
}

static void spit(const char *path, const void *p, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_full(fd, p, n), 0);
	close(fd);
}

static void copy_dir(const char *from, const char *to)
{
	DIR *d = opendir(from);
	assert_non_null(d);
	(void)record_remove_tree(to);
	assert_int_equal(mkdir(to, 0700), 0);
	for (struct dirent *e; (e = readdir(d));) {
		char a[128], b[128];
		if (e->d_name[0] == '.')
			continue;
		path_in(a, from, e->d_name);
		path_in(b, to, e->d_name);
		size_t n;
		char *p = slurp(a, &n);
		spit(b, p, n);
		free(p);
	}
	(void)closedir(d);
}

static struct audit *opened(const char *dir)
{
	struct audit *a = NULL;
	struct err err = {0};
	char path[128];
	path_in(path, dir, LOGSET_NAME);
	if (audit_open(path, key, &small, &a, &err) < 0)
		fail_msg("%s", err.text);
	return a;
}

static void write_some(struct audit *a, int n)
{
	struct err err = {0};
	for (int i = 0; i < n; i++) {
		char job[20];
		(void)snprintf(job, sizeof(job), "j-%d", i);
		assert_int_equal(
			audit_event(a,
				&(struct audit_event){.event = i % 2 ? "exec.end" : "exec.start",
					.tool = "run_code",
					.job = job,
					.detail = "\"quoted\\ \x01"},
				&err),
			0);
	}
}

static int setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(top));
	(void)snprintf(good, sizeof(good), "%s/good", top);
	(void)snprintf(bad, sizeof(bad), "%s/bad", top);
	(void)snprintf(key, sizeof(key), "%s/key", top);
	assert_int_equal(mkdir(good, 0700), 0);
	struct audit *a = opened(good);
	write_some(a, 100);
	audit_close(a);
	int fd = open(good, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(logset_read(fd, &set), 0);
	close(fd);
	assert_int_equal(set.n, 3);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	logset_done(&set);
	return record_remove_tree(top);
}

static const char *name_of(size_t file)
{
	static char name[LOGSET_FILE];
	(void)snprintf(name, sizeof(name), "%s", LOGSET_NAME);
	if (file < set.n)
		logset_name(set.numbers[file], name);
	return name;
}

static void bad_path(size_t file, char ret[static 128])
{
	path_in(ret, bad, name_of(file));
}

static void verify(const struct verify_request *more)
{
	struct err err = {0};
	char path[128];
	path_in(path, bad, LOGSET_NAME);
	struct verify_request q = more ? *more : (struct verify_request){0};
	q.path = path;
	q.key = key;
	if (verify_log(&q, &result, &err) < 0)
		fail_msg("%s", err.text);
}

static const struct check_finding *first_wrong(void)
{
	for (unsigned i = 0; i < result.check.n_findings; i++)
		if (!result.check.findings[i].note)
			return &result.check.findings[i];
	return NULL;
}

static void assert_good(void)
{
	verify(NULL);
	const struct check_finding *f = first_wrong();
	if (f)
		fail_msg("%s:%llu: %s", f->at.file, (unsigned long long)f->at.line, f->text);
}

/* The first finding is of this line of this file, and says so. */
static void assert_found(const char *file, uint64_t line, const char *text)
{
	verify(NULL);
	const struct check_finding *f = first_wrong();
	assert_non_null(f);
	if (!strstr(f->text, text) || f->at.line != line || strcmp(f->at.file, file) != 0)
		fail_msg("%s:%llu: %s (not: %s:%llu: %s)", f->at.file,
			(unsigned long long)f->at.line, f->text, file, (unsigned long long)line,
			text);
}

/* ---- lines of a file ---- */

struct text {
	char *p;
	size_t n;
	char *lines[100];
	size_t n_lines;
};

static struct text load(size_t file)
{
	char path[128];
	struct text t = {0};
	bad_path(file, path);
	t.p = slurp(path, &t.n);
	for (char *p = t.p; *p; t.n_lines++) {
		t.lines[t.n_lines] = p;
		p = strchr(p, '\n');
		*p++ = '\0';
	}
	return t;
}

static void store(size_t file, struct text *t)
{
	char path[128];
	bad_path(file, path);
	FILE *f = fopen(path, "we");
	for (size_t i = 0; i < t->n_lines; i++)
		(void)fprintf(f, "%s\n", t->lines[i]);
	fclose(f);
	free(t->p);
}

/* `prev` of the second line is made to fit the first. */
static char *chained(const char *before, const char *line)
{
	uint8_t hash[HASH_SIZE];
	char hex[HASH_TEXT];
	char *copy = xstrdup(line), *prev = strstr(copy, "\"prev\":\"");
	hash_bytes(before, strlen(before), hash);
	id_hex(hash, HASH_SIZE, hex);
	memcpy(prev + 8, hex, HASH_TEXT - 1);
	return copy;
}

/* ---- what is found ---- */

static void as_it_was_written(void **state)
{
	(void)state;
	copy_dir(good, bad);
	assert_good();
	assert_true(result.vouched);
	assert_false(result.being_written);
	assert_int_equal(result.files, 4);
	assert_true(result.check.first_seq > 1); /* files were dropped, and that is on record */
}

static void every_byte_counts(void **state)
{
	(void)state;
	for (size_t file = 0; file <= set.n; file++) {
		char path[128];
		copy_dir(good, bad);
		bad_path(file, path);
		size_t n;
		char *p = slurp(path, &n);
		uint64_t line = 1;
		for (size_t i = 0; i < n; line += p[i] == '\n', i++) {
			static const char changes[] = {1, 2, 0x10, 0x20, 0x40};
			if (i % 3 && p[i] != '\n')
				continue;
			char was = p[i];
			p[i] = (char)(was ^ changes[i / 3 % sizeof(changes)]);
			spit(path, p, n);
			p[i] = was;
			verify(NULL);
			const struct check_finding *f = first_wrong();
			if (!f)
				fail_msg("byte %zu of %s", i, name_of(file));
			if (f->at.line != line || strcmp(f->at.file, name_of(file)) != 0)
				fail_msg("byte %zu of %s, line %llu: said of %s:%llu: %s", i,
					name_of(file), (unsigned long long)line, f->at.file,
					(unsigned long long)f->at.line, f->text);
		}
		free(p);
	}
}

static void a_line_is_changed(void **state)
{
	(void)state;
	copy_dir(good, bad);
	struct text t = load(1);
	memcpy(strstr(t.lines[4], "run_code"), "fun_code", 8);
	store(1, &t);
	assert_found(name_of(1), 5, "this line was changed");
}

static void the_last_line_is_changed(void **state)
{
	(void)state;
	copy_dir(good, bad);
	struct text t = load(3);
	uint64_t last = t.n_lines;
	memcpy(strstr(t.lines[last - 1], "run_code"), "fun_code", 8);
	store(3, &t);
	assert_found(LOGSET_NAME, last, "not the line that the head vouches for");
}

static void a_line_is_taken_out(void **state)
{
	(void)state;
	copy_dir(good, bad);
	struct text t = load(2);
	t.n_lines--;
	memmove(&t.lines[3], &t.lines[4], (t.n_lines - 3) * sizeof(t.lines[0]));
	store(2, &t);
	assert_found(name_of(2), 4, "are missing before this one");
}

static void a_line_is_put_in(void **state)
{
	(void)state;
	copy_dir(good, bad);
	struct text t = load(2);
	memmove(&t.lines[4], &t.lines[3], (t.n_lines - 3) * sizeof(t.lines[0]));
	t.n_lines++;
	t.lines[3] = t.lines[2];
	store(2, &t);
	assert_found(name_of(2), 4, "inserted, repeated or out of order");

	copy_dir(good, bad);
	t = load(2);
	memmove(&t.lines[4], &t.lines[3], (t.n_lines - 3) * sizeof(t.lines[0]));
	t.n_lines++;
	t.lines[3] = "{\"event\":\"exec.start\"}";
	store(2, &t);
	assert_found(name_of(2), 4, "no line of an audit log");
}

static void lines_change_places(void **state)
{
	(void)state;
	copy_dir(good, bad);
	struct text t = load(0);
	char *line = t.lines[5];
	t.lines[5] = t.lines[6];
	t.lines[6] = line;
	store(0, &t);
	assert_found(name_of(0), 6, "are missing before this one");
}

static void the_end_is_cut_off(void **state)
{
	(void)state;
	char path[128];
	copy_dir(good, bad);
	struct text t = load(3);
	t.n_lines -= 2;
	uint64_t last = t.n_lines;
	store(3, &t);
	assert_found(LOGSET_NAME, last, "lines were cut off");

	copy_dir(good, bad);
	bad_path(3, path);
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - 5), 0);
	verify(NULL);
	assert_non_null(first_wrong());
	assert_true(
		result.check.n_wrong == 2); /* the line that is missing, and what is left of it */

	copy_dir(good, bad);
	assert_int_equal(unlink(path), 0);
	verify(NULL);
	assert_non_null(first_wrong());
}

static void everything_is_written_anew(void **state)
{
	(void)state;
	copy_dir(good, bad);
	const char *before = NULL;
	char *kept[200];
	size_t n = 0;
	for (size_t file = 1; file <= set.n; file++) {
		struct text t = load(file);
		for (size_t i = 0; i < t.n_lines; i++) {
			if (file == 1 && i == 3)
				memcpy(strstr(t.lines[i], "run_code"), "fun_code", 8);
			if (before) {
				kept[n] = chained(before, t.lines[i]);
				t.lines[i] = kept[n++];
				before = t.lines[i];
			} else if (file == 1 && i == 3) {
				before = kept[n++] = xstrdup(t.lines[i]);
			}
		}
		store(file, &t);
	}
	for (size_t i = 0; i < n; i++)
		free(kept[i]);
	struct text t = load(3);
	uint64_t last = t.n_lines;
	free(t.p);
	assert_found(LOGSET_NAME, last, "all lines up to it were written anew");
}

static void a_file_is_deleted(void **state)
{
	(void)state;
	char path[128], name[LOGSET_FILE];
	copy_dir(good, bad);
	bad_path(1, path);
	assert_int_equal(unlink(path), 0);
	assert_found(name_of(2), 1, "with the file audit-");

	/* the oldest: what the broker deletes is on record, and this is not */
	copy_dir(good, bad);
	bad_path(0, path);
	assert_int_equal(unlink(path), 0);
	(void)snprintf(name, sizeof(name), "%s", name_of(1));
	assert_found(name, 1, "no line says that a broker deleted them");
}

static void an_older_copy_is_put_back(void **state)
{
	(void)state;
	char log[128], head[128];
	size_t n_log, n_head;
	copy_dir(good, bad);
	bad_path(3, log);
	path_in(head, bad, "audit.head");
	char *old_log = slurp(log, &n_log), *old_head = slurp(head, &n_head);
	struct verify_request anchor = {.anchored = true};
	verify(NULL);
	struct text t = load(3);
	uint64_t old_last = t.n_lines;
	free(t.p);
	struct audit *a = opened(bad);
	write_some(a, 2);
	audit_close(a);
	assert_good();
	anchor.anchor_seq = result.check.seq;
	memcpy(anchor.anchor_hash, result.check.hash, HASH_SIZE);
	size_t n_new;
	char *new_log = slurp(log, &n_new);

	/* the log alone */
	spit(log, old_log, n_log);
	assert_found(LOGSET_NAME, old_last, "older copy was put in its place");
	/* the head alone */
	spit(log, new_log, n_new);
	spit(head, old_head, n_head);
	assert_found(LOGSET_NAME, old_last + 2, "older head was put in its place");
	/* both: only somebody who kept a line can tell */
	spit(log, old_log, n_log);
	assert_good();
	verify(&anchor);
	assert_non_null(first_wrong());
	assert_non_null(strstr(first_wrong()->text, "the anchor's line"));

	/* and then other lines are written */
	a = opened(bad);
	write_some(a, 1);
	write_some(a, 2);
	audit_close(a);
	assert_good();
	verify(&anchor);
	assert_non_null(first_wrong());
	assert_non_null(strstr(first_wrong()->text, "not the line of the anchor"));
	/* a line that stands is found; one of a file that was dropped is no fault */
	anchor.anchor_seq = result.check.seq;
	memcpy(anchor.anchor_hash, result.check.hash, HASH_SIZE);
	verify(&anchor);
	assert_null(first_wrong());
	anchor.anchor_seq = 1;
	verify(&anchor);
	assert_null(first_wrong());
	free(old_log);
	free(old_head);
	free(new_log);
}

static void the_head_is_tampered_with(void **state)
{
	(void)state;
	char head[128];
	size_t n;
	path_in(head, bad, "audit.head");
	copy_dir(good, bad);
	assert_int_equal(unlink(head), 0);
	assert_found("", 0, "audit.head is not there");
	copy_dir(good, bad);
	char *p = slurp(head, &n);
	/* whatever of its bytes: a commit that is spoilt takes nobody's last line away */
	for (size_t at = 4096; at < 4096 + 224; at += 5) {
		p[at] ^= 1;
		spit(head, p, n);
		p[at] ^= 1;
		copy_dir(good, bad);
		spit(head, p, n);
		p[at] ^= 1;
		spit(head, p, n);
		p[at] ^= 1;
		assert_good();
		struct text t = load(3);
		t.n_lines--;
		store(3, &t);
		verify(NULL);
		assert_non_null(first_wrong());
	}
	/* both slots */
	copy_dir(good, bad);
	p[100] ^= 1;
	p[4096 + 100] ^= 1;
	spit(head, p, n);
	assert_found("", 0, "was not written with this key");
	free(p);
}

static void what_a_broker_found_stays_found(void **state)
{
	(void)state;
	copy_dir(good, bad);
	struct text t = load(3);
	uint64_t last = t.n_lines;
	memcpy(strstr(t.lines[last - 1], "run_code"), "fun_code", 8);
	store(3, &t);
	struct audit *a = opened(bad);
	write_some(a, 3);
	audit_close(a);
	verify(NULL);
	assert_non_null(first_wrong());
	assert_int_equal(first_wrong()->at.line, last);
	bool gap = false;
	for (unsigned i = 0; i < result.check.n_findings; i++)
		gap = gap || strstr(result.check.findings[i].text, "a broker found here");
	assert_true(gap);
}

/* ---- what is none ---- */

static void while_a_broker_writes(void **state)
{
	(void)state;
	copy_dir(good, bad);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct audit *a = opened(bad);
		for (;;) {
			write_some(a, 1);
			(void)usleep(500);
		}
	}
	uint64_t seq = 0;
	time_t end = time(NULL) + 30; /* until it has begun to, on a busy machine */
	for (int i = 0; i < 200 || (!result.being_written && time(NULL) < end); i++) {
		assert_good();
		assert_true(result.check.seq >= seq);
		seq = result.check.seq;
	}
	assert_true(result.being_written);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_good();
	audit_close(opened(bad));
	assert_good();
}

static void some_files_alone(void **state)
{
	(void)state;
	char one[128], two[128];
	struct err err = {0};
	copy_dir(good, bad);
	bad_path(0, one);
	bad_path(1, two);
	const char *const files[] = {one, two}, *const turned[] = {two, one};
	struct verify_request q = {.files = files, .n_files = 2};
	assert_int_equal(verify_log(&q, &result, &err), 0);
	assert_null(first_wrong());
	q.files = turned;
	assert_int_equal(verify_log(&q, &result, &err), 0);
	assert_non_null(first_wrong());
	q.n_files = 0;
	q.path = "/nonexistent/audit.jsonl";
	assert_true(verify_log(&q, &result, &err) < 0);
	assert_int_equal(err.code, ERR_NO_SUCH_FILE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_it_was_written),
		cmocka_unit_test(a_line_is_changed),
		cmocka_unit_test(the_last_line_is_changed),
		cmocka_unit_test(a_line_is_taken_out),
		cmocka_unit_test(a_line_is_put_in),
		cmocka_unit_test(lines_change_places),
		cmocka_unit_test(the_end_is_cut_off),
		cmocka_unit_test(everything_is_written_anew),
		cmocka_unit_test(a_file_is_deleted),
		cmocka_unit_test(an_older_copy_is_put_back),
		cmocka_unit_test(the_head_is_tampered_with),
		cmocka_unit_test(what_a_broker_found_stays_found),
		cmocka_unit_test(while_a_broker_writes),
		cmocka_unit_test(some_files_alone),
		cmocka_unit_test(every_byte_counts),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
