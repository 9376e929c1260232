/* file.c: the store on disk. "kind/name" is the file "kind.name" (keys have no dot); while it is
 * written it is ".kind.name", which nobody reads. */
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

#define NAME_SIZE (1 + STORE_KEY_MAX + 1)

struct file_store {
	struct store store;
	int dir;
	char *path; /* for messages */
};

static struct file_store *file_store(struct store *s)
{
	return container_of(s, struct file_store, store);
}

static void dir_closep(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

/* ret_name + 1 is the record's file, ret_name the one while it is written. */
static void file_name(const char *key, char ret_name[static NAME_SIZE])
{
	(void)snprintf(ret_name, NAME_SIZE, ".%s", key);
	*strchr(ret_name, '/') = '.';
}

/* False for files that hold no record. */
static bool key_of(const char *name, char ret_key[static STORE_KEY_MAX + 1])
{
	if (strlen(name) > STORE_KEY_MAX)
		return false;
	memcpy(ret_key, name, strlen(name) + 1);
	char *dot = strchr(ret_key, '.');
	if (!dot)
		return false;
	*dot = '/';
	return store_key_valid(ret_key);
}

static int io_error(struct file_store *f, const char *what, struct err *err)
{
	int saved = errno;
	return err_set(err, ERR_IO, saved, "cannot %s the broker's state in %s: %s", what, f->path,
		strerror(saved));
}

static int write_new(struct file_store *f, const char *name, const void *value, size_t n)
{
	if (unlinkat(f->dir, name, 0) < 0 && errno != ENOENT)
		return -errno;
	_cleanup_close_ int fd =
		openat(f->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	return fd_write_full(fd, value, n);
}

static int file_put(struct store *s, const char *key, const void *value, size_t n, struct err *err)
{
	struct file_store *f = file_store(s);
	char name[NAME_SIZE];
	int r = store_check_put(key, n, err);
	if (r < 0)
		return r;
	file_name(key, name);
	r = write_new(f, name, value, n);
	if (r < 0) {
		(void)unlinkat(f->dir, name, 0);
		errno = -r;
		return io_error(f, "write", err);
	}
	if (renameat(f->dir, name, f->dir, name + 1) < 0)
		return io_error(f, "write", err);
	return 0;
}

static int file_get(struct store *s, const char *key, struct buf *ret, struct err *err)
{
	struct file_store *f = file_store(s);
	char name[NAME_SIZE];
	struct stat st;
	if (!store_key_valid(key))
		return store_bad_key(key, err);
	file_name(key, name);
	_cleanup_close_ int fd =
		openat(f->dir, name + 1, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	if (fd < 0 || fstat(fd, &st) < 0)
		return io_error(f, "read", err);
	if (!S_ISREG(st.st_mode) || st.st_size > STORE_VALUE_MAX)
		return err_set(err, ERR_IO, EBADMSG, "%s/%s is no record of the broker", f->path,
			name + 1);
	size_t n = (size_t)st.st_size;
	int r = buf_reserve(ret, n);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "no room for a record of %zu bytes", n);
	r = fd_read_full(fd, ret->data + ret->len, n);
	if (r < 0) {
		errno = -r;
		return io_error(f, "read", err);
	}
	ret->len += n;
	return 0;
}

static int file_remove(struct store *s, const char *key, struct err *err)
{
	struct file_store *f = file_store(s);
	char name[NAME_SIZE];
	if (!store_key_valid(key))
		return store_bad_key(key, err);
	file_name(key, name);
	if (unlinkat(f->dir, name + 1, 0) < 0 && errno != ENOENT)
		return io_error(f, "remove", err);
	return 0;
}

/* A directory stream of its own: f->dir has no position that one may share. */
static DIR *open_listing(struct file_store *f)
{
	_cleanup_close_ int fd = openat(f->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (d)
		(void)TAKE_FD(fd);
	return d;
}

struct keys {
	char **v;
	size_t n;
};

static void keys_done(struct keys *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->v[i]);
	free(k->v);
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int file_each(struct store *s, const char *prefix, int (*fn)(void *user, const char *key),
	void *user, struct err *err)
{
	struct file_store *f = file_store(s);
	CLEANUP(keys_done) struct keys keys = {0};
	CLEANUP(dir_closep) DIR *d = open_listing(f);
	if (!d)
		return io_error(f, "read", err);
	errno = 0;
	for (struct dirent *e; (e = readdir(d));) {
		char key[STORE_KEY_MAX + 1];
		if (!key_of(e->d_name, key) || !str_starts(key, prefix))
			continue;
		keys.v = xrealloc(keys.v, (keys.n + 1) * sizeof(*keys.v));
		keys.v[keys.n++] = xstrdup(key);
	}
	if (errno)
		return io_error(f, "read", err);
	if (keys.n)
		qsort(keys.v, keys.n, sizeof(*keys.v), by_bytes);
	for (size_t i = 0; i < keys.n; i++) {
		int r = fn(user, keys.v[i]);
		if (r != 0)
			return r;
	}
	return 0;
}

static void file_close(struct store *s)
{
	struct file_store *f = file_store(s);
	fd_closep(&f->dir);
	free(f->path);
	free(f);
}

static const struct store_ops file_ops = {
	.name = "file",
	.put = file_put,
	.get = file_get,
	.remove = file_remove,
	.each = file_each,
	.close = file_close,
};

/* What a crash left half written: a record's name with a dot before it. */
static void remove_rests(struct file_store *f)
{
	CLEANUP(dir_closep) DIR *d = open_listing(f);
	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));) {
		char key[STORE_KEY_MAX + 1];
		if (e->d_name[0] == '.' && key_of(e->d_name + 1, key) &&
			unlinkat(f->dir, e->d_name, 0) < 0)
			log_warning("cannot remove %s/%s: %s", f->path, e->d_name, strerror(errno));
	}
}

int store_file_open(const char *dir, struct store **ret, struct err *err)
{
	struct stat st;
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_IO, errno, "cannot make %s: %s", dir, strerror(errno));
	_cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "cannot open %s: %s", dir, strerror(errno));
	if (st.st_uid != geteuid() || st.st_mode & 077) /* keys of sandboxes stand in there */
		return err_set(err, ERR_IO, EPERM,
			"%s is open to other users: make it yours alone (chmod 700) or name "
			"another "
			"state directory",
			dir);
	struct file_store *f = xcalloc(1, sizeof(*f));
	f->store.ops = &file_ops;
	f->dir = TAKE_FD(fd);
	f->path = xstrdup(dir);
	remove_rests(f);
	*ret = &f->store;
	return 0;
}
