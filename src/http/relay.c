/* relay.c: see relay.h. */
#include "http/relay.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "http/tls.h"

#define STEP (16 * KIB)
/* What one step makes at most: a record that was waiting, and one of its own. */
#define QUEUE_MAX (4 * STEP)

struct end {
	struct relay *relay;
	uv_poll_t poll;
	int fd, polled;
	struct buf out; /* waits to be written to it */
};

struct relay {
	struct end peer, local;
	struct tls *tls;
	unsigned handles;
	bool ending; /* what is queued goes out, then it closes */
	bool closed;
};

static void on_poll(uv_poll_t *poll, int status, int got);

static void on_closed(uv_handle_t *h)
{
	struct end *e = h->data;
	struct relay *r = e->relay;
	fd_closep(&e->fd);
	buf_done(&e->out);
	if (--r->handles > 0)
		return;
	tls_free(r->tls);
	free(r);
}

static void relay_close(struct relay *r)
{
	if (r->closed)
		return;
	r->closed = true;
	uv_close((uv_handle_t *)&r->peer.poll, on_closed);
	uv_close((uv_handle_t *)&r->local.poll, on_closed);
}

static void poll_as_needed(struct relay *r)
{
	struct end *ends[] = {&r->peer, &r->local};
	bool full = r->peer.out.len || r->local.out.len;
	for (size_t i = 0; i < ARRAY_SIZE(ends) && !r->closed; i++) {
		struct end *e = ends[i];
		int want = (full || r->ending ? 0 : UV_READABLE) | (e->out.len ? UV_WRITABLE : 0);
		if (want == e->polled)
			continue;
		e->polled = want;
		if (!want)
			(void)uv_poll_stop(&e->poll);
		else if (uv_poll_start(&e->poll, want, on_poll) < 0)
			relay_close(r);
	}
}

/* 0, or a negative errno where that was the end. */
static int read_from(struct end *e)
{
	uint8_t bytes[STEP];
	struct relay *r = e->relay;
	ssize_t n;
	do
		n = recv(e->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : -errno;
	if (e == &r->peer)
		return n ? tls_open(r->tls, bytes, (size_t)n, &r->local.out, &r->peer.out) : -EPIPE;
	if (n)
		return tls_seal(r->tls, bytes, (size_t)n, &r->peer.out);
	tls_goodbye(r->tls, &r->peer.out);
	return -EPIPE;
}

static void on_poll(uv_poll_t *poll, int status, int got)
{
	struct end *e = poll->data;
	struct relay *r = e->relay;
	if (status < 0)
		got = UV_READABLE; /* says what it is */
	if (got & UV_READABLE && !r->ending)
		r->ending = read_from(e) < 0;
	bool gone =
		fd_send(r->peer.fd, &r->peer.out) < 0 || fd_send(r->local.fd, &r->local.out) < 0;
	if (gone || (r->ending && !r->peer.out.len && !r->local.out.len))
		relay_close(r);
	else
		poll_as_needed(r);
}

int relay_start(uv_loop_t *loop, int peer_fd, struct tls *tls, int *ret_fd)
{
	int ends[2] = {-1, -1};
	struct relay *r = xcalloc(1, sizeof(*r));
	r->tls = tls;
	int e = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0
			? -errno
			: 0;
	r->peer = (struct end){.relay = r, .fd = peer_fd, .out = BUF_INIT(QUEUE_MAX)};
	r->local = (struct end){.relay = r, .fd = ends[0], .out = BUF_INIT(QUEUE_MAX)};
	r->peer.out.wipe = r->local.out.wipe = true;
	r->peer.poll.data = &r->peer;
	r->local.poll.data = &r->local;
	if (e == 0)
		e = uv_poll_init(loop, &r->peer.poll, peer_fd);
	r->handles += e == 0;
	if (e == 0)
		e = uv_poll_init(loop, &r->local.poll, ends[0]);
	if (e < 0) {
		fd_closep(&ends[0]);
		fd_closep(&ends[1]);
		r->local.fd = -1;
		if (r->handles) {
			uv_close((uv_handle_t *)&r->peer.poll, on_closed);
			return e;
		}
		fd_closep(&peer_fd);
		tls_free(tls);
		free(r);
		return e;
	}
	r->handles++;
	*ret_fd = ends[1];
	poll_as_needed(r);
	return 0;
}
