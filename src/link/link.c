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
#include "link/hello.h"
#include "link/link_internal.h"
#include "link/resync.h"

#define PING_MAX 64
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

/* Frames are handled where they were read, before the loop goes on: one buffer serves every link
 * of the (only) thread. Pages that no read has reached cost nothing. */
static uint8_t read_buffer[FRAME_HEADER + LIMIT_FRAME_PAYLOAD];

static void on_timer(uv_timer_t *t);
static void on_poll(uv_poll_t *p, int status, int events);

/* ---- losing it ---- */

void link_lose(struct link *l, enum err_code code, int errnum, const char *fmt, ...)
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
	uint64_t wait = l->explain_ms       ? l->explain_ms
			: link_was_ready(l) ? EXPLAIN_MS
					    : EXPLAIN_START_MS;
	(void)uv_timer_start(&l->timer, on_timer, code == ERR_SANDBOX_LOST ? wait : 0, 0);
}

void link_broke_protocol(struct link *l, const char *how)
{
	l->deaf = true;
	link_lose(l, ERR_PROTOCOL, EPROTO, "the sandbox's agent broke the protocol: %s", how);
}

/* ---- sending ---- */

static void poll_for(struct link *l, int events)
{
	if (l->lost || l->polled == events)
		return;
	l->polled = events;
	int r = uv_poll_start(&l->poll, events, on_poll);
	if (r < 0)
		link_lose(l, ERR_INTERNAL, -r, "cannot wait for the sandbox's link: %s",
			uv_strerror(r));
}

void link_check_sent(struct link *l, int r)
{
	if (r == -ENOBUFS)
		link_lose(l, ERR_SANDBOX_LOST, ENOBUFS,
			"the sandbox's agent has stopped reading its link");
	else if (r < 0)
		link_lose(l, ERR_SANDBOX_LOST, -r, "the link to the sandbox's agent broke: %s",
			strerror(-r));
}

void link_poll_as_needed(struct link *l)
{
	bool waits = l->state == LINK_READY && link_out_queued(&l->out);
	poll_for(l, waits ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

void link_send_frame(struct link *l, uint8_t type, uint16_t flags, uint32_t stream,
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
		link_check_sent(l, r);
		return;
	}
	link_check_sent(l, link_out_send(&l->out, iov, ARRAY_SIZE(iov), l->state != LINK_READY));
	link_poll_as_needed(l);
}

static void flush(struct link *l)
{
	link_check_sent(l, link_out_flush(&l->out));
	link_poll_as_needed(l);
}

/* ---- handshake ---- */

static void handle_proof(struct link *l, const struct frame *f)
{
	uint8_t want[SHA256_SIZE], mine[SHA256_SIZE];
	if (f->len != AUTH_PROOF)
		return link_broke_protocol(l, "a proof of the wrong size");
	const uint8_t *nonce_a = f->payload, *proof = f->payload + AUTH_NONCE;
	auth_agent_mac(l->key, l->nonce, nonce_a, want);
	if (!id_equal(want, proof, sizeof(want)))
		return link_broke_protocol(l, "it does not hold this sandbox's key");
	auth_broker_mac(l->key, nonce_a, l->nonce, mine);
	explicit_bzero(l->key, sizeof(l->key));
	link_send_frame(l, FRAME_CONFIRM, 0, 0, mine, sizeof(mine), NULL, 0);
	l->state = LINK_HELLO;
}

static void handle_hello(struct link *l, const struct frame *f)
{
	struct link_hello hello;
	struct err e;
	if (link_hello_parse(tlv_reader(f->payload, f->len), &hello, &e) < 0) {
		l->deaf = true;
		return link_lose(l, e.code, e.errnum, "%s", e.text);
	}
	l->state = LINK_READY;
	memcpy(l->features, hello.features, sizeof(l->features));
	l->expects = link_has(l, "expect");
	(void)uv_timer_stop(&l->timer);
	if (l->events.ready)
		l->events.ready(l->user, &hello);
	if (!l->lost)
		flush(l); /* what was asked meanwhile */
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
		return link_broke_protocol(l, "a frame before the handshake was done");
	if (f->flags & ~(f->type == FRAME_DATA ? FRAME_FLAG_FIN : 0))
		return link_broke_protocol(l, "an unknown flag");
	size_t skip = f->type == FRAME_END || f->type == FRAME_EVENT ? 2 : 0;
	bool tlvs = skip || f->type == FRAME_MSG || f->type == FRAME_HELLO;
	if (tlvs && (f->len < skip || !tlvs_whole(f->payload + skip, f->len - skip)))
		return link_broke_protocol(l, "a message that is cut off");

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
		return link_stream_frame(l, f);
	case FRAME_PING:
		if (f->stream == 0 && f->len <= PING_MAX)
			return link_send_frame(l, FRAME_PONG, 0, 0, f->payload, f->len, NULL, 0);
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
	case FRAME_EXPECT:
	default:
		break;
	}
	link_broke_protocol(l, "a frame that has no place here");
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
		link_broke_protocol(l, "no frame");
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
		link_broke_protocol(l, "no answer to the challenge among all it sends");
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
			link_broke_protocol(l, "no frame");
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
		link_lose(l, ERR_SANDBOX_LOST, EPIPE, "the sandbox's agent ended");
	else if (errno != EAGAIN)
		link_lose(l, ERR_SANDBOX_LOST, errno, "the link to the sandbox's agent broke: %s",
			strerror(errno));
	return false;
}

/* ---- the loop ---- */

static void on_closed(uv_handle_t *h)
{
	struct link *l = h->data;
	if (--l->handles == 0)
		free(l);
}

static void close_descriptor(struct link *l)
{
	if (l->fd < 0)
		return;
	uv_close((uv_handle_t *)&l->poll, on_closed);
	fd_closep(&l->fd);
}

static void report_loss(struct link *l)
{
	/* What the agent said before it went still counts: a job that ended has ended. */
	for (int reads = 0; l->state == LINK_READY && reads < LAST_READS; reads++) {
		if (l->deaf || l->closed || !read_some(l))
			break;
	}
	l->deaf = l->reported = true;
	while (!l->closed && !list_empty(&l->streams))
		link_end_stream(container_of(l->streams.next, struct link_stream, streams),
			WIRE_GONE, tlv_reader(NULL, 0));
	if (!l->closed && l->events.lost)
		l->events.lost(l->user, &l->why);
	/* It may be kept for minutes, for who asks what became of it. */
	if (!l->closed)
		close_descriptor(l);
}

static void on_timer(uv_timer_t *t)
{
	struct link *l = container_of(t, struct link, timer);
	if (!l->lost)
		link_lose(l, ERR_TIMEOUT, ETIMEDOUT,
			"the sandbox's agent did not answer within %d s of the start",
			(int)(l->hello_ms / 1000));
	else
		report_loss(l);
}

static void on_poll(uv_poll_t *p, int status, int events)
{
	struct link *l = container_of(p, struct link, poll);
	if (status < 0) { /* the peer went without reading all: libuv has stopped polling */
		link_lose(l, ERR_SANDBOX_LOST, EPIPE, "the sandbox's agent ended");
		return;
	}
	if (events & UV_WRITABLE) {
		flush(l);
		link_wake_blocked(l);
	}
	if (events & UV_READABLE && !l->closed && !l->lost)
		(void)read_some(l);
}

/* ---- the interface ---- */

void link_answers_within(struct link *l, uint32_t ms)
{
	l->hello_ms = ms;
	(void)uv_timer_start(&l->timer, on_timer, ms, 0);
}

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
	link_answers_within(l, LIMIT_HELLO_US / USEC_PER_MSEC);
	poll_for(l, UV_READABLE);
	link_send_frame(l, FRAME_CHALLENGE, 0, 0, auth_sync, AUTH_SYNC, l->nonce, sizeof(l->nonce));
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
	close_descriptor(l);
	uv_close((uv_handle_t *)&l->timer, on_closed);
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

void link_explained_within(struct link *l, uint32_t ms)
{
	l->explain_ms = ms;
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
	link_lose(l, why->code, why->errnum, "%s", why->text);
	if (l->closed || l->reported)
		return;
	if (l->why.code == ERR_SANDBOX_LOST) /* it broke by itself, or here: this is the cause */
		l->why = *why;
	(void)uv_timer_start(&l->timer, on_timer, 0, 0);
}

bool link_has(const struct link *l, const char *feature)
{
	size_t n = strlen(feature);
	for (const char *p = l->features; (p = strstr(p, feature)); p += n)
		if ((p == l->features || p[-1] == ',') && (p[n] == ',' || p[n] == '\0'))
			return true;
	return false;
}

void link_expect(struct link *l)
{
	if (link_ready(l) && l->expects && l->n_streams == 0 && link_out_queued(&l->out) == 0)
		link_send_frame(l, FRAME_EXPECT, 0, 0, NULL, 0, NULL, 0);
}

void link_stats(const struct link *l, struct link_stats *ret)
{
	*ret = l->stats;
	ret->queued = link_out_queued(&l->out);
	ret->bytes_out = l->out.total;
}
