/* fuzz-http.c: requests and responses in pieces of any size: read the same as in single bytes. The
 * first byte says which and how long the pieces are. */
#include "fuzz.h"

#include <stdio.h>

#include "base/limits.h"
#include "http/parse.h"

#define MAX_BODY 4096

static unsigned on_head(void *user, const struct http_head *h)
{
	struct buf *b = user;
	size_t n = 0;
	for (size_t i = 0; i < h->n_fields; i++) {
		n += strlen(h->fields[i].name) + strlen(h->fields[i].value);
		CHECK(http_count(h, h->fields[i].name) > 0);
	}
	CHECK(n <= LIMIT_HTTP_HEAD && !(h->chunked && h->has_length));
	CHECK(buf_printf(b, "%d %u %zu %zu\n", (int)h->verb, h->status, h->n_fields, n) == 0);
	return 0;
}

static unsigned on_body(void *user, const void *p, size_t n)
{
	CHECK(buf_append(user, p, n) == 0);
	return 0;
}

static void on_end(void *user)
{
	CHECK(buf_append_str(user, ".") == 0);
}

static unsigned feed(enum http_kind kind, const uint8_t *p, size_t n, size_t step, struct buf *out)
{
	static const struct http_events events = {on_head, on_body, on_end};
	struct http_parser *parser = http_parser_new(kind, &events, out, MAX_BODY);
	struct http_problem problem = {0};
	int r = 0;
	while (r == 0 && n) {
		size_t used = 0, piece = MIN(step, n);
		r = http_parser_feed(parser, p, piece, &used, &problem);
		CHECK(used <= piece);
		p += used;
		n -= used;
		if (r == 0 && http_parser_ended(parser))
			http_parser_next(parser);
	}
	if (r == 0)
		r = http_parser_eof(parser, &problem);
	http_parser_free(parser);
	CHECK(r == 0 || (problem.status >= 400 && problem.text));
	return r < 0 ? problem.status : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint8_t how = input_u8(&in);
	enum http_kind kind = how & 1 ? HTTP_KIND_RESPONSE : HTTP_KIND_REQUEST;
	_cleanup_buf_ struct buf a = BUF_INIT(8 * MIB), b = BUF_INIT(8 * MIB);
	unsigned one = feed(kind, in.p, in.n, (how >> 1) + 2U, &a);
	unsigned other = feed(kind, in.p, in.n, 1, &b);
	CHECK(one == other);
	CHECK(one || (a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0)));
	return 0;
}
