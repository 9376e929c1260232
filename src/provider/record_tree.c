/* record_tree.c: removing a directory tree that hostile code has filled. See record.h. */
#include "provider/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

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
