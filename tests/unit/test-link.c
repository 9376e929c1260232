/* The broker's end of a link against a scripted peer that stands for an agent: honest, slow, broken
 * and hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "link/hello.h"
#include "link/link.h"
#include "wire/frame.h"

struct fixture {
	uv_loop_t loop;
	struct link *link;
	int peer;
	struct buf in; /* what the broker has sent and the peer not yet looked at */
	uint8_t key[AUTH_KEY];
	unsigned ready, lost, events;
	struct err why;
	struct link_hello hello;
};

/* What a stream has seen. */
struct seen {
	struct fixture *fx;
	struct link_stream *stream;
	unsigned msgs, writables, ends;
	size_t bytes;
	bool fin, keep; /* keep: gives no credit back */
	enum wire_status status;
	struct link_stream *reset_on_msg, *reset_on_data;
	bool close_on_msg, close_on_end;
};

static void on_ready(void *user, const struct link_hello *hello)
{
	struct fixture *fx = user;
	fx->ready++;
	fx->hello = *hello;
}

static void on_lost(void *user, const struct err *why)
{
	struct fixture *fx = user;
	fx->lost++;
	fx->why = *why;
}

static void on_event(void *user, uint16_t event, struct tlv_reader msg)
{
	struct fixture *fx = user;
	struct tlv t;
	assert_int_equal(event, EVENT_AUTH_FAILED);
	assert_true(tlv_next(&msg, &t));
	fx->events++;
}

static const struct link_events link_events = {
	.ready = on_ready, .lost = on_lost, .event = on_event};

static void close_link(struct fixture *fx)
{
	link_close(fx->link);
	fx->link = NULL;
}

static void on_msg(void *user, struct tlv_reader msg)
{
	struct seen *s = user;
	(void)msg;
	s->msgs++;
	if (s->reset_on_msg)
		link_reset(s->reset_on_msg);
	else if (s->close_on_msg)
		close_link(s->fx);
}

static void on_data(void *user, const uint8_t *p, size_t n, bool fin)
{
	struct seen *s = user;
	if (n)
		assert_int_equal(p[n - 1], 'd');
	s->bytes += n;
	s->fin = fin;
	if (!s->keep)
		link_consumed(s->stream, n);
	if (s->reset_on_data)
		link_reset(s->reset_on_data);
}

static void on_writable(void *user)
{
	struct seen *s = user;
	s->writables++;
}

static void on_end(void *user, enum wire_status status, struct tlv_reader msg)
{
	struct seen *s = user;
	(void)msg;
	s->ends++;
	s->status = status;
	if (s->close_on_end)
		close_link(s->fx);
	else
		link_reset(s->stream); /* must do nothing */
}

static const struct link_stream_events stream_events = {
	.msg = on_msg, .data = on_data, .writable = on_writable, .end = on_end};

static void turn(struct fixture *fx)
{
	for (int i = 0; i < 6; i++)
		(void)uv_run(&fx->loop, UV_RUN_NOWAIT);
}

static int setup(void **state)
{
	struct fixture *fx = xcalloc(1, sizeof(*fx));
	int fds[2];
	assert_int_equal(uv_loop_init(&fx->loop), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	id_random(fx->key, sizeof(fx->key));
	fx->in = BUF_INIT(64 * MIB);
	fx->peer = fds[1];
	assert_int_equal(link_new(&fx->loop, fds[0], fx->key, &link_events, fx, &fx->link), 0);
	*state = fx;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fx = *state;
	link_close(fx->link);
	fd_closep(&fx->peer);
	(void)uv_run(&fx->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&fx->loop), 0); /* nothing is left on it */
	buf_done(&fx->in);
	free(fx);
	return 0;
}

static void peer_bytes(struct fixture *fx, const void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = send(
			fx->peer, (const uint8_t *)p + done, n - done, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (r > 0)
			done += (size_t)r;
		else if (errno != EAGAIN)
			return; /* the broker has given up on us */
		turn(fx);
	}
}

static void peer_frame(
	struct fixture *fx, uint8_t type, uint16_t flags, uint32_t stream, const void *p, size_t n)
{
	_cleanup_buf_ struct buf b = BUF_INIT(LIMIT_FRAME_PAYLOAD + FRAME_HEADER);
	assert_int_equal(frame_append(&b, type, flags, stream, p, n), 0);
	peer_bytes(fx, b.data, b.len);
}

static void peer_end(struct fixture *fx, uint32_t stream, uint16_t status)
{
	uint8_t p[2];
	wire_put16(p, status);
	peer_frame(fx, FRAME_END, 0, stream, p, sizeof(p));
}

static void peer_credit(struct fixture *fx, uint32_t stream, uint32_t n)
{
	uint8_t p[4];
	wire_put32(p, n);
	peer_frame(fx, FRAME_CREDIT, 0, stream, p, sizeof(p));
}

/* The next frame from the broker; false where there is none. Its payload is valid until the next
 * call. */
static bool peer_next(struct fixture *fx, struct frame *f)
{
	static uint8_t hold[FRAME_HEADER + LIMIT_FRAME_PAYLOAD];
	for (;;) {
		ssize_t size = fx->in.len ? frame_parse(fx->in.data, fx->in.len, f) : 0;
		assert_true(size >= 0);
		if (size > 0) {
			memcpy(hold, fx->in.data, (size_t)size);
			f->payload = hold + FRAME_HEADER;
			buf_consume(&fx->in, (size_t)size);
			return true;
		}
		turn(fx);
		assert_int_equal(buf_reserve(&fx->in, MIB), 0);
		ssize_t n = recv(fx->peer, fx->in.data + fx->in.len, MIB, MSG_DONTWAIT);
		if (n <= 0)
			return false;
		fx->in.len += (size_t)n;
	}
}

static void peer_hello_body(struct fixture *fx, struct buf *b)
{
	uint8_t boot_id[16] = {7};
	(void)fx;
	assert_int_equal(tlv_u64(b, TAG_PROTOCOL_MIN, 1), 0);
	assert_int_equal(tlv_u64(b, TAG_PROTOCOL_MAX, 3), 0);
	assert_int_equal(tlv_str(b, TAG_BUILD, "0.1\x1b[2J"), 0);
	assert_int_equal(tlv_bytes(b, TAG_BOOT_ID, boot_id, sizeof(boot_id)), 0);
	assert_int_equal(tlv_str(b, TAG_FEATURE, "seccomp"), 0);
	assert_int_equal(tlv_str(b, TAG_FEATURE, "a,b"), 0);
	assert_int_equal(tlv_str(b, TAG_FEATURE, "openat2"), 0);
	assert_int_equal(tlv_str(b, 9999, "from the future"), 0);
}

/* Answers the challenge; spoil: with a proof that is wrong in one bit. */
static void peer_proof(struct fixture *fx, bool spoil)
{
	struct frame f;
	uint8_t proof[AUTH_PROOF] = {1, 2, 3};
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_CHALLENGE);
	assert_int_equal(f.len, AUTH_CHALLENGE);
	assert_memory_equal(f.payload, auth_sync, AUTH_SYNC);
	auth_agent_mac(fx->key, f.payload + AUTH_SYNC, proof, proof + AUTH_NONCE);
	proof[AUTH_NONCE + 5] ^= spoil;
	peer_frame(fx, FRAME_PROOF, 0, 0, proof, sizeof(proof));
}

static void peer_up(struct fixture *fx)
{
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	struct frame f;
	peer_proof(fx, false);
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_CONFIRM);
	assert_int_equal(f.len, SHA256_SIZE);
	peer_hello_body(fx, &b);
	peer_frame(fx, FRAME_HELLO, 0, 0, b.data, b.len);
	turn(fx);
	assert_int_equal(fx->ready, 1);
	assert_true(link_ready(fx->link));
}

static void open_stream(struct fixture *fx, struct seen *s)
{
	s->fx = fx;
	assert_int_equal(link_open(fx->link, OP_USAGE, NULL, &stream_events, s, &s->stream), 0);
}

/* Until the loss is told: a link that broke by itself waits a moment for a better reason. */
static void turn_until_lost(struct fixture *fx)
{
	uint64_t end = clock_monotonic_us() + 4 * USEC_PER_SEC;
	turn(fx);
	while (!fx->lost && clock_monotonic_us() < end) {
		(void)usleep(1000);
		turn(fx);
	}
}

static void assert_lost(struct fixture *fx, enum err_code code)
{
	turn_until_lost(fx);
	assert_int_equal(fx->lost, 1);
	assert_int_equal(fx->why.code, code);
	assert_non_null(link_lost_reason(fx->link));
	assert_false(link_ready(fx->link));
	struct link_stream *s;
	assert_int_equal(link_open(fx->link, OP_USAGE, NULL, &stream_events, NULL, &s), -ENOTCONN);
}

/* ---- handshake ---- */

static void handshake(void **state)
{
	struct fixture *fx = *state;
	struct frame f;
	uint8_t nonce_b[AUTH_NONCE], proof[AUTH_PROOF] = {9}, want[SHA256_SIZE];
	assert_true(peer_next(fx, &f));
	memcpy(nonce_b, f.payload + AUTH_SYNC, sizeof(nonce_b));
	auth_agent_mac(fx->key, nonce_b, proof, proof + AUTH_NONCE);
	peer_frame(fx, FRAME_PROOF, 0, 0, proof, sizeof(proof));
	assert_true(peer_next(fx, &f));
	auth_broker_mac(fx->key, proof, nonce_b, want);
	assert_memory_equal(f.payload, want, sizeof(want));
	assert_false(link_ready(fx->link));
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	peer_hello_body(fx, &b);
	peer_frame(fx, FRAME_HELLO, 0, 0, b.data, b.len);
	turn(fx);
	assert_int_equal(fx->ready, 1);
	assert_int_equal(fx->hello.protocol, 1);
	assert_int_equal(fx->hello.boot_id[0], 7);
	assert_string_equal(fx->hello.build, "0.1?[2J");
	assert_string_equal(fx->hello.features, "seccomp,openat2");
}

static void streams_wait_for_the_handshake(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	struct frame f;
	open_stream(fx, &s);
	assert_int_equal(link_write(s.stream, "abc", 3, true), 3);
	peer_up(fx);
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_OPEN);
	assert_int_equal(wire_get16(f.payload), OP_USAGE);
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_DATA);
	assert_int_equal(f.flags, FRAME_FLAG_FIN);
	peer_end(fx, f.stream, WIRE_OK);
	turn(fx);
	assert_int_equal(s.ends, 1);
	assert_int_equal(s.status, WIRE_OK);
}

static void wrong_proof(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	struct frame f;
	open_stream(fx, &s);
	peer_proof(fx, true);
	assert_lost(fx, ERR_PROTOCOL);
	assert_int_equal(fx->ready, 0);
	assert_int_equal(s.ends, 1);
	assert_int_equal(s.status, WIRE_GONE);
	assert_false(peer_next(fx, &f)); /* no CONFIRM, and not what waited */
}

static void reflected_challenge_is_no_proof(void **state)
{
	struct fixture *fx = *state;
	struct frame f;
	assert_true(peer_next(fx, &f));
	peer_frame(fx, FRAME_CHALLENGE, 0, 0, f.payload, f.len);
	assert_lost(fx, ERR_PROTOCOL);
}

static void hello_without_proof(void **state)
{
	struct fixture *fx = *state;
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	peer_hello_body(fx, &b);
	peer_frame(fx, FRAME_HELLO, 0, 0, b.data, b.len);
	assert_lost(fx, ERR_PROTOCOL);
	assert_int_equal(fx->ready, 0);
}

static void garbage(void **state)
{
	struct fixture *fx = *state;
	peer_bytes(fx, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
	assert_lost(fx, ERR_PROTOCOL);
}

static void hellos_that_do_not_fit(void **state)
{
	(void)state;
	struct err e;
	struct link_hello h;
	uint8_t id[16] = {0};
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	assert_true(link_hello_parse(tlv_reader(NULL, 0), &h, &e) < 0);
	assert_int_equal(tlv_u64(&b, TAG_PROTOCOL_MIN, 2), 0);
	assert_int_equal(tlv_u64(&b, TAG_PROTOCOL_MAX, 3), 0);
	assert_int_equal(tlv_bytes(&b, TAG_BOOT_ID, id, 16), 0);
	assert_true(link_hello_parse(tlv_reader(b.data, b.len), &h, &e) < 0);
	assert_non_null(strstr(e.text, "versions 2 to 3"));
	buf_clear(&b);
	assert_int_equal(tlv_u64(&b, TAG_PROTOCOL_MIN, 1), 0);
	assert_int_equal(tlv_u64(&b, TAG_PROTOCOL_MAX, 1), 0);
	assert_int_equal(tlv_bytes(&b, TAG_BOOT_ID, id, 15), 0);
	assert_true(link_hello_parse(tlv_reader(b.data, b.len), &h, &e) < 0);
	assert_int_equal(e.code, ERR_PROTOCOL);
}

static void peer_gone_in_each_state(void **state)
{
	struct fixture *fx = *state;
	for (int step = 0; step < 4; step++) {
		if (step) {
			assert_int_equal(teardown(state), 0);
			assert_int_equal(setup(state), 0);
			fx = *state;
		}
		struct seen s = {0}, other = {0};
		open_stream(fx, &s);
		open_stream(fx, &other);
		if (step == 1)
			peer_proof(fx, false);
		if (step >= 2)
			peer_up(fx);
		if (step == 3) /* in the middle of a frame */
			peer_bytes(fx, "\x01\x06\x00\x00\x00", 5);
		fd_closep(&fx->peer);
		turn_until_lost(fx);
		assert_int_equal(fx->lost, 1);
		assert_int_equal(fx->why.code, ERR_SANDBOX_LOST);
		assert_int_equal(s.ends + other.ends, 2);
		assert_int_equal(s.status, WIRE_GONE);
		turn(fx);
		assert_int_equal(fx->lost, 1);
	}
}

/* ---- frames ---- */

static void byte_at_a_time(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	static uint8_t big[20000];
	_cleanup_buf_ struct buf b = BUF_INIT(MIB), msg = BUF_INIT(MIB);
	memset(big, 'd', sizeof(big));
	open_stream(fx, &s);
	peer_up(fx);
	assert_int_equal(tlv_bytes(&msg, TAG_TEXT, big, 500), 0);
	assert_int_equal(frame_append(&b, FRAME_MSG, 0, 1, msg.data, msg.len), 0);
	assert_int_equal(frame_append(&b, FRAME_DATA, 0, 1, big, 700), 0);
	assert_int_equal(frame_append(&b, FRAME_MSG, 0, 1, NULL, 0), 0);
	assert_int_equal(frame_append(&b, FRAME_DATA, FRAME_FLAG_FIN, 1, big, 1), 0);
	assert_int_equal(frame_append(&b, FRAME_END, 0, 1, "\0\0", 2), 0);
	for (size_t i = 0; i < b.len; i++) {
		assert_int_equal(s.ends, 0);
		assert_int_equal(send(fx->peer, b.data + i, 1, 0), 1);
		turn(fx);
	}
	assert_int_equal(s.msgs, 2);
	assert_int_equal(s.bytes, 701);
	assert_true(s.fin);
	assert_int_equal(s.ends, 1);
	assert_int_equal(fx->lost, 0);
}

static void oversize_frame(void **state)
{
	struct fixture *fx = *state;
	uint8_t h[FRAME_HEADER];
	peer_up(fx);
	frame_header(h, FRAME_MSG, 0, 1, LIMIT_FRAME_PAYLOAD + 1);
	peer_bytes(fx, h, sizeof(h));
	assert_lost(fx, ERR_PROTOCOL);
}

static void frames_out_of_place(void **state)
{
	static const struct {
		uint8_t type;
		uint16_t flags;
		uint32_t stream;
		const char *payload;
		size_t n;
	} rows[] = {
		{FRAME_OPEN, 0, 2, "\0\1", 2},
		{FRAME_PROOF, 0, 0, "", 0},
		{FRAME_HELLO, 0, 0, "", 0},
		{FRAME_PONG, 0, 0, "", 0},
		{FRAME_DONE, 0, 1, "", 0},
		{FRAME_PING, 0, 1, "", 0}, /* on a stream */
		{FRAME_PING, 0, 0,
			"0123456789012345678901234567890123456789012345678901234567890"
			"1234",
			65},
		{FRAME_EVENT, 0, 1, "\0\1", 2},
		{FRAME_EVENT, 0, 0, "\0", 1},
		{FRAME_MSG, 1, 1, "", 0}, /* an unknown flag */
		{FRAME_DATA, 2, 1, "d", 1},
		{FRAME_MSG, 0, 1, "\0\1\0\0\0\5x", 7}, /* a cut TLV */
		{FRAME_END, 0, 1, "", 0},
		{FRAME_END, 0, 1, "\0\377", 2}, /* no such status */
		{FRAME_END, 0, 1, "\0\0\0", 3},
		{FRAME_CREDIT, 0, 1, "\0\0\1", 3},
		{FRAME_CREDIT, 0, 1, "\0\0\0\0", 4},
		{FRAME_CREDIT, 0, 1, "\177\377\377\377", 4}, /* past what can be granted */
		{FRAME_DATA, 0, 1, "", 0},                   /* for ever */
		{FRAME_DATA, 0, 2, "d", 1},                  /* never opened */
		{FRAME_END, 0, 0, "\0\0", 2},
		{FRAME_RESET, 0, 7, "\0\0", 2},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture *fx = *state;
		struct seen s = {0};
		open_stream(fx, &s);
		peer_up(fx);
		peer_frame(fx, rows[i].type, rows[i].flags, rows[i].stream, rows[i].payload,
			rows[i].n);
		assert_lost(fx, ERR_PROTOCOL);
		assert_int_equal(s.ends, 1);
		assert_int_equal(s.status, WIRE_GONE);
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup(state), 0);
	}
}

static void ping_and_event(void **state)
{
	struct fixture *fx = *state;
	struct frame f;
	peer_up(fx);
	peer_frame(fx, FRAME_PING, 0, 0, "hello", 5);
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_PONG);
	assert_memory_equal(f.payload, "hello", 5);
	peer_frame(fx, FRAME_EVENT, 0, 0, "\0\1\0\x1d\0\0\0\1\3", 9);
	assert_int_equal(fx->events, 1);
	assert_int_equal(fx->lost, 0);
}

/* ---- streams ---- */

static void end_twice(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	open_stream(fx, &s);
	peer_up(fx);
	peer_end(fx, 1, WIRE_NOT_FOUND);
	turn(fx);
	assert_int_equal(s.status, WIRE_NOT_FOUND);
	assert_int_equal(fx->lost, 0);
	peer_end(fx, 1, WIRE_OK);
	assert_lost(fx, ERR_PROTOCOL);
	assert_int_equal(s.ends, 1);
}

static void reset_by_the_agent(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	open_stream(fx, &s);
	peer_up(fx);
	peer_frame(fx, FRAME_RESET, 0, 1, "\0\x14", 2);
	turn(fx);
	assert_int_equal(s.status, WIRE_CANCELLED);
	assert_int_equal(fx->lost, 0);
}

static void late_frames_of_a_reset_stream(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0}, other = {0};
	struct frame f;
	open_stream(fx, &s);
	open_stream(fx, &other);
	peer_up(fx);
	link_reset(s.stream);
	while (peer_next(fx, &f) && f.type != FRAME_RESET)
		;
	assert_int_equal(f.type, FRAME_RESET);
	assert_int_equal(f.stream, 1);
	peer_frame(fx, FRAME_MSG, 0, 1, NULL, 0);
	peer_frame(fx, FRAME_DATA, 0, 1, "d", 1);
	peer_end(fx, 1, WIRE_OK);
	peer_end(fx, 2, WIRE_OK);
	turn(fx);
	assert_int_equal(fx->lost, 0);
	assert_int_equal(s.msgs + s.ends, 0);
	assert_int_equal(other.ends, 1);
}

static void data_without_credit(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {.keep = true};
	static uint8_t bytes[LIMIT_STREAM_WINDOW];
	memset(bytes, 'd', sizeof(bytes));
	open_stream(fx, &s);
	peer_up(fx);
	peer_frame(fx, FRAME_DATA, 0, 1, bytes, sizeof(bytes));
	turn(fx);
	assert_int_equal(s.bytes, LIMIT_STREAM_WINDOW);
	assert_int_equal(fx->lost, 0);
	peer_frame(fx, FRAME_DATA, 0, 1, bytes, 1);
	assert_lost(fx, ERR_PROTOCOL);
	assert_int_equal(s.bytes, LIMIT_STREAM_WINDOW);
}

static void credit_comes_back(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	struct frame f;
	static uint8_t bytes[100 * KIB];
	size_t credit = LIMIT_STREAM_WINDOW, sent = 0;
	memset(bytes, 'd', sizeof(bytes));
	open_stream(fx, &s);
	peer_up(fx);
	while (sent < 5 * MIB) {
		size_t n = MIN(sizeof(bytes), credit);
		peer_frame(fx, FRAME_DATA, 0, 1, bytes, n);
		sent += n;
		credit -= n;
		while (peer_next(fx, &f))
			if (f.type == FRAME_CREDIT)
				credit += wire_get32(f.payload);
		assert_true(credit > 0 && credit <= LIMIT_STREAM_WINDOW);
	}
	assert_int_equal(s.bytes, sent);
	assert_int_equal(fx->lost, 0);
}

static void write_waits_for_credit(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	struct frame f;
	static uint8_t bytes[LIMIT_STREAM_WINDOW + 1000];
	size_t got = 0;
	open_stream(fx, &s);
	peer_up(fx);
	size_t n = link_write(s.stream, bytes, sizeof(bytes), true);
	assert_int_equal(n, LIMIT_STREAM_WINDOW);
	turn(fx);
	assert_int_equal(s.writables, 0);
	peer_credit(fx, 1, 400);
	assert_int_equal(s.writables, 1);
	n += link_write(s.stream, bytes + n, sizeof(bytes) - n, true);
	assert_int_equal(n, LIMIT_STREAM_WINDOW + 400);
	peer_credit(fx, 1, 100000);
	assert_int_equal(s.writables, 2);
	n += link_write(s.stream, bytes + n, sizeof(bytes) - n, true);
	assert_int_equal(n, sizeof(bytes));
	while (peer_next(fx, &f)) {
		got += f.type == FRAME_DATA ? f.len : 0;
		if (f.type == FRAME_DATA)
			assert_int_equal(f.flags == FRAME_FLAG_FIN, got == sizeof(bytes));
	}
	assert_int_equal(got, sizeof(bytes));
}

static void flood_of_messages(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	_cleanup_buf_ struct buf b = BUF_INIT(MIB);
	static uint8_t bytes[200 * KIB];
	open_stream(fx, &s);
	peer_up(fx);
	assert_int_equal(tlv_bytes(&b, TAG_TEXT, bytes, sizeof(bytes)), 0);
	for (int i = 0; i < 60 && !fx->lost; i++)
		peer_frame(fx, FRAME_MSG, 0, 1, b.data, b.len);
	assert_lost(fx, ERR_PROTOCOL);
	assert_int_equal(s.msgs, LIMIT_STREAM_MSG_BYTES / (b.len + FRAME_HEADER));
}

/* An agent that asks and never listens must not cost the broker memory without end. */
static void flood_of_pings(void **state)
{
	struct fixture *fx = *state;
	_cleanup_buf_ struct buf b = BUF_INIT(MIB);
	static const uint8_t payload[64];
	peer_up(fx);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(frame_append(&b, FRAME_PING, 0, 0, payload, 64), 0);
	for (int i = 0; i < 200 && !link_lost_reason(fx->link); i++)
		peer_bytes(fx, b.data, b.len);
	assert_lost(fx, ERR_SANDBOX_LOST);
	struct link_stats stats;
	link_stats(fx->link, &stats);
	assert_true(stats.queued <= LIMIT_LINK_OUT_QUEUE);
}

static void agent_that_does_not_read(void **state)
{
	struct fixture *fx = *state;
	struct link_stream *st;
	struct seen s[LIMIT_STREAMS] = {0};
	_cleanup_buf_ struct buf body = BUF_INIT(MIB);
	static uint8_t bytes[100 * KIB];
	struct frame f;
	peer_up(fx);
	assert_int_equal(tlv_bytes(&body, TAG_CODE, bytes, sizeof(bytes)), 0);
	int r = 0;
	size_t n = 0;
	for (; n < LIMIT_STREAMS && r == 0; n += r == 0)
		r = link_open(fx->link, OP_JOB_START, &body, &stream_events, &s[n], &s[n].stream);
	assert_int_equal(r, -ENOBUFS);
	assert_in_range(n, 30, 60);
	assert_int_equal(link_open(fx->link, OP_USAGE, &body, &stream_events, NULL, &st), -ENOBUFS);
	/* Then it reads again: all of it arrives. */
	size_t opens = 0;
	while (peer_next(fx, &f)) {
		assert_int_equal(f.type, FRAME_OPEN);
		assert_int_equal(f.len, body.len + 2);
		assert_int_equal(f.stream, ++opens);
	}
	assert_int_equal(opens, n);
	assert_int_equal(fx->lost, 0);
	assert_int_equal(
		link_open(fx->link, OP_USAGE, &body, &stream_events, &s[n], &s[n].stream), 0);
}

static void streams_have_a_maximum(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	struct link_stream *st;
	for (size_t i = 0; i < LIMIT_STREAMS; i++)
		open_stream(fx, &s);
	assert_int_equal(link_open(fx->link, OP_USAGE, NULL, &stream_events, &s, &st), -ENOBUFS);
	link_reset(s.stream);
	open_stream(fx, &s);
	struct buf large = {.data = (uint8_t *)"", .len = LIMIT_FRAME_PAYLOAD - 1};
	assert_int_equal(link_open(fx->link, OP_USAGE, &large, &stream_events, &s, &st), -EMSGSIZE);
	close_link(fx); /* with all of them open */
	assert_int_equal(s.ends, 0);
}

/* ---- callbacks that change what they were called for ---- */

static void closing_and_resetting_inside_callbacks(void **state)
{
	struct fixture *fx = *state;
	struct seen a = {0}, b = {0}, c = {0};
	_cleanup_buf_ struct buf frames = BUF_INIT(KIB);
	open_stream(fx, &a);
	open_stream(fx, &b);
	open_stream(fx, &c);
	peer_up(fx);
	a.reset_on_msg = b.stream;  /* another stream */
	c.reset_on_data = c.stream; /* itself */
	assert_int_equal(frame_append(&frames, FRAME_MSG, 0, 1, NULL, 0), 0);
	assert_int_equal(frame_append(&frames, FRAME_MSG, 0, 2, NULL, 0), 0);
	assert_int_equal(frame_append(&frames, FRAME_DATA, 0, 3, "d", 1), 0);
	assert_int_equal(frame_append(&frames, FRAME_END, 0, 3, "\0\0", 2), 0);
	peer_bytes(fx, frames.data, frames.len);
	assert_int_equal(a.msgs, 1);
	assert_int_equal(b.msgs, 0);
	assert_int_equal(c.bytes, 1);
	assert_int_equal(c.ends, 0);
	assert_int_equal(fx->lost, 0);
	a.reset_on_msg = NULL;
	a.close_on_msg = true;
	buf_clear(&frames);
	assert_int_equal(frame_append(&frames, FRAME_MSG, 0, 1, NULL, 0), 0);
	assert_int_equal(frame_append(&frames, FRAME_MSG, 0, 1, NULL, 0), 0);
	peer_bytes(fx, frames.data, frames.len);
	assert_int_equal(a.msgs, 2);
	assert_null(fx->link);
	assert_int_equal(fx->lost, 0);
}

static void closing_inside_an_end(void **state)
{
	struct fixture *fx = *state;
	struct seen a = {0}, b = {0};
	struct err why;
	open_stream(fx, &a);
	open_stream(fx, &b);
	a.close_on_end = b.close_on_end = true;
	(void)err_set(&why, ERR_SANDBOX_LOST, 0, "out of memory");
	link_fail(fx->link, &why);
	assert_int_equal(a.ends, 0); /* not from inside the call */
	turn(fx);
	assert_int_equal(a.ends + b.ends, 1);
	assert_int_equal(fx->lost, 0);
	assert_null(fx->link);
}

static void failing_from_outside(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0}, late = {0};
	struct err why;
	open_stream(fx, &s);
	open_stream(fx, &late);
	peer_up(fx);
	/* The agent's last words lie in the socket when its process is seen to end. */
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	assert_int_equal(frame_append(&b, FRAME_END, 0, 1, "\0\0", 2), 0);
	assert_int_equal(fd_write_full(fx->peer, b.data, b.len), 0);
	(void)err_set(&why, ERR_SANDBOX_LOST, 0, "the launcher was killed");
	link_fail(fx->link, &why);
	assert_non_null(link_lost_reason(fx->link));
	assert_lost(fx, ERR_SANDBOX_LOST);
	assert_string_equal(fx->why.text, "the launcher was killed");
	assert_int_equal(s.status, WIRE_OK);
	assert_int_equal(late.status, WIRE_GONE);
	assert_int_equal(s.ends, 1);
}

/* The link breaks first, who started the sandbox knows why a moment later. */
static void reason_that_comes_later(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0}, late = {0};
	struct err why;
	open_stream(fx, &s);
	fd_closep(&fx->peer);
	turn(fx);
	assert_non_null(link_lost_reason(fx->link));
	assert_int_equal(fx->lost, 0);
	/* What is asked meanwhile waits for the reason, too; on a busy machine not just a moment.
	 */
	open_stream(fx, &late);
	(void)usleep(300 * USEC_PER_MSEC);
	turn(fx);
	assert_int_equal(fx->lost, 0);
	assert_int_equal(late.ends, 0);
	(void)err_set(&why, ERR_PROVIDER_UNUSABLE, 0, "bwrap: no user namespaces");
	link_fail(fx->link, &why);
	turn(fx);
	assert_int_equal(fx->lost, 1);
	assert_int_equal(fx->why.code, ERR_PROVIDER_UNUSABLE);
	assert_string_equal(fx->why.text, "bwrap: no user namespaces");
	assert_string_equal(link_lost_reason(fx->link)->text, "bwrap: no user namespaces");
	assert_int_equal(s.ends, 1);
	assert_int_equal(late.ends, 1);
	assert_int_equal(late.status, WIRE_GONE);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(handshake),
		TEST(streams_wait_for_the_handshake),
		TEST(wrong_proof),
		TEST(reflected_challenge_is_no_proof),
		TEST(hello_without_proof),
		TEST(garbage),
		cmocka_unit_test(hellos_that_do_not_fit),
		TEST(peer_gone_in_each_state),
		TEST(byte_at_a_time),
		TEST(oversize_frame),
		TEST(frames_out_of_place),
		TEST(ping_and_event),
		TEST(end_twice),
		TEST(reset_by_the_agent),
		TEST(late_frames_of_a_reset_stream),
		TEST(data_without_credit),
		TEST(credit_comes_back),
		TEST(write_waits_for_credit),
		TEST(flood_of_messages),
		TEST(flood_of_pings),
		TEST(agent_that_does_not_read),
		TEST(streams_have_a_maximum),
		TEST(closing_and_resetting_inside_callbacks),
		TEST(closing_inside_an_end),
		TEST(failing_from_outside),
		TEST(reason_that_comes_later),
	};
	return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
