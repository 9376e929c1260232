/* verify.c: see verify.h. */
#include "audit/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/head.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"

#define ULL(v) ((unsigned long long)(v))
/* Times that a log is read anew which a broker rotates meanwhile. */
#define TRIES 5

/* ---- files ---- */

/* Each whole line; *ret_rest: bytes at the end that no newline ends. */
static int read_lines(struct check *c, int fd, uint64_t *ret_rest, struct err *err)
{
	_cleanup_buf_ struct buf b = BUF_INIT(2 * LIMIT_AUDIT_LINE);
	for (;;) {
		if (b.len >= LIMIT_AUDIT_LINE) {
			check_line(c, (const char *)b.data, b.len); /* too long: none of ours */
			buf_clear(&b);
		}
		CHECK(buf_reserve(&b, LIMIT_AUDIT_LINE) == 0);
		ssize_t n = read(fd, b.data + b.len, LIMIT_AUDIT_LINE);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_IO, errno, "%.200s cannot be read: %s", c->file,
				strerror(errno));
		if (n == 0)
			break;
		b.len += (size_t)n;
		const char *p = (const char *)b.data, *end = p + b.len, *stop;
		for (; (stop = memchr(p, '\n', (size_t)(end - p))); p = stop + 1)
			check_line(c, p, (size_t)(stop - p));
		buf_consume(&b, (size_t)(p - (const char *)b.data));
	}
	*ret_rest = b.len;
	return 0;
}

static int read_file(
	struct check *c, int dir, const char *name, uint64_t *ret_rest, struct err *err)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno == ENOENT ? ERR_NO_SUCH_FILE : ERR_IO, errno,
			"%.200s cannot be opened: %s", name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_IO, EINVAL, "%.200s is not a regular file", name);
	check_file(c, name);
	return read_lines(c, fd, ret_rest, err);
}

static void say_rest(struct check *c, uint64_t rest)
{
	struct check_place at = {.line = c->line + 1};
	memcpy(at.file, c->file, sizeof(at.file));
	check_say(c, &at, false, "the line is not ended: %llu bytes without a newline", ULL(rest));
}

/* Former files, the oldest first, and the present one. *ret_rest is of that. */
static int read_all(struct verify_result *v, int dir, const struct logset *set, uint64_t *ret_rest,
	bool *ret_there, struct err *err)
{
	char name[LOGSET_FILE];
	int r = 0;
	for (size_t i = 0; r == 0 && i < set->n; i++) {
		uint64_t rest = 0;
		logset_name(set->numbers[i], name);
		r = read_file(&v->check, dir, name, &rest, err);
		if (r == 0 && rest)
			say_rest(&v->check, rest);
	}
	v->files = set->n;
	if (r < 0)
		return r;
	*ret_rest = 0;
	r = read_file(&v->check, dir, LOGSET_NAME, ret_rest, err);
	*ret_there = r == 0;
	v->files += r == 0;
	return r == -ENOENT ? 0 : r;
}

/* ---- the head ---- */

struct vouch {
	int fd;
	bool keyed;
	uint8_t key[HASH_KEY_SIZE];
	enum head_state state;
	struct head head;
};

/* A broker may be writing it: until it is the same twice. */
static int read_head(struct vouch *h)
{
	struct head again;
	enum head_state state;
	int r = head_read(h->fd, h->key, &h->state, &h->head);
	for (int i = 0; r == 0 && i < 100; i++) {
		r = head_read(h->fd, h->key, &state, &again);
		bool same = r == 0 && state == h->state &&
			    (state < HEAD_SETTLED || again.generation == h->head.generation);
		h->state = state;
		h->head = again;
		if (same)
			break;
		clock_wait_us(100);
	}
	return r;
}

static bool is_known(const struct vouch *h)
{
	return h->keyed && h->state >= HEAD_SETTLED;
}

/* The last line that must be there. */
static uint64_t least_seq(const struct vouch *h)
{
	return h->state == HEAD_FULFILLED ? h->head.next_seq : h->head.seq;
}

/* … and that may be there. */
static uint64_t most_seq(const struct vouch *h)
{
	return h->state == HEAD_SETTLED ? h->head.seq : h->head.next_seq;
}

static bool is_being_written(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static void open_head(struct vouch *h, int dir, const char *key, struct check *c)
{
	struct err err = {0};
	h->fd = openat(dir, HEAD_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (h->fd < 0) {
		check_say(c, NULL, false,
			"%s is not there: nothing says which line is the last one", HEAD_NAME);
		return;
	}
	if (head_key(key, false, h->key, &err) < 0) {
		check_say(c, NULL, false, "%s: without it the head cannot be checked", err.text);
		return;
	}
	h->keyed = true;
	if (read_head(h) < 0)
		h->state = HEAD_FOREIGN;
	if (h->state < HEAD_SETTLED) {
		check_say(c, NULL, false,
			h->state == HEAD_MISSING ? "%s is empty"
						 : "%s was not written with this key: it was "
						   "changed, or is another log's",
			HEAD_NAME);
		return;
	}
	struct check_watch *w = &c->watch[CHECK_HEAD];
	w->wanted = least_seq(h) > 0;
	w->seq = least_seq(h);
	memcpy(w->hash, h->state == HEAD_FULFILLED ? h->head.next_hash : h->head.hash, HASH_SIZE);
}

/* ---- judging ---- */

static void judge_start(struct check *c, const struct vouch *h)
{
	if (!c->any)
		return;
	if (c->first_seq > 1 && !c->dropped)
		check_say(c, &c->first, false,
			"lines 1 to %llu are missing before this one, and no line says that a "
			"broker "
			"deleted them",
			ULL(c->first_seq - 1));
	if (c->first_seq == 1 && is_known(h) &&
		memcmp(c->first_prev, h->head.chain, HASH_SIZE) != 0)
		check_say(c, &c->first, false, "this is not the line that the log began with");
}

/* first is the head as it was before the lines were read. */
static void judge_end(
	struct verify_result *v, const struct vouch *first, const struct vouch *h, uint64_t rest)
{
	struct check *c = &v->check;
	const struct check_watch *w = &c->watch[CHECK_HEAD];
	uint64_t last = c->any ? c->seq : 0;
	bool moved = h->head.generation != first->head.generation;
	bool torn = h->state == HEAD_OPEN;
	if (rest && !torn && !(v->being_written && moved))
		say_rest(c, rest);
	if (w->found && !w->matches)
		check_say(c, &w->at, false,
			"this is not the line that the head vouches for: it was changed, or all "
			"lines up to it were written anew");
	if (w->wanted && !w->found && last < w->seq)
		check_say(c, &c->at, false,
			"the log ends with line %llu, and its head says %llu: lines were cut off, "
			"or an older copy was put in its place",
			ULL(last), ULL(w->seq));
	if (last > most_seq(h))
		check_say(c, &c->at, false,
			"the log goes on to line %llu, and its head says %llu: lines were appended "
			"without the key, or an older head was put in its place",
			ULL(last), ULL(most_seq(h)));
	/* what was written after the head was first read */
	const uint8_t *hash = last == h->head.seq        ? h->head.hash
			      : last == h->head.next_seq ? h->head.next_hash
							 : NULL;
	if (hash && last != w->seq && memcmp(hash, c->hash, HASH_SIZE) != 0)
		check_say(c, &c->at, false, "this is not the line that the head vouches for");
	if (torn && !v->being_written)
		check_say(c, &c->at, true,
			"a broker ended while it wrote what comes after this line; the next one "
			"puts that right, and nothing was done on its strength");
}

static void judge_anchor(struct check *c, const struct verify_request *q)
{
	const struct check_watch *w = &c->watch[CHECK_ANCHOR];
	if (!q->anchored || (w->found && w->matches))
		return;
	if (w->found)
		check_say(c, &w->at, false,
			"this is not the line of the anchor: the log was written anew since");
	else if (!c->any || w->seq > c->seq)
		check_say(c, c->any ? &c->at : NULL, false,
			"the anchor's line %llu is not there: an older copy of log and head was "
			"put "
			"in their place",
			ULL(w->seq));
	else if (w->seq + 1 < c->first_seq)
		check_say(c, &c->first, true,
			"the anchor's line %llu is in a file that is no longer kept", ULL(w->seq));
	else if (w->seq + 1 != c->first_seq || memcmp(w->hash, c->first_prev, HASH_SIZE) != 0)
		check_say(c, &c->first, false,
			"before this line stood another one than the anchor's");
}

static void set_anchor(struct check *c, const struct verify_request *q)
{
	struct check_watch *w = &c->watch[CHECK_ANCHOR];
	w->wanted = q->anchored;
	w->seq = q->anchor_seq;
	memcpy(w->hash, q->anchor_hash, HASH_SIZE);
}

/* ---- a log ---- */

static bool same_files(const struct logset *a, const struct logset *b)
{
	return a->n == b->n &&
	       (a->n == 0 || memcmp(a->numbers, b->numbers, a->n * sizeof(*a->numbers)) == 0);
}

/* *ret_again: the files changed meanwhile, so that what was found means nothing. */
static int verify_once(const struct verify_request *q, int dir, struct verify_result *v,
	bool *ret_again, struct err *err)
{
	_cleanup_logset_ struct logset set = {0}, later = {0};
	_cleanup_close_ int head_fd = -1;
	struct vouch first = {.fd = -1}, last;
	uint64_t rest = 0;
	bool there = false;
	*v = (struct verify_result){0};
	set_anchor(&v->check, q);
	open_head(&first, dir, q->key, &v->check);
	head_fd = first.fd;
	int r = logset_read(dir, &set);
	if (r < 0)
		return err_set(
			err, ERR_IO, -r, "the log's directory cannot be read: %s", strerror(-r));
	r = read_all(v, dir, &set, &rest, &there, err);
	*ret_again = logset_read(dir, &later) < 0 || !same_files(&set, &later);
	if (r < 0)
		return *ret_again ? 0 : r;
	if (!there && set.n == 0 && first.fd < 0)
		return err_set(
			err, ERR_NO_SUCH_FILE, 0, "there is no audit log at %.300s", q->path);
	check_end(&v->check);
	judge_start(&v->check, &first);
	v->vouched = is_known(&first);
	if (v->vouched) {
		last = first;
		v->being_written = is_being_written(first.fd);
		if (read_head(&last) < 0 || !is_known(&last))
			last = first;
		if (!there && !*ret_again)
			check_say(&v->check, NULL, false, "%s is not there", LOGSET_NAME);
		judge_end(v, &first, &last, rest);
	} else if (rest) {
		say_rest(&v->check, rest);
	}
	judge_anchor(&v->check, q);
	return 0;
}

static int verify_files(const struct verify_request *q, struct verify_result *v, struct err *err)
{
	*v = (struct verify_result){0};
	set_anchor(&v->check, q);
	for (size_t i = 0; i < q->n_files; i++) {
		uint64_t rest = 0;
		int r = read_file(&v->check, AT_FDCWD, q->files[i], &rest, err);
		if (r < 0)
			return r;
		if (rest)
			say_rest(&v->check, rest);
		v->files++;
	}
	check_end(&v->check);
	judge_anchor(&v->check, q);
	return 0;
}

int verify_log(const struct verify_request *q, struct verify_result *ret, struct err *err)
{
	hash_load();
	if (q->n_files)
		return verify_files(q, ret, err);
	const char *slash = strrchr(q->path, '/');
	_cleanup_free_ char *where =
		slash ? xstrndup(q->path, (size_t)(slash - q->path) + 1) : xstrdup(".");
	_cleanup_close_ int dir = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_set(err, errno == ENOENT ? ERR_NO_SUCH_FILE : ERR_IO, errno,
			"%.200s: %s", where, strerror(errno));
	bool again = true;
	int r = 0;
	for (int i = 0; again && r == 0 && i < TRIES; i++)
		r = verify_once(q, dir, ret, &again, err);
	if (r == 0 && ret->check.starts > ret->check.ends)
		check_say(&ret->check, NULL, true, "%llu jobs began and have no end on record%s",
			ULL(ret->check.starts - ret->check.ends),
			ret->being_written ? " (yet)" : "");
	return r;
}
