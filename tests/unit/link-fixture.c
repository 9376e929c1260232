/* link-fixture.c: see link-fixture.h. */
#include "link-fixture.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"

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

const struct link_events peer_link_events = {.ready = on_ready, .lost = on_lost, .event = on_event};

void peer_close_link(struct fixture *fx)
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
		peer_close_link(s->fx);
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
		peer_close_link(s->fx);
	else
		link_reset(s->stream); /* must do nothing */
}

const struct link_stream_events peer_stream_events = {
	.msg = on_msg, .data = on_data, .writable = on_writable, .end = on_end};

void peer_turn(struct fixture *fx)
{
	for (int i = 0; i < 6; i++)
		(void)uv_run(&fx->loop, UV_RUN_NOWAIT);
}

int peer_setup(void **state)
{
	struct fixture *fx = xcalloc(1, sizeof(*fx));
	int fds[2];
	assert_int_equal(uv_loop_init(&fx->loop), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	id_random(fx->key, sizeof(fx->key));
	fx->in = BUF_INIT(64 * MIB);
	fx->peer = fds[1];
	assert_int_equal(link_new(&fx->loop, fds[0], fx->key, &peer_link_events, fx, &fx->link), 0);
	*state = fx;
	return 0;
}

int peer_teardown(void **state)
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

void peer_bytes(struct fixture *fx, const void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = send(
			fx->peer, (const uint8_t *)p + done, n - done, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (r > 0)
			done += (size_t)r;
		else if (errno != EAGAIN)
			return; /* the broker has given up on us */
		peer_turn(fx);
	}
}

void peer_frame(
	struct fixture *fx, uint8_t type, uint16_t flags, uint32_t stream, const void *p, size_t n)
{
	_cleanup_buf_ struct buf b = BUF_INIT(LIMIT_FRAME_PAYLOAD + FRAME_HEADER);
	assert_int_equal(frame_append(&b, type, flags, stream, p, n), 0);
	peer_bytes(fx, b.data, b.len);
}

void peer_end(struct fixture *fx, uint32_t stream, uint16_t status)
{
	uint8_t p[2];
	wire_put16(p, status);
	peer_frame(fx, FRAME_END, 0, stream, p, sizeof(p));
}

void peer_credit(struct fixture *fx, uint32_t stream, uint32_t n)
{
	uint8_t p[4];
	wire_put32(p, n);
	peer_frame(fx, FRAME_CREDIT, 0, stream, p, sizeof(p));
}

/* The next frame from the broker; false where there is none. Its payload is valid until the next
 * call. Where the link is sealed, every frame but the handshake's must have that seal. */
bool peer_next(struct fixture *fx, struct frame *f)
{
	static uint8_t hold[FRAME_HEADER + LIMIT_FRAME_PAYLOAD];
	for (;;) {
		ssize_t size = fx->in.len ? frame_parse(fx->in.data, fx->in.len, f) : 0;
		assert_true(size >= 0);
		bool sealed = fx->sealed && size > 0 && f->type > FRAME_HELLO;
		if (sealed && fx->in.len < (size_t)size + AUTH_SEAL)
			size = 0;
		if (size > 0) {
			memcpy(hold, fx->in.data, (size_t)size);
			f->payload = hold + FRAME_HEADER;
			if (sealed) {
				assert_memory_equal(fx->in.data + size, fx->seal, AUTH_SEAL);
				size += AUTH_SEAL;
			}
			buf_consume(&fx->in, (size_t)size);
			return true;
		}
		peer_turn(fx);
		assert_int_equal(buf_reserve(&fx->in, MIB), 0);
		ssize_t n = recv(fx->peer, fx->in.data + fx->in.len, MIB, MSG_DONTWAIT);
		if (n <= 0)
			return false;
		fx->in.len += (size_t)n;
	}
}

void peer_hello_body(struct fixture *fx, struct buf *b)
{
	uint8_t boot_id[16] = {7};
	assert_int_equal(tlv_u64(b, TAG_PROTOCOL_MIN, 1), 0);
	assert_int_equal(tlv_u64(b, TAG_PROTOCOL_MAX, 3), 0);
	assert_int_equal(tlv_str(b, TAG_BUILD, "0.1\x1b[2J"), 0);
	assert_int_equal(tlv_bytes(b, TAG_BOOT_ID, boot_id, sizeof(boot_id)), 0);
	assert_int_equal(tlv_str(b, TAG_FEATURE, "seccomp"), 0);
	assert_int_equal(tlv_str(b, TAG_FEATURE, "a,b"), 0);
	assert_int_equal(tlv_str(b, TAG_FEATURE, "openat2"), 0);
	if (fx->feature)
		assert_int_equal(tlv_str(b, TAG_FEATURE, fx->feature), 0);
	assert_int_equal(tlv_str(b, 9999, "from the future"), 0);
}

/* Answers the challenge; spoil: with a proof that is wrong in one bit. */
void peer_proof(struct fixture *fx, bool spoil)
{
	struct frame f;
	uint8_t proof[AUTH_PROOF] = {1, 2, 3};
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_CHALLENGE);
	assert_int_equal(f.len, AUTH_CHALLENGE);
	assert_memory_equal(f.payload, auth_sync, AUTH_SYNC);
	auth_seal(fx->key, f.payload + AUTH_SYNC, fx->seal);
	auth_agent_mac(fx->key, f.payload + AUTH_SYNC, proof, proof + AUTH_NONCE);
	proof[AUTH_NONCE + 5] ^= spoil;
	peer_frame(fx, FRAME_PROOF, 0, 0, proof, sizeof(proof));
}

void peer_up(struct fixture *fx)
{
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	struct frame f;
	peer_proof(fx, false);
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_CONFIRM);
	assert_int_equal(f.len, SHA256_SIZE);
	peer_hello_body(fx, &b);
	peer_frame(fx, FRAME_HELLO, 0, 0, b.data, b.len);
	peer_turn(fx);
	assert_int_equal(fx->ready, 1);
	assert_true(link_ready(fx->link));
}

void peer_open_stream(struct fixture *fx, struct seen *s)
{
	s->fx = fx;
	assert_int_equal(
		link_open(fx->link, OP_USAGE, NULL, &peer_stream_events, s, &s->stream), 0);
}

/* Until the loss is told: a link that broke by itself waits a moment for a better reason. */
void peer_turn_until_lost(struct fixture *fx)
{
	uint64_t end = clock_monotonic_us() + 4 * USEC_PER_SEC;
	peer_turn(fx);
	while (!fx->lost && clock_monotonic_us() < end) {
		(void)usleep(1000);
		peer_turn(fx);
	}
}

void peer_assert_lost(struct fixture *fx, enum err_code code)
{
	peer_turn_until_lost(fx);
	assert_int_equal(fx->lost, 1);
	assert_int_equal(fx->why.code, code);
	assert_non_null(link_lost_reason(fx->link));
	assert_false(link_ready(fx->link));
	struct link_stream *s;
	assert_int_equal(
		link_open(fx->link, OP_USAGE, NULL, &peer_stream_events, NULL, &s), -ENOTCONN);
}
