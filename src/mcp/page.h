/* page.h: the broker's own host page over HTTP: a small host of MCP Apps for a browser (ui/host),
 * which asks /mcp like any client, and here for what MCP does not have: the dashboards that there
 * are, and the end of the audit log, both of who asks alone.
 *
 *   /            the page; /?token=… sets the cookie and goes on to the page without it
 *   /sandbox     the frame that Apps stand in
 *   /page/state  JSON; waits for news
 *
 * An App is kept apart by its frames: the outer one is /sandbox, whose own policy gives it an
 * opaque origin and no source but what is written into it, the inner one inherits that. So it has
 * no cookie, no page above it, and nothing that it could ask.
 *
 * Source: MCP Apps 2026-01-26, "Sandbox proxy"; CSP level 3. */
#pragma once

#include <uv.h>

#include "http/server.h"

struct page;
struct mcp_server;

struct page *page_new(uv_loop_t *loop, struct mcp_server *server);
/* Exchanges are over. done from a later turn, when nothing reads any more; frees. */
void page_close(struct page *p, void (*done)(void *user), void *user);

/* principal: who has the cookie; NULL: nobody. */
void page_answer(struct page *p, struct http_exchange *x, const char *principal);
/* The target had this one's token; cookie: the value of Set-Cookie. */
void page_enter(struct page *p, struct http_exchange *x, const char *principal, const char *cookie);
/* Without cookie, or with a wrong token: how one comes in. */
void page_refuse(struct http_exchange *x);
void page_sandbox(struct http_exchange *x);
/* "/page/state?after=SEQ&wait=SECONDS", both optional: lines of the audit log after that one, at
 * once where there are some, else when there are, or after the wait. */
void page_state(struct page *p, struct http_exchange *x, const char *principal);
