/* answer.c: what a server answers; see server.h. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/limits.h"
#include "http/conn.h"

/* ---- statuses ---- */

static const struct {
	unsigned status;
	const char *text;
} reasons[HTTP_STATUSES] = {{200, "OK"}, {202, "Accepted"}, {204, "No Content"},
	{206, "Partial Content"}, {302, "Found"}, {304, "Not Modified"}, {400, "Bad Request"},
	{401, "Unauthorized"}, {403, "Forbidden"}, {404, "Not Found"}, {405, "Method Not Allowed"},
	{406, "Not Acceptable"}, {408, "Request Timeout"}, {409, "Conflict"}, {410, "Gone"},
	{411, "Length Required"}, {413, "Content Too Large"}, {415, "Unsupported Media Type"},
	{416, "Range Not Satisfiable"}, {417, "Expectation Failed"}, {421, "Misdirected Request"},
	{429, "Too Many Requests"}, {431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"}, {501, "Not Implemented"}, {503, "Service Unavailable"},
	{505, "HTTP Version Not Supported"}, {0, "Unknown"}};

/* The last one where there is none. */
static size_t index_of(unsigned status)
{
	size_t i = 0;
	while (i < HTTP_STATUSES - 1 && reasons[i].status != status)
		i++;
	return i;
}

const char *http_reason(unsigned status)
{
	return reasons[index_of(status)].text;
}

unsigned http_status_at(size_t i)
{
	return reasons[i].status;
}

/* ---- the head ---- */

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

static void put_text(struct http_conn *c, const char *text)
{
	http_conn_put(c, text, strlen(text));
}

static void put_field(struct http_conn *c, const char *name, const char *value)
{
	CHECK(!strpbrk(value, "\r\n"));
	put_text(c, name);
	put_text(c, ": ");
	put_text(c, value);
	put_text(c, "\r\n");
}

static void put_fields(struct http_conn *c, const struct http_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put_field(c, fields[i].name, fields[i].value);
}

void http_always(struct http_exchange *x, const char *name, const char *value)
{
	CHECK(x->n_always < HTTP_ALWAYS && !x->begun);
	x->always[x->n_always++] = (struct http_field){(char *)name, (char *)value};
}

void http_begin(struct http_exchange *x, unsigned status, const char *type,
	const struct http_field *fields, size_t n_fields, uint64_t length)
{
	struct http_conn *c = http_conn_of(x);
	char line[128];
	CHECK(!x->begun);
	x->begun = true;
	c->server->stats.by_status[index_of(status)]++;
	bool old = x->head && x->head->minor == 0;
	x->chunked = length == HTTP_UNKNOWN && !old;
	/* An answer to a head alone: where the next request begins cannot be told. */
	x->close |= old || !x->asked || !x->head || !x->head->keep_alive;
	(void)snprintf(line, sizeof(line), "HTTP/1.1 %u %s\r\n", status, http_reason(status));
	put_text(c, line);
	put_field(c, "date", date());
	put_field(c, "x-content-type-options", "nosniff");
	if (type)
		put_field(c, "content-type", type);
	put_fields(c, fields, n_fields);
	put_fields(c, x->always, x->n_always);
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

/* ---- the body ---- */

static bool sends_body(const struct http_exchange *x)
{
	return !x->head || x->head->verb != HTTP_VERB_HEAD;
}

void http_write(struct http_exchange *x, const void *p, size_t n)
{
	struct http_conn *c = http_conn_of(x);
	CHECK(x->begun && !x->ended);
	if (n == 0 || !sends_body(x))
		return;
	char size[24];
	if (x->chunked) {
		(void)snprintf(size, sizeof(size), "%zx\r\n", n);
		put_text(c, size);
	}
	http_conn_put(c, p, n);
	if (x->chunked)
		put_text(c, "\r\n");
	http_conn_flush(c);
}

void http_end(struct http_exchange *x)
{
	struct http_conn *c = http_conn_of(x);
	CHECK(x->begun && !x->ended);
	if (x->chunked && sends_body(x))
		put_text(c, "0\r\n\r\n");
	x->ended = true;
	http_conn_answered(c);
}

void http_abort(struct http_exchange *x)
{
	CHECK(x->begun && !x->ended);
	x->watcher = NULL;
	x->ended = x->close = true;
	http_conn_break_off(http_conn_of(x));
}

void http_answer(struct http_exchange *x, unsigned status, const char *type,
	const struct http_field *fields, size_t n_fields, const void *body, size_t n)
{
	http_begin(x, status, type, fields, n_fields, n);
	if (sends_body(x))
		http_conn_put(http_conn_of(x), body, n);
	http_end(x);
}

size_t http_queued(const struct http_exchange *x)
{
	return http_conn_queued(http_conn_of(x));
}

/* ---- the exchange ---- */

const struct http_head *http_head(const struct http_exchange *x)
{
	return x->head;
}

const struct peer_address *http_peer(const struct http_exchange *x)
{
	return &http_conn_of(x)->peer;
}

const void *http_body(const struct http_exchange *x, size_t *ret_n)
{
	*ret_n = http_conn_of(x)->body.len;
	return http_conn_of(x)->body.data;
}

bool http_begun(const struct http_exchange *x)
{
	return x->begun;
}

void http_body_done(struct http_exchange *x)
{
	http_conn_drop_body(http_conn_of(x));
}

void http_watch(struct http_exchange *x, const struct http_watcher *watcher, void *user)
{
	x->watcher = watcher;
	x->user = user;
}
