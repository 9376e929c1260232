/* streams.c: the streams of a link: what comes in on them, what goes out, and their credit. */
#include <errno.h>

#include "base/limits.h"
#include "link/link_internal.h"
#include "link/resync.h"

/* As RFC 9113 has it for its windows. */
#define CREDIT_MAX 0x7fffffffU
#define OP_SIZE    2 /* of an OPEN frame, before its message */

static void send_reset(struct link *l, uint32_t id)
{
	uint8_t status[2];
	wire_put16(status, WIRE_CANCELLED);
	link_send_frame(l, FRAME_RESET, 0, id, status, sizeof(status), NULL, 0);
}

/* ---- streams ---- */

/* A link has one or two streams nearly always, LIMIT_STREAMS at most: a list does. */
static struct link_stream *find_stream(struct link *l, uint32_t id)
{
	list_for_each (s, next, &l->streams, struct link_stream, streams) {
		if (s->id == id)
			return s;
	}
	return NULL;
}

static void detach(struct link_stream *s)
{
	list_remove(&s->streams);
	s->link->n_streams--;
	s->ended = true;
}

void link_end_stream(struct link_stream *s, enum wire_status status, struct tlv_reader msg)
{
	detach(s);
	if (s->events.end)
		s->events.end(s->user, status, msg);
	free(s);
}

void link_wake_blocked(struct link *l)
{
	bool again = true;
	while (again && !l->closed && !l->lost && link_out_room(&l->out)) {
		again = false;
		list_for_each (s, next, &l->streams, struct link_stream, streams) {
			if (!s->blocked || !s->out_credit || !s->events.writable)
				continue;
			s->blocked = false;
			s->events.writable(s->user);
			again = true; /* the list may be another one now */
			break;
		}
	}
}

/* ---- what comes in on streams ---- */

static void handle_msg(struct link *l, struct link_stream *s, const struct frame *f)
{
	s->msg_bytes += FRAME_HEADER + f->len;
	if (s->msg_bytes > LIMIT_STREAM_MSG_BYTES)
		link_broke_protocol(l, "too many messages on one stream");
	else if (!s->events.msg)
		link_broke_protocol(l, "a message on a stream that carries none");
	else
		s->events.msg(s->user, tlv_reader(f->payload, f->len));
}

static void handle_data(struct link *l, struct link_stream *s, const struct frame *f)
{
	bool fin = f->flags & FRAME_FLAG_FIN;
	if (!s->events.data)
		return link_broke_protocol(l, "bytes on a stream that carries none");
	if (s->in_fin)
		return link_broke_protocol(l, "bytes after the last ones");
	if (f->len > s->in_credit)
		return link_broke_protocol(l, "more bytes than it had credit for");
	if (f->len == 0 && !fin)
		return link_broke_protocol(l, "no bytes, and not the last ones");
	s->in_credit -= f->len;
	s->in_unread += f->len;
	s->in_fin = fin;
	s->events.data(s->user, f->payload, f->len, fin);
}

static void handle_credit(struct link *l, struct link_stream *s, const struct frame *f)
{
	if (f->len != 4)
		return link_broke_protocol(l, "a credit of the wrong size");
	uint32_t more = wire_get32(f->payload);
	if (more == 0 || more > CREDIT_MAX - s->out_credit)
		return link_broke_protocol(l, "a credit that is none");
	s->out_credit += more;
	if (s->blocked && s->events.writable && link_out_room(&l->out)) {
		s->blocked = false;
		s->events.writable(s->user);
	}
}

static void handle_end(struct link *l, struct link_stream *s, const struct frame *f)
{
	uint16_t status = f->len >= 2 ? wire_get16(f->payload) : UINT16_MAX;
	if (status > WIRE_STATUS_MAX_)
		return link_broke_protocol(l, "an end without a status");
	size_t n = f->type == FRAME_END ? f->len - 2 : 0;
	link_end_stream(s, status, tlv_reader(f->payload + 2, n));
}

void link_stream_frame(struct link *l, const struct frame *f)
{
	struct link_stream *s = find_stream(l, f->stream);
	if (!s) {
		/* What was on its way when the stream was reset from here is no fault. */
		if (f->stream == 0 || f->stream > l->reset_id)
			link_broke_protocol(l, "a frame on a stream that is not open");
		return;
	}
	switch (f->type) {
	case FRAME_MSG:
		return handle_msg(l, s, f);
	case FRAME_DATA:
		return handle_data(l, s, f);
	case FRAME_CREDIT:
		return handle_credit(l, s, f);
	default: /* FRAME_END, FRAME_RESET */
		return handle_end(l, s, f);
	}
}

/* ---- the interface ---- */

/* May a stream be opened with n bytes of body? 0, or why not. */
static int may_open(const struct link *l, size_t n)
{
	/* Lost, but why is not known yet: this stream hears of it with the others. */
	if (l->reported || l->closed)
		return -ENOTCONN;
	if (n > LIMIT_FRAME_PAYLOAD - OP_SIZE)
		return -EMSGSIZE;
	bool room = link_out_room(&l->out) >= FRAME_HEADER + OP_SIZE + n;
	return l->n_streams >= LIMIT_STREAMS || !room || l->last_id == UINT32_MAX ? -ENOBUFS : 0;
}

static struct link_stream *add_stream(
	struct link *l, const struct link_stream_events *events, void *user)
{
	struct link_stream *s = xcalloc(1, sizeof(*s));
	s->link = l;
	s->id = ++l->last_id;
	s->events = *events;
	s->user = user;
	s->out_credit = LIMIT_STREAM_WINDOW;
	s->in_credit = LIMIT_STREAM_WINDOW;
	list_append(&l->streams, &s->streams);
	l->n_streams++;
	return s;
}

int link_open(struct link *l, uint16_t op, const struct buf *body,
	const struct link_stream_events *events, void *user, struct link_stream **ret)
{
	uint8_t head[OP_SIZE];
	size_t n = body ? body->len : 0;
	int r = may_open(l, n);
	if (r == 0 && l->tears && n && resync_split(body->data, n) != n)
		r = -EINVAL; /* it would end the link */
	if (r < 0)
		return r;
	struct link_stream *s = add_stream(l, events, user);
	wire_put16(head, op);
	link_send_frame(l, FRAME_OPEN, 0, s->id, head, sizeof(head), body ? body->data : NULL, n);
	*ret = s;
	return 0;
}

int link_open_with_fds(struct link *l, uint16_t op, const struct buf *body, const int *fds,
	size_t n_fds, const struct link_stream_events *events, void *user, struct link_stream **ret)
{
	uint8_t head[FRAME_HEADER + OP_SIZE];
	size_t n = body ? body->len : 0;
	int r = may_open(l, n);
	if (r < 0)
		return r;
	if (!link_ready(l))
		return -EAGAIN;
	frame_header(head, FRAME_OPEN, 0, l->last_id + 1, (uint32_t)(OP_SIZE + n));
	wire_put16(head + FRAME_HEADER, op);
	const struct iovec iov[] = {{head, sizeof(head)}, {body ? body->data : NULL, n}};
	r = link_out_with_fds(&l->out, iov, ARRAY_SIZE(iov), fds, n_fds);
	if (r == -EAGAIN)
		return r;
	l->stats.frames_out++;
	*ret = add_stream(l, events, user);
	link_check_sent(l, r);
	link_poll_as_needed(l);
	return 0;
}

size_t link_write(struct link_stream *s, const void *data, size_t n, bool fin)
{
	struct link *l = s->link;
	const uint8_t *p = data;
	size_t done = 0;
	CHECK(!s->out_fin);
	if (l->lost || s->ended)
		return 0;
	do {
		size_t room = link_out_room(&l->out);
		room = room > FRAME_HEADER ? room - FRAME_HEADER : 0;
		size_t take = MIN(MIN(n - done, LIMIT_FRAME_PAYLOAD), MIN(s->out_credit, room));
		if (l->tears)
			take = resync_split(p + done, take);
		bool last = fin && take == n - done;
		if (take == 0 && !last)
			break;
		link_send_frame(
			l, FRAME_DATA, last ? FRAME_FLAG_FIN : 0, s->id, p + done, take, NULL, 0);
		done += take;
		s->out_credit -= (uint32_t)take;
		s->out_fin = last;
	} while (done < n && !l->lost);
	s->blocked = done < n;
	return done;
}

void link_consumed(struct link_stream *s, size_t n)
{
	CHECK(n <= s->in_unread);
	s->in_unread -= n;
	s->in_owed += n;
	if (s->in_fin || s->ended || s->in_owed < LIMIT_STREAM_WINDOW / 2)
		return;
	uint8_t credit[4];
	wire_put32(credit, (uint32_t)s->in_owed);
	s->in_credit += s->in_owed;
	s->in_owed = 0;
	link_send_frame(s->link, FRAME_CREDIT, 0, s->id, credit, sizeof(credit), NULL, 0);
}

void link_reset(struct link_stream *s)
{
	if (s->ended) /* from inside its own end() */
		return;
	struct link *l = s->link;
	l->reset_id = MAX(l->reset_id, s->id);
	send_reset(l, s->id);
	detach(s);
	free(s);
}
