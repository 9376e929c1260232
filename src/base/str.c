/* str.c: see str.h. */
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Length of the character that starts at p (n bytes left): > 0, 0 where it is cut off by the end,
 * -1 where it is none. Table 3-7 of the Unicode standard. */
static int utf8_char(const uint8_t *p, size_t n)
{
	uint8_t c = p[0];
	if (c < 0x80)
		return 1;
	int len;
	uint8_t lo = 0x80, hi = 0xBF;
	if (c >= 0xC2 && c <= 0xDF) {
		len = 2;
	} else if (c >= 0xE0 && c <= 0xEF) {
		len = 3;
		lo = c == 0xE0 ? 0xA0 : lo;
		hi = c == 0xED ? 0x9F : hi;
	} else if (c >= 0xF0 && c <= 0xF4) {
		len = 4;
		lo = c == 0xF0 ? 0x90 : lo;
		hi = c == 0xF4 ? 0x8F : hi;
	} else {
		return -1;
	}
	for (int i = 1; i < len; i++) {
		if ((size_t)i >= n)
			return 0;
		if (p[i] < lo || p[i] > hi)
			return -1;
		lo = 0x80;
		hi = 0xBF;
	}
	return len;
}

bool str_utf8_valid(const void *data, size_t n)
{
	const uint8_t *p = data;
	while (n) {
		int len = utf8_char(p, n);
		if (len <= 0)
			return false;
		p += len;
		n -= (size_t)len;
	}
	return true;
}

size_t str_utf8_trim(const void *data, size_t n)
{
	const uint8_t *p = data;
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		uint8_t c = p[n - back];
		if (c < 0x80)
			return n;
		if (c >= 0xC0)
			return utf8_char(p + n - back, back) == 0 ? n - back : n;
	}
	return n;
}

size_t str_utf8_first(const char *s)
{
	/* The NUL at its end is a continuation of nothing. */
	int len = utf8_char((const uint8_t *)s, 4);
	return len > 0 ? (size_t)len : 1;
}

size_t str_utf8_skip(const void *data, size_t n)
{
	const uint8_t *p = data;
	size_t i = 0;
	while (i < n && i < 3 && (p[i] & 0xC0) == 0x80)
		i++;
	return i;
}

int str_utf8_repair(struct buf *out, const void *data, size_t n, size_t *ret_replaced)
{
	const uint8_t *p = data;
	size_t replaced = 0;
	while (n) {
		size_t run = 0;
		int len = 1;
		while (run < n && p[run] && (len = utf8_char(p + run, n - run)) > 0)
			run += (size_t)len;
		int r = buf_append(out, p, run);
		if (r < 0)
			return r;
		p += run;
		n -= run;
		if (!n)
			break;
		r = buf_append_str(out, *p ? "\xEF\xBF\xBD" : "\xE2\x90\x80");
		if (r < 0)
			return r;
		replaced += *p != 0;
		p++;
		n--;
	}
	if (ret_replaced)
		*ret_replaced = replaced;
	return 0;
}

static int digits(const char *s, const char **ret_end, uint64_t *ret_value)
{
	uint64_t v = 0;
	const char *p = s;
	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return -ERANGE;
	}
	if (p == s)
		return -EINVAL;
	*ret_end = p;
	*ret_value = v;
	return 0;
}

int str_to_u64(const char *s, uint64_t max, uint64_t *ret_value)
{
	const char *end = NULL;
	uint64_t v = 0;
	int r = digits(s, &end, &v);
	if (r < 0)
		return r;
	if (*end)
		return -EINVAL;
	if (v > max)
		return -ERANGE;
	*ret_value = v;
	return 0;
}

int str_to_size(const char *s, uint64_t *ret_bytes)
{
	const char *end = NULL;
	uint64_t v = 0;
	int r = digits(s, &end, &v);
	if (r < 0)
		return r;
	static const char units[] = "KMGT";
	if (*end) {
		const char *unit = strchr(units, *end);
		if (!unit || end[1])
			return -EINVAL;
		unsigned shift = 10 * ((unsigned)(unit - units) + 1);
		if (v > UINT64_MAX >> shift)
			return -ERANGE;
		v <<= shift;
	}
	*ret_bytes = v;
	return 0;
}

/* U+2028 to U+202E and U+2066 to U+2069 */
static bool rules_the_line(const uint8_t *p)
{
	return p[0] == 0xE2 && ((p[1] == 0x80 && p[2] >= 0xA8 && p[2] <= 0xAE) ||
				       (p[1] == 0x81 && p[2] >= 0xA6 && p[2] <= 0xA9));
}

void str_make_printable(char *text)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t left = strlen(text);
	char *to = text;
	while (left) {
		int len = utf8_char(p, left);
		bool fine = len > 0 && p[0] >= 0x20 && p[0] != 0x7F &&
			    !(len == 2 && p[0] == 0xC2 && p[1] < 0xA0) &&
			    !(len == 3 && rules_the_line(p));
		size_t n = len > 0 ? (size_t)len : 1;
		if (fine)
			memmove(to, p, n);
		else
			*to = '?';
		to += fine ? n : 1;
		p += n;
		left -= n;
	}
	*to = '\0';
}

void str_copy(char *to, size_t size, const char *from)
{
	size_t n = from ? strnlen(from, size - 1) : 0;
	if (n)
		memcpy(to, from, n);
	to[n] = '\0';
}

bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

const char *str_plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

void str_size(uint64_t bytes, char ret_text[static STR_SIZE_TEXT])
{
	static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
	double v = (double)bytes;
	size_t u = 0;
	while (v >= 999.5 && u + 1 < ARRAY_SIZE(units)) {
		v /= 1000;
		u++;
	}
	(void)snprintf(ret_text, STR_SIZE_TEXT, u && v < 9.95 ? "%.1f %s" : "%.0f %s", v, units[u]);
}
