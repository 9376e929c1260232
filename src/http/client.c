/* client.c: see client.h. */
#include "http/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "http/parse.h"
#include "http/relay.h"
#include "http/tls.h"

/* A unix socket whose queue is full says so at once and tells nobody when it no longer is. */
#define RETRY_MS  20
#define READ_SIZE (16 * KIB)
/* Of TLS, one read and what was waiting for the end of its record. */
#define PLAIN_MAX (64 * KIB)

struct http_client {
	uv_loop_t *loop;
	http_client_fn done;
	void *user;
	uv_poll_t poll;
	uv_timer_t timer; /* the limit; with again: when to connect once more */
	uv_getaddrinfo_t lookup;
	bool polling, looking, connected, finished;
	unsigned handles;
	char *socket, *host, *port;
	struct addrinfo *addresses, *next_address;
	int fd;
	uint64_t due_us;
	struct buf out;
	struct tls *tls;  /* NULL: none */
	bool sealed;      /* out is in cipher */
	struct buf plain; /* what came by TLS */
	struct buf cipher;
	struct http_parser *parser;
	struct http_client_answer answer;
	struct buf in;
	struct err why;
};

static void connect_next(struct http_client *c);

/* ---- the end ---- */

static void free_client(struct http_client *c)
{
	http_parser_free(c->parser);
	if (c->addresses)
		uv_freeaddrinfo(c->addresses);
	tls_free(c->tls);
	buf_done(&c->out);
	buf_done(&c->plain);
	buf_done(&c->cipher);
	buf_done(&c->in);
	free(c->socket);
	free(c->host);
	free(c->port);
	free(c);
}

static void on_closed(uv_handle_t *h)
{
	struct http_client *c = h->data;
	if (--c->handles == 0 && !c->looking)
		free_client(c);
}

static void stop_polling(struct http_client *c)
{
	if (c->polling)
		uv_close((uv_handle_t *)&c->poll, on_closed);
	c->polling = false;
}

/* Nothing goes on, and nobody is told. */
static void stop(struct http_client *c)
{
	if (c->finished)
		return;
	c->finished = true;
	stop_polling(c);
	fd_closep(&c->fd);
	if (c->looking)
		(void)uv_cancel((uv_req_t *)&c->lookup);
	uv_close((uv_handle_t *)&c->timer, on_closed);
}

void http_client_cancel(struct http_client *c)
{
	if (c)
		stop(c);
}

static void fail(struct http_client *c, int errnum, const char *what)
{
	struct err err;
	if (c->finished)
		return;
	(void)err_set(&err, ERR_IO, errnum, "%s%s%s", what, errnum ? ": " : "",
		errnum ? strerror(errnum) : "");
	stop(c);
	c->done(c->user, NULL, &err);
}

static void succeed(struct http_client *c)
{
	struct http_client_answer a = c->answer;
	a.stream_fd = -1;
	if (a.status == 101) {
		stop_polling(c);
		int r = 0;
		if (c->tls)
			r = relay_start(c->loop, TAKE_FD(c->fd), TAKE_PTR(c->tls), &a.stream_fd);
		else
			a.stream_fd = TAKE_FD(c->fd);
		if (r < 0) {
			fail(c, -r, "cannot carry the stream");
			return;
		}
	}
	stop(c);
	a.n = c->in.len;
	_cleanup_free_ char *body = buf_steal_str(&c->in);
	a.body = body;
	c->done(c->user, &a, NULL);
	fd_closep(&a.stream_fd); /* nobody took it */
}

/* ---- the answer ---- */

static unsigned on_head(void *user, const struct http_head *h)
{
	struct http_client *c = user;
	const char *server = http_field(h, "server"), *api = http_field(h, "api-version");
	struct http_client_answer *a = &c->answer;
	a->status = h->status;
	str_copy(a->server, sizeof(a->server), server);
	str_copy(a->api, sizeof(a->api), api);
	return 0;
}

static unsigned on_body(void *user, const void *p, size_t n)
{
	struct http_client *c = user;
	return buf_append(&c->in, p, n) < 0 ? 502 : 0;
}

static void on_end(void *user)
{
	(void)user;
}

static const struct http_events events = {.head = on_head, .body = on_body, .end = on_end};

/* True where there may be more to read. */
static bool take(struct http_client *c, const char *p, size_t n)
{
	struct http_problem problem;
	size_t used = 0;
	while (n > 0) {
		if (http_parser_feed(c->parser, p, n, &used, &problem) < 0) {
			fail(c, 0, problem.text);
			return false;
		}
		p += used;
		n -= used;
		if (!http_parser_ended(c->parser))
			return true;
		if (c->answer.status >= 200 || c->answer.status == 101)
			break;
		http_parser_next(c->parser); /* 100, 103: the answer is still to come */
	}
	if (c->answer.status == 101 && n && buf_append(&c->in, p, n) < 0) {
		fail(c, ENOBUFS, "the stream's first bytes");
		return false;
	}
	succeed(c);
	return false;
}

static void tls_failed(struct http_client *c)
{
	const char *why = tls_why(c->tls);
	_cleanup_free_ char *text = xasprintf("TLS: %s", *why ? why : "the connection broke");
	fail(c, 0, text);
}

static void answer_over(struct http_client *c)
{
	struct http_problem problem;
	if (!http_parser_begun(c->parser) || http_parser_eof(c->parser, &problem) < 0)
		fail(c, 0, "the connection ended without an answer");
	else
		succeed(c);
}

/* Bytes as they came, or none at the beginning. True where there may be more to read. */
static bool take_sealed(struct http_client *c, const char *p, size_t n)
{
	int r = tls_open(c->tls, p, n, &c->plain, &c->cipher);
	if (r == 0 && tls_established(c->tls) && !c->sealed) {
		c->sealed = true;
		r = tls_seal(c->tls, c->out.data, c->out.len, &c->cipher);
	}
	bool more = c->plain.len == 0 || take(c, (const char *)c->plain.data, c->plain.len);
	buf_clear(&c->plain);
	if (!more || r == 0)
		return more;
	if (r == -EPIPE)
		answer_over(c);
	else
		tls_failed(c);
	return false;
}

static void write_request(struct http_client *c);

static void read_answer(struct http_client *c)
{
	char bytes[READ_SIZE];
	for (;;) {
		ssize_t n = read(c->fd, bytes, sizeof(bytes));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n > 0 &&
			(c->tls ? take_sealed(c, bytes, (size_t)n) : take(c, bytes, (size_t)n)))
			continue;
		if (n > 0)
			return;
		if (n < 0)
			fail(c, errno,
				c->tls ? "TLS: the connection broke" : "the connection broke");
		else if (c->tls && !tls_established(c->tls))
			fail(c, 0, "TLS: the connection was ended");
		else
			answer_over(c);
		return;
	}
	if (c->cipher.len)
		write_request(c);
}

static void on_poll(uv_poll_t *p, int status, int got);

static void poll_for(struct http_client *c, int wanted)
{
	int r = uv_poll_start(&c->poll, wanted, on_poll);
	if (r < 0)
		fail(c, -r, "cannot wait for it");
}

static struct buf *outgoing(struct http_client *c)
{
	return c->tls ? &c->cipher : &c->out;
}

static void write_request(struct http_client *c)
{
	struct buf *out = outgoing(c);
	if (fd_send(c->fd, out) < 0) /* it may have answered already, and closed */
		buf_consume(out, out->len);
	poll_for(c, out->len ? UV_READABLE | UV_WRITABLE : UV_READABLE);
}

static void on_poll(uv_poll_t *p, int status, int got)
{
	struct http_client *c = p->data;
	int e = 0;
	socklen_t size = sizeof(e);
	if (!c->connected) {
		if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &e, &size) < 0)
			e = errno;
		if (e || status < 0) {
			stop_polling(c);
			fd_closep(&c->fd);
			c->why.errnum = e ? e : -status;
			connect_next(c);
			return;
		}
		c->connected = true;
		if (c->tls && !take_sealed(c, "", 0)) /* the client speaks first */
			return;
	}
	if (got & UV_WRITABLE || outgoing(c)->len)
		write_request(c);
	if (!c->finished && (got & UV_READABLE || status < 0))
		read_answer(c);
}

/* ---- connecting ---- */

static void on_timer(uv_timer_t *t)
{
	struct http_client *c = t->data;
	if (clock_monotonic_us() >= c->due_us)
		fail(c, ETIMEDOUT, c->connected ? "no answer" : "cannot connect");
	else
		connect_next(c);
}

static void wait_until(struct http_client *c, uint64_t at_us)
{
	uint64_t now = clock_monotonic_us(), us = at_us > now ? at_us - now : 0;
	(void)uv_timer_start(&c->timer, on_timer, us / USEC_PER_MSEC + 1, 0);
}

static int connect_to(struct http_client *c, const struct sockaddr *address, socklen_t size)
{
	c->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return -errno;
	int r = connect(c->fd, address, size) < 0 && errno != EINPROGRESS ? -errno : 0;
	if (r == 0)
		r = uv_poll_init(c->loop, &c->poll, c->fd);
	if (r < 0) {
		fd_closep(&c->fd);
		return r;
	}
	c->poll.data = c;
	c->polling = true;
	c->handles++;
	poll_for(c, UV_WRITABLE);
	return 0;
}

static void connect_socket(struct http_client *c)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(c->socket) >= sizeof(address.sun_path)) {
		fail(c, ENAMETOOLONG, "cannot connect");
		return;
	}
	str_copy(address.sun_path, sizeof(address.sun_path), c->socket);
	int r = connect_to(c, (const struct sockaddr *)&address, sizeof(address));
	if (r == -EAGAIN)
		wait_until(c, MIN(clock_monotonic_us() + RETRY_MS * USEC_PER_MSEC, c->due_us));
	else if (r < 0)
		fail(c, -r, "cannot connect");
	else
		wait_until(c, c->due_us);
}

/* The next of the addresses that are left to be tried, or the end. Not while a closing poll handle
 * is still libuv's: then from the timer. */
static void connect_next(struct http_client *c)
{
	if (c->handles > 1) {
		(void)uv_timer_start(&c->timer, on_timer, 0, 0);
		return;
	}
	if (c->socket && !c->why.errnum) {
		connect_socket(c);
		return;
	}
	while (c->next_address) {
		const struct addrinfo *a = c->next_address;
		c->next_address = a->ai_next;
		int r = connect_to(c, a->ai_addr, a->ai_addrlen);
		if (r == 0) {
			wait_until(c, c->due_us);
			return;
		}
		c->why.errnum = -r;
	}
	fail(c, c->why.errnum ? c->why.errnum : ENOENT, "cannot connect");
}

static void on_lookup(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
	struct http_client *c = req->data;
	c->looking = false;
	c->addresses = c->next_address = found;
	if (c->finished) {
		if (c->handles == 0)
			free_client(c);
	} else if (status < 0) {
		fail(c, 0, uv_strerror(status));
	} else {
		connect_next(c);
	}
}

static void on_start(uv_timer_t *t)
{
	struct http_client *c = t->data;
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	wait_until(c, c->due_us);
	if (c->socket) {
		connect_next(c);
		return;
	}
	int r = uv_getaddrinfo(c->loop, &c->lookup, on_lookup, c->host, c->port, &hints);
	c->looking = r == 0;
	if (r < 0)
		fail(c, 0, uv_strerror(r));
}

struct http_client *http_client_start(
	uv_loop_t *loop, const struct http_client_request *req, http_client_fn done, void *user)
{
	struct http_client *c = xcalloc(1, sizeof(*c));
	const struct http_place *place = &req->place;
	c->loop = loop;
	c->done = done;
	c->user = user;
	c->fd = -1;
	c->handles = 1;
	c->timer.data = c->lookup.data = c;
	c->due_us = clock_monotonic_us() + req->timeout_us;
	c->socket = place->socket ? xstrdup(place->socket) : NULL;
	c->host = xstrdup(place->host + (place->host[0] == '['));
	c->host[strcspn(c->host, "]")] = '\0';
	c->tls = req->tls ? tls_new_client(req->tls, c->host) : NULL;
	c->plain = BUF_INIT(PLAIN_MAX);
	c->port = place->port ? xstrdup(place->port) : NULL;
	c->out = BUF_INIT(LIMIT_HTTP_HEAD + req->body_n);
	/* Records of 16 KiB have less than 100 bytes of their own. */
	c->cipher = BUF_INIT(c->out.max + c->out.max / 64 + PLAIN_MAX);
	c->out.wipe = true;
	c->in = BUF_INIT(req->answer_max);
	c->parser = http_parser_new(HTTP_KIND_RESPONSE, &events, c, req->answer_max);
	int r = buf_printf(&c->out, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: scb\r\n",
		req->method, req->target, place->host);
	if (r == 0)
		r = buf_append_str(&c->out, req->upgrade ? "Connection: Upgrade\r\nUpgrade: tcp\r\n"
							 : "Connection: close\r\n");
	if (r == 0 && req->body)
		r = buf_append_str(&c->out, "Content-Type: application/json\r\n");
	if (r == 0)
		r = buf_printf(&c->out, "Content-Length: %zu\r\n\r\n", req->body_n);
	if (r == 0 && req->body)
		r = buf_append(&c->out, req->body, req->body_n);
	CHECK(r == 0); /* targets are short, and the caller's own */
	(void)uv_timer_init(loop, &c->timer);
	/* From the loop, so that nobody is called back from inside this call. */
	(void)uv_timer_start(&c->timer, on_start, 0, 0);
	return c;
}
