/* tell.h: what a client hears of a call before its answer: progress and log messages.
 *
 * Progress goes to clients that gave a token, and only ever grows: a tool that reports its own is
 * not spoken for by the clock any more. Log messages: in the modern era to requests that name a
 * level; in the older one as logging/setLevel said on that connection, or from "info" on.
 *
 * Source: MCP 2026-07-28 basic/patterns/progress, server/utilities/logging. */
#pragma once

#include <jansson.h>

#include "mcp/call.h"

/* Of total (0: not known). message may be NULL. */
void tell_progress(struct call *c, double progress, double total, const char *message);
/* Syslog's, as MCP names them. */
enum tell_level {
	TELL_DEBUG,
	TELL_INFO,
	TELL_NOTICE,
	TELL_WARNING,
	TELL_ERROR,
	TELL_CRITICAL,
	TELL_ALERT,
	TELL_EMERGENCY,
};
/* data is stolen. Where the offer says `logs`. */
void tell_log(struct call *c, enum tell_level level, json_t *data);

/* ---- for the server ---- */

/* -1: there is no such level. */
int tell_level_of(const char *name);
/* What can be told by the clock, where it is due: for how long it has been running. */
void tell_time(struct call *c, uint64_t now_us);
