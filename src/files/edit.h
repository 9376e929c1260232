/* edit.h: replacing text in a file's bytes. Pure. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct redactor;

/* Writes in with old_text replaced by new_text to out; old_text must occur exactly once, or at
 * least once where all is true; what redactor (may be NULL) masks is no place. The number of
 * places, or a negative errno: ERR_INVALID_ARGUMENT where it is empty, does not occur or occurs
 * more often, ERR_LIMIT_REACHED where out is too small.
 */
int edit_replace(const struct buf *in, const char *old_text, const char *new_text, bool all,
	const struct redactor *redactor, struct buf *out, struct err *err) MUST_CHECK;
