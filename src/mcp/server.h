/* server.h: the MCP server: messages in, messages out. Knows nothing of how they travel.
 *
 * Requests run concurrently; each is answered exactly once, unless it was cancelled. */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "mcp/transport.h"

struct audit;
struct outputs;
struct policy;
struct sessions;

/* Borrowed pointers live as long as the server. */
struct mcp_config {
	uv_loop_t *loop;
	struct policy *policy;
	struct audit *audit;
	struct sessions *sessions;     /* NULL: no sandbox can be made … */
	const struct err *no_sessions; /* … for this reason, which tools then answer */
	struct outputs *outputs;       /* the same with presented files */
	const struct err *no_outputs;
};

struct mcp_server;
struct mcp_conn;

struct mcp_server *mcp_server_new(const struct mcp_config *c);
/* Connections are closed first. Frees it from the loop's next turn. */
void mcp_server_close(struct mcp_server *s);

/* A connection with its principal ("uid:1000", copied) and its own default session. */
struct mcp_conn *mcp_conn_new(
	struct mcp_server *s, struct mcp_transport *transport, const char *principal);
/* One message as it came (no newline); NULL: one that was too long and thrown away. */
void mcp_conn_message(struct mcp_conn *c, const char *p, size_t n);
/* Cancels what runs; nothing is sent any more. */
void mcp_conn_close(struct mcp_conn *c);
