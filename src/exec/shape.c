/* shape.c: see shape.h.
 *
 * Each line is rendered by itself, from raw bytes to text, so that head and tail can be taken from
 * either end and a cut is always a place in the raw bytes: that makes `omitted` exact. */
#include "exec/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "exec/rows.h"

/* Longer "sequences" are none that a terminal would know: their bytes are shown. */
#define CSI_MAX    64
#define STRING_MAX (4 * KIB)

/* A character on the line: its UTF-8 bytes, padded with zeros. */
struct cell {
	uint8_t b[4];
};

struct line {
	struct cell *cells;
	size_t n, cursor;
};

/* ---- escape sequences ---- */

/* What a sequence asks for on its line: K erases, G, C and D move the cursor; 0: nothing. */
struct wish {
	char what;
	size_t n; /* its parameter, 0: left out */
};

/* Bytes of a CSI sequence after its introducer, with its final byte; 0 where it is none. */
static size_t csi_len(const uint8_t *p, size_t n, struct wish *ret)
{
	size_t i = 0, number = 0;
	*ret = (struct wish){0};
	while (i < n && i < CSI_MAX && p[i] >= 0x30 && p[i] <= 0x3F)
		i++;
	size_t params = i;
	while (i < n && i < CSI_MAX && p[i] >= 0x20 && p[i] <= 0x2F)
		i++;
	if (i == n)
		return i; /* cut off by the end of the line */
	if (i == CSI_MAX || p[i] < 0x40 || p[i] > 0x7E)
		return 0;
	for (size_t k = 0; k < params && k < 6 && p[k] >= '0' && p[k] <= '9'; k++)
		number = 10 * number + (size_t)(p[k] - '0');
	if (params == i && memchr("KGCD", p[i], 4))
		*ret = (struct wish){(char)p[i], number};
	return i + 1;
}

/* Bytes of an OSC, DCS, SOS, PM or APC string after its introducer, with its end: BEL, ESC \ or
 * U+009C. One that does not end on its line ends with it. */
static size_t string_len(const uint8_t *p, size_t n)
{
	size_t end = MIN(n, STRING_MAX);
	for (size_t i = 0; i < end; i++) {
		if (p[i] == 0x07)
			return i + 1;
		if (i + 1 < n && p[i] == 0x1B)
			return p[i + 1] == '\\' ? i + 2 : i;
		if (i + 1 < n && p[i] == 0xC2 && p[i + 1] == 0x9C)
			return i + 2;
	}
	return n <= STRING_MAX ? n : 0;
}

/* Bytes of what ESC introduces, after it; a lone ESC is removed by itself. */
static size_t escape_len(const uint8_t *p, size_t n, struct wish *ret)
{
	*ret = (struct wish){0};
	if (n == 0)
		return 0;
	if (p[0] == '[')
		return 1 + csi_len(p + 1, n - 1, ret);
	if (memchr("]PX^_", p[0], 5))
		return 1 + string_len(p + 1, n - 1);
	size_t i = 0;
	while (i < n && i < CSI_MAX && p[i] >= 0x20 && p[i] <= 0x2F)
		i++;
	return i < n && p[i] >= 0x30 && p[i] <= 0x7E ? i + 1 : 0;
}

/* The same for the C1 controls, U+0080 to U+009F; c is the second byte of their UTF-8 form. */
static size_t c1_len(uint8_t c, const uint8_t *p, size_t n, struct wish *ret)
{
	*ret = (struct wish){0};
	if (c == 0x9B)
		return csi_len(p, n, ret);
	if (c == 0x9D || c == 0x90 || c == 0x98 || c == 0x9E || c == 0x9F)
		return string_len(p, n);
	return 0;
}

/* ---- one line ---- */

static void put(struct line *l, const uint8_t *p, size_t n)
{
	while (l->n < l->cursor) /* erased before the cursor */
		l->cells[l->n++] = (struct cell){{' '}};
	struct cell c = {{0}};
	memcpy(c.b, p, n);
	l->cells[l->cursor++] = c;
	l->n = MAX(l->n, l->cursor);
}

static void erase(struct line *l, size_t how)
{
	if (how == 0) {
		l->n = MIN(l->n, l->cursor);
	} else if (how == 1) {
		for (size_t i = 0; i < l->n && i <= l->cursor; i++)
			l->cells[i] = (struct cell){{' '}};
	} else if (how == 2) {
		l->n = 0;
	}
}

/* The cursor does not go beyond what is there: each cell has a byte of its own. */
static void fulfil(struct line *l, const struct wish *w)
{
	size_t n = MAX(w->n, 1U);
	if (w->what == 'K')
		erase(l, w->n);
	else if (w->what == 'G')
		l->cursor = MIN(n - 1, l->n);
	else if (w->what == 'C')
		l->cursor = MAX(l->cursor, MIN(l->cursor + n, l->n));
	else if (w->what == 'D')
		l->cursor -= MIN(n, l->cursor);
}

/* Length of the character at p, or 0 where there is none. */
static size_t char_len(const uint8_t *p, size_t n)
{
	size_t len = p[0] < 0x80 ? 1 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
	return len <= n && str_utf8_valid(p, len) ? len : 0;
}

/* One step of the terminal: the number of bytes that it took. */
static size_t line_step(struct line *l, const uint8_t *p, size_t n, size_t *replaced)
{
	struct wish wish = {0};
	size_t len = char_len(p, n);
	if (len == 0) {
		put(l, (const uint8_t *)"\xEF\xBF\xBD", 3);
		++*replaced;
		return 1;
	}
	if (p[0] == 0x1B)
		len += escape_len(p + 1, n - 1, &wish);
	else if (p[0] == 0xC2 && p[1] < 0xA0)
		len += c1_len(p[1], p + 2, n - 2, &wish);
	else if (p[0] == '\r')
		l->cursor = 0;
	else if (p[0] == '\b')
		l->cursor -= l->cursor > 0;
	else if ((p[0] >= 0x20 && p[0] != 0x7F) || p[0] == '\t')
		put(l, p, len);
	else
		put(l, (const uint8_t[]){0xE2, 0x90, p[0] == 0x7F ? 0xA1 : 0x80 + p[0]}, 3);
	fulfil(l, &wish);
	return len;
}

/* True where rendering changes nothing. */
static bool is_plain(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if ((p[i] < 0x20 && p[i] != '\t') || p[i] == 0x7F)
			return false;
		if (p[i] == 0xC2 && i + 1 < n && p[i + 1] < 0xA0)
			return false;
	}
	return str_utf8_valid(p, n);
}

/* Appends the line p[0..n) as text; its last byte may be its newline. */
static void render_line(struct buf *out, const uint8_t *p, size_t n, size_t *replaced)
{
	bool newline = n && p[n - 1] == '\n';
	n -= newline;
	if (is_plain(p, n)) {
		CHECK(buf_append(out, p, n) == 0);
	} else {
		/* Every cell, and every blank that an erasure left, has a byte that moved there. */
		struct line l = {.cells = xcalloc(n + 1, sizeof(struct cell))};
		bool moved = memchr(p, '\r', n) || memchr(p, '\b', n);
		for (size_t i = 0; i < n;)
			i += line_step(&l, p + i, n - i, replaced);
		while (moved && l.n && l.cells[l.n - 1].b[0] == ' ')
			l.n--; /* what a progress display was wiped with */
		for (size_t i = 0; i < l.n; i++)
			CHECK(buf_append(out, l.cells[i].b, strnlen((char *)l.cells[i].b, 4)) == 0);
		free(l.cells);
	}
	if (newline)
		CHECK(buf_append(out, "\n", 1) == 0);
}

/* ---- head and tail ---- */

static size_t first_line(const uint8_t *p, size_t n)
{
	const uint8_t *nl = memchr(p, '\n', n);
	return nl ? (size_t)(nl - p) + 1 : n;
}

static size_t last_line(const uint8_t *p, size_t n)
{
	const uint8_t *nl = n > 1 ? memrchr(p, '\n', n - 1) : NULL;
	return nl ? n - (size_t)(nl - p) - 1 : n;
}

/* A first (or last) part of one long line that fits into budget; the raw bytes taken. */
static size_t take_part(
	struct buf *out, const uint8_t *p, size_t n, size_t budget, bool from_end, size_t *replaced)
{
	size_t before = out->len;
	for (size_t want = MIN(n, budget); want; want /= 2) {
		const uint8_t *from = p;
		size_t len = want, bad = 0;
		if (from_end) {
			from = p + n - want;
			len -= want < n ? str_utf8_skip(from, want) : 0;
			from = p + n - len;
		} else if (want < n) {
			len = str_utf8_trim(p, want);
		}
		render_line(out, from, len, &bad);
		if (out->len - before <= budget) {
			*replaced += bad;
			return len;
		}
		out->len = before;
	}
	return 0;
}

/* Whole lines from the start while they fit; a part of the next one where else more than half of
 * the budget stayed empty. The raw bytes taken. */
static size_t take_head(
	struct buf *out, const uint8_t *p, size_t n, size_t budget, size_t *replaced)
{
	size_t at = 0;
	while (at < n) {
		size_t before = out->len, bad = 0, len = first_line(p + at, n - at);
		render_line(out, p + at, len, &bad);
		if (out->len > budget) {
			out->len = before;
			break;
		}
		*replaced += bad;
		at += len;
	}
	if (at < n && out->len <= budget / 2)
		at += take_part(out, p + at, first_line(p + at, n - at), budget - out->len, false,
			replaced);
	return at;
}

/* The same from the end. */
static size_t take_tail(
	struct buf *out, const uint8_t *p, size_t n, size_t budget, size_t *replaced)
{
	_cleanup_buf_ struct buf line = BUF_INIT(out->max);
	size_t from = n, used = 0, ignored;
	while (from) {
		size_t len = last_line(p, from);
		buf_clear(&line);
		render_line(&line, p + from - len, len, &ignored);
		if (used + line.len > budget)
			break;
		used += line.len;
		from -= len;
	}
	size_t part = 0;
	if (from && used <= budget / 2)
		part = take_part(out, p + from - last_line(p, from), last_line(p, from),
			budget - used, true, replaced);
	for (size_t at = from; at < n;) {
		size_t len = first_line(p + at, n - at);
		render_line(out, p + at, len, replaced);
		at += len;
	}
	return n - from + part;
}

/* "1,234,567" */
#define GROUPED_SIZE 32
static void grouped(uint64_t v, char ret[static GROUPED_SIZE])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, v);
	char *to = ret;
	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
}

static void append_note(struct buf *out, uint64_t omitted, uint64_t lines, uint64_t lost)
{
	char a[GROUPED_SIZE], b[GROUPED_SIZE];
	grouped(omitted, a);
	if (out->len && out->data[out->len - 1] != '\n')
		CHECK(buf_append(out, "\n", 1) == 0);
	CHECK(buf_printf(out, "… %s byte%s", a, omitted == 1 ? "" : "s") == 0);
	grouped(lines ? lines : lost, b);
	if (lines)
		CHECK(buf_printf(out, " (%s line%s) left out …\n", b, lines == 1 ? "" : "s") == 0);
	else if (lost)
		CHECK(buf_printf(out, " left out, %s of them no longer kept …\n", b) == 0);
	else
		CHECK(buf_printf(out, " left out …\n") == 0);
}

static uint64_t count_newlines(const uint8_t *p, size_t n)
{
	uint64_t lines = 0;
	for (size_t i = 0; i < n; i++)
		lines += p[i] == '\n';
	return lines;
}

static void mask(struct buf *b, bool before, bool after, const struct redacting *redacting)
{
	if (redacting)
		redact_text(redacting->redactor, (char *)b->data, b->len, before, after,
			redacting->hits);
}

/* head[0..n_head) and tail[0..n_tail) with gap bytes between them; without a gap all is in head. */
static void shape(const uint8_t *head, size_t n_head, const uint8_t *tail, size_t n_tail,
	uint64_t gap, uint64_t lost, size_t max, const struct redacting *redacting,
	struct shape_text *ret)
{
	_cleanup_buf_ struct buf out = BUF_INIT(3 * (n_head + n_tail) + 2 * SHAPE_NOTE);
	*ret = (struct shape_text){0};
	if (!tail) {
		tail = (const uint8_t *)"";
		CHECK(n_tail == 0);
	}
	if (!gap) {
		if (take_head(&out, head, n_head, max, &ret->replaced) == n_head) {
			mask(&out, false, false, redacting);
			ret->text = buf_steal_str(&out);
			return;
		}
		buf_clear(&out);
		ret->replaced = 0;
	} else {
		/* no character is broken by a gap */
		size_t cut = n_head - str_utf8_trim(head, n_head),
		       skip = str_utf8_skip(tail, n_tail);
		gap += cut + skip;
		n_head -= cut;
		tail += skip;
		n_tail -= skip;
	}
	size_t shown_head = take_head(&out, head, n_head, max / 2, &ret->replaced);
	mask(&out, false, true, redacting);
	if (!gap) {
		tail = head + shown_head;
		n_tail = n_head - shown_head;
	}
	_cleanup_buf_ struct buf end = BUF_INIT(3 * n_tail + 1);
	size_t shown_tail = take_tail(&end, tail, n_tail, max - MIN(max, out.len), &ret->replaced);
	mask(&end, true, false, redacting);
	ret->omitted = gap + (gap ? n_head - shown_head : 0) + (n_tail - shown_tail);
	if (ret->omitted)
		append_note(&out, ret->omitted, gap ? 0 : count_newlines(tail, n_tail - shown_tail),
			lost);
	CHECK(buf_append(&out, end.data, end.len) == 0);
	ret->text = buf_steal_str(&out);
}

void shape_bytes(const void *p, size_t n, size_t max, const struct redacting *redacting,
	struct shape_text *ret)
{
	_cleanup_buf_ struct buf rows = BUF_INIT(2 * n + 1);
	if (rows_collapse(p, n, &rows))
		shape(rows.data, rows.len, NULL, 0, 0, 0, max, redacting, ret);
	else
		shape(p, n, NULL, 0, 0, 0, max, redacting, ret);
}

void shape_output(const struct exec_output *o, size_t max, const struct redacting *redacting,
	struct shape_text *ret)
{
	size_t have = o->head.len + o->tail.len;
	if (o->total > have) {
		_cleanup_buf_ struct buf head = BUF_INIT(2 * o->head.len + 1);
		_cleanup_buf_ struct buf tail = BUF_INIT(2 * o->tail.len + 1);
		const struct buf *h = &o->head, *t = &o->tail;
		h = rows_collapse(h->data, h->len, &head) ? &head : h;
		t = rows_collapse(t->data, t->len, &tail) ? &tail : t;
		shape(h->data, h->len, t->data, t->len, o->total - have, o->lost, max, redacting,
			ret);
		return;
	}
	/* A line may go on from head to tail. */
	_cleanup_buf_ struct buf whole = BUF_INIT(have);
	CHECK(buf_append(&whole, o->head.data, o->head.len) == 0 &&
		buf_append(&whole, o->tail.data, o->tail.len) == 0);
	shape_bytes(whole.data, whole.len, max, redacting, ret);
}
