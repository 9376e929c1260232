/* A link over a stream that tears: what an earlier link left on it, and what must not be sent. */
#include "link-fixture.h"

#include <errno.h>

#include "link/resync.h"

static void the_answer_is_found_among_other_bytes(void **state)
{
	struct fixture *fx = *state;
	uint8_t junk[FRAME_HEADER + AUTH_PROOF];
	link_tears(fx->link);
	/* the end of a frame, a proof for somebody else, and a torn one */
	peer_bytes(fx, "the rest of a frame", 19);
	memset(junk, 0x5a, sizeof(junk));
	frame_header(junk, FRAME_PROOF, 0, 0, AUTH_PROOF);
	peer_bytes(fx, junk, sizeof(junk));
	peer_bytes(fx, junk, 40);
	peer_turn(fx);
	assert_int_equal(fx->lost, 0);
	peer_up(fx);
	assert_int_equal(fx->ready, 1);
}

static void it_is_found_behind_much(void **state)
{
	struct fixture *fx = *state;
	static uint8_t much[200000];
	link_tears(fx->link);
	for (size_t done = 0; done < sizeof(much); done += 50000) {
		peer_bytes(fx, much + done, 50000);
		peer_turn(fx);
	}
	peer_up(fx);
	assert_int_equal(fx->ready, 1);
}

static void without_it_the_link_ends(void **state)
{
	struct fixture *fx = *state;
	static uint8_t much[100000];
	link_tears(fx->link);
	for (int i = 0; i < 180 && !fx->lost; i++) {
		peer_bytes(fx, much, sizeof(much));
		peer_turn(fx);
	}
	peer_turn_until_lost(fx);
	peer_assert_lost(fx, ERR_PROTOCOL);
}

static void a_listening_link_takes_no_other_bytes(void **state)
{
	struct fixture *fx = *state;
	peer_bytes(fx, "junk", 4);
	peer_turn_until_lost(fx);
	peer_assert_lost(fx, ERR_PROTOCOL);
}

static void the_marker_is_never_sent_whole(void **state)
{
	struct fixture *fx = *state;
	struct seen seen = {.fx = fx};
	struct frame f;
	uint8_t data[100];
	_cleanup_buf_ struct buf got = BUF_INIT(KIB), body = BUF_INIT(KIB);
	link_tears(fx->link);
	fx->sealed = true;
	peer_up(fx);
	memset(data, 'x', sizeof(data));
	memcpy(data, auth_sync, AUTH_SYNC);
	memcpy(data + 40, auth_sync, AUTH_SYNC);
	memcpy(data + sizeof(data) - AUTH_SYNC, auth_sync, AUTH_SYNC);
	peer_open_stream(fx, &seen);
	assert_int_equal(link_write(seen.stream, data, sizeof(data), true), sizeof(data));
	peer_turn(fx);
	bool fin = false;
	unsigned frames = 0;
	while (peer_next(fx, &f)) {
		if (f.type != FRAME_DATA)
			continue;
		assert_false(fin);
		assert_null(memmem(f.payload, f.len, auth_sync, AUTH_SYNC));
		assert_int_equal(buf_append(&got, f.payload, f.len), 0);
		fin = f.flags & FRAME_FLAG_FIN;
		frames++;
	}
	assert_true(fin);
	assert_int_equal(frames, 4);
	assert_int_equal(got.len, sizeof(data));
	assert_memory_equal(got.data, data, sizeof(data));
	/* In a request it cannot be split. */
	struct link_stream *s;
	assert_int_equal(tlv_bytes(&body, TAG_CODE, auth_sync, AUTH_SYNC), 0);
	assert_int_equal(
		link_open(fx->link, OP_USAGE, &body, &peer_stream_events, &seen, &s), -EINVAL);
}

static void splitting(void **state)
{
	(void)state;
	uint8_t b[AUTH_SYNC + 1] = {0};
	memcpy(b, auth_sync, AUTH_SYNC);
	assert_int_equal(resync_split(b, 0), 0);
	assert_int_equal(resync_split(b, AUTH_SYNC - 1), AUTH_SYNC - 1);
	assert_int_equal(resync_split(b, AUTH_SYNC), AUTH_SYNC / 2);
	assert_int_equal(resync_split(b, sizeof(b)), AUTH_SYNC / 2);
	assert_int_equal(resync_split(b + 1, AUTH_SYNC), AUTH_SYNC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_answer_is_found_among_other_bytes),
		TEST(it_is_found_behind_much),
		TEST(without_it_the_link_ends),
		TEST(a_listening_link_takes_no_other_bytes),
		TEST(the_marker_is_never_sent_whole),
		cmocka_unit_test(splitting),
	};
	return cmocka_run_group_tests_name("link-torn", tests, NULL, NULL);
}
