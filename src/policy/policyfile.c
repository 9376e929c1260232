/* policyfile.c: a policy file decides what runs, so that nobody else may have written it: see
 * rules.h. */
#include "policy/rules.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

static int refused(struct err *err, const char *path, const char *why, const char *remedy)
{
	return err_set(err, ERR_POLICY_DENIED, EPERM,
		"%.200s %s: whoever may write there could change the policy; %s", path, why,
		remedy);
}

static bool trusted_owner(const struct stat *st)
{
	return st->st_uid == 0 || st->st_uid == geteuid();
}

/* Every directory from path (absolute, without links) up to the root. Who may write in a sticky one
 * may not rename what is another's. */
static int check_above(char *path, struct err *err)
{
	for (char *slash; (slash = strrchr(path, '/'));) {
		struct stat st;
		*slash = '\0';
		const char *dir = *path ? path : "/";
		if (stat(dir, &st) < 0)
			return err_set(err, ERR_IO, errno, "%.200s: %s", dir, strerror(errno));
		if (!trusted_owner(&st))
			return refused(err, dir, "belongs to another user",
				"put the policy file elsewhere");
		if (st.st_mode & 022 && !(st.st_mode & S_ISVTX))
			return refused(err, dir, "is writable by others", "chmod go-w it");
	}
	return 0;
}

/* Where the file is, and where the name stands that leads to it. */
static int check_directories(const char *path, int fd, struct err *err)
{
	char link[40], real[PATH_MAX];
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, real, sizeof(real) - 1);
	if (n < 0)
		return err_set(err, ERR_IO, errno, "%.200s: %s", path, strerror(errno));
	real[n] = '\0';
	int r = check_above(real, err);
	if (r < 0)
		return r;

	_cleanup_free_ char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');
	if (!slash)
		return err_set(
			err, ERR_INVALID_ARGUMENT, EINVAL, "%.200s is no absolute path", path);
	slash[1] = '\0';
	_cleanup_free_ char *above = realpath(dir, NULL);
	if (!above)
		return err_set(err, ERR_IO, errno, "%.200s: %s", dir, strerror(errno));
	_cleanup_free_ char *child = xasprintf("%s/x", strcmp(above, "/") == 0 ? "" : above);
	return check_above(child, err);
}

static int read_all(int fd, const char *path, char **ret, size_t *ret_n, struct err *err)
{
	_cleanup_buf_ struct buf b = BUF_INIT(POLICY_FILE_MAX + 1);
	for (;;) {
		if (b.len > POLICY_FILE_MAX)
			return err_set(err, ERR_INVALID_ARGUMENT, EFBIG,
				"%.200s is longer than a policy file may be (%d KiB)", path,
				POLICY_FILE_MAX / 1024);
		size_t room = MIN(POLICY_FILE_MAX + 1 - b.len, 16384U);
		CHECK(buf_reserve(&b, room) == 0);
		ssize_t n = read(fd, b.data + b.len, room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_IO, errno, "%.200s: %s", path, strerror(errno));
		if (n == 0)
			break;
		b.len += (size_t)n;
	}
	*ret_n = b.len;
	*ret = buf_steal_str(&b);
	return 0;
}

int policy_file_read(const char *path, char **ret, size_t *ret_n, struct err *err)
{
	struct stat st;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		struct stat link;
		int e = errno == ENOTDIR ? ENOENT : errno;
		if (e == ENOENT && lstat(path, &link) == 0)
			return err_set(err, ERR_IO, EIO, "policy file %.200s leads nowhere", path);
		return err_set(err, e == ENOENT ? ERR_NO_SUCH_FILE : ERR_IO, e,
			"policy file %.200s: %s", path, strerror(e));
	}
	if (fstat(fd, &st) < 0)
		return err_set(err, ERR_IO, errno, "%.200s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(
			err, ERR_INVALID_ARGUMENT, EINVAL, "policy file %.200s is no file", path);
	if (!trusted_owner(&st))
		return refused(err, path, "belongs to another user",
			"a policy file belongs to you or to root");
	if (st.st_mode & 022)
		return refused(err, path, "is writable by others", "chmod go-w it");
	int r = check_directories(path, fd, err);
	return r < 0 ? r : read_all(fd, path, ret, ret_n, err);
}
