/* link.c: see link.h. One socket, one poll handle, one timer.
 *
 * A frame is written at once with one sendmsg(2); only what the socket does not take is queued. A
 * wake-up reads once into a buffer that all links share, and frames are handled where they lie
 * there; a link keeps bytes of its own only of a frame that has not fully come.
 *
 * A link is lost at any place but reported at one: report_loss(), from the timer, so that no caller
 * is called back from inside its own call. */
#include "link/link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/list.h"
#include "link/hello.h"
#include "link/out.h"
#include "link/resync.h"
#include "wire/frame.h"

/* As RFC 9113 has it for its windows. */
#define CREDIT_MAX 0x7fffffffU
#define PING_MAX   64
#define OP_SIZE    2 /* of an OPEN frame, before its message */
/* Who started the sandbox often knows why it ended, a moment after its link broke: until then the
 * loss is not reported. A sandbox that never came up always has words of its launcher to wait for,
 * which come when its processes are reaped: on a busy machine that takes a while. */
#define EXPLAIN_MS       100
#define EXPLAIN_START_MS 2000
/* Of an earlier link: what the agent may have queued (LIMIT_LINK_OUT_QUEUE) and what the stream and
 * those who carry it hold. */
#define RESYNC_MAX  (16 * MIB)
#define RESYNC_STEP (64 * KIB)
/* Reads of a lost link: many times what a socket's buffer holds, an end for an agent that lives on
 * and keeps sending. */
#define LAST_READS 64

enum link_state { LINK_PROOF, LINK_HELLO, LINK_READY };

struct link {
	uv_poll_t poll;
	uv_timer_t timer; /* the handshake's limit; once lost: due at once, to report it */
	unsigned handles; /* of these two, not yet closed by libuv */
	int fd;
	int polled; /* events that poll waits for */
	enum link_state state;
	bool tears;              /* see link_tears() */
	uint8_t seal[AUTH_SEAL]; /* tears: follows every frame but the handshake's */
	size_t skipped;
	bool found;    /* another broker's link was ready before */
	bool lost;     /* nothing goes out any more; why says why */
	bool deaf;     /* nothing that comes in counts any more */
	bool reported; /* the streams were told, or are just being told */
	bool closed;   /* link_close() was called: no callback any more */
	uint8_t key[AUTH_KEY];
	uint8_t nonce[AUTH_NONCE];
	struct link_events events;
	void *user;
	struct buf partial; /* the beginning of one frame */
	struct link_out out;
	struct list streams;
	unsigned n_streams;
	uint32_t last_id;  /* the highest stream ever opened */
	uint32_t reset_id; /* the highest stream that was reset from here */
	struct err why;
	struct link_stats stats;
	char features[sizeof(((struct link_hello *)0)->features)]; /* from HELLO */
};

struct link_stream {
	struct list streams;
	struct link *link;
	uint32_t id;
	struct link_stream_events events;
	void *user;
	uint32_t out_credit; /* bytes of DATA that the agent will still take */
	bool blocked;        /* a link_write() was short */
	bool out_fin, in_fin;
	bool ended;         /* detached; in its last callback */
	size_t in_credit;   /* bytes of DATA that the agent may still send */
	size_t in_unread;   /* received, not yet given back by link_consumed() */
	size_t in_owed;     /* given back, not yet told the agent */
	uint64_t msg_bytes; /* of all its MSG frames, headers included */
};

/* Frames are handled where they were read, before the loop goes on: one buffer serves every link
 * of the (only) thread. Pages that no read has reached cost nothing. */
static uint8_t read_buffer[FRAME_HEADER + LIMIT_FRAME_PAYLOAD];

static void on_timer(uv_timer_t *t);
static void on_poll(uv_poll_t *p, int status, int events);

/* ---- losing it ---- */

static void lose(struct link *l, enum err_code code, int errnum, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
static void lose(struct link *l, enum err_code code, int errnum, const char *fmt, ...)
{
	if (l->lost || l->closed)
		return;
	char text[sizeof(l->why.text)];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)err_set(&l->why, code, errnum, "%s", text);
	l->lost = true;
	(void)uv_poll_stop(&l->poll);
	uint64_t wait = link_was_ready(l) ? EXPLAIN_MS : EXPLAIN_START_MS;
	(void)uv_timer_start(&l->timer, on_timer, code == ERR_SANDBOX_LOST ? wait : 0, 0);
}

static void broke_protocol(struct link *l, const char *how)
{
	l->deaf = true;
	lose(l, ERR_PROTOCOL, EPROTO, "the sandbox's agent broke the protocol: %s", how);
}

/* ---- sending ---- */

static void poll_for(struct link *l, int events)
{
	if (l->lost || l->polled == events)
		return;
	l->polled = events;
	int r = uv_poll_start(&l->poll, events, on_poll);
	if (r < 0)
		lose(l, ERR_INTERNAL, -r, "cannot wait for the sandbox's link: %s", uv_strerror(r));
}

static void check_sent(struct link *l, int r)
{
	if (r == -ENOBUFS)
		lose(l, ERR_SANDBOX_LOST, ENOBUFS,
			"the sandbox's agent has stopped reading its link");
	else if (r < 0)
		lose(l, ERR_SANDBOX_LOST, -r, "the link to the sandbox's agent broke: %s",
			strerror(-r));
}

static void poll_as_needed(struct link *l)
{
	bool waits = l->state == LINK_READY && link_out_queued(&l->out);
	poll_for(l, waits ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

/* One frame whose payload is head and body. Handshake frames go before everything that waits. */
static void send_frame(struct link *l, uint8_t type, uint16_t flags, uint32_t stream,
	const void *head, size_t head_n, const void *body, size_t body_n)
{
	if (l->lost)
		return;
	uint8_t h[FRAME_HEADER];
	frame_header(h, type, flags, stream, (uint32_t)(head_n + body_n));
	const struct iovec iov[] = {
		{h, sizeof(h)},
		{(void *)head, head_n},
		{(void *)body, body_n},
		{l->seal, l->tears ? AUTH_SEAL : 0},
	};
	l->stats.frames_out++;
	if (type == FRAME_CHALLENGE || type == FRAME_CONFIRM) {
		size_t n = 0;
		int r = link_out_now(&l->out, iov, ARRAY_SIZE(iov) - 1, &n);
		if (r == 0 && n != sizeof(h) + head_n + body_n)
			r = -EAGAIN; /* 60 bytes do not fit into an empty socket */
		check_sent(l, r);
		return;
	}
	check_sent(l, link_out_send(&l->out, iov, ARRAY_SIZE(iov), l->state != LINK_READY));
	poll_as_needed(l);
}

static void flush(struct link *l)
{
	check_sent(l, link_out_flush(&l->out));
	poll_as_needed(l);
}

static void send_reset(struct link *l, uint32_t id)
{
	uint8_t status[2];
	wire_put16(status, WIRE_CANCELLED);
	send_frame(l, FRAME_RESET, 0, id, status, sizeof(status), NULL, 0);
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

/* The stream's last callback. The link may be closed afterwards. */
static void end_stream(struct link_stream *s, enum wire_status status, struct tlv_reader msg)
{
	detach(s);
	if (s->events.end)
		s->events.end(s->user, status, msg);
	free(s);
}

/* Room has come in the queue: those who were short may go on, until it is full again. */
static void wake_blocked(struct link *l)
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
		broke_protocol(l, "too many messages on one stream");
	else if (!s->events.msg)
		broke_protocol(l, "a message on a stream that carries none");
	else
		s->events.msg(s->user, tlv_reader(f->payload, f->len));
}

static void handle_data(struct link *l, struct link_stream *s, const struct frame *f)
{
	bool fin = f->flags & FRAME_FLAG_FIN;
	if (!s->events.data)
		return broke_protocol(l, "bytes on a stream that carries none");
	if (s->in_fin)
		return broke_protocol(l, "bytes after the last ones");
	if (f->len > s->in_credit)
		return broke_protocol(l, "more bytes than it had credit for");
	if (f->len == 0 && !fin)
		return broke_protocol(l, "no bytes, and not the last ones");
	s->in_credit -= f->len;
	s->in_unread += f->len;
	s->in_fin = fin;
	s->events.data(s->user, f->payload, f->len, fin);
}

static void handle_credit(struct link *l, struct link_stream *s, const struct frame *f)
{
	if (f->len != 4)
		return broke_protocol(l, "a credit of the wrong size");
	uint32_t more = wire_get32(f->payload);
	if (more == 0 || more > CREDIT_MAX - s->out_credit)
		return broke_protocol(l, "a credit that is none");
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
		return broke_protocol(l, "an end without a status");
	size_t n = f->type == FRAME_END ? f->len - 2 : 0;
	end_stream(s, status, tlv_reader(f->payload + 2, n));
}

static void handle_stream_frame(struct link *l, const struct frame *f)
{
	struct link_stream *s = find_stream(l, f->stream);
	if (!s) {
		/* What was on its way when the stream was reset from here is no fault. */
		if (f->stream == 0 || f->stream > l->reset_id)
			broke_protocol(l, "a frame on a stream that is not open");
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

/* ---- handshake ---- */

static void handle_proof(struct link *l, const struct frame *f)
{
	uint8_t want[SHA256_SIZE], mine[SHA256_SIZE];
	if (f->len != AUTH_PROOF)
		return broke_protocol(l, "a proof of the wrong size");
	const uint8_t *nonce_a = f->payload, *proof = f->payload + AUTH_NONCE;
	auth_agent_mac(l->key, l->nonce, nonce_a, want);
	if (!id_equal(want, proof, sizeof(want)))
		return broke_protocol(l, "it does not hold this sandbox's key");
	auth_broker_mac(l->key, nonce_a, l->nonce, mine);
	explicit_bzero(l->key, sizeof(l->key));
	send_frame(l, FRAME_CONFIRM, 0, 0, mine, sizeof(mine), NULL, 0);
	l->state = LINK_HELLO;
}

static void handle_hello(struct link *l, const struct frame *f)
{
	struct link_hello hello;
	struct err e;
	if (link_hello_parse(tlv_reader(f->payload, f->len), &hello, &e) < 0) {
		l->deaf = true;
		return lose(l, e.code, e.errnum, "%s", e.text);
	}
	l->state = LINK_READY;
	memcpy(l->features, hello.features, sizeof(l->features));
	(void)uv_timer_stop(&l->timer);
	flush(l); /* what was asked meanwhile */
	if (!l->lost && l->events.ready)
		l->events.ready(l->user, &hello);
}

/* ---- receiving ---- */

/* Consumers read TLVs without asking whether they are whole. */
static bool tlvs_whole(const uint8_t *p, size_t n)
{
	struct tlv_reader r = tlv_reader(p, n);
	for (struct tlv t; tlv_next(&r, &t);)
		;
	return !r.bad;
}

static void handle_frame(struct link *l, const struct frame *f)
{
	l->stats.frames_in++;
	uint8_t expected = l->state == LINK_PROOF ? FRAME_PROOF : FRAME_HELLO;
	if (l->state != LINK_READY && (f->type != expected || f->stream != 0))
		return broke_protocol(l, "a frame before the handshake was done");
	if (f->flags & ~(f->type == FRAME_DATA ? FRAME_FLAG_FIN : 0))
		return broke_protocol(l, "an unknown flag");
	size_t skip = f->type == FRAME_END || f->type == FRAME_EVENT ? 2 : 0;
	bool tlvs = skip || f->type == FRAME_MSG || f->type == FRAME_HELLO;
	if (tlvs && (f->len < skip || !tlvs_whole(f->payload + skip, f->len - skip)))
		return broke_protocol(l, "a message that is cut off");

	switch ((enum frame_type)f->type) {
	case FRAME_PROOF:
		if (l->state == LINK_PROOF)
			return handle_proof(l, f);
		break;
	case FRAME_HELLO:
		if (l->state == LINK_HELLO)
			return handle_hello(l, f);
		break;
	case FRAME_MSG:
	case FRAME_DATA:
	case FRAME_CREDIT:
	case FRAME_END:
	case FRAME_RESET:
		return handle_stream_frame(l, f);
	case FRAME_PING:
		if (f->stream == 0 && f->len <= PING_MAX)
			return send_frame(l, FRAME_PONG, 0, 0, f->payload, f->len, NULL, 0);
		break;
	case FRAME_EVENT:
		if (f->stream != 0)
			break;
		if (l->events.event)
			l->events.event(l->user, wire_get16(f->payload),
				tlv_reader(f->payload + 2, f->len - 2));
		return;
	case FRAME_CHALLENGE:
	case FRAME_CONFIRM:
	case FRAME_OPEN:
	case FRAME_PONG: /* nothing here sends PING */
	case FRAME_CELL:
	case FRAME_DISPLAY:
	case FRAME_DONE:
	case FRAME_READY:
	case FRAME_INTERRUPT:
	case FRAME_FORK:
	case FRAME_FORKED:
	case FRAME_ENV:
	default:
		break;
	}
	broke_protocol(l, "a frame that has no place here");
}

/* Adds to the partial frame what it still needs of p[0..n); the number of bytes taken. Handles the
 * frame once it is whole. */
static size_t feed_partial(struct link *l, const uint8_t *p, size_t n)
{
	size_t want = FRAME_HEADER;
	if (l->partial.len >= FRAME_HEADER)
		want += wire_get32(l->partial.data + 8); /* frame_parse() has checked it */
	size_t take = MIN(want - l->partial.len, n);
	struct frame f;
	ssize_t size = -ENOBUFS;
	if (buf_reserve(&l->partial, want - l->partial.len) == 0 &&
		buf_append(&l->partial, p, take) == 0)
		size = frame_parse(l->partial.data, l->partial.len, &f);
	if (size < 0)
		broke_protocol(l, "no frame");
	if (size > 0) {
		/* The frame outlives its callback only here: it may close the link. */
		struct buf whole = l->partial;
		buf_init(&l->partial, whole.max);
		handle_frame(l, &f);
		buf_done(&whole);
	}
	return take;
}

static void feed(struct link *l, const uint8_t *p, size_t n);

/* Looks for the answer to our challenge; the number of bytes taken. */
static size_t feed_search(struct link *l, const uint8_t *p, size_t n)
{
	size_t take = MIN(n, RESYNC_STEP), keep;
	struct frame f;
	CHECK(buf_append(&l->partial, p, take) == 0);
	ssize_t at = resync_find_proof(l->partial.data, l->partial.len, l->key, l->nonce, &keep);
	if (at >= 0) {
		struct buf whole = l->partial;
		buf_init(&l->partial, whole.max);
		ssize_t size = frame_parse(whole.data + at, whole.len - (size_t)at, &f);
		CHECK(size > 0);
		handle_frame(l, &f);
		feed(l, whole.data + at + size, whole.len - (size_t)(at + size));
		buf_done(&whole);
		return take;
	}
	l->skipped += l->partial.len - keep;
	buf_consume(&l->partial, l->partial.len - keep);
	if (l->skipped > RESYNC_MAX)
		broke_protocol(l, "no answer to the challenge among all it sends");
	return take;
}

static void feed(struct link *l, const uint8_t *p, size_t n)
{
	while (n && !l->deaf && !l->closed) {
		if (l->tears && l->state == LINK_PROOF) {
			size_t searched = feed_search(l, p, n);
			p += searched;
			n -= searched;
			continue;
		}
		struct frame f;
		ssize_t size = 0;
		if (l->partial.len == 0)
			size = frame_parse(p, n, &f);
		if (size < 0) {
			broke_protocol(l, "no frame");
		} else if (size > 0) {
			handle_frame(l, &f);
			p += size;
			n -= (size_t)size;
		} else {
			size_t taken = feed_partial(l, p, n);
			p += taken;
			n -= taken;
		}
	}
}

/* One read. False where there is nothing more to read now. */
static bool read_some(struct link *l)
{
	ssize_t n;
	do
		n = recv(l->fd, read_buffer, sizeof(read_buffer), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		l->stats.bytes_in += (uint64_t)n;
		feed(l, read_buffer, (size_t)n);
		return !l->deaf && !l->closed;
	}
	if (n == 0)
		lose(l, ERR_SANDBOX_LOST, EPIPE, "the sandbox's agent ended");
	else if (errno != EAGAIN)
		lose(l, ERR_SANDBOX_LOST, errno, "the link to the sandbox's agent broke: %s",
			strerror(errno));
	return false;
}

/* ---- the loop ---- */

static void report_loss(struct link *l)
{
	/* What the agent said before it went still counts: a job that ended has ended. */
	for (int reads = 0; l->state == LINK_READY && reads < LAST_READS; reads++) {
		if (l->deaf || l->closed || !read_some(l))
			break;
	}
	l->deaf = l->reported = true;
	while (!l->closed && !list_empty(&l->streams))
		end_stream(container_of(l->streams.next, struct link_stream, streams), WIRE_GONE,
			tlv_reader(NULL, 0));
	if (!l->closed && l->events.lost)
		l->events.lost(l->user, &l->why);
}

static void on_timer(uv_timer_t *t)
{
	struct link *l = container_of(t, struct link, timer);
	if (!l->lost)
		lose(l, ERR_TIMEOUT, ETIMEDOUT,
			"the sandbox's agent did not answer within %d s of the start",
			(int)(LIMIT_HELLO_US / USEC_PER_SEC));
	else
		report_loss(l);
}

static void on_poll(uv_poll_t *p, int status, int events)
{
	struct link *l = container_of(p, struct link, poll);
	if (status < 0) { /* the peer went without reading all: libuv has stopped polling */
		lose(l, ERR_SANDBOX_LOST, EPIPE, "the sandbox's agent ended");
		return;
	}
	if (events & UV_WRITABLE) {
		flush(l);
		wake_blocked(l);
	}
	if (events & UV_READABLE && !l->closed && !l->lost)
		(void)read_some(l);
}

static void on_closed(uv_handle_t *h)
{
	struct link *l = h->data;
	if (--l->handles == 0)
		free(l);
}

/* ---- the interface ---- */

int link_new(uv_loop_t *loop, int fd, const uint8_t key[static AUTH_KEY],
	const struct link_events *events, void *user, struct link **ret)
{
	struct link *l = xcalloc(1, sizeof(*l));
	int r = uv_poll_init(loop, &l->poll, fd);
	if (r < 0) {
		free(l);
		fd_closep(&fd);
		return r;
	}
	(void)uv_timer_init(loop, &l->timer);
	l->poll.data = l->timer.data = l;
	l->handles = 2;
	l->fd = fd;
	l->events = *events;
	l->user = user;
	l->partial = BUF_INIT(FRAME_HEADER + LIMIT_FRAME_PAYLOAD);
	link_out_init(&l->out, fd);
	list_init(&l->streams);
	memcpy(l->key, key, sizeof(l->key));
	id_random(l->nonce, sizeof(l->nonce));
	(void)uv_timer_start(&l->timer, on_timer, LIMIT_HELLO_US / USEC_PER_MSEC, 0);
	poll_for(l, UV_READABLE);
	send_frame(l, FRAME_CHALLENGE, 0, 0, auth_sync, AUTH_SYNC, l->nonce, sizeof(l->nonce));
	*ret = l;
	return 0;
}

void link_close(struct link *l)
{
	if (!l || l->closed)
		return;
	l->closed = l->lost = l->deaf = true;
	list_for_each (s, next, &l->streams, struct link_stream, streams) {
		free(s);
	}
	list_init(&l->streams);
	buf_done(&l->partial);
	link_out_done(&l->out);
	explicit_bzero(l->key, sizeof(l->key));
	uv_close((uv_handle_t *)&l->poll, on_closed);
	uv_close((uv_handle_t *)&l->timer, on_closed);
	fd_closep(&l->fd);
}

bool link_ready(const struct link *l)
{
	return l->state == LINK_READY && !l->lost;
}

bool link_was_ready(const struct link *l)
{
	return l->state == LINK_READY || l->found;
}

void link_found(struct link *l)
{
	l->found = true;
}

void link_tears(struct link *l)
{
	l->tears = true;
	auth_seal(l->key, l->nonce, l->seal);
}

uv_loop_t *link_loop(const struct link *l)
{
	return l->poll.loop;
}

const struct err *link_lost_reason(const struct link *l)
{
	return l->lost ? &l->why : NULL;
}

void link_fail(struct link *l, const struct err *why)
{
	lose(l, why->code, why->errnum, "%s", why->text);
	if (l->closed || l->reported)
		return;
	if (l->why.code == ERR_SANDBOX_LOST) /* it broke by itself, or here: this is the cause */
		l->why = *why;
	(void)uv_timer_start(&l->timer, on_timer, 0, 0);
}

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
	send_frame(l, FRAME_OPEN, 0, s->id, head, sizeof(head), body ? body->data : NULL, n);
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
	check_sent(l, r);
	poll_as_needed(l);
	return 0;
}

bool link_has(const struct link *l, const char *feature)
{
	size_t n = strlen(feature);
	for (const char *p = l->features; (p = strstr(p, feature)); p += n)
		if ((p == l->features || p[-1] == ',') && (p[n] == ',' || p[n] == '\0'))
			return true;
	return false;
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
		send_frame(
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
	send_frame(s->link, FRAME_CREDIT, 0, s->id, credit, sizeof(credit), NULL, 0);
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

void link_stats(const struct link *l, struct link_stats *ret)
{
	*ret = l->stats;
	ret->queued = link_out_queued(&l->out);
	ret->bytes_out = l->out.total;
}
