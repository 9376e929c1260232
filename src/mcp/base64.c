/* base64.c: see base64.h. */
#include "mcp/base64.h"

#include <errno.h>

static const char letters[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

json_t *base64_json(const void *p, size_t n)
{
	const uint8_t *in = p;
	size_t len = (n + 2) / 3 * 4;
	_cleanup_free_ char *text = xmalloc(len + 1);
	char *out = text;
	for (; n >= 3; n -= 3, in += 3) {
		*out++ = letters[in[0] >> 2];
		*out++ = letters[(in[0] & 3) << 4 | in[1] >> 4];
		*out++ = letters[(in[1] & 15) << 2 | in[2] >> 6];
		*out++ = letters[in[2] & 63];
	}
	if (n > 0) {
		uint8_t second = n > 1 ? in[1] : 0;
		*out++ = letters[in[0] >> 2];
		*out++ = letters[(in[0] & 3) << 4 | second >> 4];
		*out++ = n > 1 ? letters[(second & 15) << 2] : '=';
		*out++ = '=';
	}
	return json_stringn_nocheck(text, len);
}

/* 0 to 63, or -1. */
static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(const char *text, size_t n, struct buf *out)
{
	if (n % 4 != 0)
		return -EINVAL;
	if (n == 0)
		return 0;
	size_t padding = text[n - 1] != '=' ? 0 : text[n - 2] != '=' ? 1 : 2;
	size_t len = n / 4 * 3 - padding;
	int r = buf_reserve(out, len);
	if (r < 0)
		return r;
	uint8_t *to = out->data + out->len;
	uint32_t bits = 0;
	for (size_t i = 0, done = 0; i < n; i++) {
		int v = i < n - padding ? value_of(text[i]) : 0;
		if (v < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)v;
		if (i % 4 != 3)
			continue;
		for (int shift = 16; shift >= 0 && done < len; shift -= 8)
			to[done++] = (uint8_t)(bits >> shift);
	}
	out->len += len;
	return 0;
}
