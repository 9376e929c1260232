/* lines.h: a byte stream cut into lines, with a maximum. Sans-I/O. */
#pragma once

#include "base/buf.h"

struct lines {
	struct buf part; /* the line that is not complete yet */
	bool skipping;   /* inside a line that is too long */
};

/* line[0..n) without its newline (and carriage return); NULL: a line of more than the maximum has
 * ended and was thrown away. Lines of nothing but blanks are not told. */
typedef void (*lines_fn)(void *user, const char *line, size_t n);

void lines_init(struct lines *l, size_t max);
void lines_done(struct lines *l);
/* Calls fn for each line that ends in p[0..n). */
void lines_feed(struct lines *l, const char *p, size_t n, lines_fn fn, void *user);
/* The stream has ended: what is left is a line too. */
void lines_end(struct lines *l, lines_fn fn, void *user);
