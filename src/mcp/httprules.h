/* httprules.h: what streamable HTTP asks of a request beyond JSON-RPC: which era it is of, whether
 * header fields and body agree, who may ask from where. Pure.
 *
 * Source: MCP 2026-07-28 basic/transports/streamable-http; 2025-11-25 the same; RFC 9110. */
#pragma once

#include "http/parse.h"
#include "mcp/jsonrpc.h"
#include "mcp/offer.h"

#define MCP_HEADER_MISMATCH (-32020)

struct httprules_verdict {
	unsigned status; /* 0: it is to be worked on; 202: nothing is answered; else error */
	bool modern;
	struct jsonrpc_error error; /* owned; its id is set */
};
/* Of a request to a server that offers that. */
void httprules_judge(const struct http_head *head, const struct jsonrpc_msg *m,
	const struct mcp_offer *offer, struct httprules_verdict *ret);
/* The status of an answer that is an error of this JSON-RPC code, found out while working on it. */
unsigned httprules_status(int code);

/* One of the media types of an Accept or Content-Type field; parameters are left out of account. */
bool httprules_names_type(const char *field, const char *type);

/* Hosts and origins that are let in beside localhost, 127.0.0.1 and [::1]. */
struct httprules_allowed {
	const char *const *hosts; /* "scb.example.com", with ":PORT" where only that one */
	size_t n_hosts;
	const char *const *origins; /* "https://chat.example.com" */
	size_t n_origins;
};
/* Against DNS rebinding and other pages of a browser: Host, and Origin where there is one. */
bool httprules_from_here(const struct http_head *head, const struct httprules_allowed *allowed);
