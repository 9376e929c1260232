/* conn.c: see conn.h. One connection: a parser, one exchange at a time, bytes on their way out, and
 * one timer for whatever it waits for. */
#include "http/conn.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits.h"

/* What a peer may send ahead while it is being answered. */
#define AHEAD_MAX (64 * KIB)
/* One write to the socket: its end is a sign of life. */
#define WRITE_PIECE (256 * KIB)
/* The next request is read once so much at most of the answers waits to be taken. */
#define DRAINED (512 * KIB)
/* After the last byte of an answer: so that the peer can read it although it is still sending. */
#define LINGER_MS    2000
#define LINGER_BYTES MIB

enum phase { READING, ANSWERING, LINGERING, CLOSED };

struct http_exchange {
	const struct http_head *head;
	bool begun, chunked, ended, asked; /* asked: request() was called */
	bool close;                        /* the connection goes with it */
	void *data;
};

struct conn {
	struct list link;
	struct http_server *server;
	uv_tcp_t tcp;
	uv_timer_t timer;
	uv_write_t write;
	uv_shutdown_t shutdown;
	unsigned handles;
	enum phase phase;
	bool reading, writing, advancing;
	bool broken; /* to be closed, from a later turn */
	struct http_parser *parser;
	struct http_exchange x;
	struct buf body, ahead, out, in_flight;
	size_t lingered;
};

static void advance(struct conn *c);
static void flush(struct conn *c);

static struct conn *conn_of(const struct http_exchange *x)
{
	return container_of(x, struct conn, x);
}

/* ---- the end of a connection ---- */

static void on_handle_closed(uv_handle_t *h)
{
	struct conn *c = h->data;
	if (--c->handles > 0)
		return;
	struct http_server *s = c->server;
	http_parser_free(c->parser);
	buf_done(&c->body);
	buf_done(&c->ahead);
	buf_done(&c->out);
	buf_done(&c->in_flight);
	free(c);
	http_server_handle_closed(s);
}

static void conn_close(struct conn *c)
{
	if (c->phase == CLOSED)
		return;
	bool open = c->phase == ANSWERING && c->x.asked && !c->x.ended;
	c->phase = CLOSED;
	list_remove(&c->link);
	c->server->n_conns--;
	if (open)
		c->server->config.gone(c->server->config.user, &c->x);
	uv_close((uv_handle_t *)&c->tcp, on_handle_closed);
	uv_close((uv_handle_t *)&c->timer, on_handle_closed);
}

void http_conn_close(struct list *node)
{
	conn_close(container_of(node, struct conn, link));
}

/* ---- waiting ---- */

static void on_timer(uv_timer_t *t);

static void wait_at_most(struct conn *c, uint64_t ms)
{
	(void)uv_timer_start(&c->timer, on_timer, ms, 0);
}

/* ---- what goes out ---- */

static size_t queued(const struct conn *c)
{
	return c->out.len + c->in_flight.len;
}

/* Never at once: who writes is in the middle of something. */
static void break_off(struct conn *c)
{
	c->broken = true;
	wait_at_most(c, 0);
}

static void put(struct conn *c, const void *p, size_t n)
{
	if (c->phase == CLOSED || c->broken || n == 0)
		return;
	if (n > LIMIT_HTTP_OUT_QUEUE - MIN(queued(c), LIMIT_HTTP_OUT_QUEUE) ||
		buf_append(&c->out, p, n) < 0)
		break_off(c); /* it has not read for long */
}

static void on_shut(uv_shutdown_t *r, int status)
{
	struct conn *c = r->data;
	if (status < 0)
		conn_close(c);
}

static void linger(struct conn *c)
{
	c->phase = LINGERING;
	buf_done(&c->ahead);
	c->shutdown.data = c;
	if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shut) < 0) {
		conn_close(c);
		return;
	}
	wait_at_most(c, LINGER_MS);
}

/* Something of the queue has gone. */
static void on_gone_out(struct conn *c)
{
	if (c->phase == ANSWERING && c->x.ended && c->x.close && queued(c) == 0)
		linger(c);
	else if (c->phase != CLOSED)
		advance(c);
}

static void on_written(uv_write_t *w, int status)
{
	struct conn *c = w->data;
	c->writing = false;
	buf_done(&c->in_flight);
	if (status < 0)
		conn_close(c);
	if (c->phase == CLOSED)
		return;
	(void)uv_timer_stop(&c->timer);
	flush(c);
	on_gone_out(c);
}

static void flush(struct conn *c)
{
	if (c->writing || c->out.len == 0 || c->phase == CLOSED || c->broken)
		return;
	size_t n = MIN(c->out.len, WRITE_PIECE);
	uv_buf_t b = uv_buf_init((char *)c->out.data, (unsigned)n);
	int done = uv_try_write((uv_stream_t *)&c->tcp, &b, 1);
	if (done < 0 && done != UV_EAGAIN) {
		break_off(c);
		return;
	}
	if (done > 0)
		buf_consume(&c->out, (size_t)done);
	if (c->out.len == 0) {
		if (c->out.cap > DRAINED)
			buf_done(&c->out);
		return;
	}
	n = MIN(c->out.len, WRITE_PIECE);
	CHECK(buf_append(&c->in_flight, c->out.data, n) == 0);
	buf_consume(&c->out, n);
	b = uv_buf_init((char *)c->in_flight.data, (unsigned)n);
	c->write.data = c;
	c->writing = uv_write(&c->write, (uv_stream_t *)&c->tcp, &b, 1, on_written) == 0;
	if (!c->writing)
		break_off(c);
	else
		wait_at_most(c, LIMIT_HTTP_STALL_MS);
}

/* ---- answers ---- */

const char *http_reason(unsigned status)
{
	static const struct {
		unsigned status;
		const char *text;
	} reasons[] = {{200, "OK"}, {202, "Accepted"}, {204, "No Content"},
		{206, "Partial Content"}, {302, "Found"}, {304, "Not Modified"},
		{400, "Bad Request"}, {401, "Unauthorized"}, {403, "Forbidden"}, {404, "Not Found"},
		{405, "Method Not Allowed"}, {406, "Not Acceptable"}, {408, "Request Timeout"},
		{410, "Gone"}, {411, "Length Required"}, {413, "Content Too Large"},
		{415, "Unsupported Media Type"}, {416, "Range Not Satisfiable"},
		{417, "Expectation Failed"}, {421, "Misdirected Request"},
		{429, "Too Many Requests"}, {431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"}, {501, "Not Implemented"},
		{503, "Service Unavailable"}, {505, "HTTP Version Not Supported"}};
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].text;
	return "Unknown";
}

/* RFC 9110, 5.6.7; made once a second. */
static const char *date(void)
{
	static char text[32];
	static uint64_t of;
	uint64_t now = clock_realtime_us() / USEC_PER_SEC;
	if (now != of) {
		time_t t = (time_t)now;
		struct tm tm;
		(void)gmtime_r(&t, &tm);
		(void)strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		of = now;
	}
	return text;
}

static void put_text(struct conn *c, const char *text)
{
	put(c, text, strlen(text));
}

static void put_field(struct conn *c, const char *name, const char *value)
{
	CHECK(!strpbrk(value, "\r\n"));
	put_text(c, name);
	put_text(c, ": ");
	put_text(c, value);
	put_text(c, "\r\n");
}

void http_begin(struct http_exchange *x, unsigned status, const char *type,
	const struct http_field *fields, size_t n_fields, uint64_t length)
{
	struct conn *c = conn_of(x);
	char line[128];
	CHECK(!x->begun);
	x->begun = true;
	bool old = x->head && x->head->minor == 0;
	x->chunked = length == HTTP_UNKNOWN && !old;
	/* An answer to a head alone: where the next request begins cannot be told. */
	x->close |= old || !x->asked || !x->head || !x->head->keep_alive;
	(void)snprintf(line, sizeof(line), "HTTP/1.1 %u %s\r\n", status, http_reason(status));
	put_text(c, line);
	put_field(c, "date", date());
	if (type)
		put_field(c, "content-type", type);
	for (size_t i = 0; i < n_fields; i++)
		put_field(c, fields[i].name, fields[i].value);
	if (x->chunked) {
		put_field(c, "transfer-encoding", "chunked");
	} else if (length != HTTP_UNKNOWN && status != 204 && status != 304) {
		(void)snprintf(line, sizeof(line), "%llu", (unsigned long long)length);
		put_field(c, "content-length", line);
	}
	if (x->close)
		put_field(c, "connection", "close");
	put_text(c, "\r\n");
}

static bool sends_body(const struct http_exchange *x)
{
	return !x->head || x->head->verb != HTTP_VERB_HEAD;
}

void http_write(struct http_exchange *x, const void *p, size_t n)
{
	struct conn *c = conn_of(x);
	CHECK(x->begun && !x->ended);
	if (n == 0 || !sends_body(x))
		return;
	char size[24];
	if (x->chunked) {
		(void)snprintf(size, sizeof(size), "%zx\r\n", n);
		put_text(c, size);
	}
	put(c, p, n);
	if (x->chunked)
		put_text(c, "\r\n");
	flush(c);
}

void http_end(struct http_exchange *x)
{
	struct conn *c = conn_of(x);
	CHECK(x->begun && !x->ended);
	if (x->chunked && sends_body(x))
		put_text(c, "0\r\n\r\n");
	x->ended = true;
	flush(c);
	if (!c->advancing && !c->writing)
		on_gone_out(c);
}

void http_answer(struct http_exchange *x, unsigned status, const char *type,
	const struct http_field *fields, size_t n_fields, const void *body, size_t n)
{
	struct conn *c = conn_of(x);
	http_begin(x, status, type, fields, n_fields, n);
	if (sends_body(x))
		put(c, body, n);
	http_end(x);
}

/* What is wrong with the request, and the connection's end. */
static void refuse(struct conn *c, unsigned status, const char *why)
{
	char text[200];
	if (c->x.ended) { /* by head() */
		c->phase = ANSWERING;
		return;
	}
	if (c->x.begun) {
		conn_close(c);
		return;
	}
	(void)snprintf(text, sizeof(text), "%s: %s\n", http_reason(status), why);
	c->phase = ANSWERING;
	c->x.close = true;
	http_answer(&c->x, status, "text/plain; charset=utf-8", NULL, 0, text, strlen(text));
}

size_t http_queued(const struct http_exchange *x)
{
	return queued(conn_of(x));
}

const struct http_head *http_head(const struct http_exchange *x)
{
	return x->head;
}

const void *http_body(const struct http_exchange *x, size_t *ret_n)
{
	*ret_n = conn_of(x)->body.len;
	return conn_of(x)->body.data;
}

void http_set_data(struct http_exchange *x, void *data)
{
	x->data = data;
}

void *http_data(const struct http_exchange *x)
{
	return x->data;
}

/* ---- what comes in ---- */

static unsigned on_head(void *user, const struct http_head *h)
{
	struct conn *c = user;
	struct http_exchange *x = &c->x;
	x->head = h;
	if (h->upgrade)
		return 405;
	unsigned status = c->server->config.head(c->server->config.user, x);
	if (status == 0 && !x->begun && h->expects_continue && (h->chunked || h->length)) {
		put_text(c, "HTTP/1.1 100 Continue\r\n\r\n");
		flush(c);
	}
	wait_at_most(c, LIMIT_HTTP_BODY_MS);
	return status;
}

static unsigned on_body(void *user, const void *p, size_t n)
{
	struct conn *c = user;
	return c->x.begun || buf_append(&c->body, p, n) == 0 ? 0 : 413;
}

static void on_end(void *user)
{
	struct conn *c = user;
	(void)uv_timer_stop(&c->timer);
	c->phase = ANSWERING;
	if (c->x.begun) /* by head() */
		return;
	c->x.asked = true;
	c->server->config.request(c->server->config.user, &c->x);
}

static void next_request(struct conn *c)
{
	c->phase = READING;
	c->x = (struct http_exchange){0};
	buf_done(&c->body);
	http_parser_next(c->parser);
	wait_at_most(c, LIMIT_HTTP_IDLE_MS);
}

static void feed(struct conn *c)
{
	struct http_problem problem;
	size_t used;
	bool begun = http_parser_begun(c->parser);
	if (!begun)
		wait_at_most(c, LIMIT_HTTP_HEAD_MS);
	int r = http_parser_feed(c->parser, c->ahead.data, c->ahead.len, &used, &problem);
	if (c->phase == CLOSED)
		return;
	buf_consume(&c->ahead, used);
	if (r < 0)
		refuse(c, problem.status, problem.text);
	else if (c->phase == READING && c->x.begun) /* by head(): its body is not waited for */
		c->phase = ANSWERING;
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
static void advance(struct conn *c)
{
	if (c->advancing)
		return;
	c->advancing = true;
	for (bool more = true; more && c->phase != CLOSED && !c->broken;) {
		more = false;
		struct http_exchange *x = &c->x;
		if (c->phase == ANSWERING && x->ended && !x->close && queued(c) < DRAINED) {
			next_request(c);
			more = true;
		}
		if (c->phase == READING && c->ahead.len) {
			feed(c);
			more = true;
		}
	}
	c->advancing = false;
	if (c->phase == CLOSED || c->broken)
		return;
	if (c->phase == ANSWERING && c->x.ended && c->x.close && queued(c) == 0)
		linger(c);
	bool wanted = c->phase == LINGERING || c->ahead.len < AHEAD_MAX;
	if (c->ahead.len == 0)
		buf_done(&c->ahead);
	if (wanted && !c->reading)
		c->reading = uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) == 0;
	else if (!wanted && c->reading && uv_read_stop((uv_stream_t *)&c->tcp) == 0)
		c->reading = false;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
	struct conn *c = stream->data;
	if (n == 0)
		return;
	if (n < 0) {
		conn_close(c);
		return;
	}
	if (c->phase == LINGERING) {
		c->lingered += (size_t)n;
		if (c->lingered > LINGER_BYTES)
			conn_close(c);
		return;
	}
	if (buf_append(&c->ahead, b->base, (size_t)n) < 0)
		conn_close(c);
	else
		advance(c);
}

static void on_timer(uv_timer_t *t)
{
	struct conn *c = t->data;
	if (!c->broken && c->phase == READING && http_parser_begun(c->parser))
		refuse(c, 408, "the request took too long to arrive");
	else
		conn_close(c);
}

/* ---- the beginning ---- */

void http_conn_accept(struct http_server *s)
{
	static const struct http_events events = {on_head, on_body, on_end};
	struct conn *c = xcalloc(1, sizeof(*c));
	c->server = s;
	(void)uv_tcp_init(s->config.loop, &c->tcp);
	(void)uv_timer_init(s->config.loop, &c->timer);
	c->tcp.data = c->timer.data = c;
	c->handles = 2;
	s->n_handles++;
	s->n_conns++;
	list_append(&s->conns, &c->link);
	buf_init(&c->body, LIMIT_HTTP_BODY);
	buf_init(&c->ahead, 2 * AHEAD_MAX);
	buf_init(&c->out, LIMIT_HTTP_OUT_QUEUE);
	buf_init(&c->in_flight, WRITE_PIECE);
	c->parser = http_parser_new(HTTP_KIND_REQUEST, &events, c, LIMIT_HTTP_BODY);
	bool full = s->n_conns > LIMIT_HTTP_CONNECTIONS || s->closing;
	if (uv_accept((uv_stream_t *)&s->listener, (uv_stream_t *)&c->tcp) < 0 || full) {
		conn_close(c);
		return;
	}
	(void)uv_tcp_nodelay(&c->tcp, 1);
	wait_at_most(c, LIMIT_HTTP_IDLE_MS);
	advance(c);
}
