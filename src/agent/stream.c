/* stream.c: see stream.h and streams.h. */
#include "agent/stream.h"

#include <stdarg.h>
#include <stdio.h>

#include "agent/streams.h"
#include "agent/uplink.h"
#include "base/list.h"
#include "wire/frame.h"

/* More credit than this at once is nonsense; it also keeps sums from overflowing. */
#define CREDIT_MAX (1U << 30)

struct stream {
	struct list node;
	uint32_t id;
	uint32_t credit;   /* bytes of DATA that we may send */
	uint32_t window;   /* bytes of DATA that the broker may send */
	uint32_t consumed; /* taken, but not given back yet */
	bool fin_received;
	const struct stream_ops *ops;
	void *user;
};

static const struct stream_ops no_ops;
static const struct stream_handler *const *tables;
static struct list streams = LIST_INIT(streams);
static size_t n_streams;

void streams_init(const struct stream_handler *const *handler_tables)
{
	tables = handler_tables;
}

static struct stream *find(uint32_t id)
{
	list_for_each (s, next, &streams, struct stream, node)
		if (s->id == id)
			return s;
	return NULL;
}

static void forget(struct stream *s)
{
	list_remove(&s->node);
	n_streams--;
	free(s);
}

static void close_one(struct stream *s)
{
	if (s->ops->closed)
		s->ops->closed(s);
	forget(s);
}

static stream_open_fn handler_of(uint16_t op)
{
	for (size_t i = 0; tables[i]; i++)
		for (const struct stream_handler *h = tables[i]; h->op; h++)
			if (h->op == op)
				return h->open;
	return NULL;
}

static bool on_open(const struct frame *f)
{
	if (f->len < 2 || f->stream == 0 || n_streams == LIMIT_STREAMS || find(f->stream))
		return false;
	struct stream *s = xcalloc(1, sizeof(*s));
	s->id = f->stream;
	s->credit = s->window = LIMIT_STREAM_WINDOW;
	s->ops = &no_ops;
	list_append(&streams, &s->node);
	n_streams++;
	uint16_t op = wire_get16(f->payload);
	struct tlv_reader body = tlv_reader(f->payload + 2, f->len - 2);
	stream_open_fn serve = handler_of(op);
	if (serve)
		serve(s, body);
	else
		stream_fail(s, WIRE_UNSUPPORTED, 0, "this agent has no operation %u", op);
	return true;
}

static bool on_data(const struct frame *f)
{
	struct stream *s = find(f->stream);
	if (!s)
		return true; /* it crossed our END */
	if (f->len > s->window || s->fin_received)
		return false;
	s->window -= f->len;
	s->fin_received = f->flags & FRAME_FLAG_FIN;
	if (s->ops->data)
		s->ops->data(s, f->payload, f->len, s->fin_received);
	else
		stream_consumed(s, f->len);
	return true;
}

static bool on_credit(const struct frame *f)
{
	if (f->len != 4)
		return false;
	struct stream *s = find(f->stream);
	if (!s)
		return true;
	uint32_t more = wire_get32(f->payload);
	if (more > CREDIT_MAX || s->credit > CREDIT_MAX - more)
		return false;
	s->credit += more;
	if (s->ops->writable && stream_room(s))
		s->ops->writable(s);
	return true;
}

bool streams_frame(const struct frame *f)
{
	switch (f->type) {
	case FRAME_OPEN:
		return on_open(f);
	case FRAME_DATA:
		return on_data(f);
	case FRAME_CREDIT:
		return on_credit(f);
	case FRAME_RESET: {
		struct stream *s = find(f->stream);
		if (s)
			close_one(s);
		return true;
	}
	case FRAME_PING:
		if (f->len > 64)
			return false;
		uplink_send(FRAME_PONG, 0, f->stream, f->payload, f->len);
		return true;
	case FRAME_MSG: /* no operation has one from the broker yet */
	case FRAME_PONG:
		return true;
	default:
		return false;
	}
}

void streams_close_all(void)
{
	while (!list_empty(&streams))
		close_one(container_of(streams.next, struct stream, node));
}

void streams_writable(void)
{
	/* A callback may end its stream, and others: so by number. */
	uint32_t ids[LIMIT_STREAMS];
	size_t n = 0;
	list_for_each (s, next, &streams, struct stream, node)
		ids[n++] = s->id;
	for (size_t i = 0; i < n; i++) {
		struct stream *s = find(ids[i]);
		if (s && s->ops->writable && stream_room(s))
			s->ops->writable(s);
	}
}

void stream_serve(struct stream *s, const struct stream_ops *ops, void *user)
{
	s->ops = ops;
	s->user = user;
}

void *stream_user(const struct stream *s)
{
	return s->user;
}

size_t stream_room(const struct stream *s)
{
	return MIN((size_t)s->credit, uplink_room());
}

bool stream_may_send(const struct stream *s)
{
	(void)s;
	return uplink_room() > 0;
}

void stream_data(struct stream *s, const void *p, size_t n, bool fin)
{
	CHECK(n <= s->credit);
	s->credit -= (uint32_t)n;
	const uint8_t *at = p;
	do {
		size_t part = MIN(n, LIMIT_FRAME_PAYLOAD);
		n -= part;
		uplink_send(FRAME_DATA, fin && n == 0 ? FRAME_FLAG_FIN : 0, s->id, at, part);
		at += part;
	} while (n);
}

void stream_msg(struct stream *s, const struct buf *tlvs)
{
	uplink_send(FRAME_MSG, 0, s->id, tlvs->data, tlvs->len);
}

void stream_consumed(struct stream *s, size_t n)
{
	s->consumed += (uint32_t)n;
	if (s->fin_received || s->consumed < LIMIT_STREAM_WINDOW / 2)
		return;
	uint8_t credit[4];
	wire_put32(credit, s->consumed);
	s->window += s->consumed;
	s->consumed = 0;
	uplink_send(FRAME_CREDIT, 0, s->id, credit, sizeof(credit));
}

void stream_end(struct stream *s, enum wire_status status, const struct buf *tlvs)
{
	static struct buf b = {.max = LIMIT_FRAME_PAYLOAD}; /* kept: every call ends here */
	size_t n = tlvs ? tlvs->len : 0;
	uint8_t number[2];
	wire_put16(number, (uint16_t)status);
	CHECK(buf_append(&b, number, sizeof(number)) == 0);
	CHECK(buf_append(&b, n ? tlvs->data : NULL, n) == 0);
	uplink_send(FRAME_END, 0, s->id, b.data, b.len);
	buf_clear(&b);
	forget(s);
}

void stream_fail(struct stream *s, enum wire_status status, int errnum, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	_cleanup_buf_ struct buf b = BUF_INIT(1024);
	CHECK(tlv_str(&b, TAG_TEXT, text) == 0);
	if (errnum)
		CHECK(tlv_u64(&b, TAG_ERRNO, (uint64_t)errnum) == 0);
	stream_end(s, status, &b);
}
