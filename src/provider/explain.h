/* explain.h: what bubblewrap, the launcher and the kernel print, in words that a newcomer can act
 * on. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* Fills *err for a sandbox whose first process ended by itself with this status (128 + signal for a
 * signal, negative: not known) and printed this. The text is hostile input: made printable and cut.
 */
void explain_exit(const char *provider, const struct buf *said, int status, struct err *err);
