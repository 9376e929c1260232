/* resources.h: presented files as MCP resources, for their owner. */
#pragma once

#include "mcp/conn.h"

/* 0 and *ret_result, or -EINVAL and *ret_error (its id is the caller's to set). */
int resources_list(struct mcp_conn *c, const json_t *params, bool modern, json_t **ret_result,
	struct jsonrpc_error *ret_error) MUST_CHECK;
/* A uri may end in ?offset=N&length=M. What does not fit one answer comes in pieces: _meta says
 * where the next one begins. */
int resources_read(struct mcp_conn *c, const json_t *params, bool modern, json_t **ret_result,
	struct jsonrpc_error *ret_error) MUST_CHECK;

/* May presented files of that principal be read now? They are as often as tools are called, and
 * only where files may leave. ERR_POLICY_DENIED, on record; ERR_LIMIT_REACHED. */
int resources_permit(struct mcp_server *s, const char *principal, struct err *err) MUST_CHECK;
/* A link to a presented file, NULL where the connection has none (it is not over HTTP). Owned by
 * the caller. */
char *resources_link(const struct mcp_conn *c, const char *uri, uint64_t *ret_until_s);

struct resource_range {
	char *uri; /* without the query; owned */
	uint64_t offset, length;
	bool given;
};
/* 0, or -EINVAL where the query is not offset and length. */
int resource_range_parse(const char *uri, struct resource_range *ret) MUST_CHECK;
