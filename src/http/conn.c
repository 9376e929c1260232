/* conn.c: see conn.h. One connection: a parser, one exchange at a time, bytes on their way out, and
 * one timer for whatever it waits for. */
#include "http/conn.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"

/* What a peer may send ahead while it is being answered. */
#define AHEAD_MAX (64 * KIB)
/* The next request is read once so much at most of the answers waits to be taken. */
#define DRAINED (512 * KIB)
/* After the last byte of an answer: so that the peer can read it although it is still sending. */
#define LINGER_MS    2000
#define LINGER_BYTES MIB
/* What is encrypted at a time: a sixteenth more, at most, is what the socket gets. */
#define SEAL_PIECE (128 * KIB)

static void advance(struct http_conn *c);

struct http_conn *http_conn_of(const struct http_exchange *x)
{
	return container_of(x, struct http_conn, x);
}

void http_conn_drop_body(struct http_conn *c)
{
	c->server->bodies -= c->body.len;
	buf_done(&c->body);
}

/* ---- the end of a connection ---- */

static void on_handle_closed(uv_handle_t *h)
{
	struct http_conn *c = h->data;
	if (--c->handles > 0)
		return;
	struct http_server *s = c->server;
	http_parser_free(c->parser);
	http_conn_drop_body(c);
	buf_done(&c->ahead);
	buf_done(&c->out);
	buf_done(&c->wire);
	buf_done(&c->in_flight);
	tls_free(c->tls);
	free(c);
	http_server_handle_closed(s);
}

static void conn_close(struct http_conn *c)
{
	if (c->phase == HTTP_CLOSED)
		return;
	const struct http_watcher *watcher =
		c->phase == HTTP_ANSWERING && c->x.asked && !c->x.ended ? c->x.watcher : NULL;
	c->phase = HTTP_CLOSED;
	list_remove(&c->link);
	c->server->n_conns--;
	if (c->counted)
		peers_leave(c->server->peers, &c->peer);
	if (watcher)
		watcher->gone(c->x.user);
	uv_close((uv_handle_t *)&c->tcp, on_handle_closed);
	uv_close((uv_handle_t *)&c->timer, on_handle_closed);
}

void http_conn_close(struct list *node)
{
	conn_close(container_of(node, struct http_conn, link));
}

/* ---- waiting ---- */

static void on_timer(uv_timer_t *t);

static uint64_t now_ms(const struct http_conn *c)
{
	return uv_now(c->server->config.loop);
}

/* For whatever is due first. */
static void set_timer(struct http_conn *c)
{
	uint64_t due = c->read_by_ms;
	if (c->write_by_ms && (!due || c->write_by_ms < due))
		due = c->write_by_ms;
	if (c->broken)
		due = 1;
	if (due)
		(void)uv_timer_start(&c->timer, on_timer, due - MIN(due, now_ms(c)), 0);
	else
		(void)uv_timer_stop(&c->timer);
}

/* For the peer to send; 0: it has. */
static void read_within(struct http_conn *c, uint64_t ms)
{
	c->read_by_ms = ms ? now_ms(c) + ms : 0;
	set_timer(c);
}

/* For the peer to take what is in flight; 0: it has. */
static void write_within(struct http_conn *c, uint64_t ms)
{
	c->write_by_ms = ms ? now_ms(c) + ms : 0;
	set_timer(c);
}

/* ---- what goes out ---- */

size_t http_conn_queued(const struct http_conn *c)
{
	return c->out.len + c->wire.len + c->in_flight.len;
}

/* Never at once: who writes is in the middle of something. */
void http_conn_break_off(struct http_conn *c)
{
	c->broken = true;
	set_timer(c);
}

void http_conn_put(struct http_conn *c, const void *p, size_t n)
{
	if (c->phase == HTTP_CLOSED || c->broken || n == 0)
		return;
	if (n > LIMIT_HTTP_OUT_QUEUE - MIN(http_conn_queued(c), LIMIT_HTTP_OUT_QUEUE) ||
		buf_append(&c->out, p, n) < 0)
		http_conn_break_off(c); /* it has not read for long */
}

static void on_shut(uv_shutdown_t *r, int status)
{
	struct http_conn *c = r->data;
	if (status < 0)
		conn_close(c);
}

static void linger(struct http_conn *c)
{
	c->phase = HTTP_LINGERING;
	buf_done(&c->ahead);
	if (c->tls) {
		tls_goodbye(c->tls, &c->wire);
		http_conn_flush(c);
	}
	c->shutdown.data = c;
	if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shut) < 0) {
		conn_close(c);
		return;
	}
	read_within(c, LINGER_MS);
}

/* Something of the queue has gone. */
static void on_gone_out(struct http_conn *c)
{
	struct http_exchange *x = &c->x;
	bool drained = c->phase == HTTP_ANSWERING && http_conn_queued(c) == 0;
	if (drained && x->ended && x->close)
		linger(c);
	else if (drained && x->begun && !x->ended && x->watcher && x->watcher->drained)
		x->watcher->drained(x->user);
	if (c->phase != HTTP_CLOSED)
		advance(c);
}

static void on_written(uv_write_t *w, int status)
{
	struct http_conn *c = w->data;
	c->writing = false;
	buf_done(&c->in_flight);
	if (status < 0)
		conn_close(c);
	if (c->phase == HTTP_CLOSED)
		return;
	write_within(c, 0);
	http_conn_flush(c);
	on_gone_out(c);
}

static void start_write(struct http_conn *c, struct buf *from)
{
	size_t n = MIN(from->len, HTTP_WRITE_PIECE);
	CHECK(buf_append(&c->in_flight, from->data, n) == 0);
	buf_consume(from, n);
	uv_buf_t b = uv_buf_init((char *)c->in_flight.data, (unsigned)n);
	c->write.data = c;
	c->writing = uv_write(&c->write, (uv_stream_t *)&c->tcp, &b, 1, on_written) == 0;
	c->server->stats.bytes_out += n;
	if (c->writing)
		write_within(c, LIMIT_HTTP_STALL_MS);
	else
		http_conn_break_off(c);
}

/* What the socket is to get next; empty: nothing. */
static struct buf *for_socket(struct http_conn *c)
{
	if (!c->tls)
		return &c->out;
	if (c->wire.len == 0 && c->out.len && tls_established(c->tls)) {
		size_t n = MIN(c->out.len, SEAL_PIECE);
		if (tls_seal(c->tls, c->out.data, n, &c->wire) < 0)
			http_conn_break_off(c);
		else
			buf_consume(&c->out, n);
	}
	return &c->wire;
}

void http_conn_flush(struct http_conn *c)
{
	while (!c->writing && c->phase != HTTP_CLOSED && !c->broken) {
		struct buf *from = for_socket(c);
		size_t n = MIN(from->len, HTTP_WRITE_PIECE);
		if (n == 0)
			break;
		uv_buf_t b = uv_buf_init((char *)from->data, (unsigned)n);
		int done = uv_try_write((uv_stream_t *)&c->tcp, &b, 1);
		if (done < 0 && done != UV_EAGAIN) {
			http_conn_break_off(c);
			return;
		}
		if (done > 0) {
			buf_consume(from, (size_t)done);
			c->server->stats.bytes_out += (size_t)done;
		}
		if (done < (int)n)
			start_write(c, from);
	}
	if (c->out.len == 0 && c->out.cap > DRAINED)
		buf_done(&c->out);
	if (c->wire.len == 0)
		buf_done(&c->wire);
}

void http_conn_answered(struct http_conn *c)
{
	http_conn_flush(c);
	if (!c->advancing && !c->writing)
		on_gone_out(c);
}

/* What is wrong with the request, and the connection's end. */
static void refuse(struct http_conn *c, unsigned status, const char *why)
{
	char text[200];
	if (c->x.ended) { /* by head() */
		c->phase = HTTP_ANSWERING;
		return;
	}
	if (c->x.begun) {
		conn_close(c);
		return;
	}
	(void)snprintf(text, sizeof(text), "%s: %s\n", http_reason(status), why);
	c->phase = HTTP_ANSWERING;
	c->x.close = true;
	http_answer(&c->x, status, "text/plain; charset=utf-8", NULL, 0, text, strlen(text));
}

/* ---- what comes in ---- */

static unsigned on_head(void *user, const struct http_head *h)
{
	struct http_conn *c = user;
	struct http_exchange *x = &c->x;
	x->head = h;
	if (h->upgrade)
		return 405;
	unsigned status = c->server->config.head(c->server->config.user, x);
	if (status == 0 && !x->begun && h->expects_continue && (h->chunked || h->length)) {
		static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
		http_conn_put(c, go_on, sizeof(go_on) - 1);
		http_conn_flush(c);
	}
	read_within(c, LIMIT_HTTP_BODY_MS);
	return status;
}

static unsigned on_body(void *user, const void *p, size_t n)
{
	struct http_conn *c = user;
	struct http_server *s = c->server;
	if (c->x.begun)
		return 0;
	if (c->body.len + n > LIMIT_HTTP_BODIES_SMALL && s->bodies + n > LIMIT_HTTP_BODIES)
		return 503;
	if (buf_append(&c->body, p, n) < 0)
		return 413;
	s->bodies += n;
	return 0;
}

static void on_end(void *user)
{
	struct http_conn *c = user;
	read_within(c, 0);
	c->phase = HTTP_ANSWERING;
	if (c->x.begun) /* by head() */
		return;
	c->x.asked = true;
	c->server->config.request(c->server->config.user, &c->x);
}

static void next_request(struct http_conn *c)
{
	c->phase = HTTP_READING;
	c->x = (struct http_exchange){0};
	http_conn_drop_body(c);
	http_parser_next(c->parser);
	read_within(c, LIMIT_HTTP_IDLE_MS);
}

static void feed(struct http_conn *c)
{
	struct http_problem problem;
	size_t used;
	bool begun = http_parser_begun(c->parser);
	if (!begun)
		read_within(c, LIMIT_HTTP_HEAD_MS);
	int r = http_parser_feed(c->parser, c->ahead.data, c->ahead.len, &used, &problem);
	if (c->phase == HTTP_CLOSED)
		return;
	buf_consume(&c->ahead, used);
	if (r < 0)
		refuse(c, problem.status, problem.text);
	else if (c->phase == HTTP_READING && c->x.begun) /* by head(): its body is not waited for */
		c->phase = HTTP_ANSWERING;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b);

static void on_alloc(uv_handle_t *h, size_t wanted, uv_buf_t *b)
{
	/* Copied at once: one for all connections of the (only) loop. */
	static char bytes[64 * KIB];
	(void)h;
	(void)wanted;
	*b = uv_buf_init(bytes, sizeof(bytes));
}

/* As far as it goes without anybody else: requests that have come, answers that have ended. */
static void advance(struct http_conn *c)
{
	if (c->advancing)
		return;
	c->advancing = true;
	for (bool more = true; more && c->phase != HTTP_CLOSED && !c->broken;) {
		more = false;
		struct http_exchange *x = &c->x;
		if (c->phase == HTTP_ANSWERING && x->ended && !x->close &&
			http_conn_queued(c) < DRAINED) {
			next_request(c);
			more = true;
		}
		if (c->phase == HTTP_READING && c->ahead.len) {
			feed(c);
			more = true;
		}
	}
	c->advancing = false;
	if (c->phase == HTTP_CLOSED || c->broken)
		return;
	if (c->phase == HTTP_ANSWERING && c->x.ended && c->x.close && http_conn_queued(c) == 0)
		linger(c);
	bool wanted = c->phase == HTTP_LINGERING || c->ahead.len < AHEAD_MAX;
	if (c->ahead.len == 0)
		buf_done(&c->ahead);
	if (c->out.len == 0 && c->phase == HTTP_READING) /* an idle one holds nothing */
		buf_done(&c->out);
	if (wanted && !c->reading)
		c->reading = uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) == 0;
	else if (!wanted && c->reading && uv_read_stop((uv_stream_t *)&c->tcp) == 0)
		c->reading = false;
}

/* A client that does not know better is told, in its own language. */
static bool is_plain_http(const char *p, size_t n)
{
	size_t letters = 0;
	while (letters < n && p[letters] >= 'A' && p[letters] <= 'Z')
		letters++;
	return letters >= 3 && letters < n && p[letters] == ' ';
}

static void on_encrypted(struct http_conn *c, const char *p, size_t n)
{
	bool fresh = !tls_established(c->tls);
	int r = tls_open(c->tls, p, n, &c->ahead, &c->wire);
	if (r < 0 && fresh && is_plain_http(p, n)) {
		tls_free(TAKE_PTR(c->tls));
		buf_done(&c->wire);
		refuse(c, 400, "this port speaks TLS: ask by https://");
		return;
	}
	if (fresh && tls_established(c->tls))
		read_within(c, LIMIT_HTTP_IDLE_MS);
	c->server->stats.tls_failed += r == -EPROTO && fresh;
	http_conn_flush(c);
	if (r < 0)
		conn_close(c);
	else
		advance(c);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
	struct http_conn *c = stream->data;
	if (n == 0)
		return;
	if (n < 0) {
		conn_close(c);
		return;
	}
	c->server->stats.bytes_in += (size_t)n;
	if (c->phase == HTTP_LINGERING) {
		c->lingered += (size_t)n;
		if (c->lingered > LINGER_BYTES)
			conn_close(c);
		return;
	}
	if (c->tls)
		on_encrypted(c, b->base, (size_t)n);
	else if (buf_append(&c->ahead, b->base, (size_t)n) < 0)
		conn_close(c);
	else
		advance(c);
}

static void on_timer(uv_timer_t *t)
{
	struct http_conn *c = t->data;
	bool stalled = c->write_by_ms && c->write_by_ms <= now_ms(c);
	if (c->broken || stalled || c->phase != HTTP_READING || !http_parser_begun(c->parser))
		conn_close(c);
	else
		refuse(c, 408, "the request took too long to arrive");
}

/* ---- the beginning ---- */

static bool has_room_for_peer(struct http_conn *c)
{
	struct sockaddr_storage a = {0};
	int size = sizeof(a);
	if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&a, &size) < 0)
		return false; /* it has gone */
	peer_address(&a, &c->peer);
	c->counted = peers_enter(c->server->peers, &c->peer);
	return c->counted;
}

void http_conn_accept(struct http_server *s)
{
	static const struct http_events events = {on_head, on_body, on_end};
	struct http_conn *c = xcalloc(1, sizeof(*c));
	c->server = s;
	(void)uv_tcp_init(s->config.loop, &c->tcp);
	(void)uv_timer_init(s->config.loop, &c->timer);
	c->tcp.data = c->timer.data = c;
	c->handles = 2;
	s->n_handles++;
	s->n_conns++;
	list_append(&s->conns, &c->link);
	buf_init(&c->body, LIMIT_HTTP_BODY);
	buf_init(&c->ahead, 3 * AHEAD_MAX); /* a read on top, and what TLS held back */
	buf_init(&c->wire, LIMIT_HTTP_OUT_QUEUE);
	buf_init(&c->out, LIMIT_HTTP_OUT_QUEUE);
	buf_init(&c->in_flight, HTTP_WRITE_PIECE);
	c->parser = http_parser_new(HTTP_KIND_REQUEST, &events, c, LIMIT_HTTP_BODY);
	s->stats.accepted++;
	if (uv_accept((uv_stream_t *)&s->listener, (uv_stream_t *)&c->tcp) < 0 || s->closing ||
		s->n_conns > s->max_conns || !has_room_for_peer(c)) {
		s->stats.refused++;
		conn_close(c);
		return;
	}
	if (s->tls)
		c->tls = tls_new(s->tls);
	(void)uv_tcp_nodelay(&c->tcp, 1);
	read_within(c, c->tls ? LIMIT_HTTP_TLS_MS : LIMIT_HTTP_IDLE_MS);
	advance(c);
}
