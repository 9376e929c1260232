/* httpfiles.h: presented files over HTTP, at /outputs/: whole, in ranges, in pieces as the peer
 * takes them. Who has a link (weblink.h) needs no token; who has a token needs no link for his own
 * files. The policy is asked each time, and each answer with a file is on record.
 *
 * Browsers are told to run nothing of it: a sandboxed document without sources, and what is more
 * than a picture or text is to be saved.
 *
 * Source: RFC 9110, 13 and 14. */
#pragma once

#include <uv.h>

#include "http/server.h"
#include "mcp/weblink.h"

struct httpfiles;
struct mcp_server;

struct httpfiles_config {
	uv_loop_t *loop;
	struct mcp_server *server;
	const uint8_t *key; /* of links */
	/* Is that one of those that are let in? A link outlives a token that was taken away. */
	bool (*is_principal)(void *user, const char *principal);
	void *user;
};
struct httpfiles *httpfiles_new(const struct httpfiles_config *c);
/* A target that begins with "/outputs/"; answered now or later. principal: of its token; NULL: it
 * has none. False: it came with a link that nobody has made. */
bool httpfiles_answer(struct httpfiles *f, struct http_exchange *x, const char *principal);
/* Every exchange is over. */
void httpfiles_free(struct httpfiles *f);
