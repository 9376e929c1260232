/* The broker's end of a link: handshake and frames. */
#include "link-fixture.h"

#include <sys/socket.h>

#include "base/fd.h"

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
	peer_turn(fx);
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
	peer_open_stream(fx, &s);
	assert_int_equal(link_write(s.stream, "abc", 3, true), 3);
	peer_up(fx);
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_OPEN);
	assert_int_equal(wire_get16(f.payload), OP_USAGE);
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_DATA);
	assert_int_equal(f.flags, FRAME_FLAG_FIN);
	peer_end(fx, f.stream, WIRE_OK);
	peer_turn(fx);
	assert_int_equal(s.ends, 1);
	assert_int_equal(s.status, WIRE_OK);
}

static void wrong_proof(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	struct frame f;
	peer_open_stream(fx, &s);
	peer_proof(fx, true);
	peer_assert_lost(fx, ERR_PROTOCOL);
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
	peer_assert_lost(fx, ERR_PROTOCOL);
}

static void hello_without_proof(void **state)
{
	struct fixture *fx = *state;
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	peer_hello_body(fx, &b);
	peer_frame(fx, FRAME_HELLO, 0, 0, b.data, b.len);
	peer_assert_lost(fx, ERR_PROTOCOL);
	assert_int_equal(fx->ready, 0);
}

static void garbage(void **state)
{
	struct fixture *fx = *state;
	peer_bytes(fx, "HTTP/1.1 400 Bad Request\r\n\r\n", 28);
	peer_assert_lost(fx, ERR_PROTOCOL);
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
			assert_int_equal(peer_teardown(state), 0);
			assert_int_equal(peer_setup(state), 0);
			fx = *state;
		}
		struct seen s = {0}, other = {0};
		peer_open_stream(fx, &s);
		peer_open_stream(fx, &other);
		if (step == 1)
			peer_proof(fx, false);
		if (step >= 2)
			peer_up(fx);
		if (step == 3) /* in the middle of a frame */
			peer_bytes(fx, "\x01\x06\x00\x00\x00", 5);
		fd_closep(&fx->peer);
		peer_turn_until_lost(fx);
		assert_int_equal(fx->lost, 1);
		assert_int_equal(fx->why.code, ERR_SANDBOX_LOST);
		assert_int_equal(s.ends + other.ends, 2);
		assert_int_equal(s.status, WIRE_GONE);
		peer_turn(fx);
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
	peer_open_stream(fx, &s);
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
		peer_turn(fx);
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
	peer_assert_lost(fx, ERR_PROTOCOL);
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
		peer_open_stream(fx, &s);
		peer_up(fx);
		peer_frame(fx, rows[i].type, rows[i].flags, rows[i].stream, rows[i].payload,
			rows[i].n);
		peer_assert_lost(fx, ERR_PROTOCOL);
		assert_int_equal(s.ends, 1);
		assert_int_equal(s.status, WIRE_GONE);
		assert_int_equal(peer_teardown(state), 0);
		assert_int_equal(peer_setup(state), 0);
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
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
