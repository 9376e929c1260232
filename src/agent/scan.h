/* scan.h: looks for a literal in the lines of one file, piece by piece. */
#pragma once

#include "agent/stream.h"

struct scan;
/* Takes fd. path is what hits are called by; pattern outlives the scan and holds no newline. */
struct scan *scan_new(
	int fd, const void *path, size_t path_len, const uint8_t *pattern, size_t pattern_len);
void scan_free(struct scan *x); /* NULL is fine */
/* Reads one piece and sends a message for each line that holds the pattern: PATH, LINE, OFFSET,
 * LINE_TEXT. *count grows; *ret_more is set where limit is reached. The number of bytes read; 0 at
 * the end (or where the file is binary, or cannot be read). */
size_t scan_step(struct scan *x, struct stream *s, uint32_t limit, uint64_t *count, bool *ret_more);
