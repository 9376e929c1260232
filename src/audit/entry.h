/* entry.h: one line of an audit log as it was written, read back. The line is hostile. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/hash.h"

/* A text inside a line, still escaped. */
struct entry_span {
	const char *p; /* NULL: none */
	size_t n;
};

struct entry {
	uint64_t seq;
	uint8_t prev[HASH_SIZE];
	struct entry_span ts, event;
};

/* Reads what begins each line that chain.c writes:
 * {"ts":"…","seq":N,"prev":"64 hex digits","run":"…","event":"…" and to its end nothing but
 * printable ASCII, closed by }. -EBADMSG: it is no such line. What *ret points to is in p. */
int entry_parse(const char *p, size_t n, struct entry *ret);
/* The value of a text member, or of a number's digits, anywhere behind the first member of the
 * line; the first one counts. Found by `,"key":`, which stands in no value: there a quote has a
 * backslash before it. */
struct entry_span entry_text(const char *p, size_t n, const char *key);
bool entry_number(const char *p, size_t n, const char *key, uint64_t *ret);
bool entry_is(struct entry_span s, const char *text);
