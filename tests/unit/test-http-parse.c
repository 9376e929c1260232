/* HTTP messages: what is read, and what is refused, whole and byte by byte alike. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/limits.h"
#include "http/parse.h"

#define MAX_BODY 1000

struct seen {
	struct buf text; /* what came, in words */
	unsigned refuse_head;
	bool no_body;
};

static unsigned on_head(void *user, const struct http_head *h)
{
	struct seen *s = user;
	assert_int_equal(
		buf_printf(&s->text, "[%d %s %u 1.%u %s%s%s%s%zu]", (int)h->verb,
			h->target ? h->target : "-", h->status, h->minor, h->keep_alive ? "k" : "",
			h->chunked ? "c" : "", h->expects_continue ? "e" : "",
			h->upgrade ? "u" : "", h->n_fields),
		0);
	for (size_t i = 0; i < h->n_fields; i++)
		assert_int_equal(
			buf_printf(&s->text, "%s=%s;", h->fields[i].name, h->fields[i].value), 0);
	return s->refuse_head;
}

static unsigned on_body(void *user, const void *p, size_t n)
{
	struct seen *s = user;
	assert_int_equal(buf_append(&s->text, p, n), 0);
	return 0;
}

static void on_end(void *user)
{
	struct seen *s = user;
	assert_int_equal(buf_append_str(&s->text, "."), 0);
}

/* Feeds n bytes in pieces of at most step; the status of the refusal, 0 for none. */
static unsigned feed(
	enum http_kind kind, const char *p, size_t n, size_t step, bool eof, struct seen *ret)
{
	static const struct http_events events = {on_head, on_body, on_end};
	struct http_parser *parser = http_parser_new(kind, &events, ret, MAX_BODY);
	struct http_problem problem = {0};
	int r = 0;
	buf_clear(&ret->text);
	if (ret->no_body)
		http_parser_no_body(parser);
	while (r == 0 && n) {
		size_t used = 0, piece = MIN(step, n);
		r = http_parser_feed(parser, p, piece, &used, &problem);
		p += used;
		n -= used;
		if (r == 0 && http_parser_ended(parser))
			http_parser_next(parser);
		else if (r == 0)
			assert_int_equal(used, piece);
	}
	if (r == 0 && eof)
		r = http_parser_eof(parser, &problem);
	http_parser_free(parser);
	assert_true(r == 0 || problem.status >= 400);
	assert_true(r == 0 || problem.text[0]);
	return r < 0 ? problem.status : 0;
}

/* Whole and in single bytes: the same text and the same refusal. */
static unsigned both(enum http_kind kind, const char *p, size_t n, bool eof, struct seen *ret)
{
	struct seen slow = {
		.text = BUF_INIT(MIB), .refuse_head = ret->refuse_head, .no_body = ret->no_body};
	unsigned a = feed(kind, p, n, n, eof, ret), b = feed(kind, p, n, 1, eof, &slow);
	assert_int_equal(a, b);
	if (a == 0) {
		assert_int_equal(slow.text.len, ret->text.len);
		assert_memory_equal(slow.text.data, ret->text.data, slow.text.len);
	}
	buf_done(&slow.text);
	return a;
}

#define HOST "Host: a\r\n"

static void what_is_read(void **state)
{
	static const struct {
		const char *bytes, *seen;
	} cases[] = {
		{"GET /mcp HTTP/1.1\r\n" HOST "\r\n", "[0 /mcp 0 1.1 k1]host=a;."},
		{"GET /mcp?a=b HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n",
			"[0 /mcp?a=b 0 1.1 2]host=a;connection=close;."},
		{"GET / HTTP/1.0\r\n\r\n", "[0 / 0 1.0 0]."},
		{"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello",
			"[2 / 0 1.1 k2]host=a;content-length=5;hello."},
		{"POST / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
			"[2 / 0 1.1 k2]host=a;content-length=0;."},
		{"POST / HTTP/1.1\r\n" HOST
		 "Transfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n",
			"[2 / 0 1.1 kc2]host=a;transfer-encoding=Chunked;hello!."},
		{"POST / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
			"[2 / 0 1.1 ke3]host=a;expect=100-continue;content-length=1;x."},
		{"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "[5 * 0 1.1 k1]host=a;."},
		{"GET / HTTP/1.1\r\n" HOST "X:\t a b \t\r\nY:\r\n\r\n",
			"[0 / 0 1.1 k3]host=a;x=a b;y=;."},
		{"GET /1 HTTP/1.1\r\n" HOST "\r\nGET /2 HTTP/1.1\r\n" HOST "\r\n",
			"[0 /1 0 1.1 k1]host=a;.[0 /2 0 1.1 k1]host=a;."},
		{"GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
			"[0 / 0 1.1 k3]host=a;connection=Upgrade;upgrade=h2c;."},
		{"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
			"[7 a:443 0 1.1 ku1]host=a:443;."},
	};
	struct seen s = {.text = BUF_INIT(MIB)};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(
			both(HTTP_KIND_REQUEST, cases[i].bytes, strlen(cases[i].bytes), true, &s),
			0);
		assert_int_equal(buf_append(&s.text, "", 1), 0);
		assert_string_equal((char *)s.text.data, cases[i].seen);
	}
	buf_done(&s.text);
}

#define POST  "POST / HTTP/1.1\r\n" HOST
#define CHUNK POST "Transfer-Encoding: chunked\r\n\r\n"

static void what_is_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		unsigned status;
	} cases[] = {
#define CASE(text, status) {text, sizeof(text) - 1, status}
		CASE(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
		CASE(POST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
		CASE(POST "Content-Length: 5\r\nContent-Length: 3\r\n\r\nhello", 400),
		CASE(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400),
		CASE(POST "Content-Length: 5, 5\r\n\r\nhello", 400),
		CASE(POST "Content-Length: +5\r\n\r\nhello", 400),
		CASE(POST "Content-Length: -1\r\n\r\nhello", 400),
		CASE(POST "Content-Length: 0x5\r\n\r\nhello", 400),
		CASE(POST "Content-Length: 5 5\r\n\r\nhello", 400),
		CASE(POST "Content-Length:\r\n\r\nhello", 400),
		CASE(POST "Content-Length: 18446744073709551616\r\n\r\nhello", 400),
		CASE(POST "Content-Length: 1001\r\n\r\n", 413),
		CASE(POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
		CASE(POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
		CASE(POST
			"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			400),
		CASE(POST "Transfer-Encoding: \x0b"
			  "chunked\r\n\r\n0\r\n\r\n",
			400),
		CASE("POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
		CASE(CHUNK "+5\r\nhello\r\n0\r\n\r\n", 400),
		CASE(CHUNK "0x5\r\nhello\r\n0\r\n\r\n", 400),
		CASE(CHUNK "-1\r\nhello\r\n0\r\n\r\n", 400),
		CASE(CHUNK "10000000000000005\r\nhello\r\n0\r\n\r\n", 400),
		CASE(CHUNK "5\nhello\n0\n\n", 400),
		CASE(CHUNK "5 \r\nhello\r\n0\r\n\r\n", 400),
		CASE(CHUNK "5;a=b\r\nhello\r\n0\r\n\r\n", 400),
		CASE(CHUNK "5\r\nhello\r\n0\r\nX: y\r\n\r\n", 400),
		CASE(CHUNK "5\r\nhelloX0\r\n\r\n", 400),
		CASE("GET / HTTP/1.1\nHost: a\n\n", 400),
		CASE("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", 400),
		CASE("GET / HTTP/1.1\r\n" HOST "X: a\0b\r\n\r\n", 400),
		CASE("GET / HTTP/1.1\r\n" HOST "X: a\x01"
		     "b\r\n\r\n",
			400),
		CASE("GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n", 400),
		CASE("GET / HTTP/1.1\r\n X: a\r\n" HOST "\r\n", 400),
		CASE(POST "Content-Length : 5\r\n\r\nhello", 400),
		CASE("GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", 400),
		CASE("GET / HTTP/1.1\r\n" HOST "nothing\r\n\r\n", 400),
		CASE("GET / HTTP/1.1\r\n" HOST "X(\x01): x\r\n\r\n", 400),
		CASE("GET / HTTP/1.1\r\n\r\n", 400),
		CASE("GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400),
		CASE("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
		CASE("GET / HTTP/1.1\r\nHost: a/b@c\r\n\r\n", 400),
		CASE("GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
		CASE("GET / HTTP/1.1x\r\n" HOST "\r\n", 505),
		CASE("GET  / HTTP/1.1\r\n" HOST "\r\n", 400),
		CASE("GET / / HTTP/1.1\r\n" HOST "\r\n", 400),
		CASE("GET / HTTP/2.0\r\n" HOST "\r\n", 505),
		CASE("GET /\r\n", 400),
		CASE("GET / HTTP/1.1\r\n", 400),
		CASE("\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400),
		CASE("GET /a\x01"
		     "b HTTP/1.1\r\n" HOST "\r\n",
			400),
		CASE("GET /a#b HTTP/1.1\r\n" HOST "\r\n", 400),
		CASE("GET http://a/ HTTP/1.1\r\n" HOST "\r\n", 400),
		CASE("GET * HTTP/1.1\r\n" HOST "\r\n", 400),
		CASE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
		CASE(POST "Expect: foo\r\nContent-Length: 5\r\n\r\nhello", 417),
		CASE(POST "Content-Length: 5\r\n\r\nhel", 400),
		CASE("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
	};
	struct seen s = {.text = BUF_INIT(MIB)};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned got = both(HTTP_KIND_REQUEST, cases[i].bytes, cases[i].n, true, &s);
		if (got != cases[i].status)
			print_message("case %zu: %u, not %u\n%s\n", i, got, cases[i].status,
				cases[i].bytes);
		assert_int_equal(got, cases[i].status);
	}
	buf_done(&s.text);
}

static void how_much(void **state)
{
	struct seen s = {.text = BUF_INIT(MIB)};
	_cleanup_buf_ struct buf b = BUF_INIT(MIB);
	(void)state;
	assert_int_equal(buf_append_str(&b, "GET / HTTP/1.1\r\n" HOST "X: "), 0);
	for (int i = 0; i < 33000; i++)
		assert_int_equal(buf_append(&b, "x", 1), 0);
	assert_int_equal(both(HTTP_KIND_REQUEST, (char *)b.data, b.len, false, &s), 431);
	buf_clear(&b);
	assert_int_equal(buf_append_str(&b, "GET / HTTP/1.1\r\n" HOST), 0);
	for (int i = 0; i < 100; i++)
		assert_int_equal(buf_append_str(&b, "a: b\r\n"), 0);
	assert_int_equal(buf_append_str(&b, "\r\n"), 0);
	assert_int_equal(both(HTTP_KIND_REQUEST, (char *)b.data, b.len, false, &s), 431);
	/* a body of the largest size in the smallest chunks, and one byte more */
	for (int more = 0; more < 2; more++) {
		buf_clear(&b);
		assert_int_equal(buf_append_str(&b, CHUNK), 0);
		for (int i = 0; i < MAX_BODY + more; i++)
			assert_int_equal(buf_append_str(&b, "1\r\nx\r\n"), 0);
		assert_int_equal(buf_append_str(&b, "0\r\n\r\n"), 0);
		assert_int_equal(
			both(HTTP_KIND_REQUEST, (char *)b.data, b.len, true, &s), more ? 413 : 0);
	}
	/* a size with zeros without end */
	buf_clear(&b);
	assert_int_equal(buf_append_str(&b, CHUNK), 0);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(buf_append(&b, "0", 1), 0);
	assert_int_equal(both(HTTP_KIND_REQUEST, (char *)b.data, b.len, false, &s), 400);
	buf_done(&s.text);
}

static void a_head_can_be_refused(void **state)
{
	static const char bytes[] = POST "Content-Length: 5\r\n\r\nhello";
	struct seen s = {.text = BUF_INIT(MIB), .refuse_head = 405};
	(void)state;
	assert_int_equal(both(HTTP_KIND_REQUEST, bytes, sizeof(bytes) - 1, false, &s), 405);
	assert_null(memmem(s.text.data, s.text.len, "hello", 5));
	buf_done(&s.text);
}

static void responses(void **state)
{
	static const struct {
		const char *bytes, *seen;
		unsigned status;
		bool no_body;
	} cases[] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
			"[8 - 200 1.1 k1]content-length=2;hi.", 0, false},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
			"[8 - 200 1.1 k1]content-length=2;.", 0, true},
		{"HTTP/1.1 204 No Content\r\n\r\n", "[8 - 204 1.1 k0].", 0, false},
		{"HTTP/1.1 200 OK\r\n\r\nuntil the end", "[8 - 200 1.1 0]until the end.", 0, false},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
			"[8 - 200 1.1 kc1]transfer-encoding=chunked;hi.", 0, false},
		{"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n",
			"[8 - 101 1.1 ku2]connection=Upgrade;upgrade=tcp;.", 0, false},
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", NULL, 400, false},
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nhi!", NULL, 400,
			false},
		{"HTTP/1.1 2000 OK\r\n\r\n", NULL, 400, false},
		{"nonsense\r\n\r\n", NULL, 400, false},
	};
	struct seen s = {.text = BUF_INIT(MIB)};
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		s.no_body = cases[i].no_body;
		unsigned got =
			both(HTTP_KIND_RESPONSE, cases[i].bytes, strlen(cases[i].bytes), true, &s);
		if (got != cases[i].status)
			print_message("case %zu: %u\n", i, got);
		assert_int_equal(got, cases[i].status);
		assert_int_equal(buf_append(&s.text, "", 1), 0);
		if (cases[i].seen)
			assert_string_equal((char *)s.text.data, cases[i].seen);
	}
	buf_done(&s.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_read),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(how_much),
		cmocka_unit_test(a_head_can_be_refused),
		cmocka_unit_test(responses),
	};
	return cmocka_run_group_tests_name("http-parse", tests, NULL, NULL);
}
