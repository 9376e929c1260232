/* shape.h: a job's raw output as text for a model: valid UTF-8, progress collapsed, bounded, head
 * and tail. Pure. */
#pragma once

#include "exec/exec.h"

struct shape_text {
	char *text;       /* owned by the caller; NUL-terminated valid UTF-8 */
	uint64_t omitted; /* raw bytes of the stream that the text does not show */
	size_t replaced;  /* bytes that were no UTF-8 */
};
/* At most about max bytes of text (plus one line that says what was left out, when something was).
 * Lines that end in a lone carriage return are overwritten by what follows them, as on a terminal;
 * backspaces are applied; ANSI escape sequences are removed. */
void shape_output(const struct exec_output *o, size_t max, struct shape_text *ret);
/* The same for bytes that are whole. */
void shape_bytes(const void *p, size_t n, size_t max, struct shape_text *ret);
