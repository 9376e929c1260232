/* forms.c: see forms.h. */
#include "secret/forms.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

/* Longest: a byte as "\u00xx". */
#define GROWTH 6

static const char digits[2][17] = {"0123456789abcdef", "0123456789ABCDEF"};

/* One form as it grows; room for GROWTH bytes for each of the value, and a newline's. */
struct form {
	uint8_t *p;
	size_t n;
};

static void put(struct form *f, uint8_t c)
{
	f->p[f->n++] = c;
}

static void put_hex(struct form *f, uint8_t c, bool upper)
{
	put(f, (uint8_t)digits[upper][c >> 4]);
	put(f, (uint8_t)digits[upper][c & 15]);
}

static void put_u(struct form *f, unsigned unit, bool upper)
{
	put(f, '\\');
	put(f, 'u');
	put_hex(f, (uint8_t)(unit >> 8), upper);
	put_hex(f, (uint8_t)unit, upper);
}

static void hand_over(struct form *f, form_fn fn, void *user)
{
	fn(user, f->p, f->n);
	f->n = 0;
}

/* The same in lines, as programs print what is long; one that fits on a line has no such form. */
static void hand_over_lines(const struct form *f, size_t width, form_fn fn, void *user)
{
	if (f->n <= width)
		return;
	size_t room = f->n + f->n / width, n = 0;
	uint8_t *p = xmalloc(room);
	for (size_t i = 0; i < f->n; i++) {
		if (i && i % width == 0)
			p[n++] = '\n';
		p[n++] = f->p[i];
	}
	fn(user, p, n);
	explicit_bzero(p, room);
	free(p);
}

static void each_hex(struct form *f, const uint8_t *p, size_t n, form_fn fn, void *user)
{
	for (int upper = 0; upper < 2; upper++) {
		for (size_t i = 0; i < n; i++)
			put_hex(f, p[i], upper);
		if (!upper)
			hand_over_lines(f, 60, fn, user); /* xxd -p */
		hand_over(f, fn, user);
	}
}

/* ---- base64 ---- */

/* The 6 bits from bit on of a value that stands after skip bytes and before last; what is beyond is
 * 0. */
static unsigned sextet(const uint8_t *p, size_t n, size_t skip, int last, size_t bit)
{
	unsigned v = 0;
	for (size_t i = bit; i < bit + 6; i++) {
		size_t at = i / 8;
		unsigned byte = at < skip                     ? 0
				: at < skip + n               ? p[at - skip]
				: at == skip + n && last >= 0 ? (unsigned)last
							      : 0;
		v = v << 1 | ((byte >> (7 - i % 8)) & 1);
	}
	return v;
}

/* With closed, up to the end of what was encoded: the value, and last after it where it is not -1
 * (`echo $TOKEN | base64`). */
static void put_base64(
	struct form *f, const uint8_t *p, size_t n, size_t skip, bool url, bool closed, int last)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	size_t end = (skip + n) * 8;
	if (closed)
		end += (last >= 0 ? 8 : 0) + 5;
	for (size_t bit = (skip * 8 + 5) / 6 * 6; bit + 6 <= end; bit += 6) {
		unsigned v = sextet(p, n, skip, last, bit);
		put(f, v < 62     ? (uint8_t)alphabet[v]
			: v == 62 ? (url ? '-' : '+')
			: url     ? '_'
				  : '/');
	}
}

/* Alone, in lines: RFC 2045 and base64(1) have 76 characters, PEM 64. */
static void each_base64_in_lines(struct form *f, const uint8_t *p, size_t n, form_fn fn, void *user)
{
	for (int newline = 0; newline < 2; newline++) {
		put_base64(f, p, n, 0, false, true, newline ? '\n' : -1);
		hand_over_lines(f, 76, fn, user);
		hand_over_lines(f, 64, fn, user);
		f->n = 0;
	}
}

static void each_base64(struct form *f, const uint8_t *p, size_t n, form_fn fn, void *user)
{
	for (size_t skip = 0; skip < 3; skip++) {
		for (int url = 0; url < 2; url++) {
			put_base64(f, p, n, skip, url, false, -1);
			hand_over(f, fn, user);
			put_base64(f, p, n, skip, url, true, -1);
			hand_over(f, fn, user);
			put_base64(f, p, n, skip, url, true, '\n');
			hand_over(f, fn, user);
		}
	}
}

/* ---- percent ---- */

static bool is_alnum(uint8_t c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static void each_percent(struct form *f, const uint8_t *p, size_t n, form_fn fn, void *user)
{
	/* What encoders leave as it is, beside letters and digits. */
	static const char *const kept[] = {
		"",                     /* and these, too, where every byte is encoded */
		"-._~",                 /* RFC 3986 */
		"-._~/",                /* Python's quote() */
		"-._",                  /* forms (a blank is +), quote_plus() of old */
		"-._~!'()*",            /* encodeURIComponent() */
		"-._~!'()*;,/?:@&=+$#", /* encodeURI() */
		"*-._",                 /* URLSearchParams */
	};
	for (size_t k = 0; k < ARRAY_SIZE(kept); k++) {
		for (int style = 0; style < 4; style++) { /* upper case; blanks as + */
			for (size_t i = 0; i < n; i++) {
				bool keep = k > 0 &&
					    (is_alnum(p[i]) || (p[i] && strchr(kept[k], p[i])));
				if (keep) {
					put(f, p[i]);
				} else if (p[i] == ' ' && (style & 2)) {
					put(f, '+');
				} else {
					put(f, '%');
					put_hex(f, p[i], style & 1);
				}
			}
			hand_over(f, fn, user);
		}
	}
}

/* ---- JSON ---- */

enum {
	JSON_UPPER = 1,  /* digits of \u */
	JSON_SLASH = 2,  /* \/ */
	JSON_ASCII = 4,  /* \u for what is not ASCII */
	JSON_HTML = 8,   /* \u for < > & (Go) … */
	JSON_QUOTE = 16, /* … and ' */
	JSON_STYLES = 32,
	JSON_ALL = 32, /* \u for everything */
};

/* The character at p as its code point; *ret_len its bytes. A byte that is no character stands for
 * itself. */
static unsigned code_point(const uint8_t *p, size_t n, size_t *ret_len)
{
	size_t len = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : p[0] >= 0xC0 ? 2 : 1;
	*ret_len = 1;
	if (len == 1 || len > n || !str_utf8_valid(p, len))
		return p[0];
	unsigned v = p[0] & (0x7Fu >> len);
	for (size_t i = 1; i < len; i++)
		v = v << 6 | (p[i] & 0x3F);
	*ret_len = len;
	return v;
}

static void put_point(struct form *f, unsigned v, bool upper)
{
	if (v < 0x10000) {
		put_u(f, v, upper);
		return;
	}
	put_u(f, 0xD800 + ((v - 0x10000) >> 10), upper);
	put_u(f, 0xDC00 + ((v - 0x10000) & 0x3FF), upper);
}

static bool must_be_u(unsigned v, int style)
{
	return (style & JSON_ALL) || v < 0x20 || (v >= 0x80 && (style & JSON_ASCII)) ||
	       ((v == '<' || v == '>' || v == '&') && (style & JSON_HTML)) ||
	       (v == '\'' && (style & JSON_QUOTE));
}

static void put_json(struct form *f, const uint8_t *p, size_t n, int style)
{
	static const char named[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
	for (size_t i = 0, len; i < n; i += len) {
		unsigned v = code_point(p + i, n - i, &len);
		const char *name = v && v < 0x80 ? strchr(named, (int)v) : NULL;
		if (name && !(style & JSON_ALL)) {
			put(f, '\\');
			put(f, (uint8_t)names[name - named]);
		} else if (must_be_u(v, style)) {
			put_point(f, v, style & JSON_UPPER);
		} else {
			if (v == '/' && (style & JSON_SLASH))
				put(f, '\\');
			for (size_t k = 0; k < len; k++)
				put(f, p[i + k]);
		}
	}
}

static void each_json(struct form *f, const uint8_t *p, size_t n, form_fn fn, void *user)
{
	for (int style = 0; style < JSON_STYLES; style++) {
		put_json(f, p, n, style);
		hand_over(f, fn, user);
	}
	put_json(f, p, n, JSON_ALL);
	hand_over(f, fn, user);
	put_json(f, p, n, JSON_ALL | JSON_UPPER);
	hand_over(f, fn, user);
}

/* ---- HTML ---- */

static void put_html(struct form *f, uint8_t c, const char *quote, const char *apostrophe)
{
	const char *name = c == '&'    ? "&amp;"
			   : c == '<'  ? "&lt;"
			   : c == '>'  ? "&gt;"
			   : c == '"'  ? quote
			   : c == '\'' ? apostrophe
				       : NULL;
	if (!name)
		put(f, c);
	for (; name && *name; name++)
		put(f, (uint8_t)*name);
}

static void each_html(struct form *f, const uint8_t *p, size_t n, form_fn fn, void *user)
{
	static const char *const quotes[][2] = {{NULL, NULL}, {"&quot;", NULL},
		{"&quot;", "&#x27;"}, {"&quot;", "&#39;"}, {"&#34;", "&#39;"}};
	for (size_t k = 0; k < ARRAY_SIZE(quotes); k++) {
		for (size_t i = 0; i < n; i++)
			put_html(f, p[i], quotes[k][0], quotes[k][1]);
		hand_over(f, fn, user);
	}
}

void forms_each(const uint8_t *value, size_t n, form_fn fn, void *user)
{
	size_t room = GROWTH * (n + 1);
	struct form f = {.p = xmalloc(room)};
	fn(user, value, n);
	if (!str_utf8_valid(value, n)) {
		_cleanup_buf_ struct buf repaired = BUF_INIT(3 * n);
		CHECK(str_utf8_repair(&repaired, value, n, NULL) == 0);
		fn(user, repaired.data, repaired.len);
		explicit_bzero(repaired.data, repaired.len);
	}
	each_hex(&f, value, n, fn, user);
	each_base64(&f, value, n, fn, user);
	each_base64_in_lines(&f, value, n, fn, user);
	each_percent(&f, value, n, fn, user);
	each_json(&f, value, n, fn, user);
	each_html(&f, value, n, fn, user);
	explicit_bzero(f.p, room);
	free(f.p);
}
