/* jobstatus.c: a job in TLVs; see job.h. */
#include "agent/job.h"

#include "agent/kernel.h"
#include "base/clock.h"
#include "wire/frame.h"
#include "wire/tlv.h"

/* What is kept of a stream from offset on, at most n bytes; no TLV where that is nothing. */
static int put_kept(const struct job *j, int stream, uint16_t tag, uint64_t offset, size_t n,
	struct buf *b, size_t *ret_n)
{
	*ret_n = 0;
	int r = buf_reserve(b, TLV_HEADER + n);
	if (r < 0)
		return r;
	uint8_t *h = b->data + b->len;
	*ret_n = spool_copy(j->spool, stream, offset, h + TLV_HEADER, n);
	if (*ret_n) {
		wire_put16(h, tag);
		wire_put32(h + 2, (uint32_t)*ret_n);
		b->len += TLV_HEADER + *ret_n;
	}
	return 0;
}

static int put_output(const struct job *j, int stream, size_t inline_bytes, struct buf *b)
{
	/* The tags of stderr follow those of stdout in the same order. */
	uint16_t base = stream == CHANNEL_STDOUT ? TAG_STDOUT_TOTAL : TAG_STDERR_TOTAL;
	uint64_t total = spool_total(j->spool, stream), from;
	uint64_t lost = spool_lost(j->spool, stream, &from);
	int r = tlv_u64(b, base, total);
	if (lost)
		r |= tlv_u64(b, (uint16_t)(base + 3), lost);
	size_t n = (size_t)MIN(total, (uint64_t)inline_bytes), head, tail;
	if (!n)
		return r;
	r |= put_kept(j, stream, (uint16_t)(base + 1), 0, n, b, &head);
	uint64_t at = MAX((uint64_t)head, total - n);
	if (lost && at < from + lost)
		at = from + lost;
	return r | put_kept(j, stream, (uint16_t)(base + 2), at, n, b, &tail);
}

static int put_end(const struct job *j, struct buf *b)
{
	int r = tlv_u64(b, TAG_REASON, j->reason);
	r |= tlv_u64(b, TAG_EVIDENCE, j->evidence);
	if (j->has_exit_code)
		r |= tlv_u64(b, TAG_EXIT_CODE, (uint64_t)(unsigned)j->exit_code);
	if (j->signal)
		r |= tlv_u64(b, TAG_SIGNAL, (uint64_t)j->signal);
	r |= tlv_u64(b, TAG_DURATION_US, j->duration_us);
	for (size_t i = 0; i < j->n_notes; i++)
		r |= tlv_str(b, TAG_NOTE, j->notes[i]);
	return r;
}

void job_status(const struct job *j, size_t inline_bytes, struct buf *b)
{
	int r = tlv_bytes(b, TAG_JOB, j->id, JOB_ID);
	r |= tlv_u64(b, TAG_JOB_KIND, j->kind);
	r |= tlv_u64(b, TAG_STATE, j->state);
	r |= tlv_str(b, TAG_COMMAND, j->command);
	if (j->state == JOB_QUEUED)
		r |= tlv_u64(b, TAG_QUEUE_POSITION, kernel_queue_position(j));
	if (j->started_us)
		r |= tlv_u64(b, TAG_STARTED_US, j->started_real_us);
	if (j->state == JOB_RUNNING)
		r |= tlv_u64(b, TAG_DURATION_US, clock_monotonic_us() - j->started_us);
	if (j->kernel) {
		r |= tlv_str(b, TAG_KERNEL, j->kernel->name);
		if (j->generation)
			r |= tlv_u64(b, TAG_GENERATION, j->generation);
		if (j->kernel_created)
			r |= tlv_u64(b, TAG_CREATED, 1);
	}
	if (j->state == JOB_DONE)
		r |= put_end(j, b);
	r |= put_output(j, CHANNEL_STDOUT, inline_bytes, b);
	r |= put_output(j, CHANNEL_STDERR, inline_bytes, b);
	if (j->error.len)
		r |= buf_append(b, j->error.data, j->error.len);
	CHECK(r == 0);
}
