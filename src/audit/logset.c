/* logset.c: see logset.h. */
#include "audit/logset.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

void logset_name(uint64_t number, char ret[static LOGSET_FILE])
{
	(void)snprintf(ret, LOGSET_FILE, "audit-%012llu.jsonl", (unsigned long long)number);
}

static int number_of(const char *name, uint64_t *ret)
{
	char digits[24], again[LOGSET_FILE];
	if (sscanf(name, "audit-%20[0-9].jsonl", digits) != 1 ||
		str_to_u64(digits, INT64_MAX, ret) < 0)
		return -EINVAL;
	logset_name(*ret, again);
	return strcmp(name, again) == 0 ? 0 : -EINVAL;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

int logset_read(int dir, struct logset *ret)
{
	*ret = (struct logset){0};
	_cleanup_close_ int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d)
		return -errno;
	(void)TAKE_FD(fd);
	size_t room = 0;
	int r = 0;
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		uint64_t number;
		if (number_of(e->d_name, &number) < 0)
			continue;
		if (ret->n == LIMIT_AUDIT_FILES) {
			r = -E2BIG;
			break;
		}
		if (ret->n == room) {
			room = MAX((size_t)16, 2 * room);
			ret->numbers = xrealloc(ret->numbers, room * sizeof(*ret->numbers));
		}
		ret->numbers[ret->n++] = number;
	}
	(void)closedir(d);
	if (r < 0) {
		logset_done(ret);
		return r;
	}
	if (ret->n)
		qsort(ret->numbers, ret->n, sizeof(*ret->numbers), compare);
	return 0;
}

void logset_done(struct logset *s)
{
	free(s->numbers);
	*s = (struct logset){0};
}

int logset_line_before(int fd, off_t offset, char **ret, size_t *ret_n)
{
	if (offset == 0)
		return -ENOENT;
	size_t n = (size_t)MIN(offset, (off_t)LIMIT_AUDIT_LINE + 1);
	_cleanup_free_ char *p = xmalloc(n);
	ssize_t got = pread(fd, p, n, offset - (off_t)n);
	if (got < 0)
		return -errno;
	if ((size_t)got != n || p[n - 1] != '\n')
		return -EBADMSG;
	const char *before = memrchr(p, '\n', n - 1);
	if (!before && (off_t)n < offset)
		return -EBADMSG;
	const char *line = before ? before + 1 : p;
	*ret_n = (size_t)(p + n - 1 - line);
	*ret = xmemdup(line, MAX(*ret_n, (size_t)1));
	return 0;
}

int logset_ends_with(int fd, off_t offset, const uint8_t hash[static HASH_SIZE])
{
	_cleanup_free_ char *line = NULL;
	size_t n = 0;
	uint8_t found[HASH_SIZE];
	int r = logset_line_before(fd, offset, &line, &n);
	if (r < 0)
		return r;
	hash_bytes(line, n, found);
	return memcmp(found, hash, HASH_SIZE) == 0 ? 0 : -EBADMSG;
}
