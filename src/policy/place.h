/* place.h: where in a JSON text something stands. jansson keeps no positions, so this looks a
 * second time, and only where there is something to report.
 *
 * A path names it as errors and rules do: `tools.allow[3]`, `principals."uid:1000".limits`. Keys
 * that are not letters, digits, "_" and "-" stand in quotes, escaped as in JSON. Sans I/O; text and
 * path are input and may be anything. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Both from 1; columns are characters. */
struct place {
	unsigned line, column;
};

/* Where the member's key or the array's element begins that path names in text[0..n); "" is the
 * whole. False: there is none, or text or path are not well-formed up to there. */
bool place_find(const char *text, size_t n, const char *path, struct place *ret);
/* The place of the byte at offset. */
struct place place_of(const char *text, size_t n, size_t offset);
/* Appends to a path: ".key" (without the dot at its beginning) and "[index]". A path that would
 * outgrow the buffer stays as it is. */
void place_key(struct buf *path, const char *key);
void place_index(struct buf *path, size_t index);
