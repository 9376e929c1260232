/* fd.c: see fd.h. */
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/str.h"

#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

void fd_closep(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;
		(void)close(*fd);
		errno = saved;
	}
	*fd = -1;
}

int fd_read_full(int fd, void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = read(fd, (char *)p + done, n - done);
		if (r == 0)
			return -EPIPE;
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0)
			done += (size_t)r;
	}
	return 0;
}

int fd_write_full(int fd, const void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = write(fd, (const char *)p + done, n - done);
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0)
			done += (size_t)r;
	}
	return 0;
}

static int set_flag(int fd, int get, int set, int flag, bool on)
{
	int flags = fcntl(fd, get);
	if (flags < 0)
		return -errno;
	int want = on ? flags | flag : flags & ~flag;
	if (want != flags && fcntl(fd, set, want) < 0)
		return -errno;
	return 0;
}

int fd_send(int fd, struct buf *out)
{
	size_t done = 0;
	int r = 0;
	while (r == 0 && done < out->len) {
		ssize_t n =
			send(fd, out->data + done, out->len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0)
			done += (size_t)n;
		else if (errno == EAGAIN)
			break;
		else if (errno != EINTR)
			r = -errno;
	}
	buf_consume(out, done);
	return r;
}

int fd_set_nonblock(int fd, bool on)
{
	return set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int fd_set_cloexec(int fd, bool on)
{
	return set_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

/* A container may have a million numbers: those in use are few. False: they are listed nowhere. */
static bool close_listed(int low)
{
	DIR *dir = opendir("/proc/self/fd");
	bool again = dir != NULL;
	if (!dir)
		return false;
	for (; again; rewinddir(dir)) { /* a listing may skip what follows one that is closed */
		uint64_t fd;
		again = false;
		for (struct dirent *e; (e = readdir(dir));)
			if (str_to_u64(e->d_name, INT_MAX, &fd) == 0 && (int)fd >= low &&
				(int)fd != dirfd(dir))
				again |= close((int)fd) == 0;
	}
	(void)closedir(dir);
	return true;
}

int fd_close_from(int low)
{
	if (syscall(SYS_close_range, (unsigned)low, ~0U, 0U) == 0 || close_listed(low))
		return 0;
	long max = sysconf(_SC_OPEN_MAX);
	for (int fd = low; fd < (max > 0 ? max : 1024); fd++)
		(void)close(fd);
	return 0;
}

int fd_memfd(const char *name, const void *p, size_t n)
{
	_cleanup_close_ int fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fd_write_full(fd, p, n);
	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Where openat2 is missing: component by component, following nothing. */
static int walk_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	_cleanup_close_ int at = openat(dirfd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return -errno;
	if (path[0] == '/')
		return -EXDEV;
	for (;;) {
		path += strspn(path, "/");
		size_t n = strcspn(path, "/");
		char name[LIMIT_NAME + 1];
		if (n > LIMIT_NAME)
			return -ENAMETOOLONG;
		memcpy(name, path, n);
		name[n] = '\0';
		path += n;
		if (strcmp(name, "..") == 0)
			return -EXDEV;
		bool last = path[strspn(path, "/")] == '\0';
		int how = last ? flags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_NOFOLLOW;
		int next = openat(at, n ? name : ".", how | O_CLOEXEC | O_NOCTTY, mode);
		if (next < 0)
			return errno == ENOTDIR && !last ? -ELOOP : -errno;
		if (last)
			return next;
		fd_closep(&at);
		at = next;
	}
}

static int open_beneath(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	if (!path[0])
		path = ".";
	struct open_how how = {
		.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOCTTY),
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
	};
	if (flags & O_PATH)
		how.flags &= ~(uint64_t)O_NOCTTY;
	for (int tries = 0; tries < 8; tries++) { /* -EAGAIN: a rename raced with the walk */
		long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno == ENOSYS)
			return walk_beneath(dirfd, path, flags, mode);
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return -EAGAIN;
}

int fd_open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	return open_beneath(dirfd, path, flags, mode, 0);
}

int fd_open_beneath_no_links(int dirfd, const char *path, int flags, mode_t mode)
{
	return open_beneath(dirfd, path, flags | O_NOFOLLOW, mode, RESOLVE_NO_SYMLINKS);
}

int fd_open_parent_beneath(int dirfd, const char *path, const char **ret_name)
{
	size_t n = strlen(path);
	if (n > LIMIT_PATH)
		return -ENAMETOOLONG;
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -EINVAL;
	char parent[LIMIT_PATH + 1];
	size_t len = slash ? (size_t)(slash - path) : 0;
	memcpy(parent, path, len);
	parent[len] = '\0';
	if (slash == path)
		return -EXDEV;
	int fd = fd_open_beneath(dirfd, parent, O_PATH | O_DIRECTORY, 0);
	if (fd >= 0)
		*ret_name = name;
	return fd;
}
