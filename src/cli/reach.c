/* reach.c: see reach.h. */
#include "cli/reach.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "cli/address.h"
#include "cli/start.h"
#include "mcp/build.h"
#include "mcp/frontwire.h"
#include "mcp/jsonrpc.h"

/* A broker answers HELLO within microseconds, or after the 15 s that it waits for an engine at most
 * (provider_await()); one that is stopped never does. */
#define ANSWER_US (20 * USEC_PER_SEC)
/* Between two looks at a broker that starts or ends: 1 ms, then longer. */
#define WAIT_MIN_US (1 * USEC_PER_MSEC)
#define WAIT_MAX_US (50 * USEC_PER_MSEC)
/* One may end unused, or be started by an older program, just before it is reached. */
#define STARTS_MAX 5
/* sessions.close waits for sandboxes to go away. */
#define CONTROL_US (30 * USEC_PER_SEC)

/* ---- frames, blocking ---- */

static int connect_to(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	struct ucred peer;
	socklen_t size = sizeof(peer);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid())
		return -EPERM;
	return TAKE_FD(fd);
}

static int send_full(int fd, const void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t sent = send(fd, (const char *)p + done, n - done, MSG_NOSIGNAL);
		if (sent < 0 && errno != EINTR)
			return -errno;
		done += sent > 0 ? (size_t)sent : 0;
	}
	return 0;
}

/* A descriptor that comes along goes to *ret_passed, where that is wanted. */
static ssize_t receive(int fd, void *p, size_t n, int *ret_passed)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = {p, n};
	struct msghdr m = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = got >= 0 ? CMSG_FIRSTHDR(&m) : NULL;
	int passed = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&passed, CMSG_DATA(c), sizeof(int));
	if (passed >= 0 && ret_passed && *ret_passed < 0)
		*ret_passed = passed;
	else
		fd_closep(&passed);
	return got;
}

/* Exactly one frame into in. 0, -EPIPE at the end of the stream, -ETIMEDOUT, … */
static int read_frame(
	int fd, uint64_t timeout_us, struct buf *in, struct front_frame *ret, int *ret_passed)
{
	uint64_t end = clock_monotonic_us() + timeout_us;
	for (;;) {
		size_t size;
		int r = frontwire_next(FRONT_FROM_BROKER, in->data, in->len, ret, &size);
		if (r != 0)
			return r < 0 ? r : 0;
		size_t wanted = (size ? size : FRONT_HEAD) - in->len;
		uint64_t now = clock_monotonic_us();
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		if (now >= end)
			return -ETIMEDOUT;
		if (poll(&ready, 1, (int)((end - now) / USEC_PER_MSEC) + 1) <= 0)
			continue;
		r = buf_reserve(in, wanted);
		if (r < 0)
			return r;
		ssize_t n = receive(fd, in->data + in->len, wanted, ret_passed);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		in->len += (size_t)n;
	}
}

static int send_json(int fd, enum front_type type, const struct buf *text)
{
	_cleanup_buf_ struct buf frame = BUF_INIT(FRONT_HEAD + LIMIT_FRONT_JSON);
	uint8_t head[FRONT_HEAD];
	frontwire_head(type, text->len, head);
	int r = buf_append(&frame, head, sizeof(head));
	if (r == 0)
		r = buf_append(&frame, text->data, text->len);
	return r < 0 ? r : send_full(fd, frame.data, frame.len);
}

/* ---- hello ---- */

void reach_fill_hello(struct front_hello *h, enum front_kind kind)
{
	*h = (struct front_hello){
		.protocol_min = build.front_min,
		.protocol_max = build.front_max,
		.build = build.version,
		.kind = kind,
		.name = "",
	};
	id_random(h->front, sizeof(h->front));
}

/* 0 and the broker's reply: welcome, where reply->why is empty. A negative errno where there is no
 * broker to talk to: it starts, ends, or has ended. */
static int say_hello(
	int fd, const struct front_hello *hello, struct front_reply *ret, struct err *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(LIMIT_FRONT_JSON);
	_cleanup_buf_ struct buf in = BUF_INIT(2 * LIMIT_FRONT_JSON);
	struct front_frame frame;
	int r = front_hello_encode(hello, &text, err);
	if (r < 0)
		return r;
	(void)send_json(fd, FRONT_HELLO, &text); /* a refusal may stand there already */
	r = read_frame(fd, ANSWER_US, &in, &frame, NULL);
	if (r == 0 && frame.type != FRONT_WELCOME && frame.type != FRONT_REFUSED)
		r = -EPROTO;
	if (r == 0)
		r = front_reply_decode(frame.p, frame.n, ret, err);
	else
		(void)err_set(err, ERR_PROTOCOL, -r, "%s", strerror(-r));
	return r;
}

int reach_control(
	int fd, const json_t *request, json_t **ret_answer, int *ret_lock, struct err *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT(LIMIT_FRONT_JSON);
	_cleanup_buf_ struct buf in = BUF_INIT(LIMIT_FRONT_CONTROL + FRONT_HEAD + KIB);
	struct front_frame frame;
	if (ret_lock)
		*ret_lock = -1;
	int r = jsonrpc_encode(request, &text);
	if (r == 0)
		r = send_json(fd, FRONT_CONTROL, &text);
	if (r == 0)
		r = read_frame(fd, CONTROL_US, &in, &frame, ret_lock);
	if (r == 0 && frame.type != FRONT_CONTROL_ANSWER)
		r = -EPROTO;
	json_t *answer = r == 0 ? json_loadb(frame.p, frame.n, JSON_REJECT_DUPLICATES, NULL) : NULL;
	if (!json_is_object(answer)) {
		json_decref(answer);
		return err_set(err, ERR_PROTOCOL, r < 0 ? -r : EPROTO,
			"the broker did not answer: %s", strerror(r < 0 ? -r : EPROTO));
	}
	*ret_answer = answer;
	return 0;
}

/* ---- hand-over ---- */

/* Asks a broker to go: an older one, or (for_http) any. The lock's descriptor; -EBUSY where it
 * stays; another negative errno where it is just another broker to be waited for. */
static int take_over(const char *socket, bool for_http)
{
	struct front_hello hello;
	struct front_reply reply;
	struct err err = {0};
	int lock = -1;
	reach_fill_hello(&hello, FRONT_CONTROL_ONLY);
	_cleanup_close_ int fd = connect_to(socket);
	if (fd < 0)
		return fd;
	int r = say_hello(fd, &hello, &reply, &err);
	if (r < 0 || reply.why.code)
		return r < 0 ? r : -EPERM;
	json_t *request =
		json_pack("{s:s,s:s,s:b}", "op", "leave", "build", build.version, "http", for_http);
	json_t *answer = NULL;
	r = reach_control(fd, request, &answer, &lock, &err);
	if (r == 0 && lock < 0)
		r = json_object_get(answer, "error") ? -EBUSY : -EPERM;
	json_decref(request);
	json_decref(answer);
	return r < 0 ? r : lock;
}

/* ---- all together ---- */

struct reaching {
	const char *state;
	const struct settings *settings;
	const struct front_hello *hello;
	uint64_t end_us, wait_us;
	unsigned starts;
	struct address address; /* of the last look */
};

static int start_with(struct reaching *r, int lock, struct err *err)
{
	if (++r->starts > STARTS_MAX)
		return err_set(err, ERR_INTERNAL, 0,
			"the broker ends as soon as it has started; %.200s/broker.log may say why",
			r->state);
	if (!address_is_lock(r->state, lock))
		return err_set(err, ERR_IO, 0, "%.300s/lock was replaced", r->state);
	_cleanup_arglist_ struct arglist own = {0};
	_cleanup_address_ struct address last = {0};
	settings_broker_args(r->settings, &own);
	/* One that did not end by itself may still be in use as it was started; where it is not, it
	 * makes room for one as this caller wants it. */
	bool successor = address_read(r->state, &last) == 0 && last.since_boot;
	int e = start_broker(r->state, successor ? &last.options : &own, lock, err);
	return e == -EAGAIN ? 0 : e; /* killed, perhaps */
}

static int unreachable(const struct reaching *r, struct err *err)
{
	int pid = address_lock_holder(r->state);
	char who[48] = "a process";
	if (pid > 0)
		(void)snprintf(who, sizeof(who), "process %d", pid);
	return err_set(err, ERR_CONFLICT, EWOULDBLOCK,
		"%.150s/lock is held by %s, and no broker can be reached at %.100s: end that "
		"process, or use another state directory (--state DIR)",
		r->state, who, r->address.socket ? r->address.socket : "any socket");
}

/* Nobody answers: starts one, where nobody else is about to. */
static int start_or_wait(struct reaching *r, struct err *err)
{
	_cleanup_close_ int lock = address_lock(r->state, err);
	if (lock >= 0)
		return start_with(r, lock, err);
	if (lock != -EWOULDBLOCK)
		return lock;
	if (clock_monotonic_us() >= r->end_us)
		return unreachable(r, err);
	clock_wait_us(r->wait_us);
	r->wait_us = MIN(2 * r->wait_us, WAIT_MAX_US);
	return 0;
}

static int too_old(const struct reaching *r, const struct front_reply *reply, struct err *err)
{
	return err_set(err, ERR_PROTOCOL, 0,
		"the broker (process %d, scb %s) that serves HTTP from %.150s is too old for this "
		"scb (%s): restart it (scb serve --http), or use another state directory (--state "
		"DIR)",
		reply->pid, reply->build, r->state, build.version);
}

/* 1: connected. 0: try again. Else it is over. */
static int try_once(struct reaching *r, int *ret_fd, struct err *err)
{
	struct front_reply reply = {0};
	address_done(&r->address);
	if (address_read(r->state, &r->address) < 0)
		return start_or_wait(r, err);
	_cleanup_close_ int fd = connect_to(r->address.socket);
	if (fd == -EPERM)
		return err_set(err, ERR_IO, EPERM,
			"the socket %s is not this user's: remove %.200s/broker.json",
			r->address.socket, r->state);
	if (fd < 0)
		return start_or_wait(r, err);
	int e = say_hello(fd, r->hello, &reply, err);
	if (e == -EILSEQ || e == -ENOBUFS || e == -EINVAL)
		return e; /* it is the options that cannot be said */
	if (e < 0 || (reply.why.code && reply.retry))
		return start_or_wait(r, err);
	if (front_build_compare(build.version, reply.build) > 0) {
		fd_closep(&fd);
		_cleanup_close_ int lock = take_over(r->address.socket, false);
		if (lock != -EBUSY)
			return lock < 0 ? start_or_wait(r, err) : start_with(r, lock, err);
		/* It serves HTTP, and is not taken away from under its clients: as it is. */
		fd = connect_to(r->address.socket);
		if (fd < 0 || say_hello(fd, r->hello, &reply, err) < 0)
			return start_or_wait(r, err);
		if (reply.why.code == ERR_PROTOCOL)
			return too_old(r, &reply, err);
	}
	if (reply.why.code) {
		*err = reply.why;
		return -EPERM;
	}
	*ret_fd = TAKE_FD(fd);
	return 1;
}

int reach_broker(const char *state, const struct settings *settings,
	const struct front_hello *hello, int *ret_fd, struct err *err)
{
	struct reaching r = {
		.state = state,
		.settings = settings,
		.hello = hello,
		.end_us = clock_monotonic_us() + LIMIT_BROKER_START_US,
		.wait_us = WAIT_MIN_US,
	};
	int e;
	while ((e = try_once(&r, ret_fd, err)) == 0)
		;
	address_done(&r.address);
	return e < 0 ? e : 0;
}

int reach_lock(const char *state, struct err *err)
{
	uint64_t end_us = clock_monotonic_us() + LIMIT_BROKER_START_US, wait_us = WAIT_MIN_US;
	struct reaching r = {.state = state};
	for (;;) {
		int lock = address_lock(state, err);
		if (lock >= 0 || lock != -EWOULDBLOCK)
			return lock;
		address_done(&r.address);
		if (address_read(state, &r.address) == 0)
			lock = take_over(r.address.socket, true);
		if (lock == -EBUSY)
			(void)err_set(err, ERR_CONFLICT, EBUSY,
				"the broker of %.200s (process %d) serves HTTP already: end it, or "
				"use another state directory (--state DIR)",
				state, address_lock_holder(state));
		bool late = clock_monotonic_us() >= end_us;
		if (lock < 0 && lock != -EBUSY && late)
			(void)unreachable(&r, err);
		if (lock >= 0 || lock == -EBUSY || late) {
			address_done(&r.address);
			return lock < 0 ? -EWOULDBLOCK : lock;
		}
		clock_wait_us(wait_us);
		wait_us = MIN(2 * wait_us, WAIT_MAX_US);
	}
}
