/* spool.c: see spool.h.
 *
 * Each stream is two runs of blocks: the head, which grows to its maximum and stays, and the tail,
 * whose oldest block makes place for the newest. The first block of a run begins small, since most
 * jobs print a line; full blocks are mapped apart and marked MADV_DONTFORK: the fork for the next
 * job then has no page table to copy for them (30 µs a MiB), and no child can see them. */
#include "agent/spool.h"

#include <string.h>
#include <sys/mman.h>

#include "base/limits.h"
#include "base/mem.h"

#define BLOCK (64 * KIB)
/* Up to here the first block of a run is on the heap, and grows. */
#define SMALL (16 * KIB)

struct block {
	uint8_t *p;
	size_t cap;
};

struct run {
	struct block *blocks;
	size_t n, room;
	uint64_t start; /* offset in the stream of the first byte */
	uint64_t len;
};

struct store {
	uint64_t total;
	struct run head, tail;
	bool head_closed;
};

struct piece {
	uint64_t offset;
	uint64_t len;
	uint64_t time_us : 63;
	uint64_t is_stderr : 1;
};

struct spool {
	struct store stores[2];
	struct piece *pieces;
	size_t n_pieces, pieces_room;
	uint64_t size;
};

static uint64_t head_max, tail_max, session_max, used;
static bool (*ask_reclaim)(void);

void spool_init(uint64_t head, uint64_t tail, uint64_t session, bool (*reclaim)(void))
{
	head_max = head;
	tail_max = MAX(tail, BLOCK);
	session_max = session;
	ask_reclaim = reclaim;
}

uint64_t spool_used(void)
{
	return used;
}

static bool make_room(size_t n)
{
	while (used + n > session_max)
		if (!ask_reclaim || !ask_reclaim())
			return false;
	return true;
}

bool spool_charge(size_t n)
{
	if (!make_room(n))
		return false;
	used += n;
	return true;
}

void spool_uncharge(size_t n)
{
	CHECK(used >= n);
	used -= n;
}

/* ---- blocks ---- */

static uint8_t *block_map(void)
{
	void *p = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	(void)madvise(p, BLOCK, MADV_DONTFORK);
	return p;
}

static void block_free(struct spool *s, struct block *b)
{
	if (b->cap == BLOCK)
		(void)munmap(b->p, BLOCK);
	else
		free(b->p);
	s->size -= b->cap;
	used -= b->cap;
	*b = (struct block){0};
}

/* Gives b the capacity cap, which is larger than before. */
static void block_grow(struct spool *s, struct block *b, size_t have, size_t cap)
{
	if (cap == BLOCK) {
		uint8_t *p = block_map();
		if (have)
			memcpy(p, b->p, have);
		free(b->p);
		b->p = p;
	} else {
		b->p = xrealloc(b->p, cap);
	}
	s->size += cap - b->cap;
	used += cap - b->cap;
	b->cap = cap;
}

/* ---- runs ---- */

static void run_drop(struct spool *s, struct run *r)
{
	for (size_t i = 0; i < r->n; i++)
		block_free(s, &r->blocks[i]);
	free(r->blocks);
	r->start += r->len;
	r->blocks = NULL;
	r->n = r->room = 0;
	r->len = 0;
}

/* Takes the oldest block out (there is one). */
static struct block run_shift(struct run *r)
{
	struct block b = r->blocks[0];
	uint64_t bytes = MIN(r->len, BLOCK);
	memmove(r->blocks, r->blocks + 1, --r->n * sizeof(*r->blocks));
	r->start += bytes;
	r->len -= bytes;
	return b;
}

/* An empty place for a block at the end. */
static struct block *run_push(struct run *r)
{
	if (r->n == r->room) {
		r->room = r->room ? r->room * 2 : 4;
		r->blocks = xrealloc(r->blocks, r->room * sizeof(*r->blocks));
	}
	r->blocks[r->n] = (struct block){0};
	return &r->blocks[r->n++];
}

/* True where the next byte needs a new block. */
static bool run_full(const struct run *r)
{
	return r->n * BLOCK == r->len;
}

/* The capacity that the last (or a new) block needs to take n more bytes, or all it can. */
static size_t run_wanted(const struct run *r, size_t n)
{
	if (run_full(r) && r->n)
		return BLOCK;
	size_t cap = run_full(r) ? 256 : r->blocks[r->n - 1].cap;
	size_t need = (size_t)(r->len % BLOCK) + n;
	while (cap < need && cap < SMALL)
		cap *= 2;
	return cap < need ? BLOCK : cap;
}

/* How much memory that takes beyond what the run has. */
static size_t run_missing(const struct run *r, size_t n)
{
	return run_wanted(r, n) - (run_full(r) ? 0 : r->blocks[r->n - 1].cap);
}

/* Appends as much as fits into one block; the number of bytes. */
static size_t run_append(struct spool *s, struct run *r, const uint8_t *p, size_t n)
{
	size_t at = (size_t)(r->len % BLOCK);
	size_t cap = run_wanted(r, n);
	struct block *b = run_full(r) ? run_push(r) : &r->blocks[r->n - 1];
	if (b->cap < cap)
		block_grow(s, b, at, cap);
	size_t got = MIN(n, BLOCK - at);
	memcpy(b->p + at, p, got);
	r->len += got;
	return got;
}

static size_t run_peek(const struct run *r, uint64_t offset, const uint8_t **ret)
{
	if (offset < r->start || offset - r->start >= r->len)
		return 0;
	uint64_t at = offset - r->start;
	*ret = r->blocks[at / BLOCK].p + at % BLOCK;
	return (size_t)MIN(r->len - at, BLOCK - at % BLOCK);
}

/* ---- streams ---- */

/* Where the kept part of the tail begins: blocks are whole, the promise is in bytes. */
static uint64_t tail_start(const struct store *st)
{
	uint64_t end = st->tail.start + st->tail.len;
	uint64_t floor = end > tail_max ? end - tail_max : 0;
	return MAX(st->tail.start, floor);
}

/* Both: the number of bytes taken. Making room can shed or drop this very spool, so nothing is
 * looked up before it. */
static size_t add_head(struct spool *s, struct store *st, const uint8_t *p, size_t n)
{
	size_t want = (size_t)MIN((uint64_t)n, head_max - st->head.len);
	bool room = want && make_room(run_missing(&st->head, want));
	if (st->head_closed)
		return 0;
	if (!room) {
		st->head_closed = true;
		st->tail.start = st->total;
		return 0;
	}
	return run_append(s, &st->head, p, want);
}

static size_t add_tail(struct spool *s, struct store *st, const uint8_t *p, size_t n)
{
	struct run *r = &st->tail;
	/* One block more than tail_max, so that as many bytes are always there. */
	bool whole = run_full(r) && r->n > (tail_max + BLOCK - 1) / BLOCK;
	if (whole || !make_room(run_missing(r, n))) {
		/* A first block is had even where there is no room, so that the last words of a
		 * program are never lost: a block a stream above the maximum. */
		if (run_full(r) && r->n) {
			struct block b = run_shift(r);
			*run_push(r) = b;
		}
	}
	return run_append(s, r, p, n);
}

/* ---- order of arrival ---- */

/* Halves the older half: of each four pieces one of each stream remains, in place of its first. */
static void pieces_coarsen(struct spool *s)
{
	size_t half = s->n_pieces / 2, out = 0;
	for (size_t i = 0; i < half; i += 4) {
		ssize_t at[2] = {-1, -1};
		for (size_t j = i; j < MIN(i + 4, half); j++) {
			struct piece c = s->pieces[j];
			ssize_t *mine = &at[c.is_stderr];
			if (*mine >= 0) {
				s->pieces[*mine].len += c.len;
			} else {
				*mine = (ssize_t)out;
				s->pieces[out++] = c;
			}
		}
	}
	memmove(s->pieces + out, s->pieces + half, (s->n_pieces - half) * sizeof(*s->pieces));
	s->n_pieces -= half - out;
}

/* Pieces of one stream that follow within this time are one. */
#define PIECE_TIME_US (100 * USEC_PER_MSEC)

static void pieces_add(struct spool *s, int stream, uint64_t offset, size_t n, uint64_t time_us)
{
	bool is_stderr = stream == CHANNEL_STDERR;
	struct piece *last = s->n_pieces ? &s->pieces[s->n_pieces - 1] : NULL;
	if (last && last->is_stderr == is_stderr && time_us - last->time_us < PIECE_TIME_US) {
		last->len += n;
		return;
	}
	if (s->n_pieces == SPOOL_PIECES)
		pieces_coarsen(s);
	if (s->n_pieces == s->pieces_room) {
		s->pieces_room = s->pieces_room ? s->pieces_room * 2 : 4;
		s->pieces = xrealloc(s->pieces, s->pieces_room * sizeof(*s->pieces));
	}
	s->pieces[s->n_pieces++] = (struct piece){.offset = offset,
		.len = n,
		.time_us = time_us & (UINT64_MAX >> 1),
		.is_stderr = is_stderr};
}

bool spool_piece_at(const struct spool *s, uint64_t at, struct spool_piece *ret)
{
	for (size_t i = 0; s && i < s->n_pieces; i++) {
		const struct piece *c = &s->pieces[i];
		if (at < c->len) {
			*ret = (struct spool_piece){
				.stream = c->is_stderr ? CHANNEL_STDERR : CHANNEL_STDOUT,
				.offset = c->offset + at,
				.len = c->len - at,
				.time_us = c->time_us};
			return true;
		}
		at -= c->len;
	}
	return false;
}

/* ---- the whole ---- */

struct spool *spool_new(void)
{
	return xcalloc(1, sizeof(struct spool));
}

void spool_drop(struct spool *s)
{
	if (!s)
		return;
	for (int i = 0; i < 2; i++) {
		struct store *st = &s->stores[i];
		run_drop(s, &st->head);
		run_drop(s, &st->tail);
		st->head.start = 0;
		st->head_closed = true;
		st->tail.start = st->total;
	}
}

void spool_free(struct spool *s)
{
	if (!s)
		return;
	spool_drop(s);
	free(s->pieces);
	free(s);
}

static const struct store *store_of(const struct spool *s, int stream)
{
	static const struct store nothing;
	return s ? &s->stores[stream == CHANNEL_STDERR] : &nothing;
}

void spool_add(struct spool *s, int stream, const void *p, size_t n, uint64_t time_us)
{
	struct store *st = &s->stores[stream == CHANNEL_STDERR];
	const uint8_t *at = p;
	if (n)
		pieces_add(s, stream, st->total, n, time_us);
	while (n) {
		size_t got = st->head_closed ? add_tail(s, st, at, n) : add_head(s, st, at, n);
		st->total += got;
		at += got;
		n -= got;
	}
}

uint64_t spool_total(const struct spool *s, int stream)
{
	return store_of(s, stream)->total;
}

uint64_t spool_lost(const struct spool *s, int stream, uint64_t *ret_from)
{
	const struct store *st = store_of(s, stream);
	*ret_from = st->head.len;
	return st->head_closed ? tail_start(st) - st->head.len : 0;
}

size_t spool_peek(const struct spool *s, int stream, uint64_t offset, const uint8_t **ret)
{
	const struct store *st = store_of(s, stream);
	if (offset < st->head.len)
		return run_peek(&st->head, offset, ret);
	if (!st->head_closed || offset < tail_start(st))
		return 0;
	return run_peek(&st->tail, offset, ret);
}

size_t spool_copy(const struct spool *s, int stream, uint64_t offset, void *p, size_t n)
{
	size_t done = 0;
	while (done < n) {
		const uint8_t *from;
		size_t got = spool_peek(s, stream, offset + done, &from);
		if (!got)
			break;
		got = MIN(got, n - done);
		memcpy((uint8_t *)p + done, from, got);
		done += got;
	}
	return done;
}

uint64_t spool_size(const struct spool *s)
{
	return s ? s->size : 0;
}

bool spool_shed(struct spool *s)
{
	if (!s)
		return false;
	struct run *a = &s->stores[0].tail, *b = &s->stores[1].tail;
	struct run *r = a->n >= b->n ? a : b;
	if (r->n < 2)
		return false;
	struct block block = run_shift(r);
	block_free(s, &block);
	return true;
}
