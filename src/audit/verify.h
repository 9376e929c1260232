/* verify.h: is an audit log what brokers wrote, all of it, and nothing else? For `scb audit
 * verify`; docs/audit.md says what is found and what cannot be. Reads only; while a broker writes,
 * too. */
#pragma once

#include "audit/check.h"
#include "base/err.h"

struct verify_request {
	const char *path; /* …/audit.jsonl; its former files and its head are beside it */
	const char *key;
	/* Or these files alone, in this order, without a head. */
	const char *const *files;
	size_t n_files;
	/* A line that somebody kept: it must be there. */
	bool anchored;
	uint64_t anchor_seq;
	uint8_t anchor_hash[HASH_SIZE];
};

struct verify_result {
	struct check check; /* findings, first and last line */
	size_t files;
	bool vouched;       /* the head was read, and is of this key */
	bool being_written; /* by a broker */
};

/* 0: the result says what was found. ERR_NO_SUCH_FILE: there is no log; ERR_IO. */
int verify_log(
	const struct verify_request *q, struct verify_result *ret, struct err *err) MUST_CHECK;
