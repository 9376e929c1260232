/* One contract for every back-end of the store, and what the one on disk promises beyond it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "store/store.h"

struct fixture {
	struct store *store;
	bool on_disk;
	char dir[32], records[48];
};

static int setup(void **state, bool on_disk)
{
	struct fixture *fx = xcalloc(1, sizeof(*fx));
	fx->on_disk = on_disk;
	(void)snprintf(fx->dir, sizeof(fx->dir), "/tmp/scb-test-XXXXXX");
	assert_non_null(mkdtemp(fx->dir));
	(void)snprintf(fx->records, sizeof(fx->records), "%s/state", fx->dir);
	struct err e;
	if (on_disk)
		assert_int_equal(store_file_open(fx->records, &fx->store, &e), 0);
	else
		assert_int_equal(store_memory_open(&fx->store), 0);
	*state = fx;
	return 0;
}

static int setup_memory(void **state)
{
	return setup(state, false);
}

static int setup_file(void **state)
{
	return setup(state, true);
}

static void empty_dir(const char *path)
{
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		(void)unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		(void)closedir(d);
	(void)rmdir(path);
}

static int teardown(void **state)
{
	struct fixture *fx = *state;
	fx->store->ops->close(fx->store);
	empty_dir(fx->records);
	assert_int_equal(rmdir(fx->dir), 0);
	free(fx);
	return 0;
}

static void put(struct fixture *fx, const char *key, const char *value)
{
	struct err e;
	assert_int_equal(fx->store->ops->put(fx->store, key, value, strlen(value), &e), 0);
}

static void assert_value(struct fixture *fx, const char *key, const char *value)
{
	struct err e;
	_cleanup_buf_ struct buf b = BUF_INIT(STORE_VALUE_MAX);
	int r = fx->store->ops->get(fx->store, key, &b, &e);
	if (!value) {
		assert_int_equal(r, -ENOENT);
		return;
	}
	assert_int_equal(r, 0);
	assert_int_equal(b.len, strlen(value));
	assert_memory_equal(b.data, value, b.len);
}

static void reopen(struct fixture *fx)
{
	struct err e;
	if (!fx->on_disk)
		return;
	fx->store->ops->close(fx->store);
	assert_int_equal(store_file_open(fx->records, &fx->store, &e), 0);
}

static void put_get_remove(void **state)
{
	struct fixture *fx = *state;
	struct err e;
	assert_value(fx, "session/s-1", NULL);
	put(fx, "session/s-1", "first");
	put(fx, "session/s-2", "other");
	assert_value(fx, "session/s-1", "first");
	put(fx, "session/s-1", "a longer second");
	put(fx, "session/s-1", "3rd");
	reopen(fx);
	assert_value(fx, "session/s-1", "3rd");
	assert_value(fx, "session/s-2", "other");
	assert_value(fx, "key/s-1", NULL);
	assert_int_equal(fx->store->ops->remove(fx->store, "session/s-1", &e), 0);
	assert_int_equal(fx->store->ops->remove(fx->store, "session/s-1", &e), 0);
	assert_value(fx, "session/s-1", NULL);
	assert_value(fx, "session/s-2", "other");
	put(fx, "session/empty", "");
	assert_value(fx, "session/empty", "");
}

static void get_appends_and_keeps_the_maximum(void **state)
{
	struct fixture *fx = *state;
	struct err e;
	_cleanup_buf_ struct buf b = BUF_INIT(8);
	put(fx, "a/b", "12345");
	assert_int_equal(buf_append_str(&b, "x:"), 0);
	assert_int_equal(fx->store->ops->get(fx->store, "a/b", &b, &e), 0);
	assert_memory_equal(b.data, "x:12345", 7);
	assert_int_equal(fx->store->ops->get(fx->store, "a/b", &b, &e), -ENOBUFS);
	assert_int_equal(b.len, 7);
}

static void bytes_are_kept_exactly(void **state)
{
	struct fixture *fx = *state;
	struct err e;
	static uint8_t all[STORE_VALUE_MAX];
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)(i * 7 + (i >> 8));
	_cleanup_buf_ struct buf b = BUF_INIT(STORE_VALUE_MAX);
	assert_int_equal(fx->store->ops->put(fx->store, "a/b", all, sizeof(all), &e), 0);
	assert_int_equal(fx->store->ops->get(fx->store, "a/b", &b, &e), 0);
	assert_int_equal(b.len, sizeof(all));
	assert_memory_equal(b.data, all, sizeof(all));
}

static void odd_keys_are_refused(void **state)
{
	struct fixture *fx = *state;
	char too_long[STORE_KEY_MAX + 2], longest[STORE_KEY_MAX + 1];
	memset(too_long, 'a', sizeof(too_long));
	too_long[1] = '/';
	too_long[sizeof(too_long) - 1] = '\0';
	memcpy(longest, too_long, sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	const char *const rows[] = {"", "a", "/a", "a/", "a//b", "a/b/c", "a/..", "../a", "a/B",
		"a/.b", "a/b.c", "a/b c", "a/\xC3\xA9", "a/b\n", too_long};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err e = {0};
		_cleanup_buf_ struct buf b = BUF_INIT(KIB);
		assert_false(store_key_valid(rows[i]));
		assert_int_equal(fx->store->ops->put(fx->store, rows[i], "x", 1, &e), -EINVAL);
		assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
		assert_int_equal(fx->store->ops->get(fx->store, rows[i], &b, &e), -EINVAL);
		assert_int_equal(fx->store->ops->remove(fx->store, rows[i], &e), -EINVAL);
	}
	put(fx, longest, "fits");
	assert_value(fx, longest, "fits");
}

static void oversize_is_refused(void **state)
{
	struct fixture *fx = *state;
	struct err e;
	static char large[STORE_VALUE_MAX + 1];
	put(fx, "a/b", "old");
	assert_int_equal(
		fx->store->ops->put(fx->store, "a/b", large, sizeof(large), &e), -EMSGSIZE);
	assert_value(fx, "a/b", "old");
}

struct walk {
	struct fixture *fx;
	char seen[200];
	int stop_after, n;
	bool change;
};

static int on_key(void *user, const char *key)
{
	struct walk *w = user;
	struct err e;
	size_t used = strlen(w->seen);
	(void)snprintf(w->seen + used, sizeof(w->seen) - used, "%s ", key);
	if (w->change) {
		assert_int_equal(w->fx->store->ops->remove(w->fx->store, key, &e), 0);
		put(w->fx, "other/new", "x");
	}
	return ++w->n == w->stop_after ? 42 : 0;
}

static void each_goes_in_order(void **state)
{
	struct fixture *fx = *state;
	struct err e;
	const char *const keys[] = {
		"session/c", "session/a", "key/a", "session/b-2", "session/b", "sessions/z"};
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		put(fx, keys[i], "x");
	reopen(fx);
	struct walk w = {.fx = fx};
	assert_int_equal(fx->store->ops->each(fx->store, "session/", on_key, &w, &e), 0);
	assert_string_equal(w.seen, "session/a session/b session/b-2 session/c ");
	struct walk all = {.fx = fx};
	assert_int_equal(fx->store->ops->each(fx->store, "", on_key, &all, &e), 0);
	assert_string_equal(
		all.seen, "key/a session/a session/b session/b-2 session/c sessions/z ");
	struct walk cut = {.fx = fx, .stop_after = 2};
	assert_int_equal(fx->store->ops->each(fx->store, "session/", on_key, &cut, &e), 42);
	assert_string_equal(cut.seen, "session/a session/b ");
	struct walk change = {.fx = fx, .change = true};
	assert_int_equal(fx->store->ops->each(fx->store, "session/", on_key, &change, &e), 0);
	assert_int_equal(change.n, 4);
	assert_value(fx, "session/c", NULL);
	assert_value(fx, "other/new", "x");
}

/* ---- on disk ---- */

static void plant(struct fixture *fx, const char *name, const char *bytes)
{
	char path[100];
	(void)snprintf(path, sizeof(path), "%s/%s", fx->records, name);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_full(fd, bytes, strlen(bytes)), 0);
}

static void half_written_files_are_ignored(void **state)
{
	struct fixture *fx = *state;
	struct err e;
	char path[100];
	put(fx, "session/a", "whole");
	plant(fx, ".session.a", "hal");
	plant(fx, ".session.b", "hal");
	plant(fx, "README", "not ours");
	plant(fx, "session.x.y", "not ours");
	struct walk w = {.fx = fx};
	assert_int_equal(fx->store->ops->each(fx->store, "", on_key, &w, &e), 0);
	assert_string_equal(w.seen, "session/a ");
	assert_value(fx, "session/a", "whole");
	assert_value(fx, "session/b", NULL);
	put(fx, "session/b", "new"); /* over a rest of that name */
	assert_value(fx, "session/b", "new");
	reopen(fx);
	(void)snprintf(path, sizeof(path), "%s/.session.a", fx->records);
	assert_int_equal(access(path, F_OK), -1);
	(void)snprintf(path, sizeof(path), "%s/README", fx->records);
	assert_int_equal(access(path, F_OK), 0);
}

static void links_are_not_followed(void **state)
{
	struct fixture *fx = *state;
	struct err e;
	char path[100];
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	(void)snprintf(path, sizeof(path), "%s/session.l", fx->records);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_true(fx->store->ops->get(fx->store, "session/l", &b, &e) < 0);
	assert_int_equal(b.len, 0);
	put(fx, "session/l", "a file now");
	assert_value(fx, "session/l", "a file now");
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

/* A put that fails leaves the record as it was, and nothing beside it. */
static void failed_put_keeps_the_old(void **state)
{
	struct fixture *fx = *state;
	struct err e;
	char path[100];
	put(fx, "session/a", "old");
	(void)snprintf(path, sizeof(path), "%s/.session.a", fx->records);
	assert_int_equal(mkdir(path, 0700), 0); /* in the way of the new file */
	assert_true(fx->store->ops->put(fx->store, "session/a", "new", 3, &e) < 0);
	assert_int_equal(e.code, ERR_IO);
	assert_int_equal(rmdir(path), 0);
	assert_value(fx, "session/a", "old");
}

static void open_directories_are_refused(void **state)
{
	struct fixture *fx = *state;
	struct store *s;
	struct err e;
	char path[100];
	assert_int_equal(chmod(fx->records, 0750), 0);
	assert_true(store_file_open(fx->records, &s, &e) < 0);
	assert_non_null(strstr(e.text, "chmod 700"));
	assert_int_equal(chmod(fx->records, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/link", fx->dir);
	assert_int_equal(symlink(fx->records, path), 0);
	assert_true(store_file_open(path, &s, &e) < 0);
	(void)unlink(path);
	assert_true(store_file_open("/nonexistent/dir", &s, &e) < 0);
}

#define BOTH(fn)                                                                                   \
	cmocka_unit_test_setup_teardown(fn, setup_memory, teardown),                               \
		cmocka_unit_test_setup_teardown(fn, setup_file, teardown)
#define DISK(fn) cmocka_unit_test_setup_teardown(fn, setup_file, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(put_get_remove),
		BOTH(get_appends_and_keeps_the_maximum),
		BOTH(bytes_are_kept_exactly),
		BOTH(odd_keys_are_refused),
		BOTH(oversize_is_refused),
		BOTH(each_goes_in_order),
		DISK(half_written_files_are_ignored),
		DISK(links_are_not_followed),
		DISK(failed_put_keeps_the_old),
		DISK(open_directories_are_refused),
	};
	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
