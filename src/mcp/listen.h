/* listen.h: subscriptions/listen of the modern era: a request that goes on, and on whose way its
 * client is told which lists have changed, of those that it named. It ends when it is cancelled, or
 * with its connection. Changes of single resources are not told of. Source: MCP 2026-07-28
 * basic/patterns/subscriptions. */
#pragma once

#include "mcp/conn.h"

void listen_start(struct mcp_conn *c, const struct mcp_message *message,
	const struct jsonrpc_msg *m, const struct mcp_envelope *envelope);
/* By the message of that number. False: there is none with that id. */
bool listen_cancel(struct mcp_conn *c, const json_t *id, uint64_t number);
/* The connection goes. */
void listen_close_all(struct mcp_conn *c);
/* Tells those who listen. */
void listen_changed(struct mcp_server *s, enum mcp_list list);
