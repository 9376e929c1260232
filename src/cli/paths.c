/* paths.c: see paths.h. */
#include "cli/paths.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/str.h"

/* Private directories: "b-" and an id. */
#define PRIVATE 'b'

static const char *home(void)
{
	const char *h = getenv("HOME");
	if (h && h[0] == '/')
		return h;
	const struct passwd *p = getpwuid(geteuid());
	return p ? p->pw_dir : NULL;
}

static int no_home(struct err *err)
{
	return err_set(err, ERR_INVALID_ARGUMENT, 0,
		"no home directory is known; set HOME, or give --state and --outputs");
}

/* Makes path with its parents, each 0700 where it is missing. */
static int make_directories(const char *path, struct err *err)
{
	_cleanup_free_ char *p = xstrdup(path);
	for (char *slash = p + 1; slash; *slash++ = '/') {
		slash = strchr(slash, '/');
		if (slash)
			*slash = '\0';
		if (mkdir(p, 0700) < 0 && errno != EEXIST && errno != EROFS)
			return err_set(err, ERR_IO, errno, "%.300s cannot be made: %s", p,
				strerror(errno));
		if (!slash)
			break;
	}
	return 0;
}

int paths_absolute(const char *path, char **ret, struct err *err)
{
	if (path[0] == '/') {
		*ret = xstrdup(path);
		return 0;
	}
	_cleanup_free_ char *cwd = getcwd(NULL, 0);
	if (!cwd)
		return err_set(err, ERR_IO, errno, "the current directory is not known: %s",
			strerror(errno));
	*ret = xasprintf("%s/%s", cwd, path);
	return 0;
}

int paths_state(const char *given, char **ret, struct err *err)
{
	_cleanup_free_ char *path = NULL;
	const char *xdg = getenv("XDG_STATE_HOME"), *h = home();
	int r;
	if (given) {
		r = paths_absolute(given, &path, err);
		if (r < 0)
			return r;
	} else if (xdg && xdg[0] == '/') {
		path = xasprintf("%s/scb", xdg);
	} else if (h) {
		path = xasprintf("%s/.local/state/scb", h);
	} else {
		return no_home(err);
	}
	r = make_directories(path, err);
	if (r < 0)
		return err_wrap(err, "the state directory");
	*ret = TAKE_PTR(path);
	return 0;
}

int paths_outputs(const char *given, char **ret, struct err *err)
{
	if (given)
		return paths_absolute(given, ret, err);
	const char *h = home();
	if (!h)
		return no_home(err);
	*ret = xasprintf("%s/scb-outputs", h);
	return 0;
}

char *paths_policy(void)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *h = home();
	if (xdg && xdg[0] == '/')
		return xasprintf("%s/scb/policy.json", xdg);
	return h ? xasprintf("%s/.config/scb/policy.json", h) : NULL;
}

int paths_audit_key(char **ret, struct err *err)
{
	const char *given = getenv("SCB_AUDIT_KEY"), *h = home();
	if (given && given[0])
		return paths_absolute(given, ret, err);
	if (!h)
		return no_home(err);
	*ret = xasprintf("%s/.config/scb/audit.key", h);
	return 0;
}

/* ---- the runtime directory ---- */

static char *runtime_base(void)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	struct stat st;
	if (xdg && xdg[0] == '/' && stat(xdg, &st) == 0 && S_ISDIR(st.st_mode) &&
		st.st_uid == geteuid())
		return xasprintf("%s/scb", xdg);
	if (geteuid() == 0)
		return xstrdup("/run/scb");
	return xasprintf("/tmp/scb-%u", geteuid());
}

/* Somebody else may have made it first, in /tmp. */
static int check_private(const char *path, struct err *err)
{
	struct stat st;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_IO, errno, "the runtime directory %s cannot be made: %s",
			path, strerror(errno));
	if (lstat(path, &st) < 0)
		return err_set(err, ERR_IO, errno, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0022))
		return err_set(err, ERR_IO, EPERM,
			"the runtime directory %s is not a directory of this user that nobody else "
			"may write; remove it or set XDG_RUNTIME_DIR",
			path);
	return 0;
}

static int lock_in(const char *dir, int flags)
{
	_cleanup_free_ char *path = xasprintf("%s/lock", dir);
	_cleanup_close_ int fd = open(path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int paths_runtime(char **ret, int *ret_lock, struct err *err)
{
	_cleanup_free_ char *base = runtime_base();
	int r = check_private(base, err);
	if (r < 0)
		return r;
	char name[ID_TEXT_SIZE];
	id_new(PRIVATE, name);
	name[2 + 12] = '\0'; /* socket addresses are short: 108 bytes */
	_cleanup_free_ char *dir = xasprintf("%s/%s", base, name);
	if (mkdir(dir, 0700) < 0)
		return err_set(err, ERR_IO, errno, "%s cannot be made: %s", dir, strerror(errno));
	int lock = lock_in(dir, O_CREAT);
	if (lock < 0) {
		(void)rmdir(dir);
		return err_set(err, ERR_IO, -lock, "%s cannot be locked: %s", dir, strerror(-lock));
	}
	*ret_lock = lock;
	*ret = TAKE_PTR(dir);
	return 0;
}

/* ---- the one of a state directory ---- */

/* Another process's sweep holds it for a moment. */
#define RUNTIME_TRIES   100
#define RUNTIME_WAIT_US (20 * USEC_PER_MSEC)

#define BOOT_ID_SIZE 37

const char *paths_boot_id(void)
{
	static char text[BOOT_ID_SIZE];
	_cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fd_read_full(fd, text, BOOT_ID_SIZE - 1) < 0)
		(void)snprintf(text, sizeof(text), "unknown");
	return text;
}

/* What the file "runtime" says, if it was written since the machine started; else NULL. */
static char *recorded(const char *state)
{
	char text[PATH_MAX + 64];
	_cleanup_free_ char *path = xasprintf("%s/runtime", state);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return NULL;
	text[n] = '\0';
	char *dir = strchr(text, ' '), *end = strchr(text, '\n');
	if (!dir || !end || end < dir)
		return NULL;
	*dir++ = *end = '\0';
	return strcmp(text, paths_boot_id()) == 0 && dir[0] == '/' ? xstrdup(dir) : NULL;
}

/* Locks a directory that is there. The descriptor, or a negative errno. */
static int lock_again(const char *dir)
{
	int lock = -EWOULDBLOCK;
	for (unsigned i = 0; i < RUNTIME_TRIES && lock == -EWOULDBLOCK; i++) {
		if (i)
			clock_wait_us(RUNTIME_WAIT_US);
		lock = lock_in(dir, O_CREAT);
	}
	if (lock < 0)
		return lock;
	/* A sweep may have removed it just before. */
	_cleanup_free_ char *path = xasprintf("%s/lock", dir);
	struct stat locked, named;
	if (fstat(lock, &locked) == 0 && lstat(path, &named) == 0 &&
		locked.st_ino == named.st_ino && locked.st_dev == named.st_dev)
		return lock;
	fd_closep(&lock);
	return -ENOENT;
}

int paths_runtime_of_state(const char *state, char **ret, int *ret_lock, struct err *err)
{
	struct stat st;
	_cleanup_free_ char *dir = recorded(state);
	if (dir && lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
		!(st.st_mode & 0077)) {
		int lock = lock_again(dir);
		if (lock >= 0) {
			*ret_lock = lock;
			*ret = TAKE_PTR(dir);
			return 0;
		}
	}
	_cleanup_free_ char *made = NULL;
	_cleanup_close_ int lock = -1;
	int r = paths_runtime(&made, &lock, err);
	if (r < 0)
		return r;
	_cleanup_free_ char *line = xasprintf("%s %s\n", paths_boot_id(), made);
	r = paths_write(state, "runtime", line, strlen(line), err);
	if (r < 0) {
		paths_runtime_remove(made);
		return r;
	}
	*ret_lock = TAKE_FD(lock);
	*ret = TAKE_PTR(made);
	return 0;
}

int paths_write(const char *state, const char *name, const void *p, size_t n, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", state, name);
	_cleanup_free_ char *new = xasprintf("%s/.%s", state, name);
	(void)unlink(new);
	_cleanup_close_ int fd =
		open(new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : fd_write_full(fd, p, n);
	if (r == 0 && rename(new, path) < 0)
		r = -errno;
	if (r == 0)
		return 0;
	(void)unlink(new);
	return err_set(err, ERR_IO, -r, "%.300s cannot be written: %s", path, strerror(-r));
}

/* ---- sweeping ---- */

/* Is there nothing but the lock? */
static bool only_lock_left(const char *dir)
{
	DIR *d = opendir(dir);
	bool only = d != NULL;
	for (struct dirent *e = d ? readdir(d) : NULL; e && only; e = readdir(d))
		only = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		       strcmp(e->d_name, "lock") == 0;
	if (d)
		(void)closedir(d);
	return only;
}

/* The lock stays with what a dying sandbox still holds, so that the next sweep comes back to it. */
void paths_runtime_remove(const char *dir)
{
	if (!only_lock_left(dir))
		return;
	_cleanup_free_ char *lock = xasprintf("%s/lock", dir);
	(void)unlink(lock);
	(void)rmdir(dir);
}

static void sweep_entry(
	const char *base, const char *name, const char *own, void (*fn)(const char *dir))
{
	_cleanup_free_ char *dir = xasprintf("%s/%s", base, name);
	if (name[0] != PRIVATE || name[1] != '-' || strcmp(dir, own) == 0)
		return;
	/* no lock file: its process is just starting */
	_cleanup_close_ int lock = lock_in(dir, 0);
	if (lock < 0)
		return;
	fn(dir);
	paths_runtime_remove(dir);
}

void paths_sweep(const char *own, void (*fn)(const char *dir))
{
	_cleanup_free_ char *base = xstrndup(own, (size_t)(strrchr(own, '/') - own));
	DIR *d = opendir(base);
	if (!d)
		return;
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		sweep_entry(base, e->d_name, own, fn);
	(void)closedir(d);
}
