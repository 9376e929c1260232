/* protocol.h: the two eras of MCP: 2026-07-28 (stateless, an envelope in every request) and those
 * with initialize. Pure. Source: MCP 2026-07-28 basic/versioning, basic/index, server/discover;
 * 2025-11-25 basic/lifecycle. */
#pragma once

#include "mcp/jsonrpc.h"
#include "mcp/offer.h"

#define MCP_MISSING_CAPABILITY  (-32021)
#define MCP_UNSUPPORTED_VERSION (-32022)
#define MCP_LEGACY_NO_RESOURCE  (-32002)

/* MCP Apps, specification 2026-01-26. */
#define MCP_UI_EXTENSION "io.modelcontextprotocol/ui"
#define MCP_UI_MIME_TYPE "text/html;profile=mcp-app"

struct mcp_envelope {
	bool modern;            /* params._meta names a protocol version */
	json_t *progress_token; /* borrowed: string or integer; NULL: none wanted */
	/* modern alone; borrowed */
	json_t *capabilities;  /* of the client: an object */
	const char *log_level; /* NULL: no log messages wanted */
};
/* 0, or -EINVAL and *ret_error: an unknown version, or a member missing. params may be NULL. */
int mcp_envelope_read(const char *method, const json_t *params, struct mcp_envelope *ret,
	struct jsonrpc_error *ret_error) MUST_CHECK;

/* The version that params._meta names, as it stands there; NULL: none, or no string. */
const char *mcp_envelope_version(const json_t *params);
/* 2026-07-28 or later, known or not; one of those with initialize that are known. */
bool mcp_version_is_modern(const char *version);
bool mcp_version_is_legacy(const char *version);

/* The results of the two ways to begin. */
json_t *mcp_initialize_result(const struct mcp_offer *o, const char *requested_version);
json_t *mcp_discover_result(const struct mcp_offer *o);

/* What the modern era wants in every result. The legacy one is left as it is. */
void mcp_result_finish(const struct mcp_offer *o, json_t *result, bool modern);
/* Cache hints of list and read results (modern only). scope: "public" or "private". */
void mcp_result_cache(json_t *result, bool modern, int ttl_ms, const char *scope);
