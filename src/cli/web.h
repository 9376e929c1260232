/* web.h: `scb serve --http`: where it listens, who may come in, and MCP over it. */
#pragma once

#include "cli/options.h"
#include "cli/parts.h"

/* Tokens of a file, beside the user's own; each is some 100 bytes. */
#define WEB_TOKENS 256
/* --allow-host, --allow-origin and --proxy, each. */
#define WEB_ALLOWED 32

struct web_settings {
	char host[64]; /* numeric; "": no HTTP */
	uint16_t port;
	const char *token_file;
	const char *url;                /* what clients reach it by; NULL: as each says in Host */
	const char *tls_cert, *tls_key; /* NULL: no TLS */
	bool no_token, insecure;
	const char *hosts[WEB_ALLOWED], *origins[WEB_ALLOWED];
	size_t n_hosts, n_origins;
	const char *proxies[WEB_ALLOWED];
	size_t n_proxies;
};
/* --http, --token-file, --no-token, --allow-host, --allow-origin, --insecure-http, --url,
 * --tls-cert, --tls-key, --proxy;
 * their user is a
 * struct web_settings. */
extern const struct option_def web_options[];
/* Once all are parsed. */
int web_check(const struct web_settings *w, struct err *err) MUST_CHECK;

struct web;
/* Listens, and says on stderr where. The user's own token is the file http-token of the state
 * directory, made where there is none. */
int web_open(struct parts *parts, const struct web_settings *w, struct web **ret,
	struct err *err) MUST_CHECK;
/* The page's address for a browser that is started now, with a code that works once and for a short
 * time in the place of the token: arguments of programs can be read by others. Of the broker of
 * that state directory; show: a dashboard, or NULL. Owned by the caller. */
char *web_once(const char *state, const char *show, struct err *err);
/* The page's address with the token, as the broker has written it into http-url of its state
 * directory; NULL: not yet. Owned by the caller. */
char *web_url(const char *state);
/* Reads certificate and key again; where that fails what holds holds. */
void web_reload(struct web *w);
/* The policy has changed: secrets of its principals are read once more. */
void web_secrets_reload(struct web *w);
/* Before the server is closed; done from a later turn. NULL is fine: then at once. */
void web_close(struct web *w, void (*done)(void *user), void *user);
