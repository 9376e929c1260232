/* shelf.c: see shelf.h. */
#include "files/shelf.h"

#include <dirent.h>
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "files/meta.h"

#define RECORD       ".scb-meta.json"
#define DRAFT_PREFIX ".new-"
#define DRAFT_AGE_S  3600
/* How long a file waits for another broker to put its own there. */
#define LOCK_US  (5 * USEC_PER_SEC)
#define SHORT_ID 8

/* ---- names ---- */

static void principal_name(const char *principal, char ret_name[static SHELF_NAME])
{
	char hex[2 * SHA256_SIZE + 1];
	meta_principal(principal, hex);
	size_t n = 0;
	for (const char *c = principal; *c && n < 24; c++) {
		bool plain = (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
			     (*c >= 'A' && *c <= 'Z');
		ret_name[n++] = plain ? *c : '-';
	}
	(void)snprintf(ret_name + n, SHELF_NAME - n, "-%.16s", hex);
}

/* "2026-11-29_20-45-01.123_3f2a9c1b" */
static void final_name(const struct output *o, char ret_name[static SHELF_NAME])
{
	char when[CLOCK_RFC3339_SIZE];
	clock_rfc3339(o->created_us, when);
	(void)snprintf(
		ret_name, SHELF_NAME, "%.10s_%.12s_%.*s", when, when + 11, SHORT_ID, o->id + 2);
	for (char *c = ret_name; *c; c++) {
		if (*c == ':')
			*c = '-';
	}
}

/* ---- directories ---- */

/* Who else could write in a directory could put files of his under our names, or take ours away. */
static int check_own(int dir, const char *path, struct err *err)
{
	struct stat st;
	if (fstat(dir, &st) < 0)
		return err_set(err, ERR_IO, errno, "cannot look at the outputs folder %s: %s", path,
			strerror(errno));
	if (st.st_uid != geteuid())
		return err_set(err, ERR_IO, EPERM,
			"the outputs folder %s belongs to another user (uid %u), who could change "
			"what "
			"is put there; remove it, or choose another (scb serve --outputs DIR)",
			path, st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(err, ERR_IO, EPERM,
			"others can write in the outputs folder %s (mode %04o); take that away "
			"(chmod go-w), or choose another (scb serve --outputs DIR)",
			path, st.st_mode & 07777);
	return 0;
}

int shelf_open(const char *dir, struct shelf *ret, struct err *err)
{
	for (const char *slash = dir; (slash = strchr(slash + 1, '/'));) {
		_cleanup_free_ char *parent = xstrndup(dir, (size_t)(slash - dir));
		if (mkdir(parent, 0755) < 0 && errno != EEXIST)
			break; /* mkdir() of dir itself says why */
	}
	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_IO, errno, "cannot make the outputs folder %s: %s", dir,
			strerror(errno));
	ret->dir = realpath(dir, NULL);
	ret->fd = ret->dir ? open(ret->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (ret->fd < 0) {
		int r = err_set(err, ERR_IO, errno, "cannot open the outputs folder %s: %s", dir,
			strerror(errno));
		free(ret->dir);
		return r;
	}
	int r = check_own(ret->fd, ret->dir, err);
	if (r < 0)
		shelf_close(ret);
	return r;
}

void shelf_close(struct shelf *s)
{
	fd_closep(&s->fd);
	free(s->dir);
	s->dir = NULL;
}

static int open_dir(int at, const char *name)
{
	return fd_open_beneath(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

static int begin_error(struct err *err, const struct shelf *s, int errnum)
{
	return err_set(err, ERR_IO, errnum, "cannot store in the outputs folder %s: %s", s->dir,
		strerror(errnum));
}

/* Like open_dir(): the descriptor of a directory that is ours alone, or a negative errno. */
static int open_own_dir(int at, const char *name, const struct shelf *s, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", s->dir, name);
	_cleanup_close_ int fd = open_dir(at, name);
	if (fd == -ELOOP || fd == -ENOTDIR)
		return err_set(err, ERR_IO, -fd,
			"%s is no directory (a link, perhaps, that leads elsewhere); remove it",
			path);
	if (fd < 0)
		return begin_error(err, s, -fd);
	int r = check_own(fd, path, err);
	return r < 0 ? r : TAKE_FD(fd);
}

/* Calls fn for each entry but "." and "..", until it answers other than 0. */
static int each_entry(int dir, int (*fn)(void *user, int dir, const char *name), void *user)
{
	_cleanup_close_ int own = open_dir(dir, ".");
	if (own < 0)
		return own;
	DIR *d = fdopendir(own);
	if (!d)
		return -errno;
	(void)TAKE_FD(own);
	int r = 0;
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = fn(user, dir, e->d_name);
	}
	(void)closedir(d);
	return r;
}

/* ---- what is used ---- */

struct usage {
	uint64_t bytes, outputs;
};

static int add_file(void *user, int dir, const char *name)
{
	struct usage *u = user;
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
		u->bytes += (uint64_t)st.st_size;
	return 0;
}

static int add_output(void *user, int dir, const char *name)
{
	struct usage *u = user;
	if (str_starts(name, DRAFT_PREFIX)) /* counted by whoever writes it */
		return 0;
	_cleanup_close_ int fd = open_dir(dir, name);
	u->outputs += fd >= 0;
	return fd < 0 ? 0 : MIN(each_entry(fd, add_file, user), 0);
}

int shelf_over_quota(
	const struct shelf *s, const struct shelf_draft *d, uint64_t used, struct err *err)
{
	char most[STR_SIZE_TEXT], there[STR_SIZE_TEXT];
	str_size(d->quota, most);
	str_size(used, there);
	return err_set(err, ERR_LIMIT_REACHED, EDQUOT,
		"presented files may have %s together, and there are %s; older ones go after "
		"7 days, or delete some in %s",
		most, there, s->dir);
}

/* Counts what is there; an error where size more bytes, in one more file, would be too much. */
static int check_quota(const struct shelf *s, const struct shelf_draft *d, uint64_t size,
	uint64_t *ret_used, struct err *err)
{
	struct usage u = {0};
	int r = each_entry(d->principal, add_output, &u);
	if (r < 0)
		return begin_error(err, s, -r);
	if (u.outputs >= LIMIT_OUTPUTS)
		return err_set(err, ERR_LIMIT_REACHED, EDQUOT,
			"%d files are presented already, which is the most; delete some in %s",
			LIMIT_OUTPUTS, s->dir);
	*ret_used = u.bytes;
	return u.bytes + size > d->quota ? shelf_over_quota(s, d, u.bytes, err) : 0;
}

/* Of the principal's directory, against other brokers. Whoever holds it counts and renames, which
 * is short; a stopped one is not waited for without end. A network file system that cannot lock a
 * directory leaves the quota to each broker. */
static int lock(int dir)
{
	static const struct timespec pause = {.tv_nsec = 2000000};
	uint64_t end = clock_monotonic_us() + LOCK_US;
	while (flock(dir, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EBADF || errno == ENOLCK || errno == EOPNOTSUPP)
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		if (clock_monotonic_us() > end)
			return -EBUSY;
		(void)nanosleep(&pause, NULL); /* in a worker thread */
	}
	return 0;
}

/* ---- putting there ---- */

static int unlink_entry(void *user, int dir, const char *name)
{
	(void)user;
	(void)unlinkat(dir, name, 0);
	return 0;
}

/* A draft of the same id: its broker has died. */
static void remove_rest(int principal, const char *name)
{
	_cleanup_close_ int dir = open_dir(principal, name);
	if (dir < 0)
		return;
	(void)each_entry(dir, unlink_entry, NULL);
	(void)unlinkat(principal, name, AT_REMOVEDIR);
}

int shelf_begin(const struct shelf *s, const char *principal, const struct output *o,
	struct shelf_draft *d, uint64_t *ret_used, struct err *err)
{
	char name[SHELF_NAME];
	principal_name(principal, name);
	if (mkdirat(s->fd, name, 0700) < 0 && errno != EEXIST)
		return begin_error(err, s, errno);
	d->principal = open_own_dir(s->fd, name, s, err);
	int r = d->principal < 0 ? d->principal : check_quota(s, d, 0, ret_used, err);
	if (r < 0)
		return r;
	(void)snprintf(d->name, sizeof(d->name), DRAFT_PREFIX "%s", o->id);
	d->file_name = xstrdup(o->name);
	remove_rest(d->principal, d->name);
	if (mkdirat(d->principal, d->name, 0700) < 0)
		return begin_error(err, s, errno);
	d->dir = open_own_dir(d->principal, d->name, s, err);
	if (d->dir < 0)
		return d->dir;
	d->file = fd_open_beneath(d->dir, o->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	return d->file < 0 ? begin_error(err, s, -d->file) : 0;
}

static int write_record(int dir, const char *principal, const struct output *o)
{
	_cleanup_free_ char *text = meta_write(principal, o);
	_cleanup_close_ int fd =
		fd_open_beneath(dir, RECORD, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	int r = fd < 0 ? fd : fd_write_full(fd, text, strlen(text));
	return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

int shelf_publish(const struct shelf *s, const char *principal, struct shelf_draft *d,
	struct output *o, struct err *err)
{
	char name[SHELF_NAME], owner[SHELF_NAME];
	uint64_t used;
	principal_name(principal, owner);
	final_name(o, name);
	int r = fsync(d->file) < 0 ? -errno : write_record(d->dir, principal, o);
	if (!r && fsync(d->dir) < 0)
		r = -errno;
	if (!r)
		r = lock(d->principal);
	if (r < 0)
		return begin_error(err, s, -r);
	/* Others may have published since shelf_begin(). */
	r = check_quota(s, d, o->size, &used, err);
	if (r < 0)
		return r;
	if (syscall(SYS_renameat2, d->principal, d->name, d->principal, name, RENAME_NOREPLACE) < 0)
		return begin_error(err, s, errno);
	(void)flock(d->principal, LOCK_UN);
	memcpy(d->name, name, sizeof(name));
	if (fsync(d->principal) < 0)
		return begin_error(err, s, errno);
	free(o->host_path);
	o->host_path = xasprintf("%s/%s/%s/%s", s->dir, owner, name, o->name);
	return 0;
}

void shelf_discard(struct shelf_draft *d)
{
	if (d->dir >= 0) {
		(void)unlinkat(d->dir, d->file_name, 0);
		(void)unlinkat(d->dir, RECORD, 0);
	}
	if (d->principal >= 0 && d->name[0])
		(void)unlinkat(d->principal, d->name, AT_REMOVEDIR);
}

void shelf_draft_done(struct shelf_draft *d)
{
	fd_closep(&d->file);
	fd_closep(&d->dir);
	fd_closep(&d->principal);
	free(d->file_name);
	d->file_name = NULL;
}

/* ---- finding ---- */

static int load_record(int dir, const char *principal, struct output *ret)
{
	_cleanup_close_ int fd = fd_open_beneath(dir, RECORD, O_RDONLY | O_NOFOLLOW, 0);
	if (fd < 0)
		return fd;
	char text[META_MAX];
	ssize_t n = read(fd, text, sizeof(text));
	if (n < 0)
		return -errno;
	return meta_read(text, (size_t)n, principal, ret);
}

struct search {
	const struct shelf *shelf;
	const char *principal, *uri; /* the whole of it, or as far as the id's end … */
	bool by_id;                  /* … where this is so */
	char short_id[SHORT_ID + 1];
	struct output *ret;
	int *ret_file;
};

/* 1 where it is the one. */
static int try_output(void *user, int principal_dir, const char *name)
{
	struct search *s = user;
	size_t n = strlen(name);
	if (n <= SHORT_ID || strcmp(name + n - SHORT_ID, s->short_id) != 0)
		return 0;
	_cleanup_close_ int dir = open_dir(principal_dir, name);
	struct output o = {0};
	if (dir < 0 || load_record(dir, s->principal, &o) < 0)
		return 0;
	size_t len = s->by_id ? MIN(strlen(s->uri), strlen(o.uri)) : strlen(o.uri);
	bool same = strlen(s->uri) == len && id_equal(s->uri, o.uri, len);
	/* The person may have moved it away. */
	_cleanup_close_ int file =
		same ? fd_open_beneath(dir, o.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0) : -1;
	struct stat st;
	if (file < 0 || fstat(file, &st) < 0 || !S_ISREG(st.st_mode)) {
		output_done(&o);
		return 0;
	}
	char owner[SHELF_NAME];
	principal_name(s->principal, owner);
	o.host_path = xasprintf("%s/%s/%s/%s", s->shelf->dir, owner, name, o.name);
	o.size = (uint64_t)st.st_size;
	*s->ret = o;
	if (s->ret_file)
		*s->ret_file = TAKE_FD(file);
	return 1;
}

static int open_principal(const struct shelf *s, const char *principal, struct err *err)
{
	char name[SHELF_NAME];
	principal_name(principal, name);
	return open_own_dir(s->fd, name, s, err);
}

static int find(struct search *search)
{
	memcpy(search->short_id, search->uri + strlen(META_URI "o-"), SHORT_ID);
	_cleanup_close_ int dir = open_principal(search->shelf, search->principal, NULL);
	if (dir < 0)
		return dir;
	int r = each_entry(dir, try_output, search);
	return r < 0 ? r : r ? 0 : -ENOENT;
}

int shelf_find(const struct shelf *s, const char *principal, const char *uri, struct output *ret,
	int *ret_file)
{
	struct search search = {s, principal, uri, false, "", ret, ret_file};
	if (!str_starts(uri, META_URI "o-") || strlen(uri) < strlen(META_URI) + ID_TEXT_SIZE)
		return -ENOENT;
	return find(&search);
}

int shelf_find_id(const struct shelf *s, const char *principal, const char *id, struct output *ret)
{
	char uri[sizeof(META_URI) + ID_TEXT_SIZE];
	struct search search = {s, principal, uri, true, "", ret, NULL};
	if (!id_valid('o', id))
		return -ENOENT;
	(void)snprintf(uri, sizeof(uri), META_URI "%s/", id);
	return find(&search);
}

struct names {
	char **v;
	size_t n;
};

static int add_name(void *user, int dir, const char *name)
{
	struct names *names = user;
	(void)dir;
	if (name[0] == '.' || names->n == LIMIT_OUTPUTS)
		return 0;
	names->v[names->n++] = xstrdup(name);
	return 0;
}

static int newest_first(const void *a, const void *b)
{
	return strcmp(*(char *const *)b, *(char *const *)a);
}

int shelf_list(const struct shelf *s, const char *principal,
	int (*fn)(void *user, const struct output *o), void *user, struct err *err)
{
	_cleanup_close_ int dir = open_principal(s, principal, err);
	if (dir < 0)
		return dir == -ENOENT ? 0 : dir;
	char owner[SHELF_NAME];
	principal_name(principal, owner);
	struct names names = {.v = xcalloc(LIMIT_OUTPUTS, sizeof(char *))};
	int r = each_entry(dir, add_name, &names);
	qsort(names.v, names.n, sizeof(char *), newest_first);
	for (size_t i = 0; i < names.n; i++) {
		struct output o = {0};
		_cleanup_close_ int fd = r == 0 ? open_dir(dir, names.v[i]) : -1;
		if (fd >= 0 && load_record(fd, principal, &o) == 0 &&
			faccessat(fd, o.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
			o.host_path = xasprintf("%s/%s/%s/%s", s->dir, owner, names.v[i], o.name);
			r = fn(user, &o);
		}
		output_done(&o);
		free(names.v[i]);
	}
	free(names.v);
	return r;
}

/* ---- taking away ---- */

struct expiry {
	const struct shelf *shelf;
	time_t before, drafts_before;
	int removed;
};

static bool older(int dir, const char *name, time_t before)
{
	struct stat st;
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mtime < before;
}

/* Only what was put there by a shelf is taken away, whatever else a person keeps in the folder. */
static int expire_output(void *user, int principal_dir, const char *name)
{
	struct expiry *x = user;
	_cleanup_close_ int dir = open_dir(principal_dir, name);
	struct output o = {0};
	if (dir < 0)
		return 0;
	if (str_starts(name, DRAFT_PREFIX)) {
		if (!older(principal_dir, name, x->drafts_before))
			return 0;
		(void)each_entry(dir, unlink_entry, NULL);
	} else {
		if (!older(dir, RECORD, x->before) || load_record(dir, NULL, &o) < 0)
			return 0;
		(void)unlinkat(dir, o.name, 0);
		(void)unlinkat(dir, RECORD, 0);
		output_done(&o);
	}
	x->removed++;
	(void)unlinkat(principal_dir, name, AT_REMOVEDIR);
	return 0;
}

static int expire_principal(void *user, int dir, const char *name)
{
	struct expiry *x = user;
	(void)dir;
	_cleanup_close_ int fd = open_own_dir(x->shelf->fd, name, x->shelf, NULL);
	return fd < 0 ? 0 : MIN(each_entry(fd, expire_output, user), 0);
}

int shelf_expire(const struct shelf *s, uint64_t age_s)
{
	time_t now = (time_t)(clock_realtime_us() / USEC_PER_SEC);
	struct expiry x = {s, now - (time_t)age_s, now - DRAFT_AGE_S, 0};
	int r = each_entry(s->fd, expire_principal, &x);
	return r < 0 ? r : x.removed;
}
