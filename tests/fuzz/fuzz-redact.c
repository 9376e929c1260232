/* fuzz-redact.c: secrets and a text made of input: what is masked is what the slow way masks,
 * whole, in pieces, and as a range with what is around it. */
#include "fuzz.h"

#include "base/limits.h"
#include "naive.h"

#define VALUES 3

static void check_stream(const struct redactor *r, struct input sizes, const uint8_t *p, size_t n,
	const uint8_t *want)
{
	struct redact_stream s;
	_cleanup_buf_ struct buf out = BUF_INIT(n);
	redact_stream_init(&s, r, NULL);
	for (size_t at = 0, len; at < n; at += len) {
		len = (size_t)input_u8(&sizes) + 1;
		len = MIN(n - at, len);
		CHECK(redact_stream_feed(&s, p + at, len, &out) == 0);
	}
	CHECK(redact_stream_end(&s, &out) == 0);
	CHECK(out.len == n && (n == 0 || memcmp(out.data, want, n) == 0));
	redact_stream_done(&s);
}

static void check_range(
	const struct redactor *r, size_t at, const uint8_t *p, size_t n, const uint8_t *want)
{
	size_t reach = redactor_reach(r), from = at - MIN(at, reach), to = MIN(n, at + 1 + reach);
	uint8_t *part = xmemdup(p + from, to - from);
	redact_bytes(r, part, to - from, NULL);
	CHECK(part[at - from] == want[at]);
	free(part);
}

static void check_search(
	const struct redactor *r, const struct naive_forms *f, const uint8_t *p, size_t n)
{
	struct redact_search s = {.redactor = r};
	size_t want = naive_find(f, p, n), half = n / 2;
	bool found = redact_search_feed(&s, p, half) || redact_search_feed(&s, p + half, n - half);
	CHECK(found == (want < n));
	CHECK(!found || s.offset == want);
}

/* Of a form that a cut goes through, no more than REDACT_PART - 1 bytes are left. */
static void check_piece(
	const struct redactor *r, const struct naive_forms *f, const uint8_t *p, size_t n)
{
	size_t from = n / 3, to = n - n / 3;
	uint8_t *part = xmemdup(p, n);
	redact_piece(r, part + from, to - from, from > 0, to < n, NULL);
	for (size_t i = from; i < to; i++)
		CHECK(part[i] == p[i] || part[i] == '*');
	for (size_t i = 0; i < f->n; i++)
		for (size_t at = 0; at + f->forms[i].n <= n; at++) {
			size_t start = MAX(at, from), end = MIN(at + f->forms[i].n, to);
			if (end < start + REDACT_PART ||
				memcmp(p + at, f->forms[i].p, f->forms[i].n) != 0)
				continue;
			for (size_t k = start; k < end; k++)
				CHECK(part[k] == '*');
		}
	free(part);
}

/* A byte of 0xF0 and above stands for a form, or a part of one. */
static void make_text(struct input *in, const struct naive_forms *f, struct buf *text)
{
	while (in->n && text->len < 600) {
		uint8_t c = input_u8(in);
		const uint8_t *p = &c;
		size_t len = 1;
		if (c >= 0xF0) {
			size_t i = input_u8(in) % f->n, from = 0;
			if (c & 1)
				from = input_u8(in) % f->forms[i].n;
			len = f->forms[i].n - from;
			if (c & 2)
				len = input_u8(in) % (len + 1);
			p = f->forms[i].p + from;
		}
		CHECK(buf_append(text, p, len) == 0);
	}
}

static void check_text(const struct redactor *r, const struct naive_forms *f, struct input sizes,
	const uint8_t *p, size_t n)
{
	uint8_t *whole = xmemdup(p, n), *want = xmalloc(n);
	size_t places = naive_mask(f, p, n, want);
	CHECK(redact_bytes(r, whole, n, NULL) == places);
	CHECK(memcmp(whole, want, n) == 0);
	check_stream(r, sizes, p, n, want);
	for (size_t at = 0; at < n; at += 1 + n / 40)
		check_range(r, at, p, n, want);
	check_search(r, f, p, n);
	check_piece(r, f, p, n);
	free(whole);
	free(want);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct secret_value *values[VALUES];
	struct err err;
	size_t n = 0;
	for (size_t want = 1 + input_u8(&in) % VALUES; n < want; n++) {
		size_t len;
		const uint8_t *p = input_bytes(&in, 8 + input_u8(&in) % 16, &len);
		if (secret_value_new("ANY", p, len, &values[n], &err) < 0)
			break; /* too short, or with a NUL */
	}
	if (n) {
		struct redactor *r;
		struct naive_forms *f = naive_new(values, n);
		_cleanup_buf_ struct buf text = BUF_INIT(64 * KIB);
		struct input sizes = in;
		CHECK(redactor_new(values, n, &r, &err) == 0);
		make_text(&in, f, &text);
		if (text.len)
			check_text(r, f, sizes, text.data, text.len);
		naive_free(f);
		redactor_unref(r);
	}
	while (n)
		secret_value_unref(values[--n]);
	return 0;
}
