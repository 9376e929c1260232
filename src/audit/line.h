/* line.h: one JSON object (RFC 8259) on one line, written member by member straight into a buffer,
 * in ASCII: what is beyond it is escaped, so that a line does nothing to a terminal. An event of
 * some 20 members costs 2 µs and no allocation this way; as a tree of jansson's it cost 15 µs and a
 * hundred (`make bench`: four events a call). */
#pragma once

#include "base/buf.h"

struct redactor;

struct line {
	struct buf *out;
	const struct redactor *redactor; /* of the texts; NULL: none */
	bool more;                       /* the next member needs a comma */
	int r;                           /* the first failure of out, 0: none */
};

/* Keys are plain ASCII. Texts are cut after max bytes; what is no UTF-8 becomes U+FFFD. NULL: the
 * member is left out. */
void line_text(struct line *l, const char *key, const char *text, size_t max);
void line_int(struct line *l, const char *key, int64_t v);
/* Thousandths, as a number with three decimals. */
void line_milli(struct line *l, const char *key, uint64_t thousandths);
/* Nested: an object or a list by its bracket, and its end by the other. key NULL: in a list. */
void line_open(struct line *l, const char *key, char bracket);
void line_close(struct line *l, char bracket);
