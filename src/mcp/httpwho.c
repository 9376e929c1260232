/* httpwho.c: see httpwho.h. */
#include "mcp/httpwho.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/str.h"
#include "mcp/http.h"
#include "mcp/webcookie.h"

struct token {
	uint8_t digest[SHA256_SIZE]; /* compared instead of the token: of one length */
	char *principal;
};

struct httpwho {
	struct token *tokens;
	size_t n_tokens;
	char *anyone, *url;
	const uint8_t *key;
	bool secure; /* browsers come by TLS, here or at a proxy */
	char cookie[24];
	uint64_t code_s; /* of the code that was used last: older ones are void */
};

static void digest_of(const char *token, uint8_t ret_digest[static SHA256_SIZE])
{
	struct sha256 s;
	sha256_init(&s);
	sha256_update(&s, token, strlen(token));
	sha256_final(&s, ret_digest);
}

/* ---- tokens ---- */

const char *httpwho_token(const struct httpwho *w, const char *token)
{
	const char *found = NULL;
	uint8_t digest[SHA256_SIZE];
	digest_of(token, digest);
	for (size_t i = 0; i < w->n_tokens; i++)
		if (id_equal(digest, w->tokens[i].digest, sizeof(digest)))
			found = w->tokens[i].principal;
	return found;
}

const char *httpwho_bearer(const struct httpwho *w, const struct http_head *head)
{
	static const char scheme[] = "bearer ";
	const char *given = http_field(head, "authorization");
	if (w->n_tokens == 0)
		return w->anyone;
	if (!given || strncasecmp(given, scheme, sizeof(scheme) - 1) != 0)
		return NULL;
	given += sizeof(scheme) - 1;
	return httpwho_token(w, given + strspn(given, " "));
}

bool httpwho_is_principal(const struct httpwho *w, const char *principal)
{
	for (size_t i = 0; i < w->n_tokens; i++)
		if (strcmp(w->tokens[i].principal, principal) == 0)
			return true;
	return w->n_tokens == 0 && strcmp(w->anyone, principal) == 0;
}

bool httpwho_has_tokens(const struct httpwho *w)
{
	return w->n_tokens > 0;
}

/* ---- the page's cookie ---- */

/* http[s]://HOST of an Origin, and HOST what the browser asked for: by Host, or as --url says where
 * a proxy writes another one. Which of the two schemes it was only a proxy knows; over the other
 * one browsers do not send the cookie. */
static bool is_own_origin(const struct httpwho *w, const struct http_head *head)
{
	const char *origin = http_field(head, "origin"), *host = http_field(head, "host");
	const char *rest = !origin                          ? NULL
			   : str_starts(origin, "http://")  ? origin + 7
			   : str_starts(origin, "https://") ? origin + 8
							    : NULL;
	if (!rest)
		return false;
	return (host && strcasecmp(rest, host) == 0) || (w->url && strcasecmp(origin, w->url) == 0);
}

/* Reading asks without Origin; what changes something, POST, always has one. */
static bool is_of_page(const struct httpwho *w, const struct http_head *head)
{
	const char *site = http_field(head, "sec-fetch-site");
	bool reads = head->verb == HTTP_VERB_GET || head->verb == HTTP_VERB_HEAD;
	if (http_count(head, "sec-fetch-site") && (!site || strcmp(site, "same-origin") != 0))
		return false;
	return http_count(head, "origin") ? is_own_origin(w, head) : reads;
}

const char *httpwho_page(const struct httpwho *w, const struct http_head *head)
{
	const uint64_t now_s = clock_realtime_us() / USEC_PER_SEC;
	const char *found = NULL;
	size_t n = 0;
	const char *value = webcookie_find(http_field(head, "cookie"), w->cookie, &n);
	if (w->n_tokens == 0)
		return w->anyone;
	for (size_t i = 0; value && i < w->n_tokens; i++) {
		const struct webcookie_of of = {w->tokens[i].principal, w->tokens[i].digest, false};
		if (webcookie_holds(w->key, &of, value, n, now_s, NULL))
			found = of.principal;
	}
	return found;
}

const char *httpwho_code(struct httpwho *w, const char *code)
{
	const uint64_t now_s = clock_realtime_us() / USEC_PER_SEC;
	uint64_t until_s = 0;
	for (size_t i = 0; i < w->n_tokens; i++) {
		const struct webcookie_of of = {w->tokens[i].principal, w->tokens[i].digest, true};
		if (!webcookie_holds(w->key, &of, code, strlen(code), now_s, &until_s) ||
			until_s > now_s + LIMIT_HTTP_CODE_S || until_s <= w->code_s)
			continue;
		w->code_s = until_s;
		return of.principal;
	}
	return NULL;
}

const char *httpwho_from_page(const struct httpwho *w, const struct http_head *head)
{
	return is_of_page(w, head) ? httpwho_page(w, head) : NULL;
}

char *httpwho_cookie(const struct httpwho *w, const char *principal)
{
	char value[WEBCOOKIE_VALUE];
	for (size_t i = 0; i < w->n_tokens; i++) {
		const struct webcookie_of of = {w->tokens[i].principal, w->tokens[i].digest, false};
		if (of.principal != principal)
			continue;
		webcookie_make(w->key, &of,
			clock_realtime_us() / USEC_PER_SEC + LIMIT_HTTP_COOKIE_S, value);
		return xasprintf("%s=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s",
			w->cookie, value, LIMIT_HTTP_COOKIE_S, w->secure ? "; Secure" : "");
	}
	return NULL;
}

/* ---- life ---- */

struct httpwho *httpwho_new(const struct httpwho_config *c)
{
	struct httpwho *w = xcalloc(1, sizeof(*w));
	w->anyone = xstrdup(c->anyone ? c->anyone : "");
	w->url = c->url ? xstrdup(c->url) : NULL;
	w->key = c->key;
	w->secure = c->tls || (c->url && str_starts(c->url, "https://"));
	w->tokens = xcalloc(c->n_tokens + 1, sizeof(*w->tokens));
	for (; w->n_tokens < c->n_tokens; w->n_tokens++) {
		const struct mcp_http_token *t = &c->tokens[w->n_tokens];
		digest_of(t->token, w->tokens[w->n_tokens].digest);
		w->tokens[w->n_tokens].principal = xstrdup(t->principal);
	}
	return w;
}

void httpwho_free(struct httpwho *w)
{
	for (size_t i = 0; i < w->n_tokens; i++)
		free(w->tokens[i].principal);
	free(w->tokens);
	free(w->anyone);
	free(w->url);
	free(w);
}

void httpwho_set_port(struct httpwho *w, uint16_t port)
{
	(void)snprintf(w->cookie, sizeof(w->cookie), "scb-%u", port);
}
