/* chain.c: see chain.h. */
#include "audit/chain.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/chain_internal.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/log.h"

/* So often it is looked whether somebody else was at the log: a system call of 1 to 5 µs. What is
 * done in between is found the next time, and by verify. */
#define LOOK_US (10 * USEC_PER_MSEC)

int chain_broken(struct err *err, int errnum)
{
	return err_set(err, ERR_AUDIT_UNAVAILABLE, errnum,
		"the audit log cannot be written (%s), so nothing was run; make room for it or "
		"repair its file system",
		strerror(errnum));
}

/* ---- files ---- */

int chain_open_file(struct chain *c, const char *name, int flags)
{
	_cleanup_close_ int fd = openat(c->dir, name,
		O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags, 0600);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return -EPERM;
	if ((st.st_mode & 0777) != 0600 && fchmod(fd, 0600) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int chain_use_file(struct chain *c, int fd, uint64_t offset)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	fd_closep(&c->fd);
	c->fd = fd;
	c->dev = st.st_dev;
	c->ino = st.st_ino;
	c->head.offset = offset;
	c->allocated = offset;
	if (c->sync)
		sync_log(c->sync, fd);
	return 0;
}

int chain_promise(struct chain *c, uint64_t end)
{
	if (end <= c->allocated || c->no_promises)
		return 0;
	off_t from = (off_t)c->head.offset;
	uint64_t wanted = end + CHAIN_CHUNK;
	if (fallocate(c->fd, FALLOC_FL_KEEP_SIZE, from, (off_t)wanted - from) < 0) {
		int errnum = errno;
		wanted = end;
		if (errnum == ENOSPC &&
			fallocate(c->fd, FALLOC_FL_KEEP_SIZE, from, (off_t)wanted - from) < 0)
			return -errno;
		if (errnum == EOPNOTSUPP || errnum == ENOSYS) {
			c->no_promises = true;
			log_info("the audit log's file system keeps no room for it");
			return 0;
		}
		if (errnum != ENOSPC)
			return -errnum;
	}
	c->allocated = wanted;
	return 0;
}

/* Is the file that has the log's name the one that is written, and as long as it was left? */
static bool is_as_left(struct chain *c)
{
	struct stat st;
	uint64_t now_us = clock_monotonic_us();
	if (now_us < c->looked_us + LOOK_US)
		return true;
	c->looked_us = now_us;
	return fstatat(c->dir, LOGSET_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == c->ino &&
	       st.st_dev == c->dev && (uint64_t)st.st_size == c->head.offset;
}

/* ---- lines ---- */

/* The calendar is asked once a second. */
static const char *time_text(struct chain *c)
{
	uint64_t now_us = clock_realtime_us(), fraction = now_us % USEC_PER_SEC;
	if (now_us / USEC_PER_SEC != c->ts_second)
		clock_rfc3339(now_us, c->ts);
	c->ts_second = now_us / USEC_PER_SEC;
	for (char *p = c->ts + strlen(c->ts) - 2; *p != '.'; p--, fraction /= 10)
		*p = (char)('0' + fraction % 10);
	return c->ts;
}

void chain_begin_line(struct chain *c, struct line *l, const char *event)
{
	char prev[HASH_TEXT];
	id_hex(c->tip, HASH_SIZE, prev);
	c->line_at = c->lines.len;
	*l = (struct line){.out = &c->lines};
	line_open(l, NULL, '{');
	line_text(l, "ts", time_text(c), CLOCK_RFC3339_SIZE);
	line_int(l, "seq", (int64_t)c->seq + 1);
	line_text(l, "prev", prev, HASH_TEXT);
	line_text(l, "run", c->run, sizeof(c->run));
	line_text(l, "event", event, 64);
}

int chain_begin(struct chain *c, struct line *l, const char *event, struct err *err)
{
	if (c->n_lines == 0 && (c->unsure || !is_as_left(c))) {
		c->unsure = true;
		int r = chain_repair(c, err);
		if (r < 0)
			return r;
	}
	chain_begin_line(c, l, event);
	return 0;
}

int chain_end(struct chain *c, struct line *l, struct err *err)
{
	line_close(l, '}');
	size_t n = c->lines.len - c->line_at;
	int r = l->r ? l->r : buf_append(&c->lines, "\n", 1);
	if (r < 0) {
		c->lines.len = c->line_at;
		return err_set(err, ERR_AUDIT_UNAVAILABLE, E2BIG,
			"the audit record is too large; nothing was done");
	}
	hash_bytes(c->lines.data + c->line_at, n, c->tip);
	c->seq++;
	c->n_lines++;
	return 0;
}

static void forget_lines(struct chain *c)
{
	buf_clear(&c->lines);
	c->n_lines = 0;
	c->seq = c->head.seq;
	memcpy(c->tip, c->head.hash, HASH_SIZE);
}

/* ---- writing ---- */

static int durable(const struct chain *c, int fd)
{
	return c->config.fsync == AUDIT_FSYNC_ALWAYS && fdatasync(fd) < 0 ? -errno : 0;
}

static int announce(struct chain *c)
{
	c->head.next_seq = c->seq;
	c->head.next_bytes = c->lines.len;
	memcpy(c->head.next_hash, c->tip, HASH_SIZE);
	head_write(c->head_map, c->key, &c->head);
	return durable(c, c->head_fd);
}

static void settle(struct chain *c)
{
	c->head.next_seq = c->head.next_bytes = 0;
	memset(c->head.next_hash, 0, HASH_SIZE);
	head_write(c->head_map, c->key, &c->head);
}

static void commit(struct chain *c)
{
	c->head.offset += c->lines.len;
	c->head.seq = c->seq;
	memcpy(c->head.hash, c->tip, HASH_SIZE);
	settle(c);
}

/* What was written of it goes again, so that the log has whole lines alone. */
static void take_back(struct chain *c)
{
	if (ftruncate(c->fd, (off_t)c->head.offset) < 0)
		c->unsure = true;
	else
		settle(c);
	c->allocated = c->head.offset; /* the promise has gone with it */
}

static int make_room(struct chain *c, enum chain_kind kind)
{
	uint64_t end = c->head.offset + c->lines.len;
	uint64_t kept = CHAIN_OWED_BASE + c->owed * CHAIN_OWED_LINE;
	int r = chain_promise(c, end + kept);
	return kind == CHAIN_OWED ? 0 : r;
}

int chain_flush(struct chain *c, enum chain_kind kind, struct err *err)
{
	if (c->n_lines == 0)
		return 0;
	int r = make_room(c, kind);
	if (r == 0) {
		r = announce(c);
		if (r == 0)
			r = fd_write_full(c->fd, c->lines.data, c->lines.len);
		if (r == 0)
			r = durable(c, c->fd);
		if (r < 0)
			take_back(c);
		else
			commit(c);
	}
	forget_lines(c);
	if (r < 0)
		return chain_broken(err, -r);
	if (c->sync)
		sync_dirty(c->sync);
	if (c->head.offset >= c->config.max_bytes)
		chain_rotate(c);
	return 0;
}

bool chain_waits(const struct chain *c)
{
	return c->n_lines > 0;
}

uint64_t chain_seq(const struct chain *c)
{
	return c->head.seq;
}

int chain_dup_dir(const struct chain *c)
{
	int fd = fcntl(c->dir, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

void chain_owe(struct chain *c, int more)
{
	if (more > 0)
		c->owed += (unsigned)more;
	else
		c->owed -= MIN(c->owed, (unsigned)-more);
}

/* ---- life ---- */

/* One writer. */
static int lock(struct chain *c, const char *path, struct err *err)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	if (fcntl(c->head_fd, F_SETLK, &lock) == 0)
		return 0;
	return err_set(err, ERR_AUDIT_UNAVAILABLE,
		errno == EAGAIN || errno == EACCES ? EBUSY : errno,
		"the audit log %.200s is being written by another process", path);
}

static int open_place(struct chain *c, const char *path, const char *key_path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir =
		slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
	CHECK(strcmp(slash ? slash + 1 : path, LOGSET_NAME) == 0);
	c->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->dir < 0)
		return err_set(err, ERR_AUDIT_UNAVAILABLE, errno,
			"the audit log %.200s cannot be opened (%s); nothing runs without it", path,
			strerror(errno));
	int r = head_key(key_path, true, c->key, err);
	if (r < 0)
		return r;
	r = c->head_fd = chain_open_file(c, HEAD_NAME, O_CREAT);
	if (r < 0)
		return err_set(err, ERR_AUDIT_UNAVAILABLE, -r,
			"%s beside the audit log %.200s cannot be opened (%s); nothing runs "
			"without it",
			HEAD_NAME, path, strerror(-r));
	return lock(c, path, err);
}

int chain_open(const char *path, const char *key_path, const struct audit_config *config,
	struct chain **ret, struct err *err)
{
	struct chain *c = xcalloc(1, sizeof(*c));
	uint8_t run[4];
	c->dir = c->fd = c->head_fd = -1;
	c->config = AUDIT_CONFIG_DEFAULT;
	buf_init(&c->lines, CHAIN_LINES_MAX);
	id_random(run, sizeof(run));
	id_hex(run, sizeof(run), c->run);
	int r = open_place(c, path, key_path, err);
	if (r == 0 && config)
		r = chain_configure(c, config, err);
	if (r == 0)
		r = chain_repair(c, err);
	if (r < 0) {
		chain_close(c);
		return r;
	}
	*ret = c;
	return 0;
}

int chain_configure(struct chain *c, const struct audit_config *config, struct err *err)
{
	c->config = *config;
	sync_stop(TAKE_PTR(c->sync));
	if (config->fsync != AUDIT_FSYNC_INTERVAL)
		return 0;
	int r = sync_start(config->interval_ms, c->head_fd, &c->sync);
	if (r < 0)
		return err_set(err, ERR_AUDIT_UNAVAILABLE, -r,
			"no thread can be made that writes the audit log to the disk: %s",
			strerror(-r));
	if (c->fd >= 0)
		sync_log(c->sync, c->fd);
	return 0;
}

void chain_close(struct chain *c)
{
	sync_stop(c->sync);
	/* what was promised and is not used */
	if (c->fd >= 0 && !c->unsure)
		(void)!ftruncate(c->fd, (off_t)c->head.offset);
	fd_closep(&c->fd);
	head_unmap(c->head_map);
	fd_closep(&c->head_fd);
	fd_closep(&c->dir);
	buf_done(&c->lines);
	explicit_bzero(c->key, sizeof(c->key));
	free(c);
}

/* ---- reading back ---- */

/* Calls fn for each whole line from at on. */
static int each_line_of(
	int fd, off_t at, void (*fn)(void *user, const char *line, size_t n), void *user)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	bool partial = at > 0; /* the first line */
	_cleanup_buf_ struct buf b = BUF_INIT(2 * LIMIT_AUDIT_LINE);
	while (at < st.st_size) {
		if (b.len >= LIMIT_AUDIT_LINE)
			buf_clear(&b); /* no line is so long: not one of ours */
		if (buf_reserve(&b, LIMIT_AUDIT_LINE) < 0)
			return -ENOMEM;
		ssize_t n = pread(fd, b.data + b.len, LIMIT_AUDIT_LINE, at);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			break;
		b.len += (size_t)MAX(n, 0);
		at += MAX(n, 0);
		const char *p = (const char *)b.data, *end = p + b.len, *stop;
		for (; (stop = memchr(p, '\n', (size_t)(end - p))); p = stop + 1) {
			if (!partial)
				fn(user, p, (size_t)(stop - p));
			partial = false;
		}
		buf_consume(&b, (size_t)(p - (const char *)b.data));
	}
	return 0;
}

/* Of former files from the oldest that is needed on; each is opened for itself. */
static int each_former_line(struct chain *c, uint64_t max,
	void (*fn)(void *user, const char *line, size_t n), void *user)
{
	_cleanup_logset_ struct logset set = {0};
	char name[LOGSET_FILE];
	struct stat st;
	int r = logset_read(c->dir, &set);
	if (r < 0)
		return r;
	size_t first = set.n;
	uint64_t skip = 0;
	while (first > 0 && max > 0) {
		logset_name(set.numbers[first - 1], name);
		uint64_t size = fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0
					? (uint64_t)st.st_size
					: 0;
		first--;
		skip = size > max ? size - max : 0;
		max -= MIN(size, max);
	}
	for (; r == 0 && first < set.n; first++, skip = 0) {
		logset_name(set.numbers[first], name);
		_cleanup_close_ int fd = chain_open_file(c, name, 0);
		r = fd < 0 ? fd : each_line_of(fd, (off_t)skip, fn, user);
	}
	return r;
}

int chain_each_line(struct chain *c, uint64_t max,
	void (*fn)(void *user, const char *line, size_t n), void *user)
{
	uint64_t size = c->head.offset;
	if (size < max) {
		int r = each_former_line(c, max - size, fn, user);
		if (r < 0)
			return r;
	}
	return each_line_of(c->fd, size > max ? (off_t)(size - max) : 0, fn, user);
}
