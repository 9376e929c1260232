/* rows.c: see rows.h. */
#include "exec/rows.h"

#include <string.h>

/* Bytes of one row: the pieces that were written there, one after the other. */
struct piece {
	size_t from, len;
	size_t next; /* in the same row; 0: none */
};

struct row {
	size_t first, last; /* pieces; 0: none */
};

struct rows {
	struct row *rows;
	struct piece *pieces; /* [0] is none */
	size_t n_rows, room_rows, n_pieces, room_pieces;
};

static void *grow(void *p, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return p;
	*room = *room ? 2 * *room : 64;
	return xrealloc(p, *room * size);
}

static void to_row(struct rows *r, size_t row)
{
	while (r->n_rows <= row) {
		r->rows = grow(r->rows, r->n_rows, &r->room_rows, sizeof(*r->rows));
		r->rows[r->n_rows++] = (struct row){0};
	}
}

static void add(struct rows *r, size_t row, size_t from, size_t len)
{
	if (len == 0)
		return;
	r->pieces = grow(r->pieces, r->n_pieces, &r->room_pieces, sizeof(*r->pieces));
	r->pieces[r->n_pieces] = (struct piece){from, len, 0};
	struct row *at = &r->rows[row];
	if (at->last)
		r->pieces[at->last].next = r->n_pieces;
	else
		at->first = r->n_pieces;
	at->last = r->n_pieces++;
}

/* Length of a CSI sequence at p that moves between rows, else 0. *ret: by how many. */
static size_t row_move(const uint8_t *p, size_t n, long *ret)
{
	size_t i = 2;
	long count = 0;
	if (n < 3 || p[0] != 0x1B || p[1] != '[')
		return 0;
	for (; i < n && p[i] >= '0' && p[i] <= '9' && i < 8; i++)
		count = 10 * count + (p[i] - '0');
	count = count ? count : 1;
	if (i == n || !memchr("ABEF", p[i], 4))
		return 0;
	*ret = p[i] == 'A' || p[i] == 'F' ? -count : count;
	return i + 1;
}

static void read_rows(struct rows *r, const uint8_t *p, size_t n)
{
	size_t row = 0, from = 0, at = 0;
	to_row(r, 0);
	while (at < n) {
		long by = 1;
		size_t len = p[at] == '\n' ? 1 : row_move(p + at, n - at, &by);
		if (len == 0) {
			at++;
			continue;
		}
		add(r, row, from, at - from);
		if (by < 0)
			row -= MIN(row, (size_t)-by);
		else if (p[at] == '\n')
			row++;
		else
			row = MIN(row + (size_t)by, r->n_rows - 1); /* no row is made by it */
		to_row(r, row);
		at += len;
		from = at;
	}
	add(r, row, from, n - from);
}

bool rows_collapse(const uint8_t *p, size_t n, struct buf *out)
{
	long by;
	const uint8_t *end = p + n, *esc = p;
	while (n && (esc = memchr(esc, 0x1B, (size_t)(end - esc))) &&
		!row_move(esc, (size_t)(end - esc), &by))
		esc++;
	if (!n || !esc)
		return false;
	struct rows r = {.n_pieces = 1};
	read_rows(&r, p, n);
	for (size_t i = 0; i < r.n_rows; i++) {
		for (size_t k = r.rows[i].first; k; k = r.pieces[k].next) {
			if (k != r.rows[i].first)
				CHECK(buf_append(out, "\r", 1) == 0);
			CHECK(buf_append(out, p + r.pieces[k].from, r.pieces[k].len) == 0);
		}
		if (i + 1 < r.n_rows)
			CHECK(buf_append(out, "\n", 1) == 0);
	}
	free(r.rows);
	free(r.pieces);
	return true;
}
