/* parse.c: see parse.h. */
#include "http/parse.h"

#include <errno.h>
#include <llhttp.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/limits.h"

/* What chunked coding may add to a body: chunks of one byte are six bytes long, and a little more.
 */
#define CODING_FACTOR 8
#define CODING_SLACK  (64 * KIB)

enum state { IN_HEAD, IN_BODY, ENDED, BROKEN };

struct http_parser {
	enum http_kind kind;
	enum state state;
	struct http_events events;
	void *user;
	uint64_t max_body, body_bytes, raw_bytes;
	bool no_body, first_line; /* it has come */
	struct buf head_bytes;    /* until the message ends: http_head points there */
	struct http_head head;
	struct http_problem problem;
	llhttp_t ll;
};

/* ---- what llhttp tells ---- */

static int refuse(struct http_parser *p, unsigned status, const char *text)
{
	p->state = BROKEN;
	if (!p->problem.status)
		p->problem = (struct http_problem){status, text ? text : "no HTTP/1.1 message"};
	return -EBADMSG;
}

static int on_headers_complete(llhttp_t *ll)
{
	(void)ll;
	return HPE_PAUSED;
}

static int on_body(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;
	p->body_bytes += n;
	if (p->body_bytes > p->max_body)
		return refuse(p, 413, "the body is too large") < 0 ? -1 : 0;
	unsigned status = p->events.body(p->user, at, n);
	return status && refuse(p, status, "refused") < 0 ? -1 : 0;
}

/* In a trailer: fields of the head are read elsewhere. */
static int on_field(llhttp_t *ll, const char *at, size_t n)
{
	struct http_parser *p = ll->data;
	(void)at;
	(void)n;
	return p->state == IN_BODY && refuse(p, 400, "fields in a trailer") < 0 ? -1 : 0;
}

static int on_extension(llhttp_t *ll, const char *at, size_t n)
{
	(void)at;
	(void)n;
	return refuse(ll->data, 400, "extensions of a chunk") < 0 ? -1 : 0;
}

static int on_message_complete(llhttp_t *ll)
{
	struct http_parser *p = ll->data;
	p->state = ENDED;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_headers_complete = on_headers_complete,
	.on_body = on_body,
	.on_header_field = on_field,
	.on_chunk_extension_name = on_extension,
	.on_message_complete = on_message_complete,
};

/* ---- life ---- */

static void begin(struct http_parser *p)
{
	p->state = IN_HEAD;
	p->body_bytes = p->raw_bytes = 0;
	p->no_body = p->first_line = false;
	buf_done(&p->head_bytes);
	free(p->head.fields);
	p->head = (struct http_head){0};
	llhttp_init(&p->ll, p->kind == HTTP_KIND_REQUEST ? HTTP_REQUEST : HTTP_RESPONSE, &settings);
	p->ll.data = p;
}

struct http_parser *http_parser_new(
	enum http_kind kind, const struct http_events *events, void *user, uint64_t max_body)
{
	struct http_parser *p = xcalloc(1, sizeof(*p));
	p->kind = kind;
	p->events = *events;
	p->user = user;
	p->max_body = max_body;
	buf_init(&p->head_bytes, LIMIT_HTTP_HEAD);
	begin(p);
	return p;
}

void http_parser_free(struct http_parser *p)
{
	if (!p)
		return;
	buf_done(&p->head_bytes);
	free(p->head.fields);
	free(p);
}

void http_parser_no_body(struct http_parser *p)
{
	p->no_body = true;
}

void http_parser_next(struct http_parser *p)
{
	CHECK(p->state == ENDED);
	begin(p);
}

bool http_parser_begun(const struct http_parser *p)
{
	return p->state != IN_HEAD || p->head_bytes.len > 0;
}

bool http_parser_in_body(const struct http_parser *p)
{
	return p->state == IN_BODY;
}

bool http_parser_ended(const struct http_parser *p)
{
	return p->state == ENDED;
}

/* ---- the head ---- */

/* RFC 9110, 5.6.2 */
static bool is_token(const char *p, size_t n)
{
	static const char others[] = "!#$%&'*+-.^_`|~";
	for (size_t i = 0; i < n; i++) {
		char c = p[i];
		bool alnum =
			(c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
		if (!alnum && (c == '\0' || !strchr(others, c)))
			return false;
	}
	return n > 0;
}

static bool is_visible(const char *p, size_t n, bool blanks)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];
		if (c == 0x7f || (c < 0x21 && !(blanks && (c == ' ' || c == '\t'))))
			return false;
	}
	return true;
}

/* Cuts "name: value" (n bytes, then CR) in place. */
static int cut_field(struct http_parser *p, char *line, size_t n)
{
	char *colon = memchr(line, ':', n);
	if (!colon || !is_token(line, (size_t)(colon - line)))
		return refuse(p, 400, "a field without a name, or folded");
	char *value = colon + 1, *end = line + n;
	if (!is_visible(value, (size_t)(end - value), true))
		return refuse(p, 400, "a control character in a field");
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*colon = *end = '\0';
	for (char *c = line; *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
	if (p->head.n_fields == LIMIT_HTTP_FIELDS)
		return refuse(p, 431, "too many fields");
	p->head.fields[p->head.n_fields++] = (struct http_field){line, value};
	return 0;
}

/* The first line, of n bytes. llhttp has read it, too. */
static int cut_first(struct http_parser *p, char *line, size_t n)
{
	char *first = memchr(line, ' ', n), *last = memrchr(line, ' ', n);
	if (p->kind == HTTP_KIND_RESPONSE)
		return is_visible(line, n, true) ? 0 : refuse(p, 502, "no status line");
	bool three = first && last > first + 1;
	if (!three || !is_token(line, (size_t)(first - line)) || n - (size_t)(last - line) != 9 ||
		!is_visible(first + 1, (size_t)(last - first) - 1, false))
		return refuse(p, 400, "no request line");
	*last = '\0';
	p->head.target = first + 1;
	return 0;
}

/* The head is whole: every line ends in CR LF, the last one is empty. */
static int cut_lines(struct http_parser *p)
{
	char *line = (char *)p->head_bytes.data, *end = line + p->head_bytes.len - 2;
	p->head.fields = xcalloc(LIMIT_HTTP_FIELDS, sizeof(*p->head.fields));
	int r = 0;
	for (bool first = true; r == 0 && line < end; first = false) {
		char *next = memchr(line, '\n', (size_t)(end - line)) + 1;
		size_t n = (size_t)(next - line) - 2;
		r = first ? cut_first(p, line, n) : cut_field(p, line, n);
		line = next;
	}
	return r;
}

size_t http_count(const struct http_head *h, const char *name)
{
	size_t n = 0;
	for (size_t i = 0; i < h->n_fields; i++)
		n += strcmp(h->fields[i].name, name) == 0;
	return n;
}

const char *http_field(const struct http_head *h, const char *name)
{
	const char *found = NULL;
	for (size_t i = 0; i < h->n_fields; i++) {
		if (strcmp(h->fields[i].name, name) != 0)
			continue;
		if (found)
			return NULL;
		found = h->fields[i].value;
	}
	return found;
}

static enum http_verb verb_of(const llhttp_t *ll)
{
	static const struct {
		uint8_t method;
		enum http_verb verb;
	} verbs[] = {{HTTP_GET, HTTP_VERB_GET}, {HTTP_HEAD, HTTP_VERB_HEAD},
		{HTTP_POST, HTTP_VERB_POST}, {HTTP_PUT, HTTP_VERB_PUT},
		{HTTP_DELETE, HTTP_VERB_DELETE}, {HTTP_OPTIONS, HTTP_VERB_OPTIONS},
		{HTTP_PATCH, HTTP_VERB_PATCH}, {HTTP_CONNECT, HTTP_VERB_CONNECT}};
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (ll->method == verbs[i].method)
			return verbs[i].verb;
	return HTTP_VERB_OTHER;
}

/* RFC 9110, 7.2: a host with an optional port; what a cookie or a log could misread is refused. */
static bool is_host(const char *text)
{
	size_t n = strspn(
		text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:[]%");
	return n > 0 && text[n] == '\0';
}

static int check_request(struct http_parser *p)
{
	const struct http_head *h = &p->head;
	size_t hosts = http_count(h, "host");
	const char *host = http_field(h, "host"), *expect = http_field(h, "expect");
	if (hosts > 1 || (hosts == 0 && h->minor > 0) || (host && !is_host(host)))
		return refuse(p, 400, "a request has one Host field that names a host");
	bool path = h->target[0] == '/' && !strchr(h->target, '#');
	bool other = (h->verb == HTTP_VERB_OPTIONS && strcmp(h->target, "*") == 0) ||
		     (h->verb == HTTP_VERB_CONNECT && is_host(h->target));
	if (!path && !other)
		return refuse(p, 400, "the target is no path");
	if (http_count(h, "expect") && (!expect || strcasecmp(expect, "100-continue") != 0))
		return refuse(p, 417, "an expectation other than 100-continue");
	p->head.expects_continue = expect && h->minor > 0;
	return 0;
}

static int check_framing(struct http_parser *p)
{
	struct http_head *h = &p->head;
	size_t lengths = http_count(h, "content-length"),
	       codings = http_count(h, "transfer-encoding");
	const char *coding = http_field(h, "transfer-encoding");
	if (lengths > 1 || codings > 1 || (lengths && codings))
		return refuse(p, 400, "the body's length is said twice");
	if (codings && h->minor == 0)
		return refuse(p, 400, "a transfer coding in HTTP/1.0");
	if (coding && strcasecmp(coding, "chunked") != 0)
		return refuse(p, 501, "a transfer coding other than chunked");
	h->chunked = codings;
	h->has_length = lengths;
	h->length = lengths ? p->ll.content_length : 0;
	return h->length > p->max_body ? refuse(p, 413, "the body is too large") : 0;
}

static int read_head(struct http_parser *p)
{
	enum llhttp_errno e =
		llhttp_execute(&p->ll, (const char *)p->head_bytes.data, p->head_bytes.len);
	if (e != HPE_PAUSED)
		return refuse(
			p, e == HPE_INVALID_VERSION ? 505 : 400, llhttp_get_error_reason(&p->ll));
	struct http_head *h = &p->head;
	h->verb = p->kind == HTTP_KIND_REQUEST ? verb_of(&p->ll) : HTTP_VERB_OTHER;
	h->status = p->kind == HTTP_KIND_RESPONSE ? p->ll.status_code : 0;
	h->minor = p->ll.http_minor;
	h->keep_alive = llhttp_should_keep_alive(&p->ll);
	if (p->ll.http_major != 1)
		return refuse(p, 505, "a version other than HTTP/1.1");
	int r = cut_lines(p);
	if (r == 0)
		r = check_framing(p);
	if (r == 0 && p->kind == HTTP_KIND_REQUEST)
		r = check_request(p);
	return r;
}

/* The head has been read and handed on: what comes now is body. */
static int begin_body(struct http_parser *p)
{
	struct http_head *h = &p->head;
	h->upgrade = p->kind == HTTP_KIND_REQUEST ? h->verb == HTTP_VERB_CONNECT : h->status == 101;
	unsigned status = p->events.head(p->user, h);
	if (status)
		return refuse(p, status, "refused");
	if (h->upgrade) {
		p->state = ENDED;
		return 0;
	}
	p->state = IN_BODY;
	p->ll.upgrade = 0; /* an offer that is not taken up */
	if (p->no_body)
		p->ll.flags |= F_SKIPBODY;
	llhttp_resume(&p->ll);
	return 0;
}

/* At once: what speaks another protocol may wait for an answer. */
static bool is_first_line(const struct http_parser *p)
{
	static const char version[] = " HTTP/1.1\r\n";
	const char *line = (const char *)p->head_bytes.data;
	size_t n = (size_t)((const char *)memchr(line, '\n', p->head_bytes.len) - line) + 1;
	if (p->kind == HTTP_KIND_RESPONSE)
		return n > 5 && memcmp(line, "HTTP/", 5) == 0;
	return n > sizeof(version) && memmem(line, n, " HTTP/", 6);
}

/* Bytes of the head: up to its end. */
static int feed_head(struct http_parser *p, const char *data, size_t n, size_t *ret_used)
{
	size_t used = 0;
	bool whole = false;
	char last = p->head_bytes.len ? (char)p->head_bytes.data[p->head_bytes.len - 1] : '\0';
	/* a line's length is what stands before its CR LF; the head ends with an empty one */
	size_t line = p->raw_bytes;
	while (used < n && !whole) {
		char c = data[used++];
		if (c == '\0' || (c == '\n' && last != '\r') || (last == '\r' && c != '\n'))
			return refuse(p, 400, "a line that does not end in CR LF");
		line++;
		if (c == '\n') {
			whole = line == 2;
			line = 0;
		}
		last = c;
	}
	p->raw_bytes = line;
	if (whole && p->head_bytes.len + used == 2)
		return refuse(p, 400, "an empty line before the message");
	if (buf_append(&p->head_bytes, data, used) < 0)
		return refuse(p, 431, "the head is too large");
	if (!p->first_line && memchr(data, '\n', used)) {
		p->first_line = true;
		if (!is_first_line(p))
			return refuse(p, 400, "no HTTP/1.1 message");
	}
	*ret_used = used;
	if (!whole)
		return 0;
	p->raw_bytes = 0;
	int r = read_head(p);
	return r < 0 ? r : begin_body(p);
}

static int feed_body(struct http_parser *p, const char *data, size_t n, size_t *ret_used)
{
	enum llhttp_errno e = llhttp_execute(&p->ll, data, n);
	size_t used = e == HPE_OK ? n : (size_t)(llhttp_get_error_pos(&p->ll) - data);
	if (p->state == BROKEN || (e != HPE_OK && e != HPE_PAUSED))
		return refuse(p, 400, llhttp_get_error_reason(&p->ll));
	p->raw_bytes += used;
	if (p->raw_bytes > CODING_FACTOR * p->body_bytes + CODING_SLACK)
		return refuse(p, 400, "more coding than body");
	*ret_used = used;
	return 0;
}

int http_parser_feed(struct http_parser *p, const void *data, size_t n, size_t *ret_used,
	struct http_problem *ret_problem)
{
	const char *at = data, *end = at + n;
	int r = p->state == BROKEN ? -EBADMSG : 0;
	bool fresh = false; /* a body without bytes ends without any */
	while (r == 0 && p->state != ENDED && (at < end || fresh)) {
		size_t used = 0;
		bool head = p->state == IN_HEAD;
		r = head ? feed_head(p, at, (size_t)(end - at), &used)
			 : feed_body(p, at, (size_t)(end - at), &used);
		at += used;
		fresh = head && p->state == IN_BODY;
	}
	*ret_used = (size_t)(at - (const char *)data);
	if (r < 0) {
		*ret_problem = p->problem;
		return r;
	}
	if (p->state == ENDED)
		p->events.end(p->user);
	return 0;
}

int http_parser_eof(struct http_parser *p, struct http_problem *ret_problem)
{
	if (!http_parser_begun(p) || p->state == ENDED)
		return 0;
	if (p->state == IN_BODY) {
		(void)llhttp_finish(&p->ll);
		if (p->state == ENDED) {
			p->events.end(p->user);
			return 0;
		}
	}
	int r = refuse(p, 400, "the message is not whole");
	*ret_problem = p->problem;
	return r;
}
