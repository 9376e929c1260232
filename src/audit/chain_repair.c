/* chain_repair.c: what a killed broker left is put right, and what somebody else did to the log is
 * recorded: see head.h for what each state of the head allows.
 *
 * A write that was announced and is not wholly there is taken away, and audit.recover keeps the
 * hash of what stood there, and the first of its bytes: nothing was done on its strength. Anything
 * else that does not fit is kept as it is under a number of its own; a new file begins with
 * audit.gap, whose `prev` is the line that the head vouches for, so that `scb audit verify` finds
 * for itself what is wrong with the old one. */
#include "audit/chain_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/entry.h"
#include "audit/owasp.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"

/* Of the bytes that are taken away so many are kept in the line. */
#define TORN_TEXT 2048

static int io_error(struct err *err, int r)
{
	if (r == -EPERM)
		return err_set(err, ERR_AUDIT_UNAVAILABLE, EPERM,
			"the audit log %s is not a regular file of this user; nothing runs without "
			"it",
			LOGSET_NAME);
	return err_set(err, ERR_AUDIT_UNAVAILABLE, -r,
		"the audit log cannot be opened (%s); nothing runs without it", strerror(-r));
}

static void begin_from(struct chain *c, uint64_t seq, const uint8_t hash[static HASH_SIZE])
{
	c->head.seq = c->seq = seq;
	memcpy(c->head.hash, hash, HASH_SIZE);
	memcpy(c->tip, hash, HASH_SIZE);
	c->head.next_seq = c->head.next_bytes = 0;
	memset(c->head.next_hash, 0, HASH_SIZE);
	head_boot(c->head.boot);
	buf_clear(&c->lines);
	c->n_lines = 0;
}

static int new_log(struct chain *c, struct err *err)
{
	int fd = chain_open_file(c, LOGSET_NAME, O_CREAT | O_EXCL | O_APPEND);
	int r = fd < 0 ? fd : chain_use_file(c, fd, 0);
	return r < 0 ? io_error(err, r) : 0;
}

/* ---- the first broker of all ---- */

static int new_chain(struct chain *c)
{
	c->head = (struct head){0};
	id_random(c->head.chain, sizeof(c->head.chain));
	return head_prepare(c->head_fd);
}

static int begin_chain(struct chain *c, struct err *err)
{
	int r = new_chain(c);
	if (r < 0)
		return chain_broken(err, -r);
	begin_from(c, 0, c->head.chain);
	r = new_log(c, err);
	if (r < 0)
		return r;
	head_write(c->head_map, c->key, &c->head);
	return 0;
}

/* ---- what was torn ---- */

static int put_recover(
	struct chain *c, const char *detail, const void *torn, size_t n_torn, struct err *err)
{
	struct line l;
	uint8_t hash[HASH_SIZE];
	char hex[HASH_TEXT];
	chain_begin_line(c, &l, "audit.recover");
	line_text(&l, "detail", detail, 200);
	if (torn) {
		hash_bytes(torn, n_torn, hash);
		id_hex(hash, sizeof(hash), hex);
		line_int(&l, "tornBytes", (int64_t)n_torn);
		line_text(&l, "sha256", hex, HASH_TEXT);
		_cleanup_free_ char *text = xstrndup(torn, MIN(n_torn, (size_t)TORN_TEXT));
		line_text(&l, "torn", text, TORN_TEXT);
	}
	owasp_put(&l, "audit.recover", NULL);
	int r = chain_end(c, &l, err);
	return r < 0 ? r : chain_flush(c, CHAIN_OWED, err);
}

/* All that was announced is there: it counts. */
static int adopt(struct chain *c, struct err *err)
{
	c->head.offset += c->head.next_bytes;
	uint8_t hash[HASH_SIZE];
	memcpy(hash, c->head.next_hash, HASH_SIZE);
	begin_from(c, c->head.next_seq, hash);
	return put_recover(c,
		"the broker ended while it wrote: the last lines were whole, and nothing was done "
		"on "
		"their strength",
		NULL, 0, err);
}

static int take_away(struct chain *c, uint64_t size, struct err *err)
{
	size_t n = (size_t)(size - c->head.offset);
	_cleanup_free_ char *torn = xcalloc(n + 1, 1);
	if (pread(c->fd, torn, n, (off_t)c->head.offset) != (ssize_t)n ||
		ftruncate(c->fd, (off_t)c->head.offset) < 0)
		return chain_broken(err, errno ? errno : EIO);
	uint8_t hash[HASH_SIZE];
	memcpy(hash, c->head.hash, HASH_SIZE);
	begin_from(c, c->head.seq, hash);
	return put_recover(c,
		n ? "the broker ended while it wrote: a torn line was taken away, and nothing was "
		    "done on its strength"
		  : "the broker ended before it wrote what it was about to",
		torn, n, err);
}

/* ---- what somebody else did ---- */

/* Where no head says it: what the log itself ends with. */
static void end_of_log(struct chain *c, const struct logset *set, bool there, uint64_t size,
	uint64_t *ret_seq, uint8_t ret_hash[static HASH_SIZE])
{
	_cleanup_free_ char *line = NULL;
	size_t n = 0;
	struct entry e;
	*ret_seq = set->n ? set->numbers[set->n - 1] : 0;
	memcpy(ret_hash, c->head.chain, HASH_SIZE);
	if (!there || logset_line_before(c->fd, (off_t)size, &line, &n) < 0)
		return;
	hash_bytes(line, n, ret_hash);
	if (entry_parse(line, n, &e) == 0)
		*ret_seq = e.seq;
}

/* there: c->fd is the log as it was found. */
static int begin_anew(struct chain *c, bool there, const char *what, struct err *err)
{
	uint64_t number = c->head.seq;
	char name[LOGSET_FILE], hash[HASH_TEXT];
	uint8_t boot[HEAD_BOOT], tip[HASH_SIZE];
	head_boot(boot);
	bool restarted = memcmp(boot, c->head.boot, HEAD_BOOT) != 0;
	memcpy(tip, c->head.hash, HASH_SIZE);
	begin_from(c, c->head.seq, tip);
	int r = there ? chain_shelve(c, &number) : 0;
	if (r < 0)
		return chain_broken(err, -r);
	r = new_log(c, err);
	if (r < 0)
		return r;
	struct line l;
	logset_name(number, name);
	id_hex(tip, HASH_SIZE, hash);
	chain_begin_line(c, &l, "audit.gap");
	if (there)
		line_text(&l, "path", name, LOGSET_FILE);
	line_int(&l, "lastSeq", (int64_t)c->head.seq);
	line_text(&l, "lastHash", hash, HASH_TEXT);
	_cleanup_free_ char *detail = xasprintf("%s%s", what,
		restarted ? "; the machine was started anew since, and a power cut can do that "
			    "where audit.fsync is not `always`"
			  : "");
	line_text(&l, "detail", detail, 400);
	owasp_put(&l, "audit.gap", NULL);
	r = chain_end(c, &l, err);
	return r < 0 ? r : chain_flush(c, CHAIN_OWED, err);
}

static int begin_without_head(struct chain *c, const struct logset *set, bool there, uint64_t size,
	const char *what, struct err *err)
{
	uint64_t seq;
	uint8_t hash[HASH_SIZE];
	int r = new_chain(c);
	if (r < 0)
		return chain_broken(err, -r);
	end_of_log(c, set, there, size, &seq, hash);
	c->head.seq = seq;
	memcpy(c->head.hash, hash, HASH_SIZE);
	head_boot(c->head.boot);
	return begin_anew(c, there, what, err);
}

/* ---- comparing ---- */

/* The last committed line is where it should be (in the file before where this one has none yet).
 */
static bool has_last_line(struct chain *c)
{
	return c->head.offset == 0 ||
	       logset_ends_with(c->fd, (off_t)c->head.offset, c->head.hash) == 0;
}

/* A file got its number, and the next one was not begun: by a broker that was killed there. */
static bool rotation_began(struct chain *c, const struct logset *set)
{
	struct stat st;
	char name[LOGSET_FILE];
	if (set->n == 0 || set->numbers[set->n - 1] != c->head.seq)
		return false;
	logset_name(c->head.seq, name);
	_cleanup_close_ int fd = chain_open_file(c, name, 0);
	return fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size == c->head.offset &&
	       logset_ends_with(fd, st.st_size, c->head.hash) == 0;
}

static int go_on(struct chain *c, enum head_state state, const struct logset *set, bool there,
	uint64_t size, struct err *err)
{
	const struct head *h = &c->head;
	uint8_t tip[HASH_SIZE];
	memcpy(tip, h->hash, HASH_SIZE);
	if ((!there || size == 0) && state == HEAD_SETTLED && h->seq > 0 &&
		(h->offset == 0 || rotation_began(c, set))) {
		begin_from(c, h->seq, tip);
		c->head.offset = 0;
		int r = there ? 0 : new_log(c, err);
		return r < 0 ? r
			     : chain_begin_file(c, set->n ? set->numbers[set->n - 1] : h->seq, err);
	}
	if (!there && h->seq == 0 && state == HEAD_SETTLED) {
		begin_from(c, 0, tip);
		return new_log(c, err);
	}
	if (!there)
		return begin_anew(c, false, "the log is not there", err);
	uint64_t end = h->offset + h->next_bytes;
	bool good = has_last_line(c);
	bool whole = good && h->next_bytes && size == end &&
		     logset_ends_with(c->fd, (off_t)end, h->next_hash) == 0;
	if (whole && state != HEAD_SETTLED)
		return adopt(c, err);
	if (good && state == HEAD_OPEN && size >= h->offset && size <= end)
		return take_away(c, size, err);
	if (good && state == HEAD_SETTLED && size == h->offset) {
		begin_from(c, h->seq, tip);
		return 0;
	}
	if (state == HEAD_FULFILLED) { /* it was there */
		c->head.seq = h->next_seq;
		memcpy(c->head.hash, h->next_hash, HASH_SIZE);
	}
	return begin_anew(c, true,
		size < h->offset ? "the log is shorter than its head says"
		: !good          ? "the log's last line is not the one that its head names"
				 : "the log has bytes that its head knows nothing of",
		err);
}

int chain_repair(struct chain *c, struct err *err)
{
	_cleanup_logset_ struct logset set = {0};
	enum head_state state;
	struct stat st = {0};
	struct head head = {0};
	fd_closep(&c->fd);
	c->unsure = true;
	int r = head_read(c->head_fd, c->key, &state, &head);
	if (r == 0)
		r = logset_read(c->dir, &set);
	if (r < 0)
		return io_error(err, r);
	if (!c->head_map)
		r = head_map(c->head_fd, &c->head_map);
	if (r < 0)
		return chain_broken(err, -r);
	c->head = head;
	int fd = chain_open_file(c, LOGSET_NAME, O_APPEND);
	if (fd < 0 && fd != -ENOENT)
		return io_error(err, fd);
	bool there = fd >= 0;
	if (there) {
		r = chain_use_file(c, fd, head.offset);
		if (r < 0 || fstat(c->fd, &st) < 0)
			return io_error(err, r < 0 ? r : -errno);
	}
	uint64_t size = (uint64_t)st.st_size;
	if (state == HEAD_MISSING && size == 0 && set.n == 0) {
		if (there)
			(void)unlinkat(c->dir, LOGSET_NAME, 0);
		r = begin_chain(c, err);
	} else if (state == HEAD_MISSING) {
		r = begin_without_head(c, &set, there, size, "the log's head is not there", err);
	} else if (state == HEAD_FOREIGN) {
		r = begin_without_head(
			c, &set, there, size, "the log's head was not written with this key", err);
	} else {
		r = go_on(c, state, &set, there, size, err);
	}
	c->unsure = r < 0 || c->head.seq != c->seq;
	return r;
}
