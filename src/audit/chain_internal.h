/* chain_internal.h: what chain.c, chain_repair.c and chain_rotate.c share. */
#pragma once

#include "audit/chain.h"
#include "audit/head.h"
#include "audit/logset.h"
#include "audit/sync.h"
#include "base/buf.h"
#include "base/clock.h"

/* A line may have six bytes for each of a field; the lines of one write. */
#define CHAIN_LINES_MAX LIMIT_AUDIT_LINE
/* What one owed line is taken to need, and what is kept beside: the lines that a broker owes which
 * found sandboxes of a former one. */
#define CHAIN_OWED_LINE (4 * KIB)
#define CHAIN_OWED_BASE (256 * KIB)
/* Asked of the file system at once. */
#define CHAIN_CHUNK (256 * KIB)

struct chain {
	struct audit_config config;
	int dir, fd, head_fd;
	void *head_map;
	uint8_t key[HASH_KEY_SIZE];
	struct head head; /* as it stands in the file */
	dev_t dev;        /* of the log's file */
	ino_t ino;
	uint64_t looked_us; /* whether the file is as it was left */
	bool unsure; /* the log may not be as the head says: to be put right before the next line */

	struct buf lines; /* waiting */
	unsigned n_lines;
	size_t line_at;         /* where the line begins that is being written */
	uint64_t seq;           /* of the last line, the waiting ones included */
	uint8_t tip[HASH_SIZE]; /* its hash */

	uint64_t allocated; /* room that the file system has promised, in bytes from the file's
			       start */
	bool no_promises;   /* it makes none */
	unsigned owed;
	bool rotation_failed; /* and it was said */

	char run[9];                 /* tells the lines of two brokers apart */
	char ts[CLOCK_RFC3339_SIZE]; /* of the last line */
	uint64_t ts_second;
	struct sync *sync; /* AUDIT_FSYNC_INTERVAL */
};

/* As chain_begin(), without looking whether all is well. */
void chain_begin_line(struct chain *c, struct line *l, const char *event);
/* Opens name, or makes it (O_EXCL in flags), as a log: 0600, this user's, not through a link. The
 * descriptor, or a negative errno; -EPERM: it is something else. */
int chain_open_file(struct chain *c, const char *name, int flags) MUST_CHECK;
/* fd, which is taken over, is the log from now on, as long as said. */
int chain_use_file(struct chain *c, int fd, uint64_t offset) MUST_CHECK;
int chain_broken(struct err *err, int errnum);
/* Room up to so many bytes from the file's start. */
int chain_promise(struct chain *c, uint64_t end) MUST_CHECK;

/* chain_repair.c: compares log and head, and makes them fit. */
int chain_repair(struct chain *c, struct err *err) MUST_CHECK;
/* chain_rotate.c: where the file is large enough, the next one is begun. Does without where that
 * cannot be done now. */
void chain_rotate(struct chain *c);
/* The first line of a new file after a former one, number (audit.rotate), and those of files that
 * are too many now (audit.drop), which are then deleted. */
int chain_begin_file(struct chain *c, uint64_t number, struct err *err) MUST_CHECK;
/* Gives audit.jsonl its number, the first free one from number on. */
int chain_shelve(struct chain *c, uint64_t *number) MUST_CHECK;
