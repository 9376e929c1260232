/* httpgate.c: see httpgate.h. */
#include "mcp/httpgate.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "http/peers.h"

struct httpgate {
	struct httprules_allowed allowed; /* copied */
	struct peer_address *proxies;
	size_t n_proxies;
};

static void copy_texts(const char *const *from, size_t n, const char *const **ret, size_t *ret_n)
{
	const char **copy = xcalloc(n + 1, sizeof(*copy));
	for (size_t i = 0; i < n; i++)
		copy[i] = xstrdup(from[i]);
	*ret = copy;
	*ret_n = n;
}

static void free_texts(const char *const *texts)
{
	for (size_t i = 0; texts[i]; i++)
		free((char *)texts[i]);
	free((void *)texts);
}

struct httpgate *httpgate_new(const struct httprules_allowed *allowed,
	const struct peer_address *proxies, size_t n_proxies)
{
	struct httpgate *g = xcalloc(1, sizeof(*g));
	copy_texts(allowed->hosts, allowed->n_hosts, &g->allowed.hosts, &g->allowed.n_hosts);
	copy_texts(
		allowed->origins, allowed->n_origins, &g->allowed.origins, &g->allowed.n_origins);
	g->n_proxies = n_proxies;
	g->proxies = xcalloc(n_proxies + 1, sizeof(*g->proxies));
	if (n_proxies)
		memcpy(g->proxies, proxies, n_proxies * sizeof(*g->proxies));
	return g;
}

void httpgate_free(struct httpgate *g)
{
	free_texts(g->allowed.hosts);
	free_texts(g->allowed.origins);
	free(g->proxies);
	free(g);
}

bool httpgate_from_here(const struct httpgate *g, struct http_exchange *x)
{
	const struct http_head *head = http_head(x);
	const char *origin = http_field(head, "origin");
	if (!httprules_from_here(head, &g->allowed))
		return false;
	if (origin) {
		http_always(x, "access-control-allow-origin", origin);
		http_always(x, "vary", "origin");
	}
	return true;
}

void httpgate_preflight(struct http_exchange *x)
{
	const struct http_field fields[] = {
		{"access-control-allow-methods", "POST"},
		{"access-control-allow-headers",
			"content-type, accept, authorization, mcp-protocol-version, mcp-method, "
			"mcp-name, mcp-session-id, last-event-id"},
		{"access-control-max-age", "600"},
	};
	http_answer(x, 204, NULL, fields, ARRAY_SIZE(fields), NULL, 0);
}

/* Behind a proxy that is named, who stands behind it: the proxy itself appends that address. */
static struct peer_address asker(const struct httpgate *g, const struct http_exchange *x)
{
	struct peer_address a = *http_peer(x);
	const char *behind = http_field(http_head(x), "x-forwarded-for");
	for (size_t i = 0; behind && i < g->n_proxies; i++) {
		if (memcmp(a.bytes, g->proxies[i].bytes, sizeof(a.bytes)) != 0)
			continue;
		const char *comma = strrchr(behind, ',');
		const char *last = comma ? comma + 1 : behind;
		(void)peer_address_parse(last + strspn(last, " \t"), &a);
		break;
	}
	return a;
}

bool httpgate_waits(const struct httpgate *g, struct peers *peers, struct http_exchange *x)
{
	static const char text[] =
		"Too Many Requests: too many wrong tokens came from this address\n";
	const struct peer_address a = asker(g, x);
	uint64_t wait_us = peers_wait_us(peers, &a, clock_monotonic_us());
	if (!wait_us)
		return false;
	char seconds[24];
	(void)snprintf(
		seconds, sizeof(seconds), "%llu", (unsigned long long)(wait_us / USEC_PER_SEC + 1));
	const struct http_field fields[] = {{"retry-after", seconds}};
	http_answer(x, 429, "text/plain; charset=utf-8", fields, 1, text, sizeof(text) - 1);
	return true;
}

void httpgate_failed(const struct httpgate *g, struct peers *peers, const struct http_exchange *x)
{
	const struct peer_address a = asker(g, x);
	peers_failed(peers, &a, clock_monotonic_us());
}

void httpgate_refuse(struct http_exchange *x)
{
	static const struct http_field fields[] = {{"www-authenticate", "Bearer realm=\"scb\""}};
	static const char text[] = "Unauthorized: send the token as \"Authorization: Bearer …\"; "
				   "scb serve says at its start which file has it\n";
	http_answer(x, 401, "text/plain; charset=utf-8", fields, 1, text, sizeof(text) - 1);
}
