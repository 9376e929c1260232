/* The broker's end of a link: streams, credit, callbacks that change what they were called for. */
#include "link-fixture.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

/* ---- streams ---- */

static void end_twice(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	peer_open_stream(fx, &s);
	peer_up(fx);
	peer_end(fx, 1, WIRE_NOT_FOUND);
	peer_turn(fx);
	assert_int_equal(s.status, WIRE_NOT_FOUND);
	assert_int_equal(fx->lost, 0);
	peer_end(fx, 1, WIRE_OK);
	peer_assert_lost(fx, ERR_PROTOCOL);
	assert_int_equal(s.ends, 1);
}

static void reset_by_the_agent(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	peer_open_stream(fx, &s);
	peer_up(fx);
	peer_frame(fx, FRAME_RESET, 0, 1, "\0\x14", 2);
	peer_turn(fx);
	assert_int_equal(s.status, WIRE_CANCELLED);
	assert_int_equal(fx->lost, 0);
}

static void an_operation_is_expected_where_none_is_open(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	struct frame f;
	link_expect(fx->link); /* not before the handshake */
	fx->feature = "expect";
	peer_up(fx);
	assert_false(peer_next(fx, &f));
	link_expect(fx->link);
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_EXPECT);
	assert_int_equal(f.stream + f.len, 0);
	peer_open_stream(fx, &s);
	link_expect(fx->link);
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_OPEN);
	assert_false(peer_next(fx, &f));
	peer_end(fx, 1, WIRE_OK);
	peer_turn(fx);
	link_expect(fx->link);
	assert_true(peer_next(fx, &f));
	assert_int_equal(f.type, FRAME_EXPECT);
	peer_frame(fx, FRAME_EXPECT, 0, 0, NULL, 0); /* an agent expects nothing of a broker */
	peer_assert_lost(fx, ERR_PROTOCOL);
}

static void an_agent_that_expects_nothing_is_told_nothing(void **state)
{
	struct fixture *fx = *state;
	struct frame f;
	peer_up(fx);
	link_expect(fx->link);
	assert_false(peer_next(fx, &f));
}

static void late_frames_of_a_reset_stream(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0}, other = {0};
	struct frame f;
	peer_open_stream(fx, &s);
	peer_open_stream(fx, &other);
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
	peer_turn(fx);
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
	peer_open_stream(fx, &s);
	peer_up(fx);
	peer_frame(fx, FRAME_DATA, 0, 1, bytes, sizeof(bytes));
	peer_turn(fx);
	assert_int_equal(s.bytes, LIMIT_STREAM_WINDOW);
	assert_int_equal(fx->lost, 0);
	peer_frame(fx, FRAME_DATA, 0, 1, bytes, 1);
	peer_assert_lost(fx, ERR_PROTOCOL);
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
	peer_open_stream(fx, &s);
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
	peer_open_stream(fx, &s);
	peer_up(fx);
	size_t n = link_write(s.stream, bytes, sizeof(bytes), true);
	assert_int_equal(n, LIMIT_STREAM_WINDOW);
	peer_turn(fx);
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
	peer_open_stream(fx, &s);
	peer_up(fx);
	assert_int_equal(tlv_bytes(&b, TAG_TEXT, bytes, sizeof(bytes)), 0);
	for (int i = 0; i < 60 && !fx->lost; i++)
		peer_frame(fx, FRAME_MSG, 0, 1, b.data, b.len);
	peer_assert_lost(fx, ERR_PROTOCOL);
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
	peer_assert_lost(fx, ERR_SANDBOX_LOST);
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
		r = link_open(
			fx->link, OP_JOB_START, &body, &peer_stream_events, &s[n], &s[n].stream);
	assert_int_equal(r, -ENOBUFS);
	assert_in_range(n, 30, 60);
	assert_int_equal(
		link_open(fx->link, OP_USAGE, &body, &peer_stream_events, NULL, &st), -ENOBUFS);
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
		link_open(fx->link, OP_USAGE, &body, &peer_stream_events, &s[n], &s[n].stream), 0);
}

static void streams_have_a_maximum(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0};
	struct link_stream *st;
	for (size_t i = 0; i < LIMIT_STREAMS; i++)
		peer_open_stream(fx, &s);
	assert_int_equal(
		link_open(fx->link, OP_USAGE, NULL, &peer_stream_events, &s, &st), -ENOBUFS);
	link_reset(s.stream);
	peer_open_stream(fx, &s);
	struct buf large = {.data = (uint8_t *)"", .len = LIMIT_FRAME_PAYLOAD - 1};
	assert_int_equal(
		link_open(fx->link, OP_USAGE, &large, &peer_stream_events, &s, &st), -EMSGSIZE);
	peer_close_link(fx); /* with all of them open */
	assert_int_equal(s.ends, 0);
}

/* How many descriptors come with the next bytes; the bytes are thrown away. */
static size_t receive_fds(struct fixture *fx)
{
	uint8_t bytes[4096];
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(8 * sizeof(int))];
	} control;
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	assert_true(recvmsg(fx->peer, &m, MSG_DONTWAIT) > FRAME_HEADER);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (!c)
		return 0;
	size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < n; i++) {
		int fd;
		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		(void)close(fd);
	}
	return n;
}

static void descriptors_go_at_once_or_not_at_all(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {.fx = fx};
	struct link_stream *st;
	_cleanup_buf_ struct buf body = BUF_INIT(MIB);
	static uint8_t bytes[100 * KIB];
	const int fds[4] = {0, 1, 2, 0};
	assert_int_equal(link_open_with_fds(fx->link, OP_KERNEL_ADOPT, NULL, fds, 4,
				 &peer_stream_events, &s, &s.stream),
		-EAGAIN); /* before the handshake */
	assert_false(link_has(fx->link, "seccomp"));
	peer_up(fx);
	assert_true(link_has(fx->link, "seccomp"));
	assert_true(link_has(fx->link, "openat2"));
	assert_false(link_has(fx->link, "openat"));
	assert_false(link_has(fx->link, "comp"));
	assert_int_equal(link_open_with_fds(fx->link, OP_KERNEL_ADOPT, NULL, fds, 4,
				 &peer_stream_events, &s, &s.stream),
		0);
	assert_int_equal(receive_fds(fx), 4);
	peer_end(fx, 1, WIRE_OK);
	assert_int_equal(s.ends, 1);
	/* Once something is queued they would not arrive with their frame. */
	assert_int_equal(tlv_bytes(&body, TAG_CODE, bytes, sizeof(bytes)), 0);
	struct link_stats stats = {0};
	while (stats.queued == 0) {
		assert_int_equal(
			link_open(fx->link, OP_JOB_START, &body, &peer_stream_events, &s, &st), 0);
		link_stats(fx->link, &stats);
	}
	assert_int_equal(link_open_with_fds(fx->link, OP_KERNEL_ADOPT, NULL, fds, 4,
				 &peer_stream_events, &s, &st),
		-EAGAIN);
	peer_close_link(fx);
}

/* ---- callbacks that change what they were called for ---- */

static void closing_and_resetting_inside_callbacks(void **state)
{
	struct fixture *fx = *state;
	struct seen a = {0}, b = {0}, c = {0};
	_cleanup_buf_ struct buf frames = BUF_INIT(KIB);
	peer_open_stream(fx, &a);
	peer_open_stream(fx, &b);
	peer_open_stream(fx, &c);
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
	peer_open_stream(fx, &a);
	peer_open_stream(fx, &b);
	a.close_on_end = b.close_on_end = true;
	(void)err_set(&why, ERR_SANDBOX_LOST, 0, "out of memory");
	link_fail(fx->link, &why);
	assert_int_equal(a.ends, 0); /* not from inside the call */
	peer_turn(fx);
	assert_int_equal(a.ends + b.ends, 1);
	assert_int_equal(fx->lost, 0);
	assert_null(fx->link);
}

static void failing_from_outside(void **state)
{
	struct fixture *fx = *state;
	struct seen s = {0}, late = {0};
	struct err why;
	peer_open_stream(fx, &s);
	peer_open_stream(fx, &late);
	peer_up(fx);
	/* The agent's last words lie in the socket when its process is seen to end. */
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	assert_int_equal(frame_append(&b, FRAME_END, 0, 1, "\0\0", 2), 0);
	assert_int_equal(fd_write_full(fx->peer, b.data, b.len), 0);
	(void)err_set(&why, ERR_SANDBOX_LOST, 0, "the launcher was killed");
	link_fail(fx->link, &why);
	assert_non_null(link_lost_reason(fx->link));
	peer_assert_lost(fx, ERR_SANDBOX_LOST);
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
	peer_open_stream(fx, &s);
	fd_closep(&fx->peer);
	peer_turn(fx);
	assert_non_null(link_lost_reason(fx->link));
	assert_int_equal(fx->lost, 0);
	/* What is asked meanwhile waits for the reason, too; on a busy machine not just a moment.
	 */
	peer_open_stream(fx, &late);
	(void)usleep(300 * USEC_PER_MSEC);
	peer_turn(fx);
	assert_int_equal(fx->lost, 0);
	assert_int_equal(late.ends, 0);
	(void)err_set(&why, ERR_PROVIDER_UNUSABLE, 0, "bwrap: no user namespaces");
	link_fail(fx->link, &why);
	peer_turn(fx);
	assert_int_equal(fx->lost, 1);
	assert_int_equal(fx->why.code, ERR_PROVIDER_UNUSABLE);
	assert_string_equal(fx->why.text, "bwrap: no user namespaces");
	assert_string_equal(link_lost_reason(fx->link)->text, "bwrap: no user namespaces");
	assert_int_equal(s.ends, 1);
	assert_int_equal(late.ends, 1);
	assert_int_equal(late.status, WIRE_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(end_twice),
		TEST(reset_by_the_agent),
		TEST(an_operation_is_expected_where_none_is_open),
		TEST(an_agent_that_expects_nothing_is_told_nothing),
		TEST(late_frames_of_a_reset_stream),
		TEST(data_without_credit),
		TEST(credit_comes_back),
		TEST(write_waits_for_credit),
		TEST(flood_of_messages),
		TEST(flood_of_pings),
		TEST(agent_that_does_not_read),
		TEST(streams_have_a_maximum),
		TEST(descriptors_go_at_once_or_not_at_all),
		TEST(closing_and_resetting_inside_callbacks),
		TEST(closing_inside_an_end),
		TEST(failing_from_outside),
		TEST(reason_that_comes_later),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
