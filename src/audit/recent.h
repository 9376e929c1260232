/* recent.h: the last lines of a log, read beside its writer: from any thread, with a descriptor of
 * the log's directory (audit_dup_dir()). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Calls fn, in order, for each whole line that begins within the last max bytes of the present file
 * and, where that is shorter, of the former one. A line of which only a part was written yet is
 * none. A negative errno: they cannot be read. */
int recent_read(int dir, uint64_t max, void (*fn)(void *user, const char *line, size_t n),
	void *user) MUST_CHECK;
