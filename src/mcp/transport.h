/* transport.h: how messages of one connection leave. The protocol (server.h) knows no more of
 * stdio, a front's socket or HTTP than this.
 *
 * number is that of the message that is answered, as it was given with it; 0: of none (a
 * notification). A message from a peer has its end exactly once: by send() with its number, or by
 * done(). Until then the peer keeps it, to deliver it again to a later broker. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mcp_transport {
	/* One JSON-RPC message without line end; the bytes are gone after the call. What cannot be
	 * sent at once is queued. */
	void (*send)(struct mcp_transport *t, uint64_t number, const char *message, size_t n);
	/* The peer reads slowly: leave out what it can do without (progress). */
	bool (*congested)(const struct mcp_transport *t);
	/* That message is dealt with and has no answer: a notification, or a request that was
	 * cancelled (then both). May be NULL. */
	void (*done)(struct mcp_transport *t, uint64_t number);
	/* What follows with that number is an error of this JSON-RPC code: HTTP has a status for
	 * some. May be NULL. */
	void (*failed)(struct mcp_transport *t, uint64_t number, int code);
	/* Can the peer be sent something before its answer? NULL: always. */
	bool (*reaches)(const struct mcp_transport *t);
	/* The connection's default session, to be given back by the peer to a later broker; ""
	 * where there is none any more. Before the answer that tells of it. May be NULL. */
	void (*session)(struct mcp_transport *t, const char *handle);
};
