/* httpwho.h: who asks over HTTP: the bearer of a token, a browser with the host page's cookie, or,
 * where there are no tokens, anyone. Pure but for the clock.
 *
 * The cookie counts for the page alone, and only for what the page itself asks: browsers send it
 * along with whatever is asked of this host by whichever page of it (of another port, too), and say
 * by Origin and Sec-Fetch-Site from where. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/parse.h"
#include "mcp/weblink.h"

struct httpwho;
struct mcp_http_token;

/* All is copied, but for key: the one of links. url: what this server is reached by; NULL: as each
 * says in Host. */
struct httpwho_config {
	const struct mcp_http_token *tokens;
	size_t n_tokens;
	const char *anyone;
	const uint8_t *key;
	const char *url;
	bool tls;
};
struct httpwho *httpwho_new(const struct httpwho_config *c);
void httpwho_free(struct httpwho *w);
/* Once it listens: names the cookie. */
void httpwho_set_port(struct httpwho *w, uint16_t port);

/* Principals are valid as long as w; NULL: nobody who is known. */

/* By "Authorization: Bearer …"; anyone without tokens. In constant time. */
const char *httpwho_bearer(const struct httpwho *w, const struct http_head *head);
/* By a token alone. */
const char *httpwho_token(const struct httpwho *w, const char *token);
/* By a code to come in with once (webcookie.h), which is used up by that. */
const char *httpwho_code(struct httpwho *w, const char *code);
/* By its cookie alone: enough to be shown the page, in which nothing stands. */
const char *httpwho_page(const struct httpwho *w, const struct http_head *head);
/* The same for what the page asks: only where the browser says that it was the page. */
const char *httpwho_from_page(const struct httpwho *w, const struct http_head *head);
/* The value of Set-Cookie with which that one is known from now on; owned by the caller. */
char *httpwho_cookie(const struct httpwho *w, const char *principal);

/* One of those that are let in? */
bool httpwho_is_principal(const struct httpwho *w, const char *principal);
bool httpwho_has_tokens(const struct httpwho *w);
