/* transfer.c: see transfer.h.
 *
 * The code in the sandbox renames and replaces files while they are looked at here. So: a path is
 * resolved once, beneath its top; what counts is what fstat() says of the open descriptor; opening
 * never waits (a FIFO may have been put there), and only regular files are read or written. */
#include "agent/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/request.h"
#include "agent/turn.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"

#define CHUNK (64 * KIB)
/* One thread, and no bytes stay here between two calls. */
static uint8_t chunk[CHUNK];

typedef int (*open_fn)(int dirfd, const char *path, int flags, mode_t mode);

/* A regular file for reading: the descriptor, or -1 where the stream has been ended. */
static int open_regular(struct stream *s, const struct place *p, open_fn open_at, struct stat *ret)
{
	/* The first look keeps FIFOs and devices from being opened by an honest mistake; the second
	 * one is the one that counts. */
	_cleanup_close_ int fd = open_at(p->dirfd, p->rel, O_PATH, 0);
	for (int look = 0; look < 2; look++) {
		if (fd < 0 || fstat(fd, ret) < 0) {
			request_fail(s, fd < 0 ? -fd : errno);
			return -1;
		}
		if (!S_ISREG(ret->st_mode)) {
			request_fail_kind(s, ret->st_mode);
			return -1;
		}
		if (look == 0) {
			fd_closep(&fd);
			fd = open_at(p->dirfd, p->rel, O_RDONLY | O_NONBLOCK, 0);
		}
	}
	return TAKE_FD(fd);
}

/* ---- reading ---- */

struct reading {
	struct stream *s;
	struct request q;
	int fd;
	struct stat st;
	uint64_t at, end;
};

static void reading_free(struct reading *r)
{
	fd_closep(&r->fd);
	request_done(&r->q);
	free(r);
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* The open file is as it was at the start, and the path still names it. */
static bool unchanged(const struct reading *r)
{
	struct stat now, named;
	_cleanup_close_ int fd =
		fd_open_beneath_no_links(r->q.path.dirfd, r->q.path.rel, O_PATH, 0);
	if (fd < 0 || fstat(fd, &named) < 0 || fstat(r->fd, &now) < 0)
		return false;
	return now.st_size == r->st.st_size && same_time(&now.st_mtim, &r->st.st_mtim) &&
	       same_time(&now.st_ctim, &r->st.st_ctim) && now.st_mode == r->st.st_mode &&
	       named.st_dev == now.st_dev && named.st_ino == now.st_ino;
}

static void reading_end(struct reading *r)
{
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	CHECK(request_describe(&b, &r->st) == 0 &&
		tlv_u64(&b, TAG_LENGTH, r->at - r->q.offset) == 0);
	if (r->q.stable && (!unchanged(r) || r->at != r->end))
		stream_fail(r->s, WIRE_CHANGED, 0, "%s", "");
	else
		stream_end(r->s, WIRE_OK, &b);
	reading_free(r);
}

/* As much as credit allows: at most a window, which takes well under a millisecond. */
static void reading_pump(struct stream *s)
{
	struct reading *r = stream_user(s);
	while (r->at < r->end) {
		size_t want = MIN(MIN(stream_room(s), CHUNK), r->end - r->at);
		if (!want)
			return;
		ssize_t n = pread(r->fd, chunk, want, (off_t)r->at);
		if (n < 0) {
			request_fail(s, errno);
			reading_free(r);
			return;
		}
		if (n == 0)
			break;
		stream_data(s, chunk, (size_t)n, false);
		r->at += (uint64_t)n;
	}
	reading_end(r);
}

static void reading_closed(struct stream *s)
{
	reading_free(stream_user(s));
}

void transfer_read(struct stream *s, struct tlv_reader body, const struct config *c)
{
	static const struct stream_ops ops = {.writable = reading_pump, .closed = reading_closed};
	_cleanup_request_ struct request q = {0};
	if (!request_read(s, body, c, REQUEST_READS, &q))
		return;
	struct stat st;
	_cleanup_close_ int fd = open_regular(
		s, &q.path, q.stable ? fd_open_beneath_no_links : fd_open_beneath, &st);
	if (fd < 0)
		return;
	if (q.stable && st.st_mode & (S_ISUID | S_ISGID)) {
		stream_fail(s, WIRE_NOT_REGULAR, 0, "a program with a set-id bit");
		return;
	}
	if (q.limit && (uint64_t)st.st_size > q.limit) {
		_cleanup_buf_ struct buf b = BUF_INIT(KIB);
		CHECK(request_describe(&b, &st) == 0);
		stream_end(s, WIRE_LIMIT, &b);
		return;
	}
	struct reading *r = xcalloc(1, sizeof(*r));
	r->s = s;
	r->q = q;
	q = (struct request){0};
	r->fd = TAKE_FD(fd);
	r->st = st;
	r->at = r->q.offset;
	/* A file that grows is read up to what it was; one of /proc's kind (size 0) is empty. */
	uint64_t size = (uint64_t)st.st_size;
	uint64_t left = size - MIN(size, r->at);
	r->end = r->at + (r->q.has_length ? MIN(r->q.length, left) : left);
	stream_serve(s, &ops, r);
	reading_pump(s);
}

/* ---- writing ---- */

struct writing {
	struct stream *s;
	int parent; /* the directory, pinned */
	int fd;
	char *name;
	char temp[40]; /* "" where the file itself is written */
	uint64_t written;
	bool created;      /* without temp: by us */
	uint64_t old_size; /* the same: at the beginning */
	uint64_t skip;     /* the same delivery, cut off, has written so many of the first bytes */
	uint64_t before;   /* and this is how many they were */
	mode_t mode;
	struct request q;
};

static void writing_free(struct writing *w)
{
	if (w->temp[0])
		(void)unlinkat(w->parent, w->temp, 0);
	fd_closep(&w->fd);
	fd_closep(&w->parent);
	free(w->name);
	request_done(&w->q);
	free(w);
}

static void writing_fail(struct writing *w, int errnum)
{
	if (errnum == ENOSPC && !w->temp[0] && w->written)
		stream_fail(w->s, WIRE_NO_SPACE, errnum, "%s; %llu bytes were written before",
			strerror(errnum), (unsigned long long)w->written);
	else
		request_fail(w->s, errnum);
	writing_free(w);
}

static void writing_finish(struct writing *w)
{
	struct stat st;
	if (w->temp[0]) {
		if (w->q.has_expected &&
			(fstatat(w->parent, w->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
				!request_expects(&w->q, &st))) {
			stream_fail(w->s, WIRE_CHANGED, 0, "%s", "");
			writing_free(w);
			return;
		}
		if (fchmod(w->fd, w->mode) < 0 ||
			renameat(w->parent, w->temp, w->parent, w->name) < 0) {
			writing_fail(w, errno);
			return;
		}
		w->temp[0] = '\0';
	}
	if (fstat(w->fd, &st) < 0) {
		writing_fail(w, errno);
		return;
	}
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	CHECK(request_describe(&b, &st) == 0);
	if (w->q.has_count)
		CHECK(tlv_u64(&b, TAG_COUNT, w->q.count) == 0);
	stream_end(w->s, WIRE_OK, &b);
	writing_free(w);
}

static void writing_data(struct stream *s, const uint8_t *p, size_t n, bool fin)
{
	struct writing *w = stream_user(s);
	size_t done = MIN(w->skip, n);
	w->skip -= done;
	while (done < n) {
		ssize_t r = write(w->fd, p + done, n - done);
		if (r < 0 && errno != EINTR) {
			writing_fail(w, errno);
			return;
		}
		if (r > 0) {
			done += (size_t)r;
			w->written += (uint64_t)r;
		}
	}
	stream_consumed(s, n);
	if (fin)
		writing_finish(w);
}

/* It was cut off, and its bytes stand in the file itself: those behind what was its end go. Where
 * something else has been written behind them they stay and count. (Bytes that an OFFSET put in
 * place of others are written there again.) */
static void take_back(struct writing *w)
{
	struct stat st, named;
	uint64_t start = w->q.append ? w->old_size : w->q.offset;
	if (fstat(w->fd, &st) < 0)
		return;
	bool last = (uint64_t)st.st_size == start + w->written;
	if (!last ||
		((uint64_t)st.st_size > w->old_size && ftruncate(w->fd, (off_t)w->old_size) < 0)) {
		if (w->q.append)
			stream_note_taken(w->s, w->before + w->written);
		return;
	}
	if (w->before)
		stream_note_taken(w->s, w->before);
	if (w->created && fstatat(w->parent, w->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
		named.st_dev == st.st_dev && named.st_ino == st.st_ino)
		(void)unlinkat(w->parent, w->name, 0);
}

static void writing_closed(struct stream *s)
{
	struct writing *w = stream_user(s);
	if (!w->temp[0])
		take_back(w);
	writing_free(w);
}

/* Opens what is to be written: 0, or a negative errno; -EBADF where *st is of the wrong kind. */
static int writing_open(struct writing *w, struct stat *st)
{
	const struct request *q = &w->q;
	bool there = fstatat(w->parent, w->name, st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!there && errno != ENOENT)
		return -errno;
	if (there && !S_ISREG(st->st_mode))
		return -EBADF;
	w->mode = q->mode ? q->mode & 0777 : there ? st->st_mode & 0777 : 0644;
	if (!q->append && !q->has_offset) {
		uint8_t unique[8];
		id_random(unique, sizeof(unique));
		int n = snprintf(w->temp, sizeof(w->temp), ".scb-write-");
		id_hex(unique, sizeof(unique), w->temp + n);
		w->fd = fd_open_beneath(w->parent, w->temp,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK, 0600);
		if (w->fd < 0)
			w->temp[0] = '\0';
		return MIN(w->fd, 0);
	}
	w->fd = fd_open_beneath(w->parent, w->name,
		O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | (q->append ? O_APPEND : 0), w->mode);
	if (w->fd < 0)
		return w->fd;
	if (fstat(w->fd, st) < 0)
		return -errno;
	if (!S_ISREG(st->st_mode))
		return -EBADF;
	w->created = !there;
	w->old_size = (uint64_t)st->st_size;
	if (q->append)
		w->skip = w->before = stream_taken_before(w->s);
	return !q->append && lseek(w->fd, (off_t)q->offset, SEEK_SET) < 0 ? -errno : 0;
}

void transfer_write(struct stream *s, struct tlv_reader body, const struct config *c)
{
	static const struct stream_ops ops = {.data = writing_data, .closed = writing_closed};
	_cleanup_request_ struct request q = {0};
	if (!request_read(s, body, c, REQUEST_WRITES, &q))
		return;
	if (strcmp(q.path.rel, ".") == 0) {
		request_fail_kind(s, S_IFDIR);
		return;
	}
	int r = q.parents ? request_make_parents(&q.path) : 0;
	const char *name = NULL;
	_cleanup_close_ int parent =
		r < 0 ? r : fd_open_parent_beneath(q.path.dirfd, q.path.rel, &name);
	if (parent < 0) {
		request_fail(s, -parent);
		return;
	}
	struct writing *w = xcalloc(1, sizeof(*w));
	struct stat st = {0};
	w->s = s;
	w->name = xstrdup(name);
	w->parent = TAKE_FD(parent);
	w->fd = -1;
	w->q = q;
	q = (struct request){0};
	r = writing_open(w, &st);
	if (r == -EBADF)
		request_fail_kind(s, st.st_mode);
	else if (r < 0)
		request_fail(s, -r);
	if (r < 0)
		writing_free(w);
	else
		stream_serve(s, &ops, w);
}

/* ---- hashing ---- */

struct hashing {
	struct turn turn;
	struct stream *s;
	int fd;
	struct sha256 sha;
};

static void hashing_free(struct hashing *h)
{
	turn_remove(&h->turn);
	fd_closep(&h->fd);
	free(h);
}

static void hashing_step(struct turn *t, uint64_t deadline_us)
{
	struct hashing *h = container_of(t, struct hashing, turn);
	ssize_t n;
	do {
		n = read(h->fd, chunk, CHUNK);
		if (n > 0)
			sha256_update(&h->sha, chunk, (size_t)n);
	} while (n > 0 && clock_monotonic_us() < deadline_us);
	if (n > 0)
		return;
	if (n < 0) {
		request_fail(h->s, errno);
	} else {
		_cleanup_buf_ struct buf b = BUF_INIT(KIB);
		uint8_t digest[SHA256_SIZE];
		uint64_t total = h->sha.total;
		sha256_final(&h->sha, digest);
		CHECK(tlv_u64(&b, TAG_SIZE, total) == 0 &&
			tlv_bytes(&b, TAG_SHA256, digest, sizeof(digest)) == 0);
		stream_end(h->s, WIRE_OK, &b);
	}
	hashing_free(h);
}

static void hashing_closed(struct stream *s)
{
	hashing_free(stream_user(s));
}

void transfer_hash(struct stream *s, struct tlv_reader body, const struct config *c)
{
	static const struct stream_ops ops = {.closed = hashing_closed};
	_cleanup_request_ struct request q = {0};
	if (!request_read(s, body, c, REQUEST_READS, &q))
		return;
	struct stat st;
	_cleanup_close_ int fd = open_regular(s, &q.path, fd_open_beneath, &st);
	if (fd < 0)
		return;
	struct hashing *h = xcalloc(1, sizeof(*h));
	h->s = s;
	h->fd = TAKE_FD(fd);
	h->turn.step = hashing_step;
	list_init(&h->turn.node);
	sha256_init(&h->sha);
	stream_serve(s, &ops, h);
	turn_add(&h->turn);
}
