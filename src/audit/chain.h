/* chain.h: the writer of an audit log: lines that each carry the hash of the one before, a head
 * that vouches for the last (head.h), files that follow one another, room kept for what must be
 * written.
 *
 * One process writes a chain: it holds a lock on the head (fcntl(2): no child has it, and it goes
 * with the process). The log's file is looked at before a write (10 ms apart); where it is not as
 * this chain left it, the chain goes on in a new file whose first line says so (audit.gap), and the
 * old one is kept as it was found. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "audit/audit.h"
#include "audit/line.h"

struct chain;

/* Opens the chain whose file is path (…/audit.jsonl), or begins it, and puts right what a killed
 * broker left. */
int chain_open(const char *path, const char *key_path, const struct audit_config *config,
	struct chain **ret, struct err *err) MUST_CHECK;
/* What waits must have been flushed. */
void chain_close(struct chain *c);
int chain_configure(struct chain *c, const struct audit_config *config, struct err *err) MUST_CHECK;

/* A line: chain_begin() writes what begins each (ts, seq, prev, run, event), the caller its other
 * members, chain_end() ends it, or takes it back where it does not fit (ERR_AUDIT_UNAVAILABLE). It
 * then waits for chain_flush(). */
int chain_begin(struct chain *c, struct line *l, const char *event, struct err *err) MUST_CHECK;
int chain_end(struct chain *c, struct line *l, struct err *err) MUST_CHECK;

/* How many lines of this kind are owed to the log: for each, and some more, room is kept, which
 * only a flush of what is owed may use. */
void chain_owe(struct chain *c, int more);
enum chain_kind {
	CHAIN_NEW, /* nothing of it was done yet: leaves what is kept alone */
	CHAIN_OWED
};
/* Writes what waits, all of it or nothing: after an error (ERR_AUDIT_UNAVAILABLE) it is forgotten.
 */
int chain_flush(struct chain *c, enum chain_kind kind, struct err *err) MUST_CHECK;
bool chain_waits(const struct chain *c);
/* The number of the last line in the file. */
uint64_t chain_seq(const struct chain *c);
/* The directory, with a descriptor of the caller's own; a negative errno. */
int chain_dup_dir(const struct chain *c) MUST_CHECK;

/* The files that hold the last max bytes of the log, the oldest first: calls fn for each whole
 * line. A negative errno: they cannot be read. */
int chain_each_line(struct chain *c, uint64_t max,
	void (*fn)(void *user, const char *line, size_t n), void *user) MUST_CHECK;
