/* conn.h: what the parts of the server share: inside it only. */
#pragma once

#include "base/buf.h"
#include "base/id.h"
#include "base/list.h"
#include "mcp/ask.h"
#include "mcp/jsonrpc.h"
#include "mcp/offer.h"
#include "mcp/protocol.h"
#include "mcp/server.h"
#include "mcp/weblink.h"
#include "session/session.h"

struct dashboards;
struct idempotency;
struct metrics;
struct rates;

struct mcp_server {
	struct mcp_config config;
	const struct mcp_offer *offer;
	struct list conns;
	struct list follows; /* jobs whose end is still to be audited: follow.c */
	struct idempotency *keys;
	struct rates *rates;
	struct metrics *metrics;
	struct list asking;       /* calls that wait for their client: callask.c */
	uint8_t ask_key[ASK_KEY]; /* of this server: ask.h */
	struct buf tools[2];      /* the result of tools/list, encoded for each era on first need */
	struct dashboards *dashboards; /* NULL: none can be made */
	uv_timer_t ticker;
	uint64_t heard_ms; /* the last message, by the loop's clock */
};

struct mcp_conn {
	struct list link;
	struct mcp_server *server;
	struct mcp_transport *transport;
	char *principal, *host;             /* host: "" where it has no name */
	struct session_profile profile;     /* with copies of its own */
	struct err no_provider;             /* why the profile has none */
	struct weblink_place links;         /* key borrowed; base NULL: not over HTTP */
	char default_session[ID_TEXT_SIZE]; /* "": none yet */
	struct list calls;                  /* tools/call in flight */
	unsigned n_calls;
	struct list listens; /* listen.c */
	unsigned n_listens;
	/* of the older era */
	json_t *capabilities; /* as initialize said; NULL: not on this connection */
	int log_level;        /* tell.h */
};

/* All steal what they send. number: of the message that is answered, 0: of none. */
void conn_send(struct mcp_conn *c, uint64_t number, json_t *message);
void conn_error(struct mcp_conn *c, uint64_t number, struct jsonrpc_error *e);
/* A message is dealt with that has no answer. */
void conn_done(struct mcp_conn *c, uint64_t number);
void conn_set_session(struct mcp_conn *c, const char *handle);
/* The answer that follows is an error of that code. */
void conn_failed(struct mcp_conn *c, uint64_t number, int code);
/* For a request that may ask back: ask_open(). */
int conn_open_ask(struct mcp_conn *c, const struct jsonrpc_msg *m,
	const struct mcp_envelope *envelope, struct ask **ret,
	struct jsonrpc_error *ret_error) MUST_CHECK;
/* Makes result fit LIMIT_MCP_RESULT (fit.h), adds what the era wants, and encodes the whole message
 * into out (of that maximum). */
void conn_encode_result(
	const struct mcp_offer *o, json_t *id, json_t *result, bool modern, struct buf *out);
void conn_result(struct mcp_conn *c, uint64_t number, json_t *id, json_t *result, bool modern);
