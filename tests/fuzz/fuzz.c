/* fuzz.c: see fuzz.h. */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/auth.h"
#include "wire/frame.h"
#include "wire/tlv.h"

#define FRAME_MAX_INPUT (64 * KIB)

bool fuzz_frame(struct input *in, struct buf *out)
{
	if (in->n == 0)
		return false;
	uint8_t kind = input_u8(in);
	uint8_t type = (uint8_t)(1 + (kind & 0x1f) % FRAME_TYPE_MAX_);
	uint32_t stream = input_u8(in);
	size_t n;
	const uint8_t *p = input_bytes(in, input_u16(in), &n);
	uint16_t flags = kind & 0x40 ? FRAME_FLAG_FIN : 0;
	if (!(kind & FUZZ_TLVS)) {
		CHECK(frame_append(out, type, flags, stream, p, n) == 0);
		return true;
	}
	struct buf payload = BUF_INIT(LIMIT_FRAME_PAYLOAD);
	struct input sub = {p, n};
	if (type == FRAME_END || type == FRAME_EVENT || type == FRAME_OPEN) {
		uint8_t code[2] = {0, input_u8(&sub)};
		CHECK(buf_append(&payload, code, sizeof(code)) == 0);
	}
	while (sub.n) {
		uint16_t tag = input_u8(&sub);
		size_t len;
		const uint8_t *value = input_bytes(&sub, input_u16(&sub), &len);
		CHECK(tlv_bytes(&payload, tag, value, len) == 0);
	}
	CHECK(frame_append(out, type, flags, stream, payload.data, payload.len) == 0);
	buf_done(&payload);
	return true;
}

static void ignore_ready(void *user, const struct link_hello *hello)
{
	(void)user;
	(void)hello;
}

static void ignore_lost(void *user, const struct err *why)
{
	(void)user;
	CHECK(why->text[0]);
}

static void ignore_event(void *user, uint16_t event, struct tlv_reader msg)
{
	(void)user;
	(void)event;
	for (struct tlv t; tlv_next(&msg, &t);)
		;
}

static const struct link_events events = {ignore_ready, ignore_lost, ignore_event};

void fuzz_link_turn(struct fuzz_link *f)
{
	uint8_t sink[4096];
	for (int i = 0; i < 3; i++) {
		(void)uv_run(&f->loop, UV_RUN_NOWAIT);
		while (recv(f->peer, sink, sizeof(sink), MSG_DONTWAIT) > 0)
			;
	}
}

static void say(struct fuzz_link *f, uint8_t type, const void *p, size_t n)
{
	struct buf out = BUF_INIT(4096);
	CHECK(frame_append(&out, type, 0, 0, p, n) == 0);
	CHECK(send(f->peer, out.data, out.len, MSG_NOSIGNAL) == (ssize_t)out.len);
	buf_done(&out);
}

void fuzz_link_open(struct fuzz_link *f)
{
	static const uint8_t key[AUTH_KEY] = {7};
	int pair[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	f->peer = pair[0];
	CHECK(uv_loop_init(&f->loop) == 0);
	CHECK(link_new(&f->loop, pair[1], key, &events, f, &f->link) == 0);
	(void)uv_run(&f->loop, UV_RUN_NOWAIT);

	uint8_t challenge[FRAME_HEADER + AUTH_CHALLENGE];
	CHECK(recv(f->peer, challenge, sizeof(challenge), 0) == (ssize_t)sizeof(challenge));
	uint8_t proof[AUTH_PROOF] = {1};
	auth_agent_mac(key, challenge + FRAME_HEADER + AUTH_SYNC, proof, proof + AUTH_NONCE);
	say(f, FRAME_PROOF, proof, sizeof(proof));

	struct buf hello = BUF_INIT(4096);
	uint8_t boot_id[16] = {2};
	CHECK(tlv_u64(&hello, TAG_PROTOCOL_MIN, WIRE_PROTOCOL) == 0);
	CHECK(tlv_u64(&hello, TAG_PROTOCOL_MAX, WIRE_PROTOCOL) == 0);
	CHECK(tlv_str(&hello, TAG_BUILD, "fuzz") == 0);
	CHECK(tlv_bytes(&hello, TAG_BOOT_ID, boot_id, sizeof(boot_id)) == 0);
	CHECK(tlv_u64(&hello, TAG_UPTIME_MS, 1) == 0);
	say(f, FRAME_HELLO, hello.data, hello.len);
	buf_done(&hello);
	fuzz_link_turn(f);
	CHECK(link_ready(f->link));
}

void fuzz_link_feed(struct fuzz_link *f, struct input *in)
{
	struct buf out = BUF_INIT(FRAME_MAX_INPUT * 2 + LIMIT_FRAME_PAYLOAD);
	size_t piece = 1 + (size_t)input_u8(in) * 16;
	while (fuzz_frame(in, &out)) {
		for (size_t at = 0; at < out.len;) {
			size_t n = MIN(piece, out.len - at);
			ssize_t sent = send(f->peer, out.data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (sent < 0 && errno != EAGAIN) {
				in->n = 0; /* the broker has hung up */
				break;
			}
			at += sent > 0 ? (size_t)sent : 0;
			if (sent < 0 || piece < 256)
				fuzz_link_turn(f);
			if (sent < 0 && link_lost_reason(f->link))
				break;
		}
		buf_clear(&out);
		fuzz_link_turn(f);
	}
	buf_done(&out);
}

void fuzz_link_close(struct fuzz_link *f)
{
	(void)close(f->peer);
	CHECK(uv_run(&f->loop, UV_RUN_DEFAULT) == 0);
	CHECK(uv_loop_close(&f->loop) == 0);
}
