/* shape.h: a job's raw output as text for a model: valid UTF-8, progress collapsed, bounded, head
 * and tail. Pure.
 *
 * What a program printed must not steer the terminal that the text may end up on: escape sequences
 * (ECMA-48: CSI, OSC, DCS and their like, in their 7-bit and their C1 form) are removed, every
 * other control character but tab and newline becomes its picture (U+2400 …). Lines that end in a
 * lone carriage return are overwritten by what follows them, as on a terminal; backspaces, "erase
 * in line" and movements of the cursor within a line and between lines are applied.
 *
 * Raw bytes have been masked before they come here (exec/masked.h). What becomes a secret only by
 * all this (its letters with escape sequences between them) is masked here, before it can be cut.
 * redacting may be NULL. */
#pragma once

#include "exec/exec.h"
#include "secret/redact.h"

struct shape_text {
	char *text; /* owned by the caller; NUL-terminated valid UTF-8 */
	/* Raw bytes of the stream between the head and the tail that are shown. What was
	 * overwritten or removed within the shown parts does not count. */
	uint64_t omitted;
	size_t replaced; /* bytes of the shown parts that were no UTF-8 */
};
/* At most max bytes of text, plus one line (≤ SHAPE_NOTE bytes) that says what was left out, when
 * something was. Head and tail get half each and end at lines where those are not too long. */
#define SHAPE_NOTE 160
void shape_output(const struct exec_output *o, size_t max, const struct redacting *redacting,
	struct shape_text *ret);
/* The same for bytes that are whole. */
void shape_bytes(const void *p, size_t n, size_t max, const struct redacting *redacting,
	struct shape_text *ret);
