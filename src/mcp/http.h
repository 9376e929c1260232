/* http.h: MCP over streamable HTTP: the endpoint /mcp in both eras, beside /healthz and presented
 * files at /outputs/ (httpfiles.h).
 *
 * Nothing is kept between requests: each is a connection of its own to the server, and what lasts
 * has a session's handle. A request is answered with JSON, or with an event stream where something
 * is told before the result and the client reads such streams. When its client goes, a request of
 * the modern era is cancelled (unless it has an idempotency key), one of the older era runs on.
 *
 * Source: MCP 2026-07-28 and 2025-11-25, basic/transports. */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "mcp/httprules.h"
#include "mcp/weblink.h"

struct mcp_http;
struct peer_address;
struct tls_context;
struct mcp_server;
struct session_profile;

/* Who may ask: the bearer of the token is that principal. */
struct mcp_http_token {
	const char *token, *principal;
};

/* Copied, but for what is borrowed: loop, server, no_provider. */
struct mcp_http_config {
	uv_loop_t *loop;
	struct mcp_server *server;
	const struct session_profile *profile;
	const struct err *no_provider;
	const char *host; /* numeric */
	uint16_t port;
	/* none: whoever reaches the address is `anyone` */
	const struct mcp_http_token *tokens;
	size_t n_tokens;
	const char *anyone;
	struct httprules_allowed allowed;
	/* Those whose X-Forwarded-For is believed. */
	const struct peer_address *proxies;
	size_t n_proxies;
	struct tls_context *tls; /* taken, also where it fails; NULL: plain */
	/* WEBLINK_KEY bytes, of links to presented files; NULL: a random one … */
	const uint8_t *link_key;
	const char *url; /* … which begin with this; NULL: with what their client calls this host */
};

int mcp_http_new(
	const struct mcp_http_config *config, struct mcp_http **ret, struct err *err) MUST_CHECK;
/* Another certificate, for connections from now on; taken. */
void mcp_http_set_tls(struct mcp_http *h, struct tls_context *tls);
uint16_t mcp_http_port(const struct mcp_http *h);
/* Cancels what runs as for clients that have gone; done (may be NULL) from a later turn. The server
 * is closed after that. */
void mcp_http_close(struct mcp_http *h, void (*done)(void *user), void *user);
