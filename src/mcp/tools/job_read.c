/* job_read.c: see job_read.h.
 *
 * Where secrets are known, more is read than was asked for: so much on both sides that no secret
 * which touches the range can hide beyond it. All of that is masked, and then cut to the range; so
 * the answer for a byte is the same whatever else is read with it. Of both streams in order of
 * arrival each is masked by itself as well, since the other's bytes may stand within a secret. */
#include "mcp/tools/job_read.h"

#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "exec/exec.h"
#include "mcp/base64.h"
#include "mcp/tools/job_search.h"

const struct field job_piece_fields[] = {
	{"stream", "string", true, NULL},
	{"offset", "integer", true, NULL},
	{"timeMs", "number", true, NULL},
	{"text", "string", true, NULL},
	{0},
};

struct reading {
	enum wire_channel channel;
	bool base64;
	uint64_t offset, length; /* as asked for */
	uint64_t from;           /* where reading began, for what stands before */
	size_t held;             /* bytes at the end that a secret could begin with */
	/* CHANNEL_BOTH: what was read, and as it was */
	struct exec_read both;
	uint8_t *raw;
	enum wire_channel around; /* the stream that is read by itself now */
	struct redact_hits hits;  /* in all that was read */
};

static void reading_free(void *state)
{
	struct reading *st = state;
	buf_done(&st->both.bytes);
	free(st->both.pieces);
	free(st->raw);
	redact_hits_done(&st->hits);
	free(st);
}

/* ---- the answer ---- */

static void set_hole(struct call *c, const struct exec_read *r)
{
	if (r->lost_len == 0)
		return;
	call_print(c, "(bytes %llu to %llu are no longer kept)\n",
		(unsigned long long)r->lost_offset,
		(unsigned long long)(r->lost_offset + r->lost_len - 1));
}

/* The line under what was read: where it stood, and how to go on. */
static void print_place(struct call *c, const struct exec_read *r, uint64_t n)
{
	const struct reading *st = c->state;
	uint64_t end = r->offset + n;
	call_set_u64(c, "offset", r->offset);
	call_set_u64(c, "bytes", n);
	call_set_u64(c, "totalBytes", r->total);
	call_set(c, "ended", json_boolean(r->ended));
	if (st->held && end + st->held == r->total)
		call_print(c,
			"[bytes %llu to %llu of %llu; the rest once the job has printed more, or "
			"ends: offset=%llu]\n",
			(unsigned long long)r->offset, (unsigned long long)end,
			(unsigned long long)r->total, (unsigned long long)end);
	else if (end < r->total)
		call_print(c, "[bytes %llu to %llu of %llu; next: offset=%llu]\n",
			(unsigned long long)r->offset, (unsigned long long)end,
			(unsigned long long)r->total, (unsigned long long)end);
	else
		call_print(c, "[bytes %llu to %llu of %llu%s]\n", (unsigned long long)r->offset,
			(unsigned long long)end, (unsigned long long)r->total,
			r->ended ? ", the end" : "; the job still runs");
}

static void answer_pieces(struct call *c, const struct exec_read *r)
{
	json_t *list = json_array();
	uint64_t n = 0;
	for (size_t i = 0; i < r->n_pieces; i++) {
		const struct exec_piece *p = &r->pieces[i];
		const char *stream = job_channel_name(p->channel);
		json_t *text = jsonrpc_text_n(p->p, p->n);
		call_print(c, "[%s %.3f s] %s%s", stream, (double)p->time_us / (double)USEC_PER_SEC,
			json_string_value(text), p->n > 0 && p->p[p->n - 1] == '\n' ? "" : "\n");
		json_array_append_new(list, json_pack("{s:s,s:I,s:f,s:o}", "stream", stream,
						    "offset", (json_int_t)p->offset, "timeMs",
						    (double)p->time_us / 1000.0, "text", text));
		n += p->n;
	}
	call_set(c, "pieces", list);
	print_place(c, r, n);
}

static void answer_bytes(struct call *c, const struct exec_read *r, bool base64)
{
	size_t n = r->bytes.len;
	if (base64) {
		json_t *data = base64_json(r->bytes.data, n);
		call_print(c, "base64: %s\n", json_string_value(data));
		call_set(c, "data", data);
		call_set_text(c, "encoding", "base64");
		print_place(c, r, n);
		return;
	}
	if (!r->ended || r->offset + n < r->total)
		n = str_utf8_trim(
			r->bytes.data, n); /* a character is not cut: the next read has it */
	json_t *text = jsonrpc_text_n(r->bytes.data, n);
	call_print_n(c, json_string_value(text), json_string_length(text));
	if (n > 0 && r->bytes.data[n - 1] != '\n')
		call_print(c, "\n");
	if (!str_utf8_valid(r->bytes.data, n))
		call_print(c, "(some bytes are not text; encoding=base64 gives them exactly)\n");
	call_set(c, "text", text);
	print_place(c, r, n);
}

static void answer(struct call *c, const struct exec_read *r)
{
	const struct reading *st = c->state;
	call_set_text(c, "job", c->job);
	set_hole(c, r);
	if (st->channel == CHANNEL_BOTH)
		answer_pieces(c, r);
	else
		answer_bytes(c, r, st->base64);
	call_finish(c);
}

/* ---- masks, and the range ---- */

/* Masks all that was read, of which raw is a copy, and cuts it to what was asked for. */
static void mask_and_cut(struct call *c, struct exec_read *r, const uint8_t *raw)
{
	struct reading *st = c->state;
	const struct redactor *redactor = call_redacting(c).redactor;
	size_t n = r->bytes.len;
	uint64_t end = r->offset + n;
	if (!r->ended && end == r->total)
		st->held = redact_pending(redactor, raw, n);
	redact_piece(
		redactor, r->bytes.data, n, r->offset > 0, end < r->total || !r->ended, &st->hits);

	size_t skip = (size_t)MIN(st->offset - MIN(st->offset, r->offset), n);
	size_t keep = (size_t)MIN(st->length, n - skip);
	keep = MIN(keep, n - skip - MIN(n - skip, st->held));
	if (keep && memcmp(raw + skip, r->bytes.data + skip, keep) != 0)
		redact_hits_add(&c->hits, &st->hits);
	for (size_t i = 0; i < r->n_pieces; i++) {
		struct exec_piece *p = &r->pieces[i];
		size_t at = (size_t)(p->p - r->bytes.data), to = MIN(at + p->n, skip + keep);
		size_t from = MAX(at, skip);
		p->p += from - at;
		p->offset += from - at;
		p->n = to > from ? to - from : 0;
	}
	size_t kept = 0;
	for (size_t i = 0; i < r->n_pieces; i++)
		if (r->pieces[i].n)
			r->pieces[kept++] = r->pieces[i];
	r->n_pieces = kept;
	if (st->channel != CHANNEL_BOTH) {
		buf_consume(&r->bytes, skip);
		r->bytes.len = keep;
	}
	r->offset = MAX(r->offset, st->offset);
}

/* ---- both streams ---- */

static void look_around(struct call *c);

/* One stream by itself: what is masked in it is masked in its pieces; what it does not hold any
 * more is masked, too. */
static void on_around(void *user, struct exec_read *r, const struct err *err)
{
	struct call *c = user;
	struct reading *st = c->state;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	uint64_t end = r->offset + r->bytes.len;
	redact_piece(call_redacting(c).redactor, r->bytes.data, r->bytes.len, r->offset > 0,
		end < r->total || !r->ended, &st->hits);
	for (size_t i = 0; i < st->both.n_pieces; i++) {
		const struct exec_piece *p = &st->both.pieces[i];
		uint8_t *to = st->both.bytes.data + (p->p - st->both.bytes.data);
		for (size_t k = 0; p->channel == st->around && k < p->n; k++) {
			uint64_t at = p->offset + k;
			to[k] = at >= r->offset && at < end ? r->bytes.data[at - r->offset] : '*';
		}
	}
	st->around = st->around == CHANNEL_STDOUT ? CHANNEL_STDERR : CHANNEL_BOTH;
	look_around(c);
}

static void look_around(struct call *c)
{
	struct reading *st = c->state;
	size_t reach = redactor_reach(call_redacting(c).redactor);
	for (; st->around != CHANNEL_BOTH;
		st->around = st->around == CHANNEL_STDOUT ? CHANNEL_STDERR : CHANNEL_BOTH) {
		uint64_t first = UINT64_MAX, last = 0;
		for (size_t i = 0; i < st->both.n_pieces; i++) {
			const struct exec_piece *p = &st->both.pieces[i];
			if (p->channel == st->around) {
				first = MIN(first, p->offset);
				last = MAX(last, p->offset + p->n);
			}
		}
		if (first > last)
			continue;
		uint64_t from = first - MIN(first, reach);
		c->op = exec_read(session_exec(c->session), c->job, st->around, from,
			MIN(last + reach - from, LIMIT_READ_TEXT), on_around, c);
		return;
	}
	mask_and_cut(c, &st->both, st->raw);
	answer(c, &st->both);
}

/* ---- reading ---- */

static void ask(struct call *c, uint64_t from);

static void on_read(void *user, struct exec_read *r, const struct err *err)
{
	struct call *c = user;
	struct reading *st = c->state;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	if (st->from < st->offset && r->offset + r->bytes.len <= st->offset &&
		st->offset < r->total) {
		ask(c, st->offset); /* a hole came before it */
		return;
	}
	const struct redactor *redactor = call_redacting(c).redactor;
	if (!redactor && st->from == st->offset) {
		answer(c, r);
		return;
	}
	st->raw = xmemdup(r->bytes.data ? r->bytes.data : (uint8_t *)"", r->bytes.len);
	if (st->channel != CHANNEL_BOTH) {
		mask_and_cut(c, r, st->raw);
		answer(c, r);
		return;
	}
	st->both = *r;
	*r = (struct exec_read){0};
	st->around = CHANNEL_STDOUT;
	look_around(c);
}

static void ask(struct call *c, uint64_t from)
{
	struct reading *st = c->state;
	uint64_t reach = redactor_reach(call_redacting(c).redactor);
	st->from = from;
	c->op = exec_read(session_exec(c->session), c->job, st->channel, from,
		MIN(st->offset - from + st->length + reach, LIMIT_READ_TEXT), on_read, c);
}

void job_read(struct call *c)
{
	const char *encoding = args_text(c->args, "encoding");
	struct reading *st = xcalloc(1, sizeof(*st));
	c->state = st;
	c->state_free = reading_free;
	st->channel = job_channel(c, CHANNEL_STDOUT);
	st->base64 = encoding && strcmp(encoding, "base64") == 0;
	if (st->base64 && st->channel == CHANNEL_BOTH) {
		call_failf(c, ERR_INVALID_ARGUMENT,
			"argument \"encoding\" base64 reads one stream: stdout or stderr");
		return;
	}
	/* what stands around the range, and around that of one stream, is read with it */
	uint64_t reach = redactor_reach(call_redacting(c).redactor);
	uint64_t max = st->base64 ? LIMIT_READ_BASE64 : LIMIT_READ_TEXT - 4 * reach;
	uint64_t fallback = st->base64 ? LIMIT_READ_BASE64 : LIMIT_ANSWER_TEXT;
	st->length = MIN(args_u64(c->args, "length", fallback), max);
	st->offset = args_u64(c->args, "offset", 0);
	ask(c, st->offset - MIN(st->offset, reach));
}
