/* complete.h: completion/complete: what begins so, of what an argument offers: of prompts their
 * arguments' choices, of resource templates those of the variable. Source: MCP 2026-07-28
 * server/utilities/completion. */
#pragma once

#include "mcp/jsonrpc.h"
#include "mcp/offer.h"

/* The result, or NULL and *ret_error. */
json_t *complete(const struct mcp_offer *o, const json_t *params, struct jsonrpc_error *ret_error);
