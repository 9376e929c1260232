/* uplink.c: see uplink.h. */
#include "agent/uplink.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/loop.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "wire/auth.h"
#include "wire/tlv.h"

/* Peers that have not shown the key yet; one more pushes out the oldest, so that nobody can keep
 * the broker away by holding all places. */
#define PENDING        8
#define PENDING_TIME   (5 * USEC_PER_SEC)
#define PENDING_FRAME  64 /* the longest payload before the key was shown */
#define BULK_MARK      (512 * KIB)
#define INPUT_SIZE     (FRAME_HEADER + LIMIT_FRAME_PAYLOAD + AUTH_SEAL)
#define OUTPUT_COMPACT (64 * KIB)
/* How often a stream whose other end has gone is looked at again. */
#define STREAM_RETRY (200 * USEC_PER_MSEC)
/* By which a CHALLENGE is found among other bytes: its header and the sync marker. */
#define CHALLENGE_HEAD (FRAME_HEADER + AUTH_SYNC)
static uint8_t challenge_head[CHALLENGE_HEAD];

enum conn_state { CONN_WAIT_CHALLENGE, CONN_WAIT_CONFIRM, CONN_UP };

struct conn {
	struct source source;
	struct list node; /* among the pending ones */
	struct timer deadline;
	enum conn_state state;
	int fd;
	int out_fd;         /* fd, but for a stream of two ends */
	struct source room; /* of out_fd, where that is another one */
	uint8_t expected[SHA256_SIZE];
	uint8_t seal[AUTH_SEAL];            /* torn: follows each frame once the link is up */
	uint8_t recent[CHALLENGE_HEAD - 1]; /* torn: the last bytes of all that came */
	size_t n_recent;
	uint8_t *in;
	size_t in_len;
	struct buf out;
	size_t out_sent;
	bool broken;
	bool torn;  /* the one stream of uplink_stream(): it is never closed, only begun anew */
	bool begun; /* by a CHALLENGE */
	struct timer retry;
	bool is_unix; /* may carry descriptors */
	int fds[UPLINK_FDS];
	size_t n_fds; /* came with bytes that are still to be handled */
};

static struct {
	struct source source;
	int fd;
	uint8_t *key;
	uint8_t boot_id[16];
	uint64_t started_us;
	const char *const *features;
	const struct uplink_events *events;
	struct conn *up;
	struct list pending;
	size_t n_pending;
	uint64_t failures, failures_told;
	bool was_full;
} self = {.fd = -1, .source.fd = -1};

static void on_deadline(struct timer *t);

static struct conn *conn_new(int fd, void (*ready)(struct source *s, uint32_t events))
{
	struct conn *c = xcalloc(1, sizeof(*c));
	c->fd = c->out_fd = fd;
	c->source = (struct source){.fd = -1, .ready = ready};
	/* Only the pages that bytes reach are ever touched. */
	c->in = xmalloc(INPUT_SIZE + CHALLENGE_HEAD);
	buf_init(&c->out, LIMIT_LINK_OUT_QUEUE);
	list_init(&c->node);
	timer_init(&c->deadline, on_deadline);
	return c;
}

static void drop_fds(struct conn *c)
{
	while (c->n_fds)
		fd_closep(&c->fds[--c->n_fds]);
}

static void conn_free(struct conn *c)
{
	drop_fds(c);
	loop_remove(&c->source);
	timer_cancel(&c->deadline);
	if (!list_empty(&c->node)) {
		list_remove(&c->node);
		self.n_pending--;
	}
	fd_closep(&c->fd);
	buf_done(&c->out);
	free(c->in);
	free(c);
}

/* Waits for input, and for room where there is more to write. */
static void wait_for(struct conn *c, bool room)
{
	if (c->out_fd == c->fd)
		loop_change(&c->source, room ? EPOLLIN | EPOLLOUT : EPOLLIN);
	else
		loop_change(&c->room, room ? EPOLLOUT : 0);
}

static void tell_failures(void)
{
	if (!self.up || self.failures == self.failures_told)
		return;
	_cleanup_buf_ struct buf b = BUF_INIT(64);
	CHECK(tlv_u64(&b, TAG_COUNT, self.failures) == 0);
	self.failures_told = self.failures;
	uplink_event(EVENT_AUTH_FAILED, &b);
}

/* All that is on its way is forgotten; what comes next must be a CHALLENGE. */
static void stream_restart(struct conn *c)
{
	bool was_up = c == self.up;
	timer_cancel(&c->deadline);
	c->state = CONN_WAIT_CHALLENGE;
	c->begun = c->broken = false;
	c->out_sent = 0;
	buf_done(&c->out);
	wait_for(c, false);
	if (was_up) {
		self.up = NULL;
		self.events->down();
	}
}

/* Who hangs up has shown nothing wrong: a broker that died. */
static void pending_gone(struct conn *c)
{
	if (c->torn)
		stream_restart(c);
	else
		conn_free(c);
}

static void pending_failed(struct conn *c)
{
	pending_gone(c);
	self.failures++;
	tell_failures();
}

static void on_deadline(struct timer *t)
{
	pending_failed(container_of(t, struct conn, deadline));
}

static void conn_queue(struct conn *c, uint8_t type, uint16_t flags, uint32_t stream,
	const void *payload, size_t len)
{
	if (frame_append(&c->out, type, flags, stream, payload, len) < 0)
		c->broken = true;
}

static void conn_write(struct conn *c)
{
	while (!c->broken && c->out_sent < c->out.len) {
		ssize_t n = write(c->out_fd, c->out.data + c->out_sent, c->out.len - c->out_sent);
		if (n > 0) {
			c->out_sent += (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		c->broken = errno != EAGAIN;
		break;
	}
	if (c->out_sent == c->out.len) {
		c->out_sent = 0;
		buf_clear(&c->out);
		if (c->out.cap > OUTPUT_COMPACT) /* a burst is over: give its memory back */
			buf_done(&c->out);
	} else if (c->out_sent > OUTPUT_COMPACT) {
		buf_consume(&c->out, c->out_sent);
		c->out_sent = 0;
	}
	wait_for(c, c->out.len > 0);
}

static void queue_hello(struct conn *c)
{
	_cleanup_buf_ struct buf b = BUF_INIT(4096);
	int r = tlv_u64(&b, TAG_PROTOCOL_MIN, WIRE_PROTOCOL);
	r |= tlv_u64(&b, TAG_PROTOCOL_MAX, WIRE_PROTOCOL);
	r |= tlv_str(&b, TAG_BUILD, SCB_VERSION);
	r |= tlv_bytes(&b, TAG_BOOT_ID, self.boot_id, sizeof(self.boot_id));
	r |= tlv_u64(&b, TAG_UPTIME_MS, (clock_boottime_us() - self.started_us) / USEC_PER_MSEC);
	for (const char *const *f = self.features; *f; f++)
		r |= tlv_str(&b, TAG_FEATURE, *f);
	if (c->is_unix)
		r |= tlv_str(&b, TAG_FEATURE, "adopt");
	r |= tlv_str(&b, TAG_FEATURE, "expect");
	CHECK(r == 0);
	conn_queue(c, FRAME_HELLO, 0, 0, b.data, b.len);
}

static void become_up(struct conn *c)
{
	timer_cancel(&c->deadline);
	list_remove(&c->node);
	self.n_pending -= !c->torn;
	c->state = CONN_UP;
	if (self.up) {
		conn_free(self.up);
		self.up = NULL;
		self.events->replaced();
	}
	self.up = c;
	self.was_full = false;
	queue_hello(c);
	self.events->up();
	tell_failures();
}

/* True where the peer goes on as the protocol asks. */
static bool handshake(struct conn *c, const struct frame *f)
{
	if (c->state == CONN_WAIT_CHALLENGE) {
		if (f->type != FRAME_CHALLENGE || f->len != AUTH_CHALLENGE ||
			memcmp(f->payload, auth_sync, AUTH_SYNC) != 0)
			return false;
		const uint8_t *nonce_b = f->payload + AUTH_SYNC;
		uint8_t proof[AUTH_PROOF];
		id_random(proof, AUTH_NONCE);
		auth_agent_mac(self.key, nonce_b, proof, proof + AUTH_NONCE);
		auth_broker_mac(self.key, proof, nonce_b, c->expected);
		auth_seal(self.key, nonce_b, c->seal);
		conn_queue(c, FRAME_PROOF, 0, 0, proof, sizeof(proof));
		c->state = CONN_WAIT_CONFIRM;
		return true;
	}
	if (f->type != FRAME_CONFIRM || f->len != SHA256_SIZE ||
		!id_equal(f->payload, c->expected, SHA256_SIZE))
		return false;
	become_up(c);
	return true;
}

/* As frame_parse(), with the seal where there is one. */
static ssize_t parse(const struct conn *c, const uint8_t *p, size_t n, struct frame *ret)
{
	bool sealed = c->torn && c->state == CONN_UP;
	ssize_t r = frame_parse(p, n, ret);
	if (r <= 0 || !sealed)
		return r;
	size_t end = (size_t)r + AUTH_SEAL;
	if (n < end)
		return 0;
	return id_equal(p + r, c->seal, AUTH_SEAL) ? (ssize_t)end : -EPROTO;
}

/* False where the peer is to be dropped. */
static bool take_frames(struct conn *c)
{
	size_t at = 0;
	while (at < c->in_len) {
		const uint8_t *p = c->in + at;
		size_t n = c->in_len - at;
		if (c->state != CONN_UP && n >= FRAME_HEADER && wire_get32(p + 8) > PENDING_FRAME)
			return false;
		struct frame f;
		ssize_t r = parse(c, p, n, &f);
		if (r < 0)
			return false;
		if (r == 0)
			break;
		at += (size_t)r;
		bool good = c->state == CONN_UP ? self.events->frame(&f) : handshake(c, &f);
		if (!good || c->broken)
			return false;
	}
	c->in_len -= at;
	if (c->in_len && at)
		memmove(c->in, c->in + at, c->in_len);
	/* Of a frame that has not come whole; else nobody expected them. */
	if (!c->in_len)
		drop_fds(c);
	return true;
}

bool uplink_take_fds(int *ret, size_t n)
{
	struct conn *c = self.up;
	if (!c || c->n_fds != n)
		return false;
	memcpy(ret, c->fds, n * sizeof(*ret));
	c->n_fds = 0;
	return true;
}

static void keep_fds(struct conn *c, struct msghdr *m)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(h) + i * sizeof(fd), sizeof(fd));
			if (c->n_fds < UPLINK_FDS)
				c->fds[c->n_fds++] = fd;
			else
				(void)close(fd);
		}
	}
}

/* As read(2). Descriptors are taken from the broker alone: for anybody else there is no room, and
 * the kernel closes them. */
static ssize_t conn_read(struct conn *c)
{
	void *p = c->in + c->in_len;
	size_t n = INPUT_SIZE - c->in_len;
	if (c->state != CONN_UP || !c->is_unix)
		return read(c->fd, p, n);
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(UPLINK_FDS * sizeof(int))];
	} control;
	struct iovec iov = {p, n};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC);
	if (got < 0 || m.msg_controllen == 0)
		return got;
	drop_fds(c); /* of a frame that never came whole */
	keep_fds(c, &m);
	if (m.msg_flags & MSG_CTRUNC) /* there were more */
		drop_fds(c);
	return got;
}

static void up_lost(void)
{
	struct conn *c = self.up;
	if (c->torn) {
		stream_restart(c);
		return;
	}
	self.up = NULL;
	conn_free(c);
	self.events->down();
}

static void conn_lost(struct conn *c)
{
	if (c == self.up)
		up_lost();
	else
		pending_failed(c);
}

/* ---- one stream that tears (docs/agent-protocol.md, "Handshake") ---- */

/* How many of the n bytes that have just come stand before the end of the last CHALLENGE's head
 * among all that came, whatever they were taken for; -1: there is none that ends in them. */
static ssize_t find_challenge(struct conn *c, const uint8_t *p, size_t n)
{
	uint8_t seam[2 * (CHALLENGE_HEAD - 1)];
	ssize_t found = -1;
	size_t fresh = MIN(n, CHALLENGE_HEAD - 1), len = c->n_recent + fresh;
	memcpy(seam, c->recent, c->n_recent);
	memcpy(seam + c->n_recent, p, fresh);
	const uint8_t *at = memmem(
		seam, len, challenge_head, CHALLENGE_HEAD); /* longer than half: one at most */
	if (at)
		found = at + CHALLENGE_HEAD - (seam + c->n_recent);
	for (const uint8_t *from = p;
		(at = memmem(from, (size_t)(p + n - from), challenge_head, CHALLENGE_HEAD));
		from = at + 1)
		found = at + CHALLENGE_HEAD - p;
	const uint8_t *last = n < sizeof(c->recent) ? seam : p;
	len = n < sizeof(c->recent) ? len : n;
	c->n_recent = MIN(len, sizeof(c->recent));
	memmove(c->recent, last + len - c->n_recent, c->n_recent);
	return found;
}

/* A CHALLENGE's head has come, and of what stands behind it n bytes. */
static void stream_begin(struct conn *c, const uint8_t *p, size_t n)
{
	if (c->state != CONN_WAIT_CHALLENGE)
		stream_restart(c);
	memmove(c->in + CHALLENGE_HEAD, p, n);
	memcpy(c->in, challenge_head, CHALLENGE_HEAD);
	c->in_len = CHALLENGE_HEAD + n;
	c->begun = true;
	timer_set(&c->deadline, PENDING_TIME);
}

/* n bytes have come behind the others. */
static void stream_input(struct conn *c, size_t n)
{
	const uint8_t *p = c->in + c->in_len;
	ssize_t found = find_challenge(c, p, n);
	c->in_len += n;
	if (found >= 0)
		stream_begin(c, p + found, n - (size_t)found);
	if (c->begun && take_frames(c))
		return;
	if (c->begun)
		conn_lost(c);
	c->in_len = 0; /* nothing of it is a frame */
}

static void on_stream_retry(struct timer *t)
{
	struct conn *c = container_of(t, struct conn, retry);
	if (loop_add(&c->source, c->fd, EPOLLIN) < 0)
		timer_set(t, STREAM_RETRY);
}

static void on_stream(struct source *s, uint32_t events)
{
	struct conn *c = container_of(s, struct conn, source);
	/* The end of the round flushes for the broker alone; a PROOF may wait for room that what an
	 * earlier broker did not read takes. */
	if (events & EPOLLOUT && c->state != CONN_UP)
		conn_write(c);
	if (c->broken) {
		conn_lost(c);
		return;
	}
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	ssize_t n = read(c->fd, c->in + c->in_len, INPUT_SIZE - c->in_len);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 0 && c->out_fd != c->fd) /* a pipe's other end comes never again */
		self.events->closed();
	if (n <= 0) { /* nobody is at the other end: until somebody is */
		c->in_len = c->n_recent = 0;
		stream_restart(c);
		loop_remove(&c->source);
		timer_set(&c->retry, STREAM_RETRY);
		return;
	}
	stream_input(c, (size_t)n);
	if (c->state != CONN_UP) {
		conn_write(c);
		if (c->broken)
			conn_lost(c);
	}
}

static void on_stream_room(struct source *s, uint32_t events)
{
	struct conn *c = container_of(s, struct conn, room);
	if (events & EPOLLERR) /* nobody will ever read it again */
		loop_remove(s);
	conn_write(c);
	if (c->broken)
		conn_lost(c);
}

/* ---- a listening socket ---- */

static void on_conn(struct source *s, uint32_t events)
{
	struct conn *c = container_of(s, struct conn, source);
	/* What waits to be written goes out with the flush at the end of the round. */
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	ssize_t n = conn_read(c);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		c->in_len += (size_t)n;
	if (n <= 0 && c != self.up) {
		pending_gone(c);
		return;
	}
	if (n <= 0 || !take_frames(c)) {
		conn_lost(c);
		return;
	}
	if (c->state != CONN_UP) {
		conn_write(c);
		if (c->broken)
			pending_gone(c);
	}
}

static void on_accept(struct source *s, uint32_t events)
{
	(void)events;
	int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	if (self.n_pending == PENDING)
		pending_failed(container_of(self.pending.next, struct conn, node));
	struct conn *c = conn_new(fd, on_conn);
	int domain = 0;
	socklen_t size = sizeof(domain);
	c->is_unix =
		getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
	if (loop_add(&c->source, fd, EPOLLIN) < 0) {
		conn_free(c);
		return;
	}
	list_append(&self.pending, &c->node);
	self.n_pending++;
	timer_set(&c->deadline, PENDING_TIME);
}

static int init(struct config *c, const char *const *features, const struct uplink_events *events)
{
	self.key = mmap(NULL, AUTH_KEY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (self.key == MAP_FAILED || madvise(self.key, AUTH_KEY, MADV_DONTFORK) < 0)
		return -errno;
	memcpy(self.key, c->key, AUTH_KEY);
	explicit_bzero(c->key, AUTH_KEY);
	memcpy(self.boot_id, c->boot_id, sizeof(self.boot_id));
	self.started_us = clock_boottime_us();
	self.features = features;
	self.events = events;
	list_init(&self.pending);
	return 0;
}

int uplink_listen(struct config *c, int listen_fd, const char *const *features,
	const struct uplink_events *events)
{
	int r = init(c, features, events);
	self.fd = listen_fd;
	self.source.ready = on_accept;
	if (r == 0)
		r = fd_set_nonblock(listen_fd, true);
	return r < 0 ? r : loop_add(&self.source, listen_fd, EPOLLIN);
}

int uplink_stream(struct config *c, int in_fd, int out_fd, const char *const *features,
	const struct uplink_events *events)
{
	int r = init(c, features, events);
	struct conn *s = conn_new(in_fd, on_stream);
	s->torn = true;
	s->out_fd = out_fd;
	s->room = (struct source){.fd = -1, .ready = on_stream_room};
	frame_header(challenge_head, FRAME_CHALLENGE, 0, 0, AUTH_CHALLENGE);
	memcpy(challenge_head + FRAME_HEADER, auth_sync, AUTH_SYNC);
	timer_init(&s->retry, on_stream_retry);
	if (r == 0)
		r = fd_set_nonblock(in_fd, true);
	if (r == 0 && out_fd != in_fd)
		r = fd_set_nonblock(out_fd, true);
	if (r == 0 && out_fd != in_fd)
		r = loop_add(&s->room, out_fd, 0);
	return r < 0 ? r : loop_add(&s->source, in_fd, EPOLLIN);
}

bool uplink_is_up(void)
{
	return self.up != NULL;
}

void uplink_send(uint8_t type, uint16_t flags, uint32_t stream, const void *payload, size_t len)
{
	if (self.up && !self.up->broken)
		conn_queue(self.up, type, flags, stream, payload, len);
}

void uplink_send_numbered(
	uint8_t type, uint32_t stream, uint16_t number, const void *tlvs, size_t len)
{
	uint8_t head[FRAME_HEADER + 2];
	struct conn *c = self.up;
	CHECK(len <= LIMIT_FRAME_PAYLOAD - 2);
	if (!c || c->broken)
		return;
	frame_header(head, type, 0, stream, (uint32_t)len + 2);
	wire_put16(head + FRAME_HEADER, number);
	c->broken = buf_reserve(&c->out, sizeof(head) + len) < 0 ||
		    buf_append(&c->out, head, sizeof(head)) < 0 ||
		    buf_append(&c->out, tlvs, len) < 0;
}

void uplink_event(enum wire_event event, const struct buf *tlvs)
{
	uplink_send_numbered(
		FRAME_EVENT, 0, (uint16_t)event, tlvs ? tlvs->data : NULL, tlvs ? tlvs->len : 0);
}

size_t uplink_room(void)
{
	if (!self.up || self.up->broken)
		return 0;
	size_t queued = self.up->out.len - self.up->out_sent;
	if (queued < BULK_MARK)
		return BULK_MARK - queued;
	self.was_full = true;
	return 0;
}

void uplink_flush(void)
{
	struct conn *c = self.up;
	if (!c || c->out_sent == c->out.len) /* nothing to do, most rounds */
		return;
	conn_write(c);
	/* What waited for room queues more, which goes out at once. */
	while (!c->broken && self.was_full && uplink_room() > BULK_MARK / 2) {
		self.was_full = false;
		self.events->drained();
		conn_write(c);
	}
	if (c->broken)
		up_lost();
}
