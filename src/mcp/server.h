/* server.h: the MCP server: messages in, messages out. Knows nothing of how they travel.
 *
 * Requests run concurrently; each is answered exactly once, unless it was cancelled. A message that
 * a broker which died may have been given already comes again with the same delivery (replayed):
 * what it changes is done once all the same, and its answer is what it would have been. */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "mcp/transport.h"
#include "wire/delivery.h"

struct audit;
struct mcp_offer;
struct outputs;
struct policy;
struct session_profile;
struct sessions;
struct store;
struct vault;
struct weblink_place;

/* Borrowed pointers live as long as the server. */
struct mcp_config {
	uv_loop_t *loop;
	const struct mcp_offer *offer; /* NULL: scb's own */
	struct policy *policy;
	struct audit *audit;
	struct store *store; /* for idempotency keys; NULL: they are forgotten with the server */
	struct sessions *sessions;    /* NULL: none can be made (tests) */
	struct vault *vault;          /* what is masked in texts that leave; NULL: nothing */
	struct outputs *outputs;      /* NULL: no file can be presented … */
	const struct err *no_outputs; /* … for this reason, which tools then answer */
};

struct jsonrpc_msg;
struct mcp_server;
struct mcp_conn;

/* Jobs of sessions that an earlier broker left are put on record when they end. */
struct mcp_server *mcp_server_new(const struct mcp_config *c);
const struct mcp_offer *mcp_server_offer(const struct mcp_server *s);
/* A secret was given, or will not be: calls that waited for that go on. */
void mcp_server_secrets(struct mcp_server *s);
/* Connections are closed first. Frees it from the loop's next turn. */
void mcp_server_close(struct mcp_server *s);

/* Who connects, and what comes with it. Copied. */
struct mcp_conn_config {
	const char *principal; /* "uid:1000" */
	const char *host;      /* the host's configured name: idempotency keys are of
				  principal and host; NULL: none */
	const struct session_profile *profile; /* what sandboxes of it are made with */
	const struct err *no_provider;     /* its profile has none, for this reason; else NULL */
	const char *default_session;       /* from an earlier broker; NULL or "": none */
	const struct weblink_place *links; /* where presented files can be fetched; its key is
					      borrowed; NULL: nowhere */
};
/* A connection, with its own default session. */
struct mcp_conn *mcp_conn_new(struct mcp_server *s, struct mcp_transport *transport,
	const struct mcp_conn_config *config);
/* One message as it came (no newline, borrowed). */
struct mcp_message {
	const char *p; /* NULL: it was too long and thrown away */
	size_t n;
	uint64_t number; /* see transport.h; 0 where the transport has none */
	uint64_t age_us; /* since it came from the client; more than 0 where an earlier broker had
			    it */
	struct delivery delivery;
};
void mcp_conn_message(struct mcp_conn *c, const struct mcp_message *m);
/* The same of a message that was parsed already (message->p is not looked at). */
void mcp_conn_parsed(
	struct mcp_conn *c, const struct mcp_message *message, const struct jsonrpc_msg *m);
/* Another list holds than before: those who listen are told. Where the offer says `changes`. */
enum mcp_list { MCP_TOOLS, MCP_PROMPTS, MCP_RESOURCES, MCP_LISTS };
void mcp_server_changed(struct mcp_server *s, enum mcp_list list);
/* A response that came on its own (HTTP): of whom, to something that a call has asked. */
void mcp_server_response(struct mcp_server *s, const char *principal, const struct jsonrpc_msg *m);
bool mcp_is_method(const struct mcp_offer *o, const char *name, bool modern);
/* The peer has gone: what runs is cancelled, but for keyed calls; nothing is sent any more. For a
 * hand-over nothing is closed: the process ends, and the next one is given the messages again. */
void mcp_conn_close(struct mcp_conn *c);
