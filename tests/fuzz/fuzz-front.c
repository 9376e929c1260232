/* fuzz-front.c: bytes from a front against the broker's end of it, over a socket; and bytes from a
 * broker against what a front reads them with. There are no sandboxes to be had. */
#include "fuzz.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/limits.h"
#include "mcp/fronthello.h"
#include "mcp/fronts.h"
#include "mcp/frontwire.h"
#include "mcp/server.h"
#include "policy/policy.h"

static struct audit *audit;
static char *audit_path, *audit_key, *socket_path;

/* Once: what is costly to make and keeps no state of an input. */
static void prepare(void)
{
	static char dir[] = "/tmp/scb-fuzz-XXXXXX";
	struct err err = {0};
	if (audit)
		return;
	CHECK(mkdtemp(dir));
	audit_path = xasprintf("%s/audit.jsonl", dir);
	audit_key = xasprintf("%s/audit.key", dir);
	socket_path = xasprintf("%s/broker", dir);
	const struct audit_config small = {.max_bytes = MIB, .keep = 1};
	CHECK(audit_open(audit_path, audit_key, &small, &audit, &err) == 0);
}

static struct sockaddr_un address(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	CHECK(strlen(socket_path) < sizeof(a.sun_path));
	memcpy(a.sun_path, socket_path, strlen(socket_path) + 1);
	return a;
}

static int listen_there(void)
{
	struct sockaddr_un a = address();
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)unlink(socket_path);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 8) == 0);
	return fd;
}

static int connect_there(void)
{
	struct sockaddr_un a = address();
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	return fd;
}

/* What comes back must be frames that a front understands. */
static void check_answers(int fd, struct buf *in)
{
	struct front_frame frame;
	size_t size;
	ssize_t n;
	int r;
	do {
		CHECK(buf_reserve(in, 64 * KIB) == 0);
		n = recv(fd, in->data + in->len, 64 * KIB, MSG_DONTWAIT);
		in->len += n > 0 ? (size_t)n : 0;
		while ((r = frontwire_next(FRONT_FROM_BROKER, in->data, in->len, &frame, &size)) ==
			1) {
			if (frame.type == FRONT_ANSWER || frame.type == FRONT_NOTE)
				CHECK(frame.n > 0 && frame.p[frame.n - 1] == '\n');
			buf_consume(in, size);
		}
		CHECK(r == 0);
	} while (n > 0);
}

static void unused(void *user)
{
	(void)user;
}

static void hand_over(void *user, int fd)
{
	(void)user;
	(void)fd;
}

static void send_hello(int fd)
{
	struct front_hello h = {.protocol_min = 1, .protocol_max = 1, .build = "0.0.1", .name = ""};
	struct err err;
	_cleanup_buf_ struct buf text = BUF_INIT(LIMIT_FRONT_JSON);
	uint8_t head[FRONT_HEAD];
	CHECK(front_hello_encode(&h, &text, &err) == 0);
	frontwire_head(FRONT_HELLO, text.len, head);
	CHECK(send(fd, head, sizeof(head), MSG_NOSIGNAL) == (ssize_t)sizeof(head));
	CHECK(send(fd, text.data, text.len, MSG_NOSIGNAL) == (ssize_t)text.len);
}

/* type, be16 length, payload: frames that mutations keep well-formed; type 0: raw bytes. */
static void feed(uv_loop_t *loop, int fd, struct input *in, struct buf *back)
{
	while (in->n) {
		uint8_t type = input_u8(in);
		size_t n, wanted = input_u16(in);
		const uint8_t *p = input_bytes(in, wanted, &n);
		uint8_t head[FRONT_HEAD];
		frontwire_head((enum front_type)type, n, head);
		if (type)
			(void)send(fd, head, sizeof(head), MSG_NOSIGNAL);
		(void)send(fd, p, n, MSG_NOSIGNAL);
		(void)uv_run(loop, UV_RUN_NOWAIT);
		check_answers(fd, back);
	}
}

/* The same bytes as a broker's words. */
static void read_as_front(const uint8_t *p, size_t n)
{
	struct front_frame frame;
	size_t size;
	while (frontwire_next(FRONT_FROM_BROKER, p, n, &frame, &size) == 1) {
		struct front_reply reply;
		struct err err;
		CHECK(size <= n);
		if (frame.type == FRONT_WELCOME || frame.type == FRONT_REFUSED)
			(void)front_reply_decode(frame.p, frame.n, &reply, &err);
		p += size;
		n -= size;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	prepare();
	read_as_front(data, size);

	uv_loop_t loop;
	CHECK(uv_loop_init(&loop) == 0);
	struct policy *policy = policy_new_default();
	struct mcp_server *server = mcp_server_new(
		&(struct mcp_config){.loop = &loop, .policy = policy, .audit = audit});
	struct fronts *fronts = fronts_new(&(struct fronts_config){.loop = &loop,
						   .server = server,
						   .policy = policy,
						   .outputs = "/none",
						   .state = "/none",
						   .unused = unused,
						   .hand_over = hand_over},
		listen_there());
	struct input in = {data, size};
	_cleanup_buf_ struct buf back = BUF_INIT(64 * MIB);
	int fd = connect_there();
	if (input_u8(&in) & 1)
		send_hello(fd);
	feed(&loop, fd, &in, &back);
	for (int i = 0; i < 4; i++)
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	check_answers(fd, &back);
	(void)close(fd);
	(void)uv_run(&loop, UV_RUN_NOWAIT);
	fronts_close(fronts);
	mcp_server_close(server);
	CHECK(uv_run(&loop, UV_RUN_DEFAULT) == 0);
	CHECK(uv_loop_close(&loop) == 0);
	policy_free(policy);
	return 0;
}
