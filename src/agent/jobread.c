/* jobread.c: see jobread.h and docs/agent-protocol.md. */
#include "agent/jobread.h"

#include "agent/job.h"
#include "agent/jobrange.h"
#include "wire/tlv.h"

/* ---- reading one stream ---- */

struct reader {
	struct job *job;
	int channel;
	uint64_t first, at, end;
};

static void reader_free(struct reader *r)
{
	r->job->users--;
	free(r);
}

static void read_answer(struct stream *s, struct reader *r)
{
	_cleanup_buf_ struct buf b = BUF_INIT(256);
	int e = tlv_u64(&b, TAG_OFFSET, r->first);
	e |= tlv_u64(&b, TAG_STATE, r->job->state);
	if (r->channel == CHANNEL_BOTH) {
		e |= tlv_u64(&b, TAG_TOTAL,
			spool_total(r->job->spool, CHANNEL_STDOUT) +
				spool_total(r->job->spool, CHANNEL_STDERR));
	} else {
		uint64_t from, lost = spool_lost(r->job->spool, r->channel, &from);
		e |= tlv_u64(&b, TAG_TOTAL, spool_total(r->job->spool, r->channel));
		if (lost) {
			e |= tlv_u64(&b, TAG_LOST_OFFSET, from);
			e |= tlv_u64(&b, TAG_LENGTH, lost);
		}
	}
	CHECK(e == 0);
	stream_end(s, WIRE_OK, &b);
	reader_free(r);
}

static void read_go_on(struct stream *s)
{
	struct reader *r = stream_user(s);
	while (r->at < r->end) {
		const uint8_t *p;
		size_t n = spool_peek(r->job->spool, r->channel, r->at, &p);
		n = (size_t)MIN((uint64_t)n, r->end - r->at);
		if (!n)
			break; /* the end, or what followed is lost by now */
		size_t room = stream_room(s);
		if (!room)
			return;
		n = MIN(n, room);
		stream_data(s, p, n, false);
		r->at += n;
	}
	read_answer(s, r);
}

static void read_closed(struct stream *s)
{
	reader_free(stream_user(s));
}

static const struct stream_ops read_ops = {.writable = read_go_on, .closed = read_closed};

/* ---- reading both in order of arrival ---- */

/* Bytes of one message. */
#define PIECE_BYTES (32 * KIB)

static void read_both(struct stream *s, struct reader *r)
{
	const struct spool *spool = r->job->spool;
	uint8_t *bytes = xmalloc(PIECE_BYTES);
	_cleanup_free_ uint8_t *owned = bytes;
	r->end = MIN(r->end, r->at + MIN(LIMIT_READ_TEXT, INT64_MAX - r->at));
	struct spool_piece piece;
	while (r->at < r->end && spool_piece_at(spool, r->at, &piece)) {
		uint64_t from, lost = spool_lost(spool, piece.stream, &from);
		if (lost && piece.offset >= from && piece.offset < from + lost) {
			if (r->at > r->first)
				break; /* what is sent is without a hole */
			uint64_t skip = MIN(piece.len, from + lost - piece.offset);
			r->first = r->at += skip;
			r->end += MIN(skip, INT64_MAX - r->end);
			continue;
		}
		uint64_t n = MIN(MIN(piece.len, r->end - r->at), PIECE_BYTES);
		size_t got = spool_copy(spool, piece.stream, piece.offset, bytes, (size_t)n);
		_cleanup_buf_ struct buf b = BUF_INIT(LIMIT_FRAME_PAYLOAD);
		int e = tlv_u64(&b, TAG_CHANNEL, (uint64_t)piece.stream);
		e |= tlv_u64(&b, TAG_OFFSET, piece.offset);
		e |= tlv_u64(&b, TAG_TIME_US, piece.time_us);
		e |= tlv_bytes(&b, TAG_BYTES, bytes, got);
		CHECK(e == 0 && got > 0);
		stream_msg(s, &b);
		r->at += got;
	}
	read_answer(s, r);
}

static bool nothing_left(const struct job *j, int channel)
{
	uint64_t from, total = spool_total(j->spool, channel);
	return total && spool_lost(j->spool, channel, &from) == total;
}

void jobread_open(struct stream *s, struct tlv_reader body)
{
	struct jobrange q;
	if (!jobrange_read(s, body, &q))
		return;
	if (q.channel != CHANNEL_BOTH && nothing_left(q.job, (int)q.channel)) {
		stream_fail(s, WIRE_GONE, 0, "the output of this job is no longer kept");
		return;
	}
	struct reader *r = xcalloc(1, sizeof(*r));
	r->job = q.job;
	r->job->users++;
	r->channel = (int)q.channel;
	r->first = r->at = q.offset;
	r->end = q.offset + MIN(q.length, INT64_MAX - q.offset);
	if (r->channel == CHANNEL_BOTH) {
		read_both(s, r);
		return;
	}
	uint64_t from, lost = spool_lost(r->job->spool, r->channel, &from);
	if (lost && r->at >= from && r->at < from + lost) {
		r->first = r->at = from + lost;
		r->end += MIN(r->at - q.offset, INT64_MAX - r->end);
	}
	stream_serve(s, &read_ops, r);
	read_go_on(s);
}
