/* check.h: the lines of a log, one after the other: is each the one that was written after the one
 * before it? In constant memory; the lines are hostile. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "audit/entry.h"
#include "audit/logset.h"

#define CHECK_FILE 256
#define CHECK_TEXT 480
/* So many findings are kept; of more only the number. */
#define CHECK_FINDINGS 64

struct check_place {
	char file[CHECK_FILE];
	uint64_t line, seq; /* seq 0: not known */
};

struct check_finding {
	struct check_place at;
	bool note; /* worth knowing, and nothing wrong */
	char text[CHECK_TEXT];
};

/* A line that must be there, if the log goes so far. */
struct check_watch {
	bool wanted, found, matches;
	uint64_t seq;
	uint8_t hash[HASH_SIZE];
	struct check_place at;
};
enum { CHECK_HEAD, CHECK_ANCHOR, CHECK_WATCHES };

struct check {
	char file[CHECK_FILE]; /* that lines come from, and how many of it came */
	uint64_t line;
	struct check_place at; /* the last line */
	uint64_t lines, bytes;
	bool any;
	uint64_t seq, first_seq;
	uint8_t hash[HASH_SIZE], first_prev[HASH_SIZE];
	struct check_place first;
	bool adrift; /* after a finding: what follows is compared with itself alone */
	/* The last line's `prev` is not the hash of the one before it, and the numbers follow: one
	 * of the two was changed, and the next line tells which. */
	bool suspect;
	struct check_place before;
	bool dropped; /* a line says that what is before the first line was deleted */
	uint64_t starts, ends;
	struct check_watch watch[CHECK_WATCHES];
	struct check_finding findings[CHECK_FINDINGS];
	unsigned n_findings, n_wrong; /* kept; wrong, those that are not kept included */
};

/* Lines of this file follow. */
void check_file(struct check *c, const char *name);
/* One line without its newline. */
void check_line(struct check *c, const char *p, size_t n);
/* No line comes any more. */
void check_end(struct check *c);
/* at NULL: of the log as a whole. */
void check_say(struct check *c, const struct check_place *at, bool note, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
