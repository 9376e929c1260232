/* stream.c: see stream.h and streams.h. */
#include "agent/stream.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/kernel.h"
#include "agent/recall.h"
#include "agent/spare.h"
#include "agent/streams.h"
#include "agent/uplink.h"
#include "base/list.h"
#include "wire/frame.h"

/* More credit than this at once is nonsense; it also keeps sums from overflowing. */
#define CREDIT_MAX (1U << 30)

struct stream {
	struct list node;
	uint32_t id;       /* 0: its link is gone, and it goes on alone */
	uint32_t credit;   /* bytes of DATA that we may send */
	uint32_t window;   /* bytes of DATA that the broker may send */
	uint32_t consumed; /* taken, but not given back yet */
	bool fin_received;
	uint16_t op;
	bool once; /* with this delivery */
	uint8_t delivery[RECALL_TAG];
	uint64_t taken_before;
	const struct stream_ops *ops;
	void *user;
};

static const struct stream_ops no_ops;
static const struct stream_handler *const *tables;
static struct list streams = LIST_INIT(streams);
static size_t n_streams; /* of these */
static void *spare;
static struct list alone = LIST_INIT(alone); /* deliveries that go on without their link */

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
	n_streams -= s->id != 0;
	spare_give(&spare, s);
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

/* ---- deliveries ---- */

/* What changes something and would do it again; JOB_START and KERNEL_START know their own. */
static bool is_change(uint16_t op)
{
	static const uint16_t changes[] = {OP_JOB_INPUT, OP_JOB_SIGNAL, OP_KERNEL_INTERRUPT,
		OP_KERNEL_STOP, OP_KERNEL_FORK, OP_FILE_WRITE, OP_FILE_MKDIR, OP_FILE_MOVE,
		OP_FILE_DELETE};
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
		if (changes[i] == op)
			return true;
	return false;
}

/* Copies TAG_DELIVERY: 1, 0 where there is none, -1 where it is none. */
static int read_delivery(struct tlv_reader body, uint8_t ret[static RECALL_TAG])
{
	int found = 0;
	for (struct tlv t; tlv_next(&body, &t);) {
		if (t.tag != TAG_DELIVERY)
			continue;
		if (t.n != RECALL_TAG)
			return -1;
		memcpy(ret, t.p, RECALL_TAG);
		found = 1;
	}
	return found;
}

static struct stream *find_delivery(struct list *head, uint16_t op, const uint8_t *tag)
{
	list_for_each (s, next, head, struct stream, node)
		if (s->once && (!op || s->op == op) && memcmp(s->delivery, tag, RECALL_TAG) == 0)
			return s;
	return NULL;
}

/* True where s is what is left of a delivery that was made before (op 0: of any operation): the
 * stream was given its END, or its END will go to the stream's id. */
static bool made_before(struct stream *s, uint16_t op, const uint8_t tag[static RECALL_TAG])
{
	struct stream *going_on = find_delivery(&alone, op, tag);
	if (going_on) {
		going_on->id = s->id;
		going_on->credit = going_on->window = LIMIT_STREAM_WINDOW;
		list_remove(&going_on->node);
		list_append(&streams, &going_on->node);
		list_remove(&s->node);
		free(s);
		return true;
	}
	if (find_delivery(&streams, op, tag)) {
		stream_fail(s, WIRE_LIMIT, 0, "this delivery is being made");
		return true;
	}
	const struct recall *r = recall_find(op, tag);
	if (!r || !r->done) {
		s->taken_before = r ? r->taken : 0;
		return false;
	}
	struct buf end = {.data = r->body, .len = r->body_len, .max = r->body_len};
	stream_end(s, r->status, &end);
	return true;
}

static void op_recall(struct stream *s, struct tlv_reader body)
{
	uint8_t tag[RECALL_TAG];
	if (read_delivery(body, tag) <= 0)
		stream_fail(s, WIRE_BAD_REQUEST, 0, "DELIVERY is missing, or not 16 bytes");
	else if (!made_before(s, 0, tag))
		stream_fail(s, WIRE_NOT_FOUND, 0, "no such delivery was made");
}

/* False where the stream has been answered. */
static bool take_delivery(struct stream *s, struct tlv_reader body)
{
	uint8_t tag[RECALL_TAG];
	int given = read_delivery(body, tag);
	if (given < 0) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "DELIVERY has 16 bytes");
		return false;
	}
	if (given && made_before(s, s->op, tag))
		return false;
	memcpy(s->delivery, tag, given ? RECALL_TAG : 0);
	s->once = given;
	return true;
}

uint64_t stream_taken_before(const struct stream *s)
{
	return s->taken_before;
}

void stream_note_taken(struct stream *s, uint64_t taken)
{
	if (s->once && taken)
		recall_taken(s->op, s->delivery, taken);
}

/* ---- frames ---- */

static bool on_open(const struct frame *f)
{
	if (f->len < 2 || f->stream == 0 || n_streams == LIMIT_STREAMS || find(f->stream))
		return false;
	struct stream *s = spare_take(&spare, sizeof(*s));
	s->id = f->stream;
	s->credit = s->window = LIMIT_STREAM_WINDOW;
	s->op = wire_get16(f->payload);
	s->ops = &no_ops;
	list_append(&streams, &s->node);
	n_streams++;
	struct tlv_reader body = tlv_reader(f->payload + 2, f->len - 2);
	stream_open_fn serve = handler_of(s->op);
	if (s->op == OP_RECALL)
		op_recall(s, body);
	else if (!serve)
		stream_fail(s, WIRE_UNSUPPORTED, 0, "this agent has no operation %u", s->op);
	else if (!is_change(s->op) || take_delivery(s, body))
		serve(s, body);
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
	case FRAME_EXPECT:
		if (f->stream || f->len)
			return false;
		kernels_expect();
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
	list_for_each (s, next, &streams, struct stream, node) {
		if (s->once && s->ops->goes_on) {
			n_streams--;
			s->id = 0;
			list_remove(&s->node);
			list_append(&alone, &s->node);
		}
	}
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
	size_t n = tlvs ? tlvs->len : 0;
	const void *p = n ? tlvs->data : NULL;
	if (s->once)
		recall_done(s->op, s->delivery, status, p, n);
	if (s->id)
		uplink_send_numbered(FRAME_END, s->id, (uint16_t)status, p, n);
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
