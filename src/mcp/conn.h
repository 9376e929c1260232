/* conn.h: what server.c, call.c and resources.c share: inside the server only. */
#pragma once

#include "base/buf.h"
#include "base/id.h"
#include "base/list.h"
#include "mcp/jsonrpc.h"
#include "mcp/server.h"

struct idempotency;

struct mcp_server {
	struct mcp_config config;
	struct list conns;
	struct list follows; /* jobs whose end is still to be audited: follow.c */
	struct idempotency *keys;
	json_t *tools; /* result of tools/list; made on first need */
	uv_timer_t ticker;
};

struct mcp_conn {
	struct list link;
	struct mcp_server *server;
	struct mcp_transport *transport;
	char *principal;
	char default_session[ID_TEXT_SIZE]; /* "": none yet */
	struct list calls;                  /* tools/call in flight */
	unsigned n_calls;
};

/* All steal what they send. */
void conn_send(struct mcp_conn *c, json_t *message);
void conn_error(struct mcp_conn *c, struct jsonrpc_error *e);
/* Makes result fit LIMIT_MCP_RESULT (fit.h), adds what the era wants, and encodes the whole message
 * into out (of that maximum). */
void conn_encode_result(json_t *id, json_t *result, bool modern, struct buf *out);
void conn_result(struct mcp_conn *c, json_t *id, json_t *result, bool modern);
