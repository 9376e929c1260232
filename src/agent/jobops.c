/* jobops.c: the operations on jobs; see job.h and docs/agent-protocol.md. */
#include "agent/job.h"

#include "agent/jobinput.h"
#include "agent/jobread.h"
#include "agent/jobsearch.h"
#include "agent/jobstart.h"
#include "agent/kernel.h"
#include "agent/spare.h"
#include "wire/tlv.h"

/* ---- waiting ---- */

struct waiter {
	struct list node;
	struct stream *stream;
	struct job *job;
	size_t inline_bytes;
	struct result *const *next; /* which it has not been told yet; in the list of them */
	struct timer timer;
};

static void *spare;

static void waiter_free(struct waiter *w)
{
	timer_cancel(&w->timer);
	list_remove(&w->node);
	w->job->users--;
	spare_give(&spare, w);
}

static void waiter_answer(struct waiter *w)
{
	struct stream *s = w->stream;
	struct job *j = w->job;
	if (j->fail_text) {
		stream_fail(s, j->fail, j->fail_errno, "%s", j->fail_text);
	} else {
		static struct buf b = {
			.max = LIMIT_FRAME_PAYLOAD - 2}; /* kept: every call ends here */
		job_status(j, w->inline_bytes, &b);
		stream_end(s, WIRE_OK, &b);
		buf_clear(&b);
	}
	waiter_free(w);
}

/* Results as the link's queue takes them, while the job runs too; the answer when it is done. */
static void waiter_go_on(struct waiter *w)
{
	for (struct result *r; (r = *w->next); w->next = &r->next) {
		if (!stream_may_send(w->stream))
			return;
		stream_msg(w->stream, &(struct buf){.data = r->bytes, .len = r->n});
	}
	if (w->job->state == JOB_DONE)
		waiter_answer(w);
}

static void waiter_writable(struct stream *s)
{
	waiter_go_on(stream_user(s));
}

static void waiter_closed(struct stream *s)
{
	waiter_free(stream_user(s));
}

static const struct stream_ops waiter_ops = {.writable = waiter_writable, .closed = waiter_closed};

static void on_waited(struct timer *t)
{
	waiter_answer(container_of(t, struct waiter, timer));
}

/* wait_ms UINT64_MAX: until it is done. */
static void wait_for(struct stream *s, struct job *j, uint64_t wait_ms, uint64_t inline_bytes)
{
	struct waiter *w = spare_take(&spare, sizeof(*w));
	w->stream = s;
	w->job = j;
	w->next = &j->results;
	w->inline_bytes = (size_t)MIN(inline_bytes, LIMIT_INLINE_OUTPUT);
	timer_init(&w->timer, on_waited);
	list_append(&j->waiters, &w->node);
	j->users++;
	stream_serve(s, &waiter_ops, w);
	if (j->state != JOB_DONE && wait_ms != UINT64_MAX)
		timer_set(&w->timer, MIN(wait_ms, UINT32_MAX) * USEC_PER_MSEC);
	waiter_go_on(w);
}

void job_tell_waiters(struct job *j)
{
	list_for_each (w, next, &j->waiters, struct waiter, node) {
		if (j->state == JOB_DONE)
			timer_cancel(&w->timer);
		waiter_go_on(w);
	}
}

/* ---- requests ---- */

struct job_request {
	const uint8_t *id;
	struct job *job;
	uint64_t wait_ms, inline_bytes, signal;
	bool has_signal, bad;
};

static void get_number(struct job_request *q, const struct tlv *t, uint64_t *ret)
{
	q->bad |= tlv_get_u64(t, ret) < 0;
}

/* False where the stream has been ended with the reason. */
static bool read_request(struct stream *s, struct tlv_reader body, struct job_request *q)
{
	*q = (struct job_request){.wait_ms = UINT64_MAX};
	for (struct tlv t; tlv_next(&body, &t);) {
		if (t.tag == TAG_JOB)
			q->id = t.n == JOB_ID ? t.p : NULL;
		else if (t.tag == TAG_WAIT_MS)
			get_number(q, &t, &q->wait_ms);
		else if (t.tag == TAG_INLINE)
			get_number(q, &t, &q->inline_bytes);
		else if (t.tag == TAG_SIGNAL) {
			get_number(q, &t, &q->signal);
			q->has_signal = true;
		}
	}
	if (body.bad || q->bad || !q->id) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "JOB is missing, or a number has no sense");
		return false;
	}
	q->job = job_find(q->id);
	if (!q->job) {
		stream_fail(s, WIRE_NOT_FOUND, 0, "no such job");
		return false;
	}
	return true;
}

static void op_start(struct stream *s, struct tlv_reader body)
{
	uint64_t wait_ms, inline_bytes;
	struct job *j = jobstart(s, body, &wait_ms, &inline_bytes);
	if (j)
		wait_for(s, j, wait_ms, inline_bytes);
}

static void op_wait(struct stream *s, struct tlv_reader body)
{
	struct job_request q;
	if (read_request(s, body, &q))
		wait_for(s, q.job, q.wait_ms, q.inline_bytes);
}

static void op_signal(struct stream *s, struct tlv_reader body)
{
	struct job_request q;
	if (!read_request(s, body, &q))
		return;
	struct job *j = q.job;
	if (!q.has_signal || q.signal > 64)
		stream_fail(s, WIRE_BAD_REQUEST, 0, "SIGNAL is missing, or not 0 to 64");
	else if (j->state == JOB_DONE && !j->proc)
		stream_fail(s, WIRE_GONE, 0, "the job has ended and left nothing behind");
	else {
		if (q.signal == 0)
			job_cancel(j, CAUSE_CANCELLED);
		else if (j->proc)
			proc_signal(j->proc, (int)q.signal);
		else if (j->kernel)
			kernel_signal_cell(j, (int)q.signal);
		stream_end(s, WIRE_OK, NULL);
	}
}

/* ---- listing ---- */

static void op_list(struct stream *s, struct tlv_reader body)
{
	(void)body;
	/* At most LIMIT_JOBS messages of some 400 bytes: the queue takes them at once. */
	list_for_each (j, next, jobs_all(), struct job, node) {
		_cleanup_buf_ struct buf b = BUF_INIT(LIMIT_FRAME_PAYLOAD);
		job_status(j, 0, &b);
		stream_msg(s, &b);
	}
	stream_end(s, WIRE_OK, NULL);
}

const struct stream_handler job_handlers[] = {
	{OP_JOB_START, op_start},
	{OP_JOB_WAIT, op_wait},
	{OP_JOB_READ, jobread_open},
	{OP_JOB_INPUT, jobinput_open},
	{OP_JOB_SIGNAL, op_signal},
	{OP_JOB_LIST, op_list},
	{OP_JOB_SEARCH, jobsearch_open},
	{0, NULL},
};
