/* out.c: see out.h. */
#include "link/out.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/limits.h"

#define RESERVE (64 * KIB)

void link_out_init(struct link_out *o, int fd)
{
	*o = (struct link_out){
		.fd = fd,
		.bytes = BUF_INIT(
			2 * LIMIT_LINK_OUT_QUEUE), /* sent bytes may lie before the queue */
	};
	o->bytes.wipe = true; /* there may be secrets among them */
}

void link_out_done(struct link_out *o)
{
	buf_done(&o->bytes);
	o->sent = 0;
}

size_t link_out_queued(const struct link_out *o)
{
	return o->bytes.len - o->sent;
}

size_t link_out_room(const struct link_out *o)
{
	size_t used = link_out_queued(o) + RESERVE;
	return used < LIMIT_LINK_OUT_QUEUE ? LIMIT_LINK_OUT_QUEUE - used : 0;
}

static int send_now(struct link_out *o, const struct msghdr *m, size_t *ret_n)
{
	ssize_t n;
	do
		n = sendmsg(o->fd, m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	*ret_n = n > 0 ? (size_t)n : 0;
	o->total += *ret_n;
	return n < 0 && errno != EAGAIN && errno != ENOBUFS ? -errno : 0;
}

int link_out_now(struct link_out *o, const struct iovec *iov, size_t n_iov, size_t *ret_n)
{
	const struct msghdr m = {.msg_iov = (struct iovec *)iov, .msg_iovlen = n_iov};
	return send_now(o, &m, ret_n);
}

static int queue(struct link_out *o, const void *p, size_t n)
{
	if (o->sent && o->sent >= o->bytes.len / 2) {
		buf_consume(&o->bytes, o->sent);
		o->sent = 0;
	}
	return n > LIMIT_LINK_OUT_QUEUE - link_out_queued(o) ? -ENOBUFS
							     : buf_append(&o->bytes, p, n);
}

/* All but the first done bytes. */
static int queue_rest(struct link_out *o, const struct iovec *iov, size_t n_iov, size_t done)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < n_iov; i++) {
		size_t skip = MIN(done, iov[i].iov_len);
		done -= skip;
		if (skip < iov[i].iov_len)
			r = queue(
				o, (const uint8_t *)iov[i].iov_base + skip, iov[i].iov_len - skip);
	}
	return r;
}

int link_out_send(struct link_out *o, const struct iovec *iov, size_t n_iov, bool hold)
{
	size_t done = 0;
	int r = 0;
	if (!hold && link_out_queued(o) == 0)
		r = link_out_now(o, iov, n_iov, &done);
	return r ? r : queue_rest(o, iov, n_iov, done);
}

int link_out_with_fds(
	struct link_out *o, const struct iovec *iov, size_t n_iov, const int *fds, size_t n_fds)
{
	CHECK(n_fds > 0 && n_fds <= LINK_OUT_FDS);
	if (link_out_queued(o))
		return -EAGAIN;
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(LINK_OUT_FDS * sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_iov = (struct iovec *)iov,
		.msg_iovlen = n_iov,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(n_fds * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	size_t done = 0;
	int r = send_now(o, &m, &done);
	if (r == 0 && done == 0)
		return -EAGAIN;
	return r ? r : queue_rest(o, iov, n_iov, done);
}

int link_out_flush(struct link_out *o)
{
	int r = 0;
	while (r == 0 && link_out_queued(o)) {
		struct iovec iov = {o->bytes.data + o->sent, link_out_queued(o)};
		size_t n = 0;
		r = link_out_now(o, &iov, 1, &n);
		o->sent += n;
		if (n == 0)
			break;
	}
	if (link_out_queued(o) == 0)
		link_out_done(o); /* a burst is over: its memory goes back */
	return r;
}
