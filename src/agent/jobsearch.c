/* jobsearch.c: see jobsearch.h and docs/agent-protocol.md. */
#include "agent/jobsearch.h"

#include <string.h>

#include "agent/jobrange.h"
#include "agent/turn.h"
#include "base/clock.h"
#include "wire/tlv.h"

/* Looked through at once; two pieces overlap by a pattern's length less one. */
#define PIECE       (64 * KIB)
#define PATTERN_MAX 1024
/* Of a hit's line, before the hit and from it on. */
#define LINE_BEFORE 200
#define LINE_AFTER  300

struct search {
	struct turn turn;
	struct stream *stream;
	struct job *job;
	int channel, last_channel;
	uint64_t at;
	uint64_t limit, count;
	uint8_t pattern[PATTERN_MAX];
	size_t pattern_len;
	uint8_t piece[PIECE];
};

static void search_free(struct search *q)
{
	turn_remove(&q->turn);
	q->job->users--;
	free(q);
}

static void search_closed(struct stream *s)
{
	search_free(stream_user(s));
}

static const struct stream_ops search_ops = {.closed = search_closed};

static void search_answer(struct search *q, bool more)
{
	_cleanup_buf_ struct buf b = BUF_INIT(128);
	int r = tlv_u64(&b, TAG_COUNT, q->count);
	r |= tlv_u64(&b, TAG_MORE, more);
	r |= tlv_u64(&b, TAG_CHANNEL, (uint64_t)q->channel);
	r |= tlv_u64(&b, TAG_OFFSET, q->at);
	CHECK(r == 0);
	stream_end(q->stream, WIRE_OK, &b);
	search_free(q);
}

/* Tells the line around a hit; the search goes on behind what of it was shown. */
static void hit(struct search *q, uint64_t offset)
{
	const struct spool *spool = q->job->spool;
	uint8_t text[LINE_BEFORE + LINE_AFTER];
	uint64_t from = offset - MIN(offset, LINE_BEFORE);
	size_t n = spool_copy(spool, q->channel, from, text, sizeof(text));
	if (from + n <= offset) { /* a hole lies before the hit */
		from = offset;
		n = spool_copy(spool, q->channel, from, text, LINE_AFTER);
	}
	size_t hit_at = (size_t)(offset - from);
	size_t start = hit_at, end = hit_at;
	while (start > 0 && text[start - 1] != '\n')
		start--;
	while (end < n && text[end] != '\n')
		end++;
	_cleanup_buf_ struct buf b = BUF_INIT(1024);
	int r = tlv_u64(&b, TAG_CHANNEL, (uint64_t)q->channel);
	r |= tlv_u64(&b, TAG_OFFSET, offset);
	r |= tlv_bytes(&b, TAG_LINE_TEXT, text + start, end - start);
	CHECK(r == 0);
	stream_msg(q->stream, &b);
	q->count++;
	q->at = MAX(from + end, offset + q->pattern_len);
}

/* One piece. False at the end of this channel. */
static bool look(struct search *q)
{
	const struct spool *spool = q->job->spool;
	uint64_t from, lost = spool_lost(spool, q->channel, &from);
	if (lost && q->at >= from && q->at < from + lost)
		q->at = from + lost;
	size_t n = spool_copy(spool, q->channel, q->at, q->piece, sizeof(q->piece));
	const uint8_t *found = n ? memmem(q->piece, n, q->pattern, q->pattern_len) : NULL;
	if (found) {
		hit(q, q->at + (uint64_t)(found - q->piece));
		return true;
	}
	if (n == sizeof(q->piece)) {
		q->at += n - (q->pattern_len - 1);
		return true;
	}
	q->at += n;
	return lost && q->at == from; /* what lies behind the hole */
}

static void search_step(struct turn *t, uint64_t deadline_us)
{
	struct search *q = container_of(t, struct search, turn);
	do {
		if (q->count == q->limit) {
			search_answer(q, true);
			return;
		}
		if (look(q))
			continue;
		if (q->channel == q->last_channel) {
			search_answer(q, false);
			return;
		}
		q->channel++;
		q->at = 0;
	} while (clock_monotonic_us() < deadline_us);
}

void jobsearch_open(struct stream *s, struct tlv_reader body)
{
	struct jobrange r;
	if (!jobrange_read(s, body, &r))
		return;
	if (!r.pattern_len || r.pattern_len > PATTERN_MAX || !r.limit) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "PATTERN is 1 to %d bytes, LIMIT 1 or more",
			PATTERN_MAX);
		return;
	}
	struct search *q = xcalloc(1, sizeof(*q));
	q->stream = s;
	q->job = r.job;
	q->job->users++;
	q->channel = r.channel == CHANNEL_BOTH ? CHANNEL_STDOUT : (int)r.channel;
	q->last_channel = r.channel == CHANNEL_BOTH ? CHANNEL_STDERR : (int)r.channel;
	q->at = r.offset;
	q->limit = MIN(r.limit, LIMIT_SEARCH_HITS);
	memcpy(q->pattern, r.pattern, r.pattern_len);
	q->pattern_len = r.pattern_len;
	list_init(&q->turn.node);
	q->turn.step = search_step;
	stream_serve(s, &search_ops, q);
	turn_add(&q->turn);
}
