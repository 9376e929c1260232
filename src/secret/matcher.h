/* matcher.h: many byte patterns looked for at once, in time linear in the text whatever it is (Aho
 * and Corasick, 1975).
 *
 * A state is a prefix of a pattern; the text's longest suffix that is one. States are numbered so
 * that a state's first child follows it, and take four bytes: the one byte that leads on, and the
 * state to fall back to where another comes. A state that several bytes lead on from has a row of
 * 256 successors instead. A step thus costs one comparison, or falls back over bytes that were
 * paid for before: twice the text's length in all, at most.
 *
 * Outside of any pattern most bytes are not looked at: no pattern is shorter than MATCHER_MIN, so
 * the pair of bytes at the end of such a window says how far the next pattern must at least be
 * (Wu and Manber, 1994).
 *
 * All of it is one mapping of at most LIMIT_REDACT_TABLE bytes, which is locked where the system
 * allows that, is in no core file, and is wiped when it goes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MATCHER_MIN 8 /* bytes of the shortest pattern */

struct matcher;

struct matcher_pattern {
	uint8_t *p;
	size_t n;
	uint16_t owner; /* told when it is found */
};

/* Sorts patterns, and drops repeated ones from *n. ERR_LIMIT_REACHED where the table would be too
 * large. Nothing of patterns is kept. */
int matcher_new(struct matcher_pattern *patterns, size_t *n, struct matcher **ret,
	struct err *err) MUST_CHECK;
void matcher_free(struct matcher *m);
/* Bytes of the table. */
size_t matcher_size(const struct matcher *m);
/* Of the longest pattern. */
size_t matcher_longest(const struct matcher *m);

/* State 0: nothing was read, or nothing of it matters any more. */
typedef uint32_t matcher_state;
/* Reads on to the first place at which a pattern ends, or to n: how many bytes were read. *hit: a
 * pattern ends there. The text may be cut into pieces anywhere. */
size_t matcher_read(
	const struct matcher *m, matcher_state *state, const uint8_t *p, size_t n, bool *hit);
/* Of the patterns that end where matcher_read() stopped: the longest one's length … */
size_t matcher_hit_length(const struct matcher *m, matcher_state state);
/* … and the owners of all of them, the longest first; an owner may come twice. */
void matcher_hit_owners(const struct matcher *m, matcher_state state,
	void (*fn)(void *user, uint16_t owner), void *user);

/* Where a text is a part of a longer one: the most bytes at its start that could be the end of a
 * pattern, at its end the beginning of one; whether all of it could be the inside of one. In time
 * linear in the table for what is no part of a pattern. */
size_t matcher_part_at_start(const struct matcher *m, const uint8_t *p, size_t n);
size_t matcher_part_at_end(const struct matcher *m, const uint8_t *p, size_t n);
bool matcher_is_inside(const struct matcher *m, const uint8_t *p, size_t n);
