/* fuzz-link.c: a hostile agent against the broker's end of a link: before it has shown its key
 * (first byte even: raw bytes) and after (odd: frames, with streams open). */
#include "fuzz.h"

#include <sys/socket.h>

static void on_msg(void *user, struct tlv_reader msg)
{
	(void)user;
	for (struct tlv t; tlv_next(&msg, &t);)
		;
	CHECK(!msg.bad);
}

struct stream {
	struct link_stream *s;
};

static void on_data(void *user, const uint8_t *p, size_t n, bool fin)
{
	struct stream *st = user;
	(void)p;
	(void)fin;
	link_consumed(st->s, n);
}

static void on_writable(void *user)
{
	struct stream *st = user;
	(void)link_write(st->s, "more", 4, false);
}

static void on_end(void *user, enum wire_status status, struct tlv_reader msg)
{
	struct stream *st = user;
	CHECK(status <= WIRE_STATUS_MAX_);
	on_msg(NULL, msg);
	st->s = NULL;
}

static const struct link_stream_events both = {on_msg, on_data, on_writable, on_end};
static const struct link_stream_events only_end = {.end = on_end};

static void known_agent(struct input *in)
{
	struct fuzz_link f;
	struct stream streams[4] = {0};
	struct buf body = BUF_INIT(64);
	fuzz_link_open(&f);
	for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
		CHECK(link_open(f.link, OP_JOB_READ, &body, i < 3 ? &both : &only_end, &streams[i],
			      &streams[i].s) == 0);
	}
	static const char bytes[2000];
	(void)link_write(streams[0].s, bytes, sizeof(bytes), false);
	(void)link_write(streams[1].s, bytes, sizeof(bytes), true);
	fuzz_link_feed(&f, in);
	if (streams[2].s)
		link_reset(streams[2].s);
	fuzz_link_turn(&f);
	link_close(f.link);
	fuzz_link_close(&f);
}

static void on_ready(void *user, const struct link_hello *hello)
{
	(void)user;
	(void)hello;
	mem_check_failed("an agent without the key was believed", __FILE__, __LINE__);
}

static void on_lost(void *user, const struct err *why)
{
	(void)user;
	CHECK(why->text[0]);
}

static void unknown_agent(struct input *in)
{
	static const uint8_t key[AUTH_KEY] = {9};
	static const struct link_events events = {.ready = on_ready, .lost = on_lost};
	struct fuzz_link f;
	int pair[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	f.peer = pair[0];
	CHECK(uv_loop_init(&f.loop) == 0);
	CHECK(link_new(&f.loop, pair[1], key, &events, NULL, &f.link) == 0);
	(void)send(f.peer, in->p, in->n, MSG_NOSIGNAL | MSG_DONTWAIT);
	fuzz_link_turn(&f);
	link_close(f.link);
	fuzz_link_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	if (input_u8(&in) & 1)
		known_agent(&in);
	else
		unknown_agent(&in);
	return 0;
}
