/* callask.h: calls that ask their client (ask.h), for tools with `asks`. c->ask is there from the
 * start. run() looks for the answers that it needs; where one is missing it names what it asks for
 * and returns through callask_send(). It then runs again, from its start.
 *
 * In the older era that is the same call: the requests go out on the way of its answer, each with
 * an unguessable id, and the client's responses are found by id and principal, whatever connection
 * they come on (over HTTP: a request of their own). Where the client refuses one, or does not
 * answer in LIMIT_ASK_US, the call fails. */
#pragma once

#include "mcp/ask.h"
#include "mcp/call.h"

/* Ends the round. Either the call has ended after it, or run() follows. */
void callask_send(struct call *c);

/* ---- for the server ---- */

/* The client's response to a request of some call of that principal; nothing where there is none.
 */
void callask_response(struct mcp_server *s, const char *principal, const struct jsonrpc_msg *m);
/* It fails where it has waited for too long, or its client has gone. */
void callask_tick(struct call *c, uint64_t now_us);
/* It does not wait any more; false where it did not. */
bool callask_stop(struct call *c);
