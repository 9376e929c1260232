/* line.c: see line.h. */
#include "audit/line.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "secret/redact.h"

static void put(struct line *l, const void *p, size_t n)
{
	if (l->r == 0)
		l->r = buf_append(l->out, p, n);
}

/* Room for n bytes more, of which all are then used; NULL: there is none. */
static char *take(struct line *l, size_t n)
{
	if (l->r == 0)
		l->r = buf_reserve(l->out, n);
	if (l->r < 0)
		return NULL;
	char *p = (char *)l->out->data + l->out->len;
	l->out->len += n;
	return p;
}

static void put_key(struct line *l, const char *key)
{
	bool more = l->more;
	l->more = true;
	size_t n = key ? strlen(key) : 0;
	char *p = take(l, more + (key ? n + 3 : 0));
	if (!p)
		return;
	if (more)
		*p++ = ',';
	if (!key)
		return;
	*p++ = '"';
	p = mempcpy(p, key, n);
	*p++ = '"';
	*p = ':';
}

static bool is_plain(uint8_t c)
{
	return c >= ' ' && c <= '~' && c != '"' && c != '\\';
}

/* The character at p, which is whole: its bytes. */
static size_t decode(const uint8_t *p, uint32_t *ret)
{
	size_t n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
	uint32_t c = n == 1 ? *p : *p & (0x7fU >> n);
	for (size_t i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3fU);
	*ret = c;
	return n;
}

static void put_escaped(struct line *l, uint32_t c)
{
	char text[16];
	int n;
	if (c == '"' || c == '\\')
		n = snprintf(text, sizeof(text), "\\%c", (char)c);
	else if (c > 0xffff) /* a pair of surrogates */
		n = snprintf(text, sizeof(text), "\\u%04x\\u%04x", 0xd7c0U + (c >> 10),
			0xdc00U + (c & 0x3ff));
	else
		n = snprintf(text, sizeof(text), "\\u%04x", c);
	put(l, text, (size_t)n);
}

static void put_string(struct line *l, const uint8_t *p, size_t n)
{
	put(l, "\"", 1);
	for (size_t at = 0; at < n;) {
		size_t from = at;
		while (at < n && is_plain(p[at]))
			at++;
		put(l, p + from, at - from);
		if (at < n) {
			uint32_t c;
			at += decode(p + at, &c);
			put_escaped(l, c);
		}
	}
	put(l, "\"", 1);
}

/* p[0..n), cut after max bytes. */
static void put_text(struct line *l, const char *p, size_t n, size_t max)
{
	n = MIN(n, max);
	size_t plain = 0;
	while (plain < n && is_plain((uint8_t)p[plain]))
		plain++;
	if (plain == n) { /* nearly always */
		char *to = take(l, n + 2);
		if (!to)
			return;
		*to++ = '"';
		to = mempcpy(to, p, n);
		*to = '"';
		return;
	}
	if (str_utf8_valid(p, n)) {
		put_string(l, (const uint8_t *)p, n);
		return;
	}
	_cleanup_buf_ struct buf b = BUF_INIT(3 * n); /* U+FFFD has three bytes */
	CHECK(str_utf8_repair(&b, p, n, NULL) == 0);
	put_string(l, b.data, b.len);
}

void line_text(struct line *l, const char *key, const char *text, size_t max)
{
	if (!text)
		return;
	put_key(l, key);
	if (!l->redactor) {
		put_text(l, text, strnlen(text, max), max);
		return;
	}
	/* before it is cut: half a secret is not known */
	size_t n = strnlen(text, max + redactor_reach(l->redactor));
	_cleanup_free_ char *masked = xstrndup(text, n);
	(void)redact_bytes(l->redactor, masked, n, NULL);
	put_text(l, masked, n, max);
}

/* At least so many digits. */
static void put_digits(struct line *l, uint64_t v, size_t least)
{
	char text[20], *p = text + sizeof(text);
	do
		*--p = (char)('0' + v % 10);
	while ((v /= 10) || (size_t)(text + sizeof(text) - p) < least);
	put(l, p, (size_t)(text + sizeof(text) - p));
}

void line_int(struct line *l, const char *key, int64_t v)
{
	put_key(l, key);
	if (v < 0)
		put(l, "-", 1);
	put_digits(l, v < 0 ? -(uint64_t)v : (uint64_t)v, 1);
}

void line_milli(struct line *l, const char *key, uint64_t thousandths)
{
	put_key(l, key);
	put_digits(l, thousandths / 1000, 1);
	put(l, ".", 1);
	put_digits(l, thousandths % 1000, 3);
}

void line_open(struct line *l, const char *key, char bracket)
{
	put_key(l, key);
	put(l, &bracket, 1);
	l->more = false;
}

void line_close(struct line *l, char bracket)
{
	put(l, &bracket, 1);
	l->more = true;
}
