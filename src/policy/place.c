/* place.c: see place.h. */
#include "policy/place.h"

#include <string.h>

/* A key of a text or path, decoded. Longer ones are found by nobody. */
#define KEY_MAX 512

struct cursor {
	const char *p, *end;
};

static void skip_blanks(struct cursor *c)
{
	while (c->p < c->end && strchr(" \t\r\n", *c->p) && *c->p)
		c->p++;
}

static bool take(struct cursor *c, char wanted)
{
	if (c->p == c->end || *c->p != wanted)
		return false;
	c->p++;
	return true;
}

/* ---- strings ---- */

static bool hex4(struct cursor *c, unsigned *ret)
{
	unsigned v = 0;
	if (c->end - c->p < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		static const char digits[] = "0123456789abcdef";
		char lower = (char)(c->p[i] | 0x20);
		const char *d = lower ? strchr(digits, lower) : NULL;
		if (!d || !*d)
			return false;
		v = v << 4 | (unsigned)(d - digits);
	}
	c->p += 4;
	*ret = v;
	return true;
}

static size_t put_utf8(unsigned v, char out[static 4])
{
	if (v < 0x80) {
		out[0] = (char)v;
		return 1;
	}
	if (v < 0x800) {
		out[0] = (char)(0xC0 | v >> 6);
		out[1] = (char)(0x80 | (v & 0x3F));
		return 2;
	}
	if (v < 0x10000) {
		out[0] = (char)(0xE0 | v >> 12);
		out[1] = (char)(0x80 | (v >> 6 & 0x3F));
		out[2] = (char)(0x80 | (v & 0x3F));
		return 3;
	}
	out[0] = (char)(0xF0 | v >> 18);
	out[1] = (char)(0x80 | (v >> 12 & 0x3F));
	out[2] = (char)(0x80 | (v >> 6 & 0x3F));
	out[3] = (char)(0x80 | (v & 0x3F));
	return 4;
}

/* After the backslash; how many bytes it stands for, 0: it is none. */
static size_t escape(struct cursor *c, char out[static 4])
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	if (c->p == c->end)
		return 0;
	char name = *c->p++;
	const char *known = name ? strchr(names, name) : NULL;
	if (known) {
		out[0] = values[known - names];
		return 1;
	}
	unsigned v, low;
	if (name != 'u' || !hex4(c, &v))
		return 0;
	if (v >= 0xD800 && v < 0xDC00) {
		if (!take(c, '\\') || !take(c, 'u') || !hex4(c, &low) || low < 0xDC00 ||
			low > 0xDFFF)
			return 0;
		v = 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
	}
	return put_utf8(v, out);
}

/* A string, its decoded bytes in key[0..*n), cut at KEY_MAX (then *n is more). */
static bool read_string(struct cursor *c, char key[static KEY_MAX], size_t *n)
{
	*n = 0;
	if (!take(c, '"'))
		return false;
	while (c->p < c->end && *c->p != '"') {
		char out[4] = {*c->p++};
		size_t size = out[0] == '\\' ? escape(c, out) : 1;
		if (size == 0)
			return false;
		if (*n + size <= KEY_MAX)
			memcpy(key + *n, out, size);
		*n += size;
	}
	return take(c, '"');
}

/* ---- values ---- */

static bool skip_string(struct cursor *c)
{
	if (!take(c, '"'))
		return false;
	while (c->p < c->end && *c->p != '"')
		c->p += *c->p == '\\' && c->end - c->p > 1 ? 2 : 1;
	return take(c, '"');
}

/* Over one value, without looking into it more than its end needs. */
static bool skip_value(struct cursor *c)
{
	size_t depth = 0;
	do {
		skip_blanks(c);
		if (c->p == c->end)
			return false;
		if (*c->p == '"') {
			if (!skip_string(c))
				return false;
		} else if (strchr("{[", *c->p) && *c->p) {
			depth++;
			c->p++;
		} else if (strchr("}]", *c->p) && *c->p) {
			if (depth == 0)
				return false;
			depth--;
			c->p++;
		} else if (strchr(",:", *c->p) && *c->p) {
			if (depth == 0)
				return false;
			c->p++;
		} else { /* a number or a word */
			while (c->p < c->end && !strchr(" \t\r\n,:{}[]\"", *c->p))
				c->p++;
			if (c->p < c->end && *c->p == '\0')
				return false;
		}
	} while (depth > 0);
	return true;
}

/* To the member of that key: its value; *ret_key is where the key stands. */
static bool enter_key(struct cursor *c, const char *wanted, size_t n_wanted, const char **ret_key)
{
	skip_blanks(c);
	if (!take(c, '{'))
		return false;
	do {
		char key[KEY_MAX];
		size_t n;
		skip_blanks(c);
		*ret_key = c->p;
		if (!read_string(c, key, &n))
			return false;
		skip_blanks(c);
		if (!take(c, ':'))
			return false;
		skip_blanks(c);
		if (n == n_wanted && n <= KEY_MAX && memcmp(key, wanted, n) == 0)
			return true;
		if (!skip_value(c))
			return false;
		skip_blanks(c);
	} while (take(c, ','));
	return false;
}

static bool enter_index(struct cursor *c, size_t index)
{
	skip_blanks(c);
	if (!take(c, '['))
		return false;
	for (;; index--) {
		skip_blanks(c);
		if (index == 0)
			return c->p < c->end && *c->p != ']';
		if (!skip_value(c))
			return false;
		skip_blanks(c);
		if (!take(c, ','))
			return false;
	}
}

/* ---- paths ---- */

static bool bare(char ch)
{
	return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
	       ch == '_' || ch == '-';
}

static bool path_key(struct cursor *path, char key[static KEY_MAX], size_t *n)
{
	if (path->p < path->end && *path->p == '"')
		return read_string(path, key, n) && *n <= KEY_MAX;
	const char *from = path->p;
	while (path->p < path->end && bare(*path->p))
		path->p++;
	*n = (size_t)(path->p - from);
	if (*n == 0 || *n > KEY_MAX)
		return false;
	memcpy(key, from, *n);
	return true;
}

static bool path_index(struct cursor *path, size_t *ret)
{
	size_t v = 0, digits = 0;
	while (path->p < path->end && *path->p >= '0' && *path->p <= '9' && digits < 9) {
		v = v * 10 + (size_t)(*path->p++ - '0');
		digits++;
	}
	*ret = v;
	return digits > 0 && take(path, ']');
}

bool place_find(const char *text, size_t n, const char *path_text, struct place *ret)
{
	struct cursor c = {text, text + n}, path = {path_text, path_text + strlen(path_text)};
	skip_blanks(&c);
	const char *at = c.p;
	while (path.p < path.end) {
		char key[KEY_MAX];
		size_t length, index;
		if (take(&path, '[')) {
			if (!path_index(&path, &index) || !enter_index(&c, index))
				return false;
			at = c.p;
			continue;
		}
		if (path.p != path_text && !take(&path, '.'))
			return false;
		if (!path_key(&path, key, &length) || !enter_key(&c, key, length, &at))
			return false;
	}
	if (at == c.end)
		return false;
	*ret = place_of(text, n, (size_t)(at - text));
	return true;
}

struct place place_of(const char *text, size_t n, size_t offset)
{
	struct place p = {1, 1};
	for (size_t i = 0; i < offset && i < n; i++) {
		if (text[i] == '\n')
			p = (struct place){p.line + 1, 1};
		else if (((unsigned char)text[i] & 0xC0) != 0x80)
			p.column++;
	}
	return p;
}

static int put_key(struct buf *path, const char *key)
{
	size_t n = strlen(key), plain = 0;
	while (plain < n && bare(key[plain]))
		plain++;
	if (n > 0 && plain == n)
		return buf_append(path, key, n);
	int r = buf_append(path, "\"", 1);
	for (size_t i = 0; r == 0 && i < n; i++) {
		unsigned char ch = (unsigned char)key[i];
		if (ch < 0x20)
			r = buf_printf(path, "\\u%04x", ch);
		else if (ch == '"' || ch == '\\')
			r = buf_printf(path, "\\%c", ch);
		else
			r = buf_append(path, key + i, 1);
	}
	return r < 0 ? r : buf_append(path, "\"", 1);
}

void place_key(struct buf *path, const char *key)
{
	size_t before = path->len;
	int r = before ? buf_append(path, ".", 1) : 0;
	if (r == 0)
		r = put_key(path, key);
	if (r < 0)
		path->len = before;
}

void place_index(struct buf *path, size_t index)
{
	size_t before = path->len;
	if (buf_printf(path, "[%zu]", index) < 0)
		path->len = before;
}
