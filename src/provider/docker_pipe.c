/* docker_pipe.c: see docker_pipe.h. */
#include "provider/docker_pipe.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/limits.h"
#include "provider/docker_stream.h"

/* As much as one read takes; what the other side does not take at once of it waits here. */
#define STEP (64 * KIB)

struct end {
	struct docker_pipe *pipe;
	uv_poll_t poll;
	int fd;
	int polled;
	bool ended;     /* sends no more */
	struct buf out; /* waits to be written to it */
};

struct docker_pipe {
	struct end engine, link;
	unsigned handles;
	bool closed;
	struct docker_stream stream;
	struct docker_pipe_events events;
	void *user;
};

/* Pieces are handled before the loop goes on. */
static uint8_t step[STEP];

static void on_poll(uv_poll_t *poll, int status, int got);

static void on_closed(uv_handle_t *h)
{
	struct end *e = h->data;
	if (--e->pipe->handles == 0)
		free(e->pipe);
}

static void end_done(struct end *e)
{
	buf_done(&e->out);
	if (e->fd < 0)
		return;
	uv_close((uv_handle_t *)&e->poll, on_closed);
	fd_closep(&e->fd);
}

void docker_pipe_close(struct docker_pipe *p)
{
	if (!p || p->closed)
		return;
	p->closed = true;
	end_done(&p->engine);
	end_done(&p->link);
}

static void over(struct docker_pipe *p)
{
	p->engine.ended = true;
	if (p->engine.polled)
		(void)uv_poll_stop(&p->engine.poll);
	p->engine.polled = 0;
	if (!p->closed)
		p->events.over(p->user);
}

/* Reads from each side as long as the other takes it. */
static void poll_as_needed(struct docker_pipe *p)
{
	struct end *ends[] = {&p->engine, &p->link};
	for (size_t i = 0; i < ARRAY_SIZE(ends) && !p->closed; i++) {
		struct end *e = ends[i], *other = ends[1 - i];
		int want = (e->ended || other->out.len ? 0 : UV_READABLE) |
			   (e->out.len ? UV_WRITABLE : 0);
		if (e->ended && e == &p->engine)
			want = 0;
		if (want == e->polled || e->fd < 0)
			continue;
		e->polled = want;
		if (!want)
			(void)uv_poll_stop(&e->poll);
		else if (uv_poll_start(&e->poll, want, on_poll) < 0)
			over(p);
	}
}

/* 0, or a negative errno where that side is gone. */
static int put(struct end *e, const uint8_t *p, size_t n)
{
	ssize_t sent = 0;
	if (e->out.len == 0) {
		do
			sent = send(e->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		while (sent < 0 && errno == EINTR);
		if (sent < 0 && errno != EAGAIN)
			return -errno;
		sent = MAX(sent, 0);
	}
	size_t rest = n - (size_t)sent;
	return rest ? buf_append(&e->out, p + sent, rest) : 0;
}

static int flush(struct end *e)
{
	int r = fd_send(e->fd, &e->out);
	if (e->out.len == 0)
		buf_done(&e->out);
	return r;
}

/* What the engine sent. */
static int unpack(struct docker_pipe *p, const uint8_t *bytes, size_t n)
{
	while (n > 0 && !p->closed) {
		enum docker_stream_kind kind = DOCKER_STDOUT;
		const uint8_t *piece = NULL;
		size_t n_piece = 0;
		ssize_t used = docker_stream_next(&p->stream, bytes, n, &kind, &piece, &n_piece);
		if (used < 0)
			return (int)used;
		/* A link that is closed takes no more; the rest is thrown away. */
		if (n_piece && kind == DOCKER_STDOUT && !p->link.ended &&
			put(&p->link, piece, n_piece) < 0)
			p->link.ended = true;
		else if (n_piece && kind == DOCKER_STDERR)
			p->events.said(p->user, piece, n_piece);
		bytes += used;
		n -= (size_t)used;
	}
	return 0;
}

static void read_from(struct end *e)
{
	struct docker_pipe *p = e->pipe;
	ssize_t n;
	do
		n = recv(e->fd, step, sizeof(step), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return;
	if (e == &p->link) {
		e->ended |= n <= 0;
		if (n > 0 && put(&p->engine, step, (size_t)n) < 0)
			over(p);
		return;
	}
	if (n <= 0 || unpack(p, step, (size_t)n) < 0)
		over(p);
}

static void on_poll(uv_poll_t *poll, int status, int got)
{
	struct end *e = poll->data;
	struct docker_pipe *p = e->pipe;
	if (status < 0)
		got = UV_READABLE; /* says what it is */
	if (got & UV_WRITABLE && flush(e) < 0) {
		e->ended = true;
		buf_done(&e->out);
		if (e == &p->engine) {
			over(p);
			return;
		}
	}
	if (got & UV_READABLE && !e->ended)
		read_from(e);
	if (!p->closed)
		poll_as_needed(p);
}

int docker_pipe_new(uv_loop_t *loop, int engine_fd, int link_fd, const void *first, size_t n_first,
	struct buf *head, const struct docker_pipe_events *events, void *user,
	struct docker_pipe **ret)
{
	struct docker_pipe *p = xcalloc(1, sizeof(*p));
	p->events = *events;
	p->user = user;
	p->engine = (struct end){.pipe = p, .fd = engine_fd, .out = BUF_INIT(2 * MIB)};
	p->link = (struct end){.pipe = p, .fd = link_fd, .out = BUF_INIT(2 * MIB)};
	p->engine.out.wipe = p->link.out.wipe = true;
	p->engine.poll.data = &p->engine;
	p->link.poll.data = &p->link;
	p->link.ended = link_fd < 0;
	int r = uv_poll_init(loop, &p->engine.poll, engine_fd);
	p->handles += r == 0;
	if (r == 0 && link_fd >= 0) {
		r = uv_poll_init(loop, &p->link.poll, link_fd);
		p->handles += r == 0;
	}
	if (r < 0) {
		if (p->handles)
			uv_close((uv_handle_t *)&p->engine.poll, on_closed);
		fd_closep(&engine_fd);
		fd_closep(&link_fd);
		if (!p->handles)
			free(p);
		return r;
	}
	*ret = p;
	if (head->len && put(&p->engine, head->data, head->len) < 0)
		p->engine.ended = true;
	buf_done(head);
	if (n_first && unpack(p, first, n_first) < 0)
		p->engine.ended = true;
	/* Where one of these failed the end of the stream is read, and told from the loop. */
	p->engine.ended = false;
	poll_as_needed(p);
	return 0;
}
