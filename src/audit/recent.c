/* recent.c: see recent.h. */
#include "audit/recent.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/logset.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"

static int open_one(int dir, const char *name, uint64_t *ret_size)
{
	_cleanup_close_ int fd =
		openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	*ret_size = (uint64_t)st.st_size;
	return TAKE_FD(fd);
}

static int read_one(int fd, uint64_t size, uint64_t max,
	void (*fn)(void *user, const char *line, size_t n), void *user)
{
	uint64_t at = size > max ? size - max : 0, n = size - at;
	bool partial = at > 0; /* the first line */
	_cleanup_buf_ struct buf b = BUF_INIT(n + 1);
	if (n == 0)
		return 0;
	if (buf_reserve(&b, n) < 0)
		return -ENOMEM;
	while (b.len < n) {
		ssize_t got = pread(fd, b.data + b.len, n - b.len, (off_t)(at + b.len));
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		b.len += (size_t)got;
	}
	const char *p = (const char *)b.data, *end = p + b.len, *stop;
	for (; (stop = memchr(p, '\n', (size_t)(end - p))); p = stop + 1) {
		if (!partial)
			fn(user, p, (size_t)(stop - p));
		partial = false;
	}
	return 0;
}

int recent_read(
	int dir, uint64_t max, void (*fn)(void *user, const char *line, size_t n), void *user)
{
	uint64_t size = 0, former_size = 0;
	_cleanup_close_ int fd = open_one(dir, LOGSET_NAME, &size);
	if (fd < 0)
		return fd;
	if (size < max) {
		_cleanup_logset_ struct logset set = {0};
		char name[LOGSET_FILE];
		int r = logset_read(dir, &set);
		if (r == 0 && set.n) {
			logset_name(set.numbers[set.n - 1], name);
			_cleanup_close_ int former = open_one(dir, name, &former_size);
			r = former < 0 ? former
				       : read_one(former, former_size, max - size, fn, user);
		}
		if (r < 0)
			return r;
	}
	return read_one(fd, size, max, fn, user);
}
