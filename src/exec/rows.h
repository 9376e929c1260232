/* rows.h: output that moves the cursor up to write over earlier lines (several progress bars at
 * once), as the lines that are left. Pure; for shape.c. */
#pragma once

#include "base/buf.h"

/* Appends p[0..n) to out with each rewritten line in its place: what was written over it follows
 * it after a carriage return. CSI A, B, E and F are applied and removed, nothing else is. False,
 * and nothing appended, where there is none of them. out takes 2 * n + 1 bytes. */
bool rows_collapse(const uint8_t *p, size_t n, struct buf *out);
