/* fuzz-agent.c: bytes from a broker against the agent: its link before the key was shown (first
 * byte even) and, after it, streams and file operations on a scratch folder.
 *
 * Operations that start programs are left out: what they would run would be input, too. */
#include "fuzz.h"

#include <ftw.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/config.h"
#include "agent/loop.h"
#include "agent/streams.h"
#include "agent/uplink.h"
#include "agent/workspace.h"
#include "base/fd.h"
#include "wire/auth.h"
#include "wire/frame.h"

#define NOBODY 65534

static const uint8_t key[AUTH_KEY] = {3};
static char scratch[] = "/tmp/scb-fuzz-XXXXXX";
static struct config config;
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_len;

/* ---- the agent's loop, some rounds at a time ---- */

static jmp_buf leave;
static int rounds;
static struct timer tick;

static void ignore(struct timer *t)
{
	(void)t;
}

static void before_sleep(void)
{
	uplink_flush();
	if (rounds-- == 0)
		longjmp(leave, 1);
	timer_set(&tick, 0);
}

static void nothing(void)
{
}

static const struct loop_hooks hooks = {.children = nothing, .before_sleep = before_sleep};

static void turn(int n)
{
	rounds = n;
	if (setjmp(leave) == 0)
		loop_run(&hooks);
}

/* ---- once ---- */

static const struct stream_handler *const tables[] = {workspace_handlers, NULL};
static const char *const features[] = {"fuzz", NULL};
static const struct uplink_events events = {
	.up = nothing,
	.down = streams_close_all,
	.frame = streams_frame,
	.replaced = streams_close_all,
	.drained = streams_writable,
};

static void prepare(void)
{
	if (config.workspace)
		return;
	CHECK(mkdtemp(scratch));
	if (geteuid() == 0)
		CHECK(chown(scratch, NOBODY, NOBODY) == 0);
	memcpy(config.key, key, sizeof(key));
	config.workspace = scratch;
	config.workspace_fd = open(scratch, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(config.workspace_fd >= 0);
	config.mounts[0] = (struct config_mount){
		.name = xstrdup("data"), .path = xstrdup("/mnt/data"), .fd = config.workspace_fd};
	config.n_mounts = 1;
	CHECK(loop_init() == 0);
	timer_init(&tick, ignore);
	streams_init(tables);
	workspace_init(&config);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int n = snprintf(
		address.sun_path + 1, sizeof(address.sun_path) - 1, "scb-fuzz-%d", getpid());
	address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	CHECK(bind(fd, (struct sockaddr *)&address, address_len) == 0 && listen(fd, 4) == 0);
	CHECK(uplink_listen(&config, fd, features, &events) == 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	if (where->level > 0)
		(void)remove(path);
	return 0;
}

/* ---- the broker ---- */

static int dial(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, address_len) == 0);
	turn(1);
	return fd;
}

static bool say(int fd, const struct buf *out)
{
	for (size_t at = 0; at < out->len;) {
		ssize_t n = send(fd, out->data + at, out->len - at, MSG_NOSIGNAL);
		if (n > 0)
			at += (size_t)n;
		else if (errno != EAGAIN)
			return false;
		turn(2);
		static uint8_t sink[65536];
		while (recv(fd, sink, sizeof(sink), 0) > 0)
			;
	}
	return true;
}

static void show_key(int fd)
{
	struct buf out = BUF_INIT(KIB);
	uint8_t challenge[AUTH_CHALLENGE] = {0}, proof[FRAME_HEADER + AUTH_PROOF];
	memcpy(challenge, auth_sync, AUTH_SYNC);
	CHECK(frame_append(&out, FRAME_CHALLENGE, 0, 0, challenge, sizeof(challenge)) == 0);
	CHECK(send(fd, out.data, out.len, MSG_NOSIGNAL) == (ssize_t)out.len);
	turn(2);
	CHECK(recv(fd, proof, sizeof(proof), 0) == (ssize_t)sizeof(proof));
	uint8_t mac[SHA256_SIZE];
	auth_broker_mac(key, proof + FRAME_HEADER, challenge + AUTH_SYNC, mac);
	buf_clear(&out);
	CHECK(frame_append(&out, FRAME_CONFIRM, 0, 0, mac, sizeof(mac)) == 0);
	CHECK(say(fd, &out));
	buf_done(&out);
	CHECK(uplink_is_up());
}

static void as_broker(struct input *in)
{
	int fd = dial();
	struct buf out = BUF_INIT(2 * LIMIT_FRAME_PAYLOAD);
	show_key(fd);
	while (fuzz_frame(in, &out) && say(fd, &out))
		buf_clear(&out);
	turn(3);
	buf_done(&out);
	fd_closep(&fd);
	turn(2);
	CHECK(!uplink_is_up());
}

static void as_stranger(struct input *in)
{
	int fd = dial();
	(void)send(fd, in->p, in->n, MSG_NOSIGNAL);
	turn(2);
	CHECK(!uplink_is_up());
	fd_closep(&fd);
	turn(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	prepare();
	/* Even a way out of the scratch folder would then find nothing that it may change. */
	(void)setfsgid(NOBODY);
	(void)setfsuid(NOBODY);
	if (input_u8(&in) & 1)
		as_broker(&in);
	else
		as_stranger(&in);
	(void)nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	(void)setfsuid(geteuid());
	(void)setfsgid(getegid());
	return 0;
}
