/* job_search.c: see job_search.h. */
#include "mcp/tools/job_search.h"

#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "exec/exec.h"

#define HITS_FALLBACK 20
/* Hits that would pass this are left out, and the answer says where to go on. */
#define HITS_TEXT_MAX (16 * KIB)

const struct field job_hit_fields[] = {
	{"stream", "string", true, NULL},
	{"offset", "integer", true, NULL},
	{"text", "string", true, NULL},
	{0},
};

enum wire_channel job_channel(const struct call *c, enum wire_channel fallback)
{
	const char *stream = args_text(c->args, "stream");
	if (!stream)
		return fallback;
	return strcmp(stream, "stdout") == 0   ? CHANNEL_STDOUT
	       : strcmp(stream, "stderr") == 0 ? CHANNEL_STDERR
					       : CHANNEL_BOTH;
}

const char *job_channel_name(enum wire_channel channel)
{
	return channel == CHANNEL_STDERR ? "stderr" : "stdout";
}

static void print_hit(struct call *c, const struct exec_hit *h, json_t *list)
{
	const char *stream = job_channel_name(h->channel);
	json_t *text = jsonrpc_text(h->text);
	call_print(
		c, "%s %llu: %s\n", stream, (unsigned long long)h->offset, json_string_value(text));
	json_array_append_new(list, json_pack("{s:s,s:I,s:o}", "stream", stream, "offset",
					    (json_int_t)h->offset, "text", text));
}

static void on_found(void *user, const struct exec_found *f, const struct err *err)
{
	struct call *c = user;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	enum wire_channel next_channel = f->next_channel;
	uint64_t next_offset = f->next_offset;
	bool more = f->more;
	json_t *list = json_array();
	for (size_t i = 0; i < f->n; i++) {
		if (c->text.len > HITS_TEXT_MAX) {
			more = true;
			next_channel = f->hits[i].channel;
			next_offset = f->hits[i].offset;
			break;
		}
		print_hit(c, &f->hits[i], list);
	}
	if (f->n == 0)
		call_print(c, "not found in what is kept of the output\n");
	if (more) {
		const char *stream = job_channel_name(next_channel);
		call_print(c, "(there is more; go on with stream=%s offset=%llu%s)\n", stream,
			(unsigned long long)next_offset,
			job_channel(c, CHANNEL_BOTH) == CHANNEL_BOTH &&
					next_channel == CHANNEL_STDOUT
				? ", then stream=stderr"
				: "");
		call_set_text(c, "nextStream", stream);
		call_set_u64(c, "nextOffset", next_offset);
	} else if (f->n > 0) {
		call_print(c, "(that is all; action=read with an offset shows what stands around "
			      "it)\n");
	}
	call_set_text(c, "job", c->job);
	call_set(c, "hits", list);
	call_set(c, "more", json_boolean(more));
	call_finish(c);
}

/* ---- where secrets are known ----
 *
 * The agent would find what it must not: a part of a secret, guessed letter by letter. So it is
 * only asked where the pattern could be; what stands there is read and masked here, and the masked
 * text is searched. (A pattern with a star can be where the agent finds none: then all is read.) */

/* Of a hit's line, before the hit and from it on: as the agent tells them. */
#define LINE_BEFORE 200
#define LINE_AFTER  300
/* Looked through at once where the agent has found something. */
#define WINDOW (32 * KIB)

struct search {
	struct exec_found found;
	enum wire_channel channel, last;
	uint64_t at, limit;
	uint64_t from; /* where the window begins */
	uint64_t read; /* so far: an agent keeps no more than LIMIT_SPOOL_… of each stream */
	size_t asked;  /* its size at most */
	const char *pattern;
	size_t n_pattern;
	bool with_star;
};

static void search_free(void *state)
{
	struct search *q = state;
	for (size_t i = 0; i < q->found.n; i++)
		free(q->found.hits[i].text);
	free(q->found.hits);
	free(q);
}

/* A window of masked text, and as it was. */
struct window {
	const uint8_t *p, *raw;
	size_t n;
	bool shown; /* something masked */
};

/* The line around the hit at p[at]; the search goes on behind what of it is told. */
static size_t add_hit(struct search *q, struct window *w, size_t at)
{
	size_t from = at - MIN(at, LINE_BEFORE), to = MIN(w->n, at + LINE_AFTER);
	const uint8_t *start = memrchr(w->p + from, '\n', at - from);
	const uint8_t *end = memchr(w->p + at, '\n', to - at);
	from = start ? (size_t)(start - w->p) + 1 : from;
	to = end ? (size_t)(end - w->p) : to;
	_cleanup_buf_ struct buf text = BUF_INIT(3 * (LINE_BEFORE + LINE_AFTER));
	CHECK(str_utf8_repair(&text, w->p + from, to - from, NULL) == 0);
	q->found.hits = xrealloc(q->found.hits, (q->found.n + 1) * sizeof(*q->found.hits));
	q->found.hits[q->found.n++] =
		(struct exec_hit){q->channel, q->from + at, buf_steal_str(&text)};
	w->shown |= memcmp(w->p + from, w->raw + from, to - from) != 0;
	return MAX(to, at + q->n_pattern);
}

/* Looks for hits that begin in p[at..end). Where to go on. */
static size_t look_through(struct search *q, struct window *w, size_t at, size_t end)
{
	while (at < end && q->found.n < q->limit) {
		const uint8_t *hit = memmem(w->p + at, w->n - at, q->pattern, q->n_pattern);
		if (!hit || (size_t)(hit - w->p) >= end)
			return end;
		at = add_hit(q, w, (size_t)(hit - w->p));
	}
	return at;
}

static void next_window(struct call *c);
static void ask(struct call *c, bool with_before);

/* Nothing more in this stream. */
static void next_stream(struct call *c)
{
	struct search *q = c->state;
	if (q->channel == q->last) {
		on_found(c, &q->found, NULL);
		return;
	}
	q->channel = q->last;
	q->at = 0;
	next_window(c);
}

static void on_window(void *user, struct exec_read *r, const struct err *err)
{
	struct call *c = user;
	struct search *q = c->state;
	struct redacting redacting = call_redacting(c);
	size_t n = r ? r->bytes.len : 0;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	if (q->from < q->at && r->offset + n <= q->at && q->at < r->total) {
		ask(c, false); /* a hole came before it */
		return;
	}
	uint64_t end = r->offset + n;
	q->read += n;
	bool ended = end <= q->at || (n < q->asked && end >= r->total) ||
		     q->read > 4 * (LIMIT_SPOOL_HEAD + LIMIT_SPOOL_TAIL);
	_cleanup_free_ uint8_t *raw = xmemdup(n ? r->bytes.data : (uint8_t *)"", n);
	struct redact_hits hits = {0};
	redact_piece(redacting.redactor, r->bytes.data, n, r->offset > 0,
		end < r->total || !r->ended, &hits);

	/* what is near the end of a full window is seen better in the next one */
	size_t near = MAX(redactor_reach(redacting.redactor), q->n_pattern + LINE_AFTER);
	size_t whole = n < q->asked ? n : n - MIN(n, near);
	struct window w = {r->bytes.data, raw, n, false};
	q->from = r->offset;
	size_t at = (size_t)(MAX(q->at, r->offset) - r->offset);
	if (at < n)
		q->at = r->offset + look_through(q, &w, at, whole);
	if (w.shown)
		redact_hits_add(&c->hits, &hits);
	redact_hits_done(&hits);

	q->found.more = q->found.n == q->limit;
	q->found.next_channel = q->channel;
	q->found.next_offset = q->at;
	if (q->found.more)
		on_found(c, &q->found, NULL);
	else if (ended)
		next_stream(c);
	else
		next_window(c);
}

static void ask(struct call *c, bool with_before)
{
	struct search *q = c->state;
	size_t reach = redactor_reach(call_redacting(c).redactor);
	uint64_t before = MAX(reach, LINE_BEFORE);
	q->from = q->at - (with_before ? MIN(q->at, before) : 0);
	q->asked = q->with_star ? LIMIT_READ_TEXT : WINDOW + 2 * reach;
	c->op = exec_read(
		session_exec(c->session), c->job, q->channel, q->from, q->asked, on_window, c);
}

/* Where the pattern is next, in the text as it is. */
static void on_candidate(void *user, const struct exec_found *f, const struct err *err)
{
	struct call *c = user;
	struct search *q = c->state;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
	} else if (f->n == 0 || f->hits[0].offset < q->at) {
		next_stream(c);
	} else {
		q->at = f->hits[0].offset;
		ask(c, true);
	}
}

static void next_window(struct call *c)
{
	struct search *q = c->state;
	if (q->with_star)
		ask(c, true);
	else
		c->op = exec_search(session_exec(c->session), c->job, q->channel, q->at, q->pattern,
			1, on_candidate, c);
}

static void search_masked(struct call *c, uint64_t limit)
{
	struct search *q = xcalloc(1, sizeof(*q));
	enum wire_channel channel = job_channel(c, CHANNEL_BOTH);
	c->state = q;
	c->state_free = search_free;
	q->channel = channel == CHANNEL_BOTH ? CHANNEL_STDOUT : channel;
	q->last = channel == CHANNEL_BOTH ? CHANNEL_STDERR : channel;
	q->at = args_u64(c->args, "offset", 0);
	q->limit = limit;
	q->pattern = args_text(c->args, "pattern");
	q->n_pattern = strlen(q->pattern);
	q->with_star = strchr(q->pattern, '*');
	next_window(c);
}

void job_search(struct call *c)
{
	uint64_t limit = MIN(args_u64(c->args, "limit", HITS_FALLBACK), LIMIT_SEARCH_HITS);
	if (call_redacting(c).redactor)
		search_masked(c, limit);
	else
		c->op = exec_search(session_exec(c->session), c->job, job_channel(c, CHANNEL_BOTH),
			args_u64(c->args, "offset", 0), args_text(c->args, "pattern"), limit,
			on_found, c);
}
