/* stdio.c: see stdio.h. */
#include "mcp/stdio.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "mcp/lines.h"

#define READ_SIZE (64 * 1024)

struct stdio {
	struct mcp_transport transport;
	uv_loop_t *loop;
	const struct stdio_events *events;
	void *user;
	int fd_in, fd_out;
	uv_poll_t in, out;
	uv_idle_t in_file; /* reads where epoll cannot wait: a regular file is always ready */
	bool in_pollable, out_pollable;
	bool reading, stopped, closed_told;
	unsigned handles; /* to be closed before the struct may go */
	struct lines lines;
	struct buf queue; /* not yet taken by the peer */
	char chunk[READ_SIZE];
};

int stdio_take_stdout(void)
{
	int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return -errno;
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
		int r = -errno;
		(void)close(fd);
		return r;
	}
	return fd;
}

static void tell_closed(struct stdio *s)
{
	if (s->closed_told || s->stopped)
		return;
	s->closed_told = true;
	s->events->closed(s->user);
}

static void on_line(void *user, const char *line, size_t n)
{
	struct stdio *s = user;
	if (!s->stopped && !s->closed_told)
		s->events->line(s->user, line, n);
}

static void read_stop(struct stdio *s)
{
	if (s->in_pollable)
		(void)uv_poll_stop(&s->in);
	else
		(void)uv_idle_stop(&s->in_file);
	s->reading = false;
}

static void read_some(struct stdio *s)
{
	ssize_t n = read(s->fd_in, s->chunk, sizeof(s->chunk));
	if (n > 0) {
		lines_feed(&s->lines, s->chunk, (size_t)n, on_line, s);
		return;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 0)
		lines_end(&s->lines, on_line, s);
	read_stop(s);
	tell_closed(s);
}

static void on_readable(uv_poll_t *h, int status, int events)
{
	(void)events;
	(void)status; /* read(2) tells the error */
	read_some(h->data);
}

static void on_file_turn(uv_idle_t *h)
{
	read_some(h->data);
}

static void read_start(struct stdio *s)
{
	if (s->reading || s->stopped || s->closed_told)
		return;
	s->reading = true;
	if (s->in_pollable)
		(void)uv_poll_start(&s->in, UV_READABLE | UV_DISCONNECT, on_readable);
	else
		(void)uv_idle_start(&s->in_file, on_file_turn);
}

/* Writes what the peer takes now. 0, or a negative errno where it takes nothing any more. */
static int flush_queue(struct stdio *s)
{
	size_t done = 0;
	int r = 0;
	while (done < s->queue.len) {
		ssize_t n = write(s->fd_out, s->queue.data + done, s->queue.len - done);
		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			r = -errno;
		break;
	}
	buf_consume(&s->queue, done);
	if (s->queue.len == 0 && s->queue.cap > MIB)
		buf_done(&s->queue);
	return r;
}

/* A peer that asks without reading the answers is not read from either. */
static void hold_back(struct stdio *s)
{
	if (s->queue.len > LIMIT_MCP_OUT_QUEUE && s->reading)
		read_stop(s);
}

static void on_writable(uv_poll_t *h, int status, int events);

static void write_more(struct stdio *s)
{
	if (flush_queue(s) < 0) {
		buf_done(&s->queue);
		if (s->out_pollable)
			(void)uv_poll_stop(&s->out);
		tell_closed(s);
		return;
	}
	if (s->queue.len == 0) {
		if (s->out_pollable && uv_is_active((uv_handle_t *)&s->out))
			(void)uv_poll_stop(
				&s->out); /* a system call, also where it does not poll */
		read_start(s);
	} else {
		(void)uv_poll_start(&s->out, UV_WRITABLE, on_writable);
		hold_back(s);
	}
}

static void on_writable(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	write_more(h->data);
}

static void transport_send(struct mcp_transport *t, uint64_t number, const char *message, size_t n)
{
	(void)number;
	struct stdio *s = container_of(t, struct stdio, transport);
	bool waiting = s->queue.len > 0;
	if (buf_reserve(&s->queue, n + 1) < 0) {
		log_error("the client has %zu bytes of answers unread; closing", s->queue.len);
		tell_closed(s);
		return;
	}
	memcpy(s->queue.data + s->queue.len, message, n);
	s->queue.data[s->queue.len + n] = '\n';
	s->queue.len += n + 1;
	if (!waiting)
		write_more(s);
	else
		hold_back(s);
}

static bool transport_congested(const struct mcp_transport *t)
{
	return container_of(t, const struct stdio, transport)->queue.len > 0;
}

int stdio_new(uv_loop_t *loop, int fd_in, int fd_out, const struct stdio_events *events, void *user,
	struct stdio **ret)
{
	struct stdio *s = xcalloc(1, sizeof(*s));
	s->transport =
		(struct mcp_transport){.send = transport_send, .congested = transport_congested};
	s->loop = loop;
	s->events = events;
	s->user = user;
	s->fd_in = fd_in;
	s->fd_out = fd_out;
	lines_init(&s->lines, LIMIT_MCP_LINE);
	/* every request in flight may end with a largest message at once */
	buf_init(&s->queue, LIMIT_MCP_OUT_QUEUE + LIMIT_MCP_INFLIGHT * (LIMIT_MCP_RESULT + 1));

	/* uv_poll_init() makes the descriptor non-blocking; EPERM: epoll has no such files */
	s->in_pollable = uv_poll_init(loop, &s->in, fd_in) == 0;
	if (!s->in_pollable)
		(void)uv_idle_init(loop, &s->in_file);
	s->in.data = s->in_file.data = s;
	s->out_pollable = uv_poll_init(loop, &s->out, fd_out) == 0;
	s->out.data = s;
	s->handles = 1 + (s->out_pollable ? 1 : 0);

	read_start(s);
	*ret = s;
	return 0;
}

struct mcp_transport *stdio_transport(struct stdio *s)
{
	return &s->transport;
}

void stdio_stop(struct stdio *s)
{
	read_stop(s);
	s->stopped = true;
}

static void on_handle_closed(uv_handle_t *h)
{
	struct stdio *s = h->data;
	if (--s->handles > 0)
		return;
	fd_closep(&s->fd_in);
	fd_closep(&s->fd_out);
	lines_done(&s->lines);
	buf_done(&s->queue);
	free(s);
}

void stdio_close(struct stdio *s)
{
	if (!s)
		return;
	stdio_stop(s);
	(void)flush_queue(s);
	uv_close(s->in_pollable ? (uv_handle_t *)&s->in : (uv_handle_t *)&s->in_file,
		on_handle_closed);
	if (s->out_pollable)
		uv_close((uv_handle_t *)&s->out, on_handle_closed);
}
