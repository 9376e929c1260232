/* transport.h: how messages of one connection leave. The protocol (server.h) knows no more of
 * stdio, a front's socket or HTTP than this. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct mcp_transport {
	/* One JSON-RPC message without line end; the bytes are gone after the call. What cannot be
	 * sent at once is queued. */
	void (*send)(struct mcp_transport *t, const char *message, size_t n);
	/* The peer reads slowly: leave out what it can do without (progress). */
	bool (*congested)(const struct mcp_transport *t);
};
