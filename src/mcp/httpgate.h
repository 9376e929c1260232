/* httpgate.h: from where one may ask over HTTP, and who tries too often. Which Host and Origin are
 * let in; who stands behind a proxy that is named; addresses that sent wrong tokens wait. */
#pragma once

#include "http/server.h"
#include "mcp/httprules.h"

struct httpgate;

/* Copies both. */
struct httpgate *httpgate_new(const struct httprules_allowed *allowed,
	const struct peer_address *proxies, size_t n_proxies);
void httpgate_free(struct httpgate *g);

/* False: its Host or Origin is not let in, and nothing was answered yet. An Origin that is let in
 * is told so with whatever is answered. */
bool httpgate_from_here(const struct httpgate *g, struct http_exchange *x);
/* A browser's question before its request, for origins that are let in. */
void httpgate_preflight(struct http_exchange *x);

/* True: its address is not listened to for now, and was told so (429). */
bool httpgate_waits(const struct httpgate *g, struct peers *peers, struct http_exchange *x);
/* Its address sent what lets nobody in. */
void httpgate_failed(const struct httpgate *g, struct peers *peers, const struct http_exchange *x);
/* 401. */
void httpgate_refuse(struct http_exchange *x);
