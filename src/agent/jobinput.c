/* jobinput.c: see jobinput.h. */
#include "agent/jobinput.h"

#include <errno.h>
#include <unistd.h>

#include "agent/kernel.h"
#include "base/fd.h"
#include "wire/tlv.h"

/* A cell that does not read its input is asked again after so long. */
#define RETRY_US (10 * USEC_PER_MSEC)

struct job_input {
	struct stream *stream;
	struct job *job;
	struct buf waiting;
	uint64_t skip; /* at its beginning: what the same delivery, cut off, has handed over */
	uint64_t accepted;
	bool fin, close;
	struct timer retry;
};

static void input_free(struct job_input *in)
{
	timer_cancel(&in->retry);
	loop_remove(&in->job->stdin_source);
	in->job->input = NULL;
	in->job->users--;
	buf_done(&in->waiting);
	free(in);
}

static void answer(struct stream *s, enum wire_status status, uint64_t accepted)
{
	_cleanup_buf_ struct buf b = BUF_INIT(64);
	CHECK(tlv_u64(&b, TAG_LENGTH, accepted) == 0);
	stream_end(s, status, &b);
}

static void input_answer(struct job_input *in, enum wire_status status)
{
	answer(in->stream, status, in->accepted);
	input_free(in);
}

static void taken(struct job_input *in, size_t n)
{
	buf_consume(&in->waiting, n);
	in->accepted += n;
	stream_consumed(in->stream, n);
}

static void cell_go_on(struct job_input *in)
{
	struct job *j = in->job;
	if (j->state == JOB_DONE) {
		input_answer(in, WIRE_GONE);
		return;
	}
	bool end = in->fin && in->close;
	while (in->waiting.len || end) {
		size_t n = MIN(in->waiting.len, KERNEL_INPUT);
		bool last = n == in->waiting.len;
		if (!kernel_input(j, in->waiting.data, n, end && last)) {
			timer_set(&in->retry, RETRY_US);
			return;
		}
		taken(in, n);
		if (last)
			break;
	}
	if (in->fin) {
		j->input_closed = in->close;
		input_answer(in, WIRE_OK);
	}
}

static void command_go_on(struct job_input *in)
{
	struct job *j = in->job;
	while (in->waiting.len) {
		ssize_t n = write(j->stdin_fd, in->waiting.data, in->waiting.len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) { /* nobody reads it any more */
			fd_closep(&j->stdin_fd);
			input_answer(in, WIRE_GONE);
			return;
		}
		taken(in, (size_t)n);
	}
	if (in->waiting.len) {
		if (j->stdin_source.fd < 0 && loop_add(&j->stdin_source, j->stdin_fd, EPOLLOUT) < 0)
			input_answer(in, WIRE_IO);
		return;
	}
	loop_remove(&j->stdin_source);
	if (!in->fin)
		return;
	if (in->close)
		fd_closep(&j->stdin_fd);
	input_answer(in, WIRE_OK);
}

static void input_go_on(struct job_input *in)
{
	if (in->job->kind == JOB_KIND_CELL)
		cell_go_on(in);
	else
		command_go_on(in);
}

static void on_stdin(struct source *s, uint32_t events)
{
	(void)events;
	input_go_on(container_of(s, struct job, stdin_source)->input);
}

static void on_retry(struct timer *t)
{
	input_go_on(container_of(t, struct job_input, retry));
}

static void input_data(struct stream *s, const uint8_t *p, size_t n, bool fin)
{
	struct job_input *in = stream_user(s);
	size_t again = MIN(in->skip, n);
	in->skip -= again;
	stream_consumed(s, again);
	p += again;
	n -= again;
	CHECK(buf_append(&in->waiting, p, n) == 0); /* the window keeps it below its maximum */
	in->fin = fin;
	if (!timer_is_set(&in->retry))
		input_go_on(in);
}

static void input_closed(struct stream *s)
{
	struct job_input *in = stream_user(s);
	stream_note_taken(s, in->accepted);
	input_free(in);
}

static const struct stream_ops input_ops = {.data = input_data, .closed = input_closed};

void jobinput_close(struct job *j)
{
	if (j->input)
		input_answer(j->input, WIRE_GONE);
	fd_closep(&j->stdin_fd);
}

static bool is_open(const struct job *j)
{
	if (j->kind == JOB_KIND_CELL)
		return j->want_stdin && !j->input_closed && j->state != JOB_DONE;
	return j->stdin_fd >= 0;
}

void jobinput_open(struct stream *s, struct tlv_reader body)
{
	struct job *j = NULL;
	uint64_t close = 0;
	bool bad = false;
	for (struct tlv t; tlv_next(&body, &t);) {
		if (t.tag == TAG_JOB && t.n == JOB_ID)
			j = job_find(t.p);
		else if (t.tag == TAG_CLOSE)
			bad |= tlv_get_u64(&t, &close) < 0 || close > 1;
	}
	if (bad || body.bad) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "CLOSE has no sense");
	} else if (!j) {
		stream_fail(s, WIRE_NOT_FOUND, 0, "no such job");
	} else if (!is_open(j) && stream_taken_before(s)) {
		answer(s, WIRE_GONE, stream_taken_before(s));
	} else if (!is_open(j)) {
		stream_fail(s, WIRE_GONE, 0, "the job's standard input is not open");
	} else if (j->input) {
		stream_fail(s, WIRE_LIMIT, 0, "another input to this job is being written");
	} else {
		struct job_input *in = xcalloc(1, sizeof(*in));
		in->stream = s;
		in->job = j;
		in->close = close;
		in->skip = in->accepted = stream_taken_before(s);
		buf_init(&in->waiting, 2 * LIMIT_STREAM_WINDOW);
		timer_init(&in->retry, on_retry);
		j->input = in;
		j->users++;
		j->stdin_source.ready = on_stdin;
		stream_serve(s, &input_ops, in);
	}
}
