/* logset.h: the files of one audit chain in its directory: audit.jsonl, which is written, and the
 * former ones, audit-NNNNNNNNNNNN.jsonl, by the number of their last line. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "audit/hash.h"
#include "base/mem.h"

#define LOGSET_NAME "audit.jsonl"
#define LOGSET_FILE 40

/* The former files' numbers, the oldest first. */
struct logset {
	uint64_t *numbers;
	size_t n;
};

/* What is not named so is no file of the log. A negative errno: the directory cannot be read, or
 * has more than LIMIT_AUDIT_FILES (-E2BIG). */
int logset_read(int dir, struct logset *ret) MUST_CHECK;
void logset_done(struct logset *s);
#define _cleanup_logset_ CLEANUP(logset_done)
void logset_name(uint64_t number, char ret[static LOGSET_FILE]);

/* The last line that ends at offset: *ret is its bytes without the newline, which the caller frees.
 * -ENOENT: there is none (offset 0); -EBADMSG: no whole line ends there. */
int logset_line_before(int fd, off_t offset, char **ret, size_t *ret_n) MUST_CHECK;
/* 0 where the line that ends at offset has that hash, else a negative errno. */
int logset_ends_with(int fd, off_t offset, const uint8_t hash[static HASH_SIZE]) MUST_CHECK;
