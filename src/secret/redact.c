/* redact.c: see redact.h. */
#include "secret/redact.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "secret/forms.h"
#include "secret/matcher.h"
#include "secret/value.h"

#define MASK '*'
/* A stream looks at so much at once. */
#define STEP (4 * KIB)

struct redactor {
	unsigned refs;
	uint64_t serial;
	struct matcher *matcher;
	char **names; /* of the owners of patterns */
	size_t n_names;
};

/* ---- making one ---- */

struct collect {
	struct matcher_pattern *patterns;
	size_t n, room;
	uint16_t owner;
};

static void collect_form(void *user, const uint8_t *p, size_t n)
{
	struct collect *c = user;
	for (size_t i = c->n; i > 0 && c->patterns[i - 1].owner == c->owner; i--)
		if (c->patterns[i - 1].n == n && memcmp(c->patterns[i - 1].p, p, n) == 0)
			return;
	if (c->n == c->room) {
		c->room = c->room ? 2 * c->room : 64;
		c->patterns = xrealloc(c->patterns, c->room * sizeof(*c->patterns));
	}
	c->patterns[c->n++] = (struct matcher_pattern){xmemdup(p, n), n, c->owner};
}

static void collect_done(struct collect *c)
{
	for (size_t i = 0; i < c->n; i++) {
		explicit_bzero(c->patterns[i].p, c->patterns[i].n);
		free(c->patterns[i].p);
	}
	free(c->patterns);
}

int redactor_new(
	struct secret_value *const *values, size_t n, struct redactor **ret, struct err *err)
{
	struct collect c = {0};
	struct matcher *m = NULL;
	int r = 0;
	if (n > LIMIT_REDACT_VALUES)
		return err_set(err, ERR_LIMIT_REACHED, E2BIG,
			"more than %d values of secrets cannot be looked for at once",
			LIMIT_REDACT_VALUES);
	for (size_t i = 0; i < n; i++) {
		size_t len;
		const uint8_t *p = secret_value_bytes(values[i], &len);
		c.owner = (uint16_t)i;
		forms_each(p, len, collect_form, &c);
	}
	if (n > 0)
		r = matcher_new(c.patterns, &c.n, &m, err);
	collect_done(&c);
	if (r < 0)
		return r;
	if (!m) {
		*ret = NULL;
		return 0;
	}
	struct redactor *new = xcalloc(1, sizeof(*new));
	static uint64_t last_serial;
	new->refs = 1;
	new->serial = ++last_serial;
	new->matcher = m;
	new->names = xcalloc(n, sizeof(char *));
	new->n_names = n;
	for (size_t i = 0; i < n; i++)
		new->names[i] = xstrdup(secret_value_name(values[i]));
	*ret = new;
	return 0;
}

struct redactor *redactor_ref(const struct redactor *r)
{
	struct redactor *held = (struct redactor *)r; /* its count is no part of what it is */
	if (held)
		held->refs++;
	return held;
}

void redactor_unref(struct redactor *r)
{
	if (!r || --r->refs)
		return;
	matcher_free(r->matcher);
	for (size_t i = 0; i < r->n_names; i++)
		free(r->names[i]);
	free(r->names);
	free(r);
}

size_t redactor_reach(const struct redactor *r)
{
	return r ? matcher_longest(r->matcher) - 1 : 0;
}

uint64_t redactor_serial(const struct redactor *r)
{
	return r ? r->serial : 0;
}

size_t redactor_size(const struct redactor *r)
{
	return r ? matcher_size(r->matcher) : 0;
}

/* ---- hits ---- */

void redact_hits_done(struct redact_hits *h)
{
	for (size_t i = 0; i < h->n; i++)
		free(h->counts[i].name);
	free(h->counts);
	*h = (struct redact_hits){0};
}

static void count_name(struct redact_hits *h, const char *name, uint64_t count)
{
	for (size_t i = 0; i < h->n; i++)
		if (strcmp(h->counts[i].name, name) == 0) {
			h->counts[i].count += count;
			return;
		}
	h->counts = xrealloc(h->counts, (h->n + 1) * sizeof(*h->counts));
	h->counts[h->n++] = (struct redact_count){xstrdup(name), count};
}

void redact_hits_add(struct redact_hits *h, const struct redact_hits *from)
{
	for (size_t i = 0; i < from->n; i++)
		count_name(h, from->counts[i].name, from->counts[i].count);
}

struct tally {
	const struct redactor *redactor;
	struct redact_hits *hits;
	uint8_t seen[LIMIT_REDACT_VALUES / 8]; /* several forms of one may end at one place */
};

static void tally_owner(void *user, uint16_t owner)
{
	struct tally *t = user;
	uint8_t bit = (uint8_t)(1u << (owner % 8));
	if (!(t->seen[owner / 8] & bit))
		count_name(t->hits, t->redactor->names[owner], 1);
	t->seen[owner / 8] |= bit;
}

static void tally(const struct redactor *r, matcher_state state, struct redact_hits *hits)
{
	struct tally t = {.redactor = r, .hits = hits};
	if (hits)
		matcher_hit_owners(r->matcher, state, tally_owner, &t);
}

/* ---- whole texts ---- */

/* Masks what ends within p[from..n); all that it may reach back to is in p. */
static size_t mask_from(const struct redactor *r, matcher_state *state, uint8_t *p, size_t from,
	size_t n, struct redact_hits *hits)
{
	size_t count = 0;
	bool hit;
	for (size_t at = from; at < n;) {
		/* what was read is not read again, so that it may change behind the reader */
		at += matcher_read(r->matcher, state, p + at, n - at, &hit);
		if (!hit)
			break;
		size_t length = matcher_hit_length(r->matcher, *state);
		memset(p + at - length, MASK, length);
		tally(r, *state, hits);
		count++;
	}
	return count;
}

size_t redact_bytes(const struct redactor *r, void *p, size_t n, struct redact_hits *hits)
{
	matcher_state state = 0;
	return r ? mask_from(r, &state, p, 0, n, hits) : 0;
}

/* Of a text that was valid UTF-8: what is left of characters that were masked in part. */
static void mask_broken(char *p, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t len = 1;
		while (len <= MIN(4, n - i) && !str_utf8_valid(p + i, len))
			len++;
		if (len > MIN(4, n - i)) {
			p[i] = MASK;
			len = 1;
		}
		i += len;
	}
}

size_t redact_piece(const struct redactor *r, void *p, size_t n, bool before, bool after,
	struct redact_hits *hits)
{
	if (!r)
		return 0;
	uint8_t *bytes = p;
	const struct matcher *m = r->matcher;
	size_t start = before ? matcher_part_at_start(m, bytes, n) : 0;
	size_t end = after ? matcher_part_at_end(m, bytes, n) : 0;
	if (before && after && n >= REDACT_PART && n <= redactor_reach(r) &&
		matcher_is_inside(m, bytes, n))
		start = n;
	size_t count = redact_bytes(r, p, n, hits);
	if (start >= REDACT_PART)
		memset(bytes, MASK, start);
	if (end >= REDACT_PART)
		memset(bytes + n - end, MASK, end);
	return count;
}

size_t redact_text(const struct redactor *r, char *p, size_t n, bool before, bool after,
	struct redact_hits *hits)
{
	size_t count = redact_piece(r, p, n, before, after, hits);
	if (r && (count || before || after) && !str_utf8_valid(p, n))
		mask_broken(p, n);
	return count;
}

/* Places of one text that are looked at: each costs a look at every form. */
#define SHORTENED_MAX 32

static bool is_between(char c)
{
	return c == ' ' || c == '\n' || c == '\'' || c == '"';
}

/* A word that ends at p[n), and one that begins at p[0]. */
static size_t word_before(const char *p, size_t n)
{
	size_t k = 0;
	while (k < n && p[n - k - 1] != ' ' && p[n - k - 1] != '\n')
		k++;
	return k;
}

static size_t word_behind(const char *p, size_t n)
{
	size_t k = 0;
	while (k < n && p[k] != ' ' && p[k] != '\n')
		k++;
	return k;
}

/* Around the sign p[at..to). */
static void mask_around(
	const struct redactor *r, char *p, size_t n, size_t at, size_t to, bool look)
{
	for (int i = 0; i < 3 && at > 0 && is_between(p[at - 1]); i++)
		at--;
	for (int i = 0; i < 3 && to < n && is_between(p[to]); i++)
		to++;
	size_t before =
		look ? matcher_part_at_end(r->matcher, (uint8_t *)p, at) : word_before(p, at);
	size_t behind = look ? matcher_part_at_start(r->matcher, (uint8_t *)p + to, n - to)
			     : word_behind(p + to, n - to);
	if (before >= REDACT_SHORT)
		memset(p + at - before, MASK, before);
	if (behind >= REDACT_SHORT)
		memset(p + to, MASK, behind);
}

void redact_shortened(const struct redactor *r, char *p, size_t n)
{
	static const char dots[] = "...", sign[] = "\xE2\x80\xA6";
	unsigned places = 0;
	if (!r)
		return;
	for (size_t at = 0; at + 3 <= n; at++) {
		if (memcmp(p + at, dots, 3) != 0 && memcmp(p + at, sign, 3) != 0)
			continue;
		mask_around(r, p, n, at, at + 3, places++ < SHORTENED_MAX);
		at += 2;
	}
	if (places && !str_utf8_valid(p, n))
		mask_broken(p, n);
}

size_t redact_pending(const struct redactor *r, const void *p, size_t n)
{
	size_t part = r ? matcher_part_at_end(r->matcher, p, n) : 0;
	return part >= REDACT_PART ? part : 0;
}

/* ---- streams ---- */

void redact_stream_init(struct redact_stream *s, const struct redactor *r, struct redact_hits *hits)
{
	*s = (struct redact_stream){.redactor = r, .hits = hits};
	if (r)
		s->held = xmalloc(redactor_reach(r) + STEP);
}

static int give(struct redact_stream *s, size_t n, struct buf *out)
{
	if (buf_append(out, s->held, n) < 0)
		return -ENOBUFS;
	s->n_held -= n;
	memmove(s->held, s->held + n, s->n_held);
	return 0;
}

int redact_stream_feed(struct redact_stream *s, const void *p, size_t n, struct buf *out)
{
	if (!s->redactor)
		return buf_append(out, p, n);
	const uint8_t *from = p, *end = from + n;
	size_t reach = redactor_reach(s->redactor);
	while (from < end) {
		size_t step = MIN((size_t)(end - from), STEP), before = s->n_held;
		memcpy(s->held + before, from, step);
		s->n_held += step;
		from += step;
		mask_from(s->redactor, &s->state, s->held, before, s->n_held, s->hits);
		size_t keep = s->state == 0 ? 0 : MIN(s->n_held, reach);
		int r = give(s, s->n_held - keep, out);
		if (r < 0)
			return r;
	}
	return 0;
}

int redact_stream_end(struct redact_stream *s, struct buf *out)
{
	s->state = 0;
	return s->redactor ? give(s, s->n_held, out) : 0;
}

void redact_stream_done(struct redact_stream *s)
{
	if (s->held)
		explicit_bzero(s->held, redactor_reach(s->redactor) + STEP);
	free(s->held);
	*s = (struct redact_stream){0};
}

/* ---- looking only ---- */

static void first_owner(void *user, uint16_t owner)
{
	int *first = user;
	if (*first < 0)
		*first = owner;
}

bool redact_search_feed(struct redact_search *s, const void *p, size_t n)
{
	bool hit = false;
	if (!s->redactor || s->name)
		return s->name;
	const struct matcher *m = s->redactor->matcher;
	s->read += matcher_read(m, &s->state, p, n, &hit);
	if (hit) {
		int first = -1;
		matcher_hit_owners(m, s->state, first_owner, &first);
		s->offset = s->read - matcher_hit_length(m, s->state);
		s->name = s->redactor->names[first];
	}
	return hit;
}

const char *redact_find(const struct redactor *r, const void *p, size_t n)
{
	struct redact_search s = {.redactor = r};
	redact_search_feed(&s, p, n);
	return s.name;
}
