/* weblink.c: see weblink.h. */
#include "mcp/weblink.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"
#include "base/str.h"
#include "files/meta.h"
#include "files/name.h"
#include "wire/sha256.h"

#define PATH "/outputs/"
/* Bytes of a MAC that stand in a link. */
#define MAC 16

static void sign(const uint8_t *key, const char *principal, const char *uri, uint64_t until_s,
	uint8_t ret_mac[static SHA256_SIZE])
{
	static const char what[] = "scb presented file";
	char until[24];
	(void)snprintf(until, sizeof(until), "%llu", (unsigned long long)until_s);
	/* each with its NUL: no text can be moved from one to the next */
	const struct hmac_part parts[] = {{what, sizeof(what)}, {principal, strlen(principal) + 1},
		{uri, strlen(uri) + 1}, {until, strlen(until) + 1}};
	sha256_hmac(key, WEBLINK_KEY, parts, ARRAY_SIZE(parts), ret_mac);
}

char *weblink_make(
	const struct weblink_place *place, const char *principal, const char *uri, uint64_t until_s)
{
	uint8_t mac[SHA256_SIZE];
	char hex[2 * MAC + 1];
	CHECK(str_starts(uri, META_URI));
	_cleanup_free_ char *name = name_encode(principal);
	sign(place->key, principal, uri, until_s, mac);
	id_hex(mac, MAC, hex);
	return xasprintf("%s" PATH "%s?for=%s&until=%llu&key=%s", place->base,
		uri + strlen(META_URI), name, (unsigned long long)until_s, hex);
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
				      : -1;
}

char *weblink_decode(const char *p, size_t n)
{
	char *text = xmalloc(n + 1);
	size_t used = 0;
	for (size_t i = 0; i < n; i++) {
		char c = p[i];
		if (c == '%') {
			int high = n - i > 2 ? hex_digit(p[i + 1]) : -1;
			int low = high >= 0 ? hex_digit(p[i + 2]) : -1;
			c = low >= 0 ? (char)(high * 16 + low) : '\0';
			i += 2;
		}
		if (c == '\0') {
			free(text);
			return NULL;
		}
		text[used++] = c;
	}
	text[used] = '\0';
	return text;
}

struct query {
	char *principal;
	uint64_t until_s;
	uint8_t mac[MAC];
	bool timed, keyed;
};

/* One "name=value"; each once. */
static bool read_member(struct query *q, const char *p, size_t n)
{
	char value[2 * MAC + 1];
	const char *eq = memchr(p, '=', n);
	size_t left = eq ? n - (size_t)(eq - p) - 1 : 0;
	if (!eq)
		return false;
	if (str_starts(p, "for=") && !q->principal) {
		q->principal = weblink_decode(eq + 1, left);
		return q->principal && q->principal[0];
	}
	if (left >= sizeof(value))
		return false;
	memcpy(value, eq + 1, left);
	value[left] = '\0';
	if (str_starts(p, "until=") && !q->timed)
		return q->timed = str_to_u64(value, INT64_MAX, &q->until_s) == 0;
	if (str_starts(p, "key=") && !q->keyed)
		return q->keyed = id_unhex(value, q->mac, MAC) == 0;
	return false;
}

static bool read_query(struct query *q, const char *text)
{
	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "&");
		if (!read_member(q, p, n))
			return false;
		p += n + (p[n] == '&');
	}
	return q->principal && q->timed && q->keyed;
}

int weblink_read(const uint8_t key[static WEBLINK_KEY], const char *target, struct weblink *ret)
{
	struct query q = {0};
	uint8_t mac[SHA256_SIZE];
	if (!str_starts(target, PATH) || strlen(target) > WEBLINK_MAX)
		return -EINVAL;
	const char *rest = target + strlen(PATH);
	size_t n = strcspn(rest, "?");
	if (rest[n] == '?' && !read_query(&q, rest + n + 1)) {
		free(q.principal);
		return -EINVAL;
	}
	*ret = (struct weblink){
		.uri = xasprintf(META_URI "%.*s", (int)n, rest),
		.principal = q.principal,
		.until_s = q.until_s,
	};
	if (q.principal) {
		sign(key, q.principal, ret->uri, q.until_s, mac);
		ret->valid = id_equal(mac, q.mac, MAC);
	}
	return 0;
}

void weblink_done(struct weblink *l)
{
	free(l->uri);
	free(l->principal);
	*l = (struct weblink){0};
}
