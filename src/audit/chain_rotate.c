/* chain_rotate.c: one file of the log ends, the next begins: see chain.h.
 *
 * In this order, so that a broker can be killed in between: the new file under another name, with
 * room; the old one gets its number; the new one its name; its first line, whose announcement in
 * the head is the first to count from the new file's start. */
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
#include "base/log.h"

#define NEW_NAME  "audit.jsonl.new"
#define DROPS_MAX 64 /* at once: their lines fit in one write */

int chain_shelve(struct chain *c, uint64_t *number)
{
	char name[LOGSET_FILE];
	for (int i = 0; i < 1000; i++, (*number)++) {
		logset_name(*number, name);
		if (renameat2(c->dir, LOGSET_NAME, c->dir, name, RENAME_NOREPLACE) == 0)
			return 0;
		if (errno == EINVAL || errno == ENOSYS) { /* a file system without it */
			struct stat st;
			if (fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
				renameat(c->dir, LOGSET_NAME, c->dir, name) == 0)
				return 0;
			errno = EEXIST;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

/* The last line before a file, by what its first line says. */
static int line_before(
	struct chain *c, const char *name, uint64_t *ret_seq, char ret_hash[static HASH_TEXT])
{
	char start[512];
	uint64_t seq;
	_cleanup_close_ int fd = chain_open_file(c, name, 0);
	ssize_t n = fd < 0 ? fd : pread(fd, start, sizeof(start), 0);
	if (n <= 0 || !entry_number(start, (size_t)n, "seq", &seq) || seq == 0)
		return -EBADMSG;
	struct entry_span prev = entry_text(start, (size_t)n, "prev");
	if (!prev.p || prev.n != HASH_TEXT - 1)
		return -EBADMSG;
	memcpy(ret_hash, prev.p, prev.n);
	ret_hash[prev.n] = '\0';
	*ret_seq = seq - 1;
	return 0;
}

/* One line for each file that is too many, the oldest in front. How many these are. */
static size_t put_drops(struct chain *c, const struct logset *set, struct err *err, int *ret)
{
	size_t keep = MAX(c->config.keep, 1U);
	size_t n = MIN(set->n > keep ? set->n - keep : 0, (size_t)DROPS_MAX);
	for (size_t i = 0; i < n && *ret == 0; i++) {
		char name[LOGSET_FILE], next[LOGSET_FILE], hash[HASH_TEXT] = "";
		uint64_t seq = set->numbers[i];
		struct line l;
		logset_name(set->numbers[i], name);
		logset_name(set->numbers[i + 1], next);
		(void)!line_before(c, next, &seq, hash);
		chain_begin_line(c, &l, "audit.drop");
		line_text(&l, "path", name, LOGSET_FILE);
		line_int(&l, "lastSeq", (int64_t)seq);
		line_text(&l, "lastHash", hash, HASH_TEXT);
		line_text(&l, "detail", "deleted: more files than are to be kept", 80);
		owasp_put(&l, "audit.drop", NULL);
		*ret = chain_end(c, &l, err);
	}
	return n;
}

int chain_begin_file(struct chain *c, uint64_t number, struct err *err)
{
	_cleanup_logset_ struct logset set = {0};
	char name[LOGSET_FILE], hash[HASH_TEXT];
	struct line l;
	logset_name(number, name);
	id_hex(c->head.hash, HASH_SIZE, hash);
	chain_begin_line(c, &l, "audit.rotate");
	line_text(&l, "path", name, LOGSET_FILE);
	line_int(&l, "lastSeq", (int64_t)c->head.seq);
	line_text(&l, "lastHash", hash, HASH_TEXT);
	owasp_put(&l, "audit.rotate", NULL);
	int r = chain_end(c, &l, err);
	if (r < 0)
		return r;
	if (logset_read(c->dir, &set) < 0)
		set.n = 0;
	size_t drops = put_drops(c, &set, err, &r);
	if (r == 0)
		r = chain_flush(c, CHAIN_OWED, err);
	for (size_t i = 0; r == 0 && i < drops; i++) {
		logset_name(set.numbers[i], name);
		if (unlinkat(c->dir, name, 0) < 0)
			log_warning(
				"%s of the audit log cannot be deleted: %s", name, strerror(errno));
	}
	return r;
}

static int next_file(struct chain *c, uint64_t *number)
{
	(void)unlinkat(c->dir, NEW_NAME, 0);
	_cleanup_close_ int fd = chain_open_file(c, NEW_NAME, O_CREAT | O_EXCL | O_APPEND);
	if (fd < 0)
		return fd;
	if (!c->no_promises && fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, CHAIN_OWED_BASE) < 0)
		return -errno;
	if (c->config.fsync == AUDIT_FSYNC_ALWAYS && fdatasync(c->fd) < 0)
		return -errno;
	(void)!ftruncate(c->fd, (off_t)c->head.offset); /* gives back what was promised */
	c->allocated = c->head.offset;
	int r = chain_shelve(c, number);
	if (r < 0)
		return r;
	c->unsure = true; /* until the first line is there */
	if (renameat(c->dir, NEW_NAME, c->dir, LOGSET_NAME) < 0)
		return -errno;
	if (c->config.fsync != AUDIT_FSYNC_NEVER)
		(void)fsync(c->dir);
	return chain_use_file(c, TAKE_FD(fd), 0);
}

void chain_rotate(struct chain *c)
{
	struct err err = {0};
	uint64_t number = c->head.seq;
	int r = next_file(c, &number);
	if (r == 0) {
		r = chain_begin_file(c, number, &err);
		c->unsure = c->unsure && r < 0;
	}
	if (r < 0 && !c->rotation_failed)
		log_warning("the audit log could not begin its next file: %s",
			err.text[0] ? err.text : strerror(-r));
	c->rotation_failed = r < 0;
}
