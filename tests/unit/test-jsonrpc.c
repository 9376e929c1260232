/* test-jsonrpc.c: bytes to messages or to the exact error; lines; what is encoded. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/limits.h"
#include "mcp/base64.h"
#include "mcp/jsonrpc.h"
#include "mcp/lines.h"

static void requests_keep_their_ids(void **state)
{
	(void)state;
	static const struct {
		const char *text, *id;
	} cases[] = {
		{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}", "7"},
		{"{\"jsonrpc\":\"2.0\",\"id\":-1,\"method\":\"ping\",\"params\":{}}", "-1"},
		{"{\"jsonrpc\":\"2.0\",\"id\":\"a\\u00e9\",\"method\":\"ping\"}", "\"a\xc3\xa9\""},
		{"{\"jsonrpc\":\"2.0\",\"id\":9223372036854775807,\"method\":\"ping\"}",
			"9223372036854775807"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct jsonrpc_msg m;
		struct jsonrpc_error e;
		assert_int_equal(jsonrpc_parse(cases[i].text, strlen(cases[i].text), &m, &e), 0);
		assert_int_equal(m.kind, JSONRPC_REQUEST);
		assert_string_equal(m.method, "ping");
		_cleanup_buf_ struct buf out = BUF_INIT(1024);
		json_t *answer = jsonrpc_result(m.id, json_object());
		assert_int_equal(jsonrpc_encode(answer, &out), 0);
		char want[128];
		int n = snprintf(want, sizeof(want),
			"{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", cases[i].id);
		assert_int_equal(out.len, n);
		assert_memory_equal(out.data, want, out.len);
		json_decref(answer);
		jsonrpc_msg_done(&m);
	}
}

static void kinds(void **state)
{
	(void)state;
	struct jsonrpc_msg m;
	struct jsonrpc_error e;
	const char *n = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
	assert_int_equal(jsonrpc_parse(n, strlen(n), &m, &e), 0);
	assert_int_equal(m.kind, JSONRPC_NOTIFICATION);
	assert_null(m.id);
	jsonrpc_msg_done(&m);
	const char *r = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}";
	assert_int_equal(jsonrpc_parse(r, strlen(r), &m, &e), 0);
	assert_int_equal(m.kind, JSONRPC_RESPONSE);
	jsonrpc_msg_done(&m);
}

static void errors_are_exact(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		int code;
		const char *id;
	} cases[] = {
		{"", -32700, "null"},
		{"{", -32700, "null"},
		{"garbage", -32700, "null"},
		{"Content-Length: 20", -32700, "null"},
		{"\xff\xfe", -32700, "null"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\x28\"}", -32700, "null"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} {}", -32700, "null"},
		{"7", -32600, "null"},
		{"null", -32600, "null"},
		{"[]", -32600, "null"},
		{"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600, "null"},
		{"{}", -32600, "null"},
		{"{\"id\":3,\"method\":\"ping\"}", -32600, "3"},
		{"{\"jsonrpc\":\"1.0\",\"id\":3,\"method\":\"ping\"}", -32600, "3"},
		{"{\"jsonrpc\":2.0,\"id\":\"x\",\"method\":\"ping\"}", -32600, "\"x\""},
		{"{\"jsonrpc\":\"2.0\",\"id\":3}", -32600, "3"},
		{"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":7}", -32600, "3"},
		{"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"a\\u0000b\"}", -32600, "3"},
		{"{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\",\"params\":[]}", -32600, "3"},
		{"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600, "null"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600, "null"},
		{"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32600, "null"},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", -32600, "null"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct jsonrpc_msg m;
		struct jsonrpc_error e;
		if (jsonrpc_parse(cases[i].text, strlen(cases[i].text), &m, &e) == 0)
			fail_msg("accepted: %s", cases[i].text);
		json_t *answer = jsonrpc_error_message(&e);
		char *id = json_dumps(json_object_get(answer, "id"), JSON_ENCODE_ANY);
		if (e.code != cases[i].code || strcmp(id, cases[i].id) != 0)
			fail_msg("%s: code %d, id %s (%s)", cases[i].text, e.code, id, e.text);
		free(id);
		json_decref(answer);
		jsonrpc_error_done(&e);
	}
}

/* The parser recurses: what is too deep must not reach it. */
static void depth_is_bounded(void **state)
{
	(void)state;
	static char deep[400 * 1000];
	struct jsonrpc_msg m;
	struct jsonrpc_error e;
	memset(deep, '[', sizeof(deep));
	assert_true(jsonrpc_parse(deep, sizeof(deep), &m, &e) < 0);
	assert_int_equal(e.code, -32600);
	jsonrpc_error_done(&e);

	assert_false(jsonrpc_too_deep(deep, 64, 64));
	assert_true(jsonrpc_too_deep(deep, 65, 64));
	/* brackets in strings do not count, nor does a quote behind a backslash end one */
	const char *text = "{\"a\\\"[[[[\":\"[[[[\"}";
	assert_false(jsonrpc_too_deep(text, strlen(text), 1));
	/* closing ones that were never opened buy no depth */
	assert_true(jsonrpc_too_deep("]]]][[", 6, 1));
}

static void too_large_is_refused_whole(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf out = BUF_INIT(64);
	assert_int_equal(buf_append(&out, "x", 1), 0);
	json_t *m = jsonrpc_notification("n", json_pack("{s:s}", "text",
						      "far more than sixty-four bytes of text, so "
						      "that it cannot possibly fit in there"));
	assert_true(jsonrpc_encode(m, &out) < 0);
	assert_int_equal(out.len, 1);
	json_decref(m);
}

/* ---- lines ---- */

struct seen {
	char text[256];
	unsigned too_long;
};

static void on_line(void *user, const char *line, size_t n)
{
	struct seen *s = user;
	if (!line) {
		s->too_long++;
		return;
	}
	size_t used = strlen(s->text);
	(void)snprintf(s->text + used, sizeof(s->text) - used, "<%.*s>", (int)n, line);
}

static void lines_come_whole_however_they_arrive(void **state)
{
	(void)state;
	static const char in[] =
		"one\n\r\n  \ntwo\r\nthree has \xc3\xa9\n0123456789abcdefXXXX\nfour\nrest";
	for (size_t piece = 1; piece < sizeof(in); piece++) {
		struct lines l;
		struct seen s = {0};
		lines_init(&l, 16);
		for (size_t at = 0; at < sizeof(in) - 1; at += piece)
			lines_feed(&l, in + at, MIN(piece, sizeof(in) - 1 - at), on_line, &s);
		lines_end(&l, on_line, &s);
		lines_done(&l);
		assert_string_equal(s.text, "<one><two><three has \xc3\xa9><four><rest>");
		assert_int_equal(s.too_long, 1);
	}
}

static void a_long_line_costs_no_memory(void **state)
{
	(void)state;
	static char chunk[64 * 1024];
	struct lines l;
	struct seen s = {0};
	memset(chunk, 'x', sizeof(chunk));
	lines_init(&l, MIB);
	for (int i = 0; i < 64; i++)
		lines_feed(&l, chunk, sizeof(chunk), on_line, &s);
	assert_int_equal(l.part.cap, 0);
	lines_feed(&l, "\nok\n", 4, on_line, &s);
	assert_int_equal(s.too_long, 1);
	assert_string_equal(s.text, "<ok>");
	lines_done(&l);
}

/* ---- base64 (RFC 4648, section 10) ---- */

static void base64_both_ways(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="},
		{"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"}};
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		json_t *v = base64_json(pairs[i][0], strlen(pairs[i][0]));
		assert_string_equal(json_string_value(v), pairs[i][1]);
		json_decref(v);
		_cleanup_buf_ struct buf out = BUF_INIT(64);
		assert_int_equal(base64_decode(pairs[i][1], strlen(pairs[i][1]), &out), 0);
		assert_int_equal(out.len, strlen(pairs[i][0]));
		assert_memory_equal(
			out.data ? out.data : (const uint8_t *)"", pairs[i][0], out.len);
	}
	static const char *const bad[] = {"Zg", "Zg=", "Z===", "====", "=g==", "Zg==Zg==", "Zm9v\n",
		" Zm9", "Zm-_", "Zm9\xc3"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct buf out = BUF_INIT(64);
		if (base64_decode(bad[i], strlen(bad[i]), &out) == 0)
			fail_msg("accepted: %s", bad[i]);
		assert_int_equal(out.len, 0);
	}
	/* 64 KiB is no multiple of three bytes: what is decoded fits where the bytes fit */
	static uint8_t zeros[64 * 1024];
	json_t *v = base64_json(zeros, sizeof(zeros));
	_cleanup_buf_ struct buf exact = BUF_INIT(sizeof(zeros)),
				 small = BUF_INIT(sizeof(zeros) - 1);
	const char *text = json_string_value(v);
	assert_int_equal(base64_decode(text, json_string_length(v), &exact), 0);
	assert_int_equal(exact.len, sizeof(zeros));
	assert_int_equal(base64_decode(text, json_string_length(v), &small), -ENOBUFS);
	assert_int_equal(small.len, 0);
	json_decref(v);
}

static void nothing_is_a_text_too(void **state)
{
	(void)state;
	json_t *const texts[] = {jsonrpc_text_n(NULL, 0), jsonrpc_text_n("", 0), jsonrpc_text(""),
		base64_json(NULL, 0)};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_non_null(texts[i]);
		assert_string_equal(json_string_value(texts[i]), "");
		json_decref(texts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_keep_their_ids),
		cmocka_unit_test(kinds),
		cmocka_unit_test(errors_are_exact),
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(too_large_is_refused_whole),
		cmocka_unit_test(lines_come_whole_however_they_arrive),
		cmocka_unit_test(a_long_line_costs_no_memory),
		cmocka_unit_test(base64_both_ways),
		cmocka_unit_test(nothing_is_a_text_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
