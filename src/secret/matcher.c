/* matcher.c: see matcher.h. */
#include "secret/matcher.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/limits.h"

/* A state: what can end there, and how it goes on. */
#define ENDS       (1u << 31) /* a pattern ends here */
#define ROW        (1u << 30) /* the other bits: which row of successors */
#define LEADS      (1u << 29) /* BYTE leads to the next state */
#define BYTE_SHIFT 21
#define BYTE(w)    ((uint8_t)((w) >> BYTE_SHIFT))
#define FALLBACK   ((1u << BYTE_SHIFT) - 1)
#define NOTHING    UINT32_MAX

/* skip[pair]: how far a window may move that ends with that pair … */
#define SKIP_MASK   7
#define SKIP_BEGINS 0x80 /* … and: a pattern begins with it */
#define PAIRS       65536

struct row {
	uint32_t next[256];
};

/* A pattern that ends in a state, and the next shorter one that ends there, too. */
struct ending {
	uint32_t state;
	uint32_t length;
	uint32_t shorter; /* index; NOTHING: none */
	uint16_t owner;
};

struct matcher {
	size_t size, longest;
	size_t n_states, n_rows, n_endings, n_patterns, n_text;
	/* in this order behind the struct: */
	struct row *rows;
	uint32_t *states;
	struct ending *endings; /* by state */
	uint32_t *starts;       /* of each pattern in text, and the end of the last */
	uint8_t *skip;
	uint8_t *text; /* the patterns */
};

static uint16_t pair_at(const uint8_t *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

/* ---- building ---- */

/* A trie in the order of its patterns, so that states have their final numbers from the start. */
struct trie {
	size_t n, room;
	uint8_t *byte;     /* that leads here */
	bool *has_child;   /* the next state is its first */
	uint32_t *sibling; /* 0: the last */
	uint32_t *fallback;
	uint32_t *order;  /* by depth */
	uint32_t *path;   /* states of the pattern that was added last */
	uint32_t *ending; /* index; NOTHING: no pattern ends here or where it falls back to */
	uint32_t root[256];
};

static int by_bytes(const void *a, const void *b)
{
	const struct matcher_pattern *x = a, *y = b;
	int r = memcmp(x->p, y->p, MIN(x->n, y->n));
	if (r == 0)
		r = (x->n > y->n) - (x->n < y->n);
	return r ? r : (x->owner > y->owner) - (x->owner < y->owner);
}

static bool same_bytes(const struct matcher_pattern *a, const struct matcher_pattern *b)
{
	return a->n == b->n && memcmp(a->p, b->p, a->n) == 0;
}

static size_t sort_patterns(struct matcher_pattern *patterns, size_t n)
{
	size_t kept = 0;
	qsort(patterns, n, sizeof(*patterns), by_bytes);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || !same_bytes(&patterns[i], &patterns[kept - 1]) ||
			patterns[i].owner != patterns[kept - 1].owner)
			patterns[kept++] = patterns[i];
		else
			free(patterns[i].p);
	return kept;
}

static void trie_init(struct trie *t, size_t room, size_t longest)
{
	*t = (struct trie){.n = 1, .room = room};
	t->byte = xcalloc(room, 1);
	t->has_child = xcalloc(room, sizeof(bool));
	t->sibling = xcalloc(room, sizeof(uint32_t));
	t->fallback = xcalloc(room, sizeof(uint32_t));
	t->order = xcalloc(room, sizeof(uint32_t));
	t->ending = xmalloc(room * sizeof(uint32_t));
	t->path = xcalloc(longest + 1, sizeof(uint32_t));
	memset(t->ending, 0xff, room * sizeof(uint32_t));
}

static void trie_done(struct trie *t)
{
	explicit_bzero(t->byte, t->room);
	free(t->byte);
	free(t->has_child);
	free(t->sibling);
	free(t->fallback);
	free(t->order);
	free(t->ending);
	free(t->path);
}

/* shared: bytes that it has in common with the one before. */
static void trie_add(struct trie *t, const struct matcher_pattern *pattern, size_t shared)
{
	for (size_t i = shared; i < pattern->n; i++) {
		uint32_t state = (uint32_t)t->n++, parent = t->path[i];
		if (t->has_child[parent])
			t->sibling[t->path[i + 1]] = state;
		t->has_child[parent] = true;
		t->byte[state] = pattern->p[i];
		if (i == 0)
			t->root[pattern->p[i]] = state;
		t->path[i + 1] = state;
	}
}

static uint32_t trie_child(const struct trie *t, uint32_t state, uint8_t byte)
{
	if (state == 0)
		return t->root[byte];
	for (uint32_t c = t->has_child[state] ? state + 1 : 0; c; c = t->sibling[c])
		if (t->byte[c] == byte)
			return c;
	return 0;
}

static uint32_t trie_step(const struct trie *t, uint32_t state, uint8_t byte)
{
	uint32_t next;
	while (!(next = trie_child(t, state, byte)) && state)
		state = t->fallback[state];
	return next;
}

static bool trie_branches(const struct trie *t, uint32_t state)
{
	return state == 0 || (t->has_child[state] && t->sibling[state + 1]);
}

/* Where to go on when the byte that comes leads no further; and which shorter patterns end where
 * one ends. */
static void trie_fall_back(struct trie *t, struct ending *endings)
{
	size_t n = 1;
	for (size_t at = 0; at < n; at++) {
		uint32_t state = t->order[at];
		for (uint32_t c = t->has_child[state] ? state + 1 : 0; c; c = t->sibling[c]) {
			uint32_t to = state ? trie_step(t, t->fallback[state], t->byte[c]) : 0;
			t->fallback[c] = to;
			t->order[n++] = c;
			/* those of the same length and bytes stand beside each other */
			uint32_t e = t->ending[c];
			while (e != NOTHING && endings[e].shorter != NOTHING)
				e = endings[e].shorter;
			if (e != NOTHING)
				endings[e].shorter = t->ending[to];
			else
				t->ending[c] = t->ending[to];
		}
	}
}

static struct matcher *map_table(const struct matcher *sizes)
{
	size_t struct_size = (sizeof(struct matcher) + 63) & ~(size_t)63;
	size_t size = struct_size + sizes->n_rows * sizeof(struct row) +
		      sizes->n_states * sizeof(uint32_t) +
		      sizes->n_endings * sizeof(struct ending) +
		      (sizes->n_patterns + 1) * sizeof(uint32_t) + PAIRS + sizes->n_text;
	if (size > LIMIT_REDACT_TABLE)
		return NULL;
	uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED);
	(void)madvise(at, size, MADV_DONTDUMP);
	(void)mlock(at, size); /* what RLIMIT_MEMLOCK does not allow stays unlocked */
	struct matcher *m = (struct matcher *)at;
	*m = *sizes;
	m->size = size;
	m->rows = (struct row *)(at += struct_size);
	m->states = (uint32_t *)(at += m->n_rows * sizeof(struct row));
	m->endings = (struct ending *)(at += m->n_states * sizeof(uint32_t));
	m->starts = (uint32_t *)(at += m->n_endings * sizeof(struct ending));
	m->skip = at += (m->n_patterns + 1) * sizeof(uint32_t);
	m->text = at + PAIRS;
	return m;
}

static void fill_states(struct matcher *m, const struct trie *t)
{
	uint32_t row = 0;
	for (size_t at = 0; at < t->n; at++) {
		uint32_t s = t->order[at], w = t->ending[s] != NOTHING ? ENDS : 0;
		if (trie_branches(t, s)) {
			for (unsigned c = 0; c < 256; c++)
				m->rows[row].next[c] = trie_step(t, s, (uint8_t)c);
			w |= ROW | row++;
		} else {
			w |= t->fallback[s];
			if (t->has_child[s])
				w |= LEADS | (uint32_t)t->byte[s + 1] << BYTE_SHIFT;
		}
		m->states[s] = w;
	}
}

static void fill_skip(struct matcher *m, const struct matcher_pattern *patterns)
{
	memset(m->skip, SKIP_MASK, PAIRS);
	for (size_t i = 0; i < m->n_patterns; i++) {
		const uint8_t *p = patterns[i].p;
		for (unsigned at = 0; at + 2 <= MATCHER_MIN; at++) {
			uint8_t *s = &m->skip[pair_at(p + at)];
			uint8_t far = (uint8_t)(MATCHER_MIN - 2 - at);
			*s = (uint8_t)((*s & SKIP_BEGINS) | MIN(*s & SKIP_MASK, far));
		}
		m->skip[pair_at(p)] |= SKIP_BEGINS;
	}
}

/* Endings by state, for a binary search; what falls back to one has one of its own. */
static void fill_endings(struct matcher *m, const struct trie *t, const struct ending *own)
{
	size_t n = 0;
	for (uint32_t s = 0; s < t->n; s++)
		if (t->ending[s] != NOTHING) {
			m->endings[n] = own[t->ending[s]];
			m->endings[n++].state = s;
		}
	/* the shorter ones follow, where no search finds them */
	memcpy(m->endings + n, own, m->n_patterns * sizeof(*own));
	for (size_t i = 0; i < n + m->n_patterns; i++)
		if (m->endings[i].shorter != NOTHING)
			m->endings[i].shorter += (uint32_t)n;
	m->n_endings = n;
}

static void fill_text(struct matcher *m, const struct matcher_pattern *patterns)
{
	uint32_t at = 0;
	for (size_t i = 0; i < m->n_patterns; i++) {
		m->starts[i] = at;
		memcpy(m->text + at, patterns[i].p, patterns[i].n);
		at += (uint32_t)patterns[i].n;
	}
	m->starts[m->n_patterns] = at;
}

static int too_large(struct err *err)
{
	return err_set(err, ERR_LIMIT_REACHED, EFBIG,
		"the secrets in all the forms that are looked for need a table of more than %d "
		"MiB; "
		"give fewer or shorter ones (a byte of a secret takes some 210 bytes of it)",
		(int)(LIMIT_REDACT_TABLE / MIB));
}

int matcher_new(struct matcher_pattern *patterns, size_t *n, struct matcher **ret, struct err *err)
{
	struct matcher sizes = {.n_patterns = *n = sort_patterns(patterns, *n)};
	for (size_t i = 0; i < *n; i++) {
		CHECK(patterns[i].n >= MATCHER_MIN);
		sizes.n_text += patterns[i].n;
		sizes.longest = MAX(sizes.longest, patterns[i].n);
	}
	if (sizes.n_text > LIMIT_REDACT_TABLE) /* before anything of that size is made */
		return too_large(err);

	struct trie t;
	struct ending *own = xcalloc(*n + 1, sizeof(*own));
	trie_init(&t, sizes.n_text + 1, sizes.longest);
	for (size_t i = 0; i < *n; i++) {
		size_t shared = 0;
		while (i && shared < MIN(patterns[i].n, patterns[i - 1].n) &&
			patterns[i].p[shared] == patterns[i - 1].p[shared])
			shared++;
		trie_add(&t, &patterns[i], shared);
		uint32_t state = t.path[patterns[i].n];
		own[i] = (struct ending){
			state, (uint32_t)patterns[i].n, t.ending[state], patterns[i].owner};
		t.ending[state] = (uint32_t)i;
	}
	trie_fall_back(&t, own);
	for (uint32_t s = 0; s < t.n; s++) {
		sizes.n_rows += trie_branches(&t, s);
		sizes.n_endings += t.ending[s] != NOTHING;
	}
	sizes.n_endings += *n;
	sizes.n_states = t.n;
	struct matcher *m = map_table(&sizes);
	if (m) {
		fill_states(m, &t);
		fill_skip(m, patterns);
		fill_endings(m, &t, own);
		fill_text(m, patterns);
		*ret = m;
	}
	trie_done(&t);
	free(own);
	return m ? 0 : too_large(err);
}

void matcher_free(struct matcher *m)
{
	if (!m)
		return;
	size_t size = m->size;
	explicit_bzero(m, size);
	(void)munmap(m, size);
}

size_t matcher_size(const struct matcher *m)
{
	return m->size;
}

size_t matcher_longest(const struct matcher *m)
{
	return m->longest;
}

/* ---- reading ---- */

/* How many bytes no pattern begins in, as far as a whole window can be seen. */
static size_t skip_over(const struct matcher *m, const uint8_t *p, size_t n)
{
	size_t at = 0;
	while (n - at >= MATCHER_MIN) {
		unsigned far = m->skip[pair_at(p + at + MATCHER_MIN - 2)] & SKIP_MASK;
		if (far == 0) {
			if (m->skip[pair_at(p + at)] & SKIP_BEGINS)
				break;
			far = 1;
		}
		at += far;
	}
	return at;
}

static uint32_t step(const struct matcher *m, uint32_t state, uint8_t byte)
{
	for (;;) {
		uint32_t w = m->states[state];
		if (w & ROW)
			return m->rows[w & (ROW - 1)].next[byte];
		if ((w & LEADS) && BYTE(w) == byte)
			return state + 1;
		state = w & FALLBACK;
	}
}

size_t matcher_read(
	const struct matcher *m, matcher_state *state, const uint8_t *p, size_t n, bool *hit)
{
	uint32_t s = *state;
	size_t at = 0;
	*hit = false;
	while (at < n && !*hit) {
		if (s == 0)
			at += skip_over(m, p + at, n - at);
		s = step(m, s, p[at++]);
		*hit = m->states[s] & ENDS;
	}
	*state = s;
	return at;
}

static const struct ending *ending_of(const struct matcher *m, uint32_t state)
{
	size_t from = 0, to = m->n_endings;
	while (to - from > 1) {
		size_t middle = (from + to) / 2;
		if (m->endings[middle].state <= state)
			from = middle;
		else
			to = middle;
	}
	return &m->endings[from];
}

size_t matcher_hit_length(const struct matcher *m, matcher_state state)
{
	return ending_of(m, state)->length;
}

void matcher_hit_owners(const struct matcher *m, matcher_state state,
	void (*fn)(void *user, uint16_t owner), void *user)
{
	const struct ending *e = ending_of(m, state);
	for (;;) {
		fn(user, e->owner);
		if (e->shorter == NOTHING)
			return;
		e = &m->endings[e->shorter];
	}
}

/* ---- parts ---- */

size_t matcher_part_at_start(const struct matcher *m, const uint8_t *p, size_t n)
{
	size_t best = 0;
	for (size_t i = 0; i < m->n_patterns; i++) {
		const uint8_t *end = m->text + m->starts[i + 1];
		size_t most = MIN(n, (size_t)(end - m->text) - m->starts[i] - 1);
		for (size_t k = most; k > best; k--)
			if (end[-(ptrdiff_t)k] == p[0] && memcmp(end - k, p, k) == 0)
				best = k;
	}
	return best;
}

size_t matcher_part_at_end(const struct matcher *m, const uint8_t *p, size_t n)
{
	size_t best = 0;
	for (size_t i = 0; i < m->n_patterns; i++) {
		const uint8_t *start = m->text + m->starts[i];
		size_t most = MIN(n, (size_t)m->starts[i + 1] - m->starts[i] - 1);
		for (size_t k = most; k > best; k--)
			if (p[n - k] == start[0] && memcmp(p + n - k, start, k) == 0)
				best = k;
	}
	return best;
}

bool matcher_is_inside(const struct matcher *m, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < m->n_patterns; i++)
		if (memmem(m->text + m->starts[i], m->starts[i + 1] - m->starts[i], p, n))
			return true;
	return false;
}
