/* The folder of presented files: whose it may be, and its quota among several brokers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "files/meta.h"
#include "files/shelf.h"

#define PRINCIPAL "uid:1000"

static char top[64], dir[80];

static int make(void **state)
{
	(void)state;
	(void)snprintf(top, sizeof(top), "/tmp/scb-shelf-XXXXXX");
	assert_non_null(mkdtemp(top));
	(void)snprintf(dir, sizeof(dir), "%s/out", top);
	return 0;
}

static int unlink_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int clean(void **state)
{
	(void)state;
	return nftw(top, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct output output_new(const char *name)
{
	struct output o = {.mime_type = "text/plain"};
	id_new('o', o.id);
	o.name = xstrdup(name);
	o.uri = meta_uri(o.id, name);
	o.source_path = xstrdup(name);
	o.session = xstrdup("s-0");
	o.created_us = clock_realtime_us();
	memset(o.sha256, '0', sizeof(o.sha256) - 1);
	return o;
}

/* A file with size bytes (a hole) on its way in. */
static int begin(const struct shelf *s, struct output *o, uint64_t size, struct shelf_draft *d,
	struct err *err)
{
	uint64_t used;
	*d = SHELF_DRAFT_INIT;
	int r = shelf_begin(s, PRINCIPAL, o, d, &used, err);
	if (r < 0)
		return r;
	o->size = size;
	assert_int_equal(ftruncate(d->file, (off_t)size), 0);
	return 0;
}

static int publish(const struct shelf *s, struct output *o, struct shelf_draft *d, struct err *err)
{
	int r = shelf_publish(s, PRINCIPAL, d, o, err);
	if (r < 0)
		shelf_discard(d);
	shelf_draft_done(d);
	return r;
}

static int put(const struct shelf *s, struct err *err)
{
	struct shelf_draft d;
	struct output o = output_new("a.txt");
	int r = begin(s, &o, 10, &d, err);
	if (r < 0)
		shelf_draft_done(&d);
	else
		r = publish(s, &o, &d, err);
	output_done(&o);
	return r;
}

static void refused(int r, const struct err *err, const char *word)
{
	assert_true(r < 0);
	if (!strstr(err->text, word))
		fail_msg("%s", err->text);
}

static void needs_root(void)
{
	if (geteuid() == 0)
		return;
	print_message("# skip: needs root\n");
	skip();
}

/* The one directory below dir. */
static char *principal_dir(void)
{
	DIR *d = opendir(dir);
	char *found = NULL;
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] != '.')
			found = xasprintf("%s/%s", dir, e->d_name);
	}
	(void)closedir(d);
	assert_non_null(found);
	return found;
}

static unsigned mode_of(const char *path)
{
	struct stat st;
	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

static void made_private(void **state)
{
	(void)state;
	struct shelf s;
	struct err err = {0};
	mode_t before = umask(0);
	assert_int_equal(shelf_open(dir, &s, &err), 0);
	assert_int_equal(put(&s, &err), 0);
	(void)umask(before);
	_cleanup_free_ char *principal = principal_dir();
	assert_int_equal(mode_of(dir), 0700);
	assert_int_equal(mode_of(principal), 0700);
	shelf_close(&s);
}

static void writable_by_others(void **state)
{
	(void)state;
	static const mode_t modes[] = {0777, 01777, 0770, 0702};
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		struct shelf s;
		struct err err = {0};
		(void)mkdir(dir, 0700);
		assert_int_equal(chmod(dir, modes[i]), 0);
		refused(shelf_open(dir, &s, &err), &err, "chmod go-w");
	}
	struct shelf s;
	struct err err = {0};
	assert_int_equal(chmod(dir, 0755), 0); /* others may look, where the person says so */
	assert_int_equal(shelf_open(dir, &s, &err), 0);
	shelf_close(&s);
}

static void owned_by_another(void **state)
{
	(void)state;
	struct shelf s;
	struct err err = {0};
	needs_root();
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(chown(dir, 12345, 12345), 0);
	refused(shelf_open(dir, &s, &err), &err, "belongs to another user (uid 12345)");
	assert_non_null(strstr(err.text, "--outputs"));
}

static int count_one(void *user, const struct output *o)
{
	(void)o;
	++*(int *)user;
	return 0;
}

/* Where the principal's directory is somebody else's, a link, or open to all: nothing is put there,
 * nothing is listed from there, nothing is taken away. */
static void principal_of_another(void **state)
{
	(void)state;
	struct shelf s;
	struct err err = {0};
	int n = 0;
	assert_int_equal(shelf_open(dir, &s, &err), 0);
	assert_int_equal(put(&s, &err), 0);
	assert_int_equal(shelf_list(&s, PRINCIPAL, count_one, &n, &err), 0);
	assert_int_equal(n, 1);
	_cleanup_free_ char *principal = principal_dir(), *aside = xasprintf("%s/aside", top);

	assert_int_equal(chmod(principal, 0777), 0);
	refused(put(&s, &err), &err, "chmod go-w");
	refused(shelf_list(&s, PRINCIPAL, count_one, &n, &err), &err, "chmod go-w");
	assert_int_equal(shelf_expire(&s, 0), 0);
	assert_int_equal(chmod(principal, 0700), 0);

	if (geteuid() == 0) {
		assert_int_equal(chown(principal, 12345, 12345), 0);
		refused(put(&s, &err), &err, "belongs to another user");
		assert_int_equal(chown(principal, 0, 0), 0);
	}
	assert_int_equal(rename(principal, aside), 0);
	assert_int_equal(symlink(aside, principal), 0);
	refused(put(&s, &err), &err, "a link");
	assert_true(shelf_list(&s, PRINCIPAL, count_one, &n, &err) < 0);
	assert_int_equal(n, 1);
	shelf_close(&s);
}

/* Two shelves stand for two brokers: each saw an empty folder before the other put its file. */
static void quota_of_two(void **state)
{
	(void)state;
	struct shelf s[2];
	struct shelf_draft d[2];
	struct output o[2];
	struct err err = {0};
	for (int i = 0; i < 2; i++) {
		o[i] = output_new("half.bin");
		assert_int_equal(shelf_open(dir, &s[i], &err), 0);
		assert_int_equal(begin(&s[i], &o[i], LIMIT_OUTPUTS_BYTES / 8 * 5, &d[i], &err), 0);
	}
	assert_int_equal(publish(&s[0], &o[0], &d[0], &err), 0);
	refused(publish(&s[1], &o[1], &d[1], &err), &err, "older ones go after 7 days");
	assert_int_equal(err.code, ERR_LIMIT_REACHED);
	int n = 0;
	assert_int_equal(shelf_list(&s[1], PRINCIPAL, count_one, &n, &err), 0);
	assert_int_equal(n, 1);
	for (int i = 0; i < 2; i++) {
		output_done(&o[i]);
		shelf_close(&s[i]);
	}
}

/* Counting and renaming are one step to other processes: who comes second waits. */
static void one_after_the_other(void **state)
{
	(void)state;
	struct shelf s;
	struct shelf_draft d;
	struct err err = {0};
	struct output o = output_new("a.txt");
	int ready[2];
	char c;
	assert_int_equal(shelf_open(dir, &s, &err), 0);
	assert_int_equal(begin(&s, &o, 10, &d, &err), 0);
	_cleanup_free_ char *principal = principal_dir();
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int fd = open(principal, O_RDONLY | O_DIRECTORY);
		bool held = fd >= 0 && flock(fd, LOCK_EX) == 0 && write(ready[1], "x", 1) == 1;
		(void)usleep(300000);
		_exit(held ? 0 : 1);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	uint64_t before = clock_monotonic_us();
	assert_int_equal(publish(&s, &o, &d, &err), 0);
	assert_true(clock_monotonic_us() - before > 200 * USEC_PER_MSEC);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(ready[0]);
	(void)close(ready[1]);
	output_done(&o);
	shelf_close(&s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, make, clean)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(made_private),
		TEST(writable_by_others),
		TEST(owned_by_another),
		TEST(principal_of_another),
		TEST(quota_of_two),
		TEST(one_after_the_other),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
