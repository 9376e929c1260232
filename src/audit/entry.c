/* entry.c: see entry.h. */
#include "audit/entry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/id.h"

/* What is left of the line. */
struct rest {
	const char *p, *end;
};

static bool skip(struct rest *r, const char *text)
{
	size_t n = strlen(text);
	if ((size_t)(r->end - r->p) < n || memcmp(r->p, text, n) != 0)
		return false;
	r->p += n;
	return true;
}

/* Up to the quote that ends it; without escapes. */
static bool take_plain(struct rest *r, struct entry_span *ret)
{
	const char *quote = memchr(r->p, '"', (size_t)(r->end - r->p));
	if (!quote || memchr(r->p, '\\', (size_t)(quote - r->p)))
		return false;
	*ret = (struct entry_span){r->p, (size_t)(quote - r->p)};
	r->p = quote + 1;
	return true;
}

static bool take_number(struct rest *r, uint64_t *ret)
{
	const char *from = r->p;
	uint64_t v = 0;
	for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
		if (v > (INT64_MAX - 9) / 10)
			return false;
		v = 10 * v + (uint64_t)(*r->p - '0');
	}
	*ret = v;
	return r->p > from && (*from != '0' || r->p == from + 1);
}

static bool take_hash(struct rest *r, uint8_t ret[static HASH_SIZE])
{
	struct entry_span hex;
	char text[HASH_TEXT];
	if (!take_plain(r, &hex) || hex.n != HASH_TEXT - 1)
		return false;
	memcpy(text, hex.p, hex.n);
	text[hex.n] = '\0';
	return id_unhex(text, ret, HASH_SIZE) == 0;
}

int entry_parse(const char *p, size_t n, struct entry *ret)
{
	static const char begin[] = "{\"ts\":\"";
	struct rest r = {p, p + n};
	struct entry_span run;
	for (size_t i = 0; i < n; i++)
		if (p[i] < ' ' || p[i] > '~')
			return -EBADMSG;
	if (n == 0 || p[n - 1] != '}')
		return -EBADMSG;
	if (!skip(&r, begin) || !take_plain(&r, &ret->ts) || !skip(&r, ",\"seq\":") ||
		!take_number(&r, &ret->seq) || !skip(&r, ",\"prev\":\"") ||
		!take_hash(&r, ret->prev) || !skip(&r, ",\"run\":\"") || !take_plain(&r, &run) ||
		!skip(&r, ",\"event\":\"") || !take_plain(&r, &ret->event))
		return -EBADMSG;
	/* two lines that have become one */
	return memmem(r.p, (size_t)(r.end - r.p), begin, sizeof(begin) - 1) ? -EBADMSG : 0;
}

static struct entry_span member(const char *p, size_t n, const char *key, const char *opening)
{
	char text[64];
	int len = snprintf(text, sizeof(text), ",\"%s\":%s", key, opening);
	const char *at = memmem(p, n, text, (size_t)len);
	if (!at)
		return (struct entry_span){0};
	at += len;
	return (struct entry_span){at, (size_t)(p + n - at)};
}

struct entry_span entry_text(const char *p, size_t n, const char *key)
{
	struct entry_span s = member(p, n, key, "\"");
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\')
			i++;
		else if (s.p[i] == '"')
			return (struct entry_span){s.p, i};
	}
	return (struct entry_span){0};
}

bool entry_number(const char *p, size_t n, const char *key, uint64_t *ret)
{
	struct entry_span s = member(p, n, key, "");
	struct rest r = {s.p, s.p + s.n};
	return s.p && take_number(&r, ret);
}

bool entry_is(struct entry_span s, const char *text)
{
	return s.p && s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}
