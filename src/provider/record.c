/* record.c: see record.h. */
#include "provider/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "confine/cgroup.h"

#define RECORD_SUFFIX ".box"
#define RECORD_MAX    (32 * KIB) /* eight paths */

const char *record_boot_id(void)
{
	static char id[40];
	if (!id[0]) {
		_cleanup_close_ int fd =
			open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, id, sizeof(id) - 1);
		id[n > 0 ? (size_t)n : 0] = '\0';
		id[strcspn(id, "\n")] = '\0';
		if (!id[0])
			id[0] = '-';
	}
	return id;
}

static int line(struct buf *b, const char *key, const char *value)
{
	return value ? buf_printf(b, "%s %s\n", key, value) : 0;
}

static int write_record(
	int fd, char *const *cgroups, size_t n_cgroups, const char *socket, const char *workdir)
{
	_cleanup_buf_ struct buf b = BUF_INIT(RECORD_MAX);
	int r = line(&b, "boot", record_boot_id());
	for (size_t i = 0; r == 0 && i < n_cgroups; i++)
		r = line(&b, "cgroup", cgroups[i]);
	if (r == 0)
		r = line(&b, "socket", socket);
	if (r == 0)
		r = line(&b, "workdir", workdir);
	return r < 0 ? r : fd_write_full(fd, b.data, b.len);
}

int record_create(const char *dir, const char *id, char *const *cgroups, size_t n_cgroups,
	const char *socket, const char *workdir, struct record *ret, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/%s" RECORD_SUFFIX, dir, id);
	/* Locked before it has a name, so that no sweep takes it for a dead one's. */
	_cleanup_close_ int guard = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	_cleanup_close_ int shared = -1;
	int r = guard < 0 ? -errno : write_record(guard, cgroups, n_cgroups, socket, workdir);
	char self[32];
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", guard);
	/* Read-only: the sandbox inherits it. */
	if (r == 0 && (shared = open(self, O_RDONLY | O_CLOEXEC)) < 0)
		r = -errno;
	if (r == 0 && (flock(guard, LOCK_SH) < 0 || flock(shared, LOCK_SH) < 0))
		r = -errno;
	if (r == 0 && linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, -r,
			"cannot write the sandbox's record in %.200s: %s", dir, strerror(-r));
	*ret = (struct record){TAKE_PTR(path), TAKE_FD(shared), TAKE_FD(guard)};
	return 0;
}

void record_remove(struct record *r)
{
	if (r->path)
		(void)unlink(r->path);
	free(r->path);
	fd_closep(&r->shared_fd);
	fd_closep(&r->guard_fd);
	*r = RECORD_NONE;
}

/* Opens a directory to empty it; code may have taken its own rights away. */
static int open_to_empty(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && fchmodat(at, name, 0700, 0) == 0)
		fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Empties the directory `name` of top: files go, directories move up into top, whatever the depth.
 */
static int flatten(int top, const char *name, unsigned long *counter)
{
	int fd = open_to_empty(top, name);
	if (fd < 0)
		return fd;
	(void)fchmod(fd, 0700);
	DIR *d = fdopendir(fd);
	if (!d) {
		(void)close(fd);
		return -ENOMEM;
	}
	int r = 0;
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(d), e->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR && errno != EPERM) {
			r = -errno;
			break;
		}
		if (unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR) == 0)
			continue;
		char up[40];
		(void)snprintf(up, sizeof(up), ".scb-remove-%lu", (*counter)++);
		/* A directory is moved only by who may write into it ("..") as well. */
		(void)!fchmodat(dirfd(d), e->d_name, 0700, 0);
		if (renameat(dirfd(d), e->d_name, top, up) < 0)
			r = -errno;
	}
	(void)closedir(d);
	if (r == 0 && unlinkat(top, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

/* One pass over top. *ret_left: a directory was met, which may have brought new ones up. */
static int empty_once(int top, unsigned long *counter, bool *ret_left)
{
	int copy = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (!d) {
		fd_closep(&copy);
		return -errno;
	}
	int r = 0;
	*ret_left = false;
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(top, e->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR && errno != EPERM) {
			r = -errno;
			break;
		}
		*ret_left = true;
		r = flatten(top, e->d_name, counter);
		if (r == -ENOENT)
			r = 0;
	}
	(void)closedir(d);
	return r;
}

int record_remove_tree(const char *path)
{
	_cleanup_close_ int top = open_to_empty(AT_FDCWD, path);
	if (top < 0)
		return top == -ENOENT ? 0 : top;
	unsigned long counter = 0;
	bool left = true;
	int r = 0;
	while (r == 0 && left)
		r = empty_once(top, &counter, &left);
	if (r == 0 && rmdir(path) < 0)
		r = -errno;
	return r;
}

/* The agent is dead when this is called; what it left running (without a PID namespace) is killed.
 */
static bool remove_group(const char *dir)
{
	_cleanup_free_ char *kill = xasprintf("%s/cgroup.kill", dir);
	_cleanup_close_ int fd = open(kill, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, "1", 1);
	int r;
	for (int tries = 0; (r = cgroup_remove_group(dir)) < 0; tries++) {
		if (r != -EBUSY || tries == 50)
			return false;
		(void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
	return true;
}

/* What a record names, removed in the opposite order of its making. True where all of it is gone.
 */
static bool remove_named(char *text, const char *dir)
{
	char *cgroups[16];
	size_t n = 0;
	bool same_boot = false, gone = true;
	for (char *l; (l = strsep(&text, "\n"));) {
		char *value = strchr(l, ' ');
		if (!value)
			continue;
		*value++ = '\0';
		if (strcmp(l, "boot") == 0)
			same_boot = strcmp(value, record_boot_id()) == 0;
		else if (strcmp(l, "cgroup") == 0 && n < ARRAY_SIZE(cgroups))
			cgroups[n++] = value;
		else if (strcmp(l, "socket") == 0 && str_starts(value, dir))
			(void)unlink(value);
		else if (strcmp(l, "workdir") == 0 && str_starts(value, dir))
			gone = record_remove_tree(value) == 0 && gone;
	}
	while (same_boot && n)
		gone = remove_group(cgroups[--n]) && gone;
	return gone;
}

/* 1 where a dead one's record was found and all that it names is gone. */
static int sweep_one(int at, const char *name, const char *dir)
{
	_cleanup_close_ int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return 0;
	char text[RECORD_MAX + 1];
	ssize_t n = read(fd, text, RECORD_MAX);
	text[n > 0 ? n : 0] = '\0';
	return remove_named(text, dir) && unlinkat(at, name, 0) == 0;
}

int record_sweep(const char *dir)
{
	DIR *d = opendir(dir);
	if (!d)
		return 0;
	int removed = 0;
	for (struct dirent *e; (e = readdir(d));) {
		size_t n = strlen(e->d_name), s = strlen(RECORD_SUFFIX);
		if (n > s && strcmp(e->d_name + n - s, RECORD_SUFFIX) == 0)
			removed += sweep_one(dirfd(d), e->d_name, dir);
	}
	(void)closedir(d);
	return removed;
}
