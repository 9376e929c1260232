/* fields.c: see fields.h. */
#include "http/fields.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t");
}

/* ---- ranges ---- */

/* A number of any length: what is too large for 64 bits is beyond every file. */
static const char *read_number(const char *p, uint64_t *ret)
{
	for (*ret = 0; is_digit(*p); p++)
		*ret = *ret > (UINT64_MAX - 9) / 10 ? UINT64_MAX : *ret * 10 + (uint64_t)(*p - '0');
	return p;
}

static enum http_range_kind last_bytes(const char *p, uint64_t size, struct http_range *ret)
{
	uint64_t n;
	const char *end = skip_blanks(read_number(p, &n));
	if (!is_digit(*p) || *end)
		return HTTP_RANGE_WHOLE;
	if (n == 0 || size == 0)
		return HTTP_RANGE_OUTSIDE;
	n = MIN(n, size);
	*ret = (struct http_range){size - n, n};
	return HTTP_RANGE_PART;
}

enum http_range_kind http_range(const char *field, uint64_t size, struct http_range *ret)
{
	static const char unit[] = "bytes=";
	uint64_t first, last = UINT64_MAX;
	if (!field || strncasecmp(field, unit, sizeof(unit) - 1) != 0)
		return HTTP_RANGE_WHOLE;
	const char *p = skip_blanks(field + sizeof(unit) - 1);
	if (*p == '-')
		return last_bytes(p + 1, size, ret);
	if (!is_digit(*p))
		return HTTP_RANGE_WHOLE;
	p = read_number(p, &first);
	if (*p++ != '-')
		return HTTP_RANGE_WHOLE;
	if (is_digit(*p))
		p = read_number(p, &last);
	if (*skip_blanks(p) || last < first)
		return HTTP_RANGE_WHOLE;
	if (first >= size)
		return HTTP_RANGE_OUTSIDE;
	*ret = (struct http_range){first, MIN(last, size - 1) - first + 1};
	return HTTP_RANGE_PART;
}

/* ---- entity tags ---- */

bool http_etag_listed(const char *field, const char *etag)
{
	size_t n = strlen(etag);
	if (!field)
		return false;
	if (strcmp(field, "*") == 0)
		return true;
	for (const char *p = field; *p;) {
		p += strspn(p, " \t,");
		if (strncmp(p, "W/", 2) == 0)
			p += 2;
		size_t len = *p == '"' ? strcspn(p + 1, "\"") + 2 : strcspn(p, ",");
		if (len == n && strncmp(p, etag, n) == 0)
			return true;
		p += MIN(len, strlen(p));
	}
	return false;
}

/* ---- names ---- */

static bool is_plain(char c)
{
	return c >= 0x20 && c < 0x7f && !strchr("\"\\/%", c);
}

/* RFC 8187, 3.2.1: attr-char */
static bool is_attribute(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("!#$&+-.^_`|~", c));
}

char *http_disposition(bool attachment, const char *name)
{
	size_t n = strlen(name), used;
	bool all_plain = true, utf8 = str_utf8_valid(name, n);
	/* each byte may need three; and the words around them */
	size_t size = 4 * n + 64;
	char *text = xmalloc(size);
	used = (size_t)snprintf(
		text, size, "%s; filename=\"", attachment ? "attachment" : "inline");
	for (size_t i = 0; i < n; i++) {
		all_plain &= is_plain(name[i]);
		/* one for a character, not for each of its bytes */
		if ((name[i] & 0xC0) != 0x80 || !utf8)
			text[used++] = is_plain(name[i]) ? name[i] : '_';
	}
	text[used++] = '"';
	text[used] = '\0';
	if (all_plain || !utf8)
		return text;
	used += (size_t)snprintf(text + used, size - used, "; filename*=UTF-8''");
	for (size_t i = 0; i < n; i++) {
		char c = name[i] == '/' || name[i] == '\\' ? '_' : name[i];
		used += is_attribute(c) ? (size_t)snprintf(text + used, size - used, "%c", c)
					: (size_t)snprintf(text + used, size - used, "%%%02X",
						  (unsigned char)c);
	}
	return text;
}
