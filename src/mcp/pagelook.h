/* pagelook.h: what the host page is told again and again: the dashboards of its principal, and the
 * lines of the audit log that are his. A page that knows all of it waits until something happens.
 * The log is read in a thread. */
#pragma once

#include <uv.h>

#include "http/server.h"

struct mcp_server;
struct pagelooks;

struct pagelooks *pagelooks_new(uv_loop_t *loop, struct mcp_server *server);
/* Exchanges are over. done from a later turn; frees. */
void pagelooks_close(struct pagelooks *l, void (*done)(void *user), void *user);

struct pagelook_wish {
	const char *principal;
	uint64_t after;  /* lines with a higher number than that; 0: the last ones */
	uint64_t wait_s; /* for one, where there is none */
};
/* Answers x, now or later. */
void pagelook(struct pagelooks *l, struct http_exchange *x, const struct pagelook_wish *wish);
