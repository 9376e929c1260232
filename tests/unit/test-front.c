/* test-front.c: the front protocol: frames, hello, versions. The broker's end of it is tested with
 * real fronts (tests/e2e/test_front.py), and with any bytes (tests/fuzz/fuzz-front.c). */
#include "mcp/frontread.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/limits.h"
#include "mcp/build.h"
#include "mcp/fronthello.h"
#include "mcp/frontsecret.h"

/* ---- frames ---- */

static void test_message(void **state)
{
	(void)state;
	uint8_t p[FRONT_MESSAGE_HEAD + 4];
	struct front_frame f;
	size_t size;
	frontwire_message_head(0x0102030405060708, FRONT_REPLAYED, 70000, 4, p);
	memcpy(p + FRONT_MESSAGE_HEAD, "line", 4);
	/* byte by byte: nothing before it is whole */
	for (size_t n = 0; n < sizeof(p); n++) {
		assert_int_equal(frontwire_next(FRONT_FROM_FRONT, p, n, &f, &size), 0);
		assert_int_equal(size, n < FRONT_HEAD ? 0 : sizeof(p));
	}
	assert_int_equal(frontwire_next(FRONT_FROM_FRONT, p, sizeof(p), &f, &size), 1);
	assert_int_equal(size, sizeof(p));
	assert_int_equal(f.type, FRONT_MESSAGE);
	assert_true(f.number == 0x0102030405060708);
	assert_int_equal(f.flags, FRONT_REPLAYED);
	assert_int_equal(f.age_ms, 70000);
	assert_int_equal(f.n, 4);
	assert_memory_equal(f.p, "line", 4);
	/* not from a broker */
	assert_int_equal(frontwire_next(FRONT_FROM_BROKER, p, sizeof(p), &f, &size), -EPROTO);
}

static void test_answer(void **state)
{
	(void)state;
	uint8_t p[FRONT_NUMBER_HEAD + 3 + FRONT_HEAD];
	struct front_frame f;
	size_t size;
	frontwire_number_head(FRONT_ANSWER, 9, 3, p);
	memcpy(p + FRONT_NUMBER_HEAD, "{}\n", 3);
	frontwire_head(FRONT_LEAVING, 0, p + FRONT_NUMBER_HEAD + 3);
	assert_int_equal(frontwire_next(FRONT_FROM_BROKER, p, sizeof(p), &f, &size), 1);
	assert_int_equal(f.number, 9);
	assert_memory_equal(f.p, "{}\n", 3);
	assert_int_equal(
		frontwire_next(FRONT_FROM_BROKER, p + size, sizeof(p) - size, &f, &size), 1);
	assert_int_equal(f.type, FRONT_LEAVING);
	assert_int_equal(f.n, 0);
}

struct seen {
	size_t frames, bytes;
	bool good;
};

static bool see(void *user, const struct front_frame *frame)
{
	struct seen *seen = user;
	seen->good &= frame->type == FRONT_ANSWER && frame->number == seen->frames;
	for (size_t i = 0; i < frame->n; i++)
		seen->good &= frame->p[i] == (char)frame->number;
	seen->frames++;
	seen->bytes += frame->n;
	return true;
}

/* Frames of any size, cut anywhere; and nothing of one that is cut stays in the chunk. */
static void test_read(void **state)
{
	(void)state;
	static uint8_t chunk[FRONTREAD_CHUNK], out[600 * KIB];
	static const size_t sizes[] = {0, 1, 100, 300 * KIB, 7, FRONTREAD_CHUNK, 3};
	struct seen seen = {.good = true};
	const struct frontread how = {FRONT_FROM_BROKER, see, &seen, chunk};
	size_t n = 0, total = 0;
	int ends[2];
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		frontwire_number_head(FRONT_ANSWER, i, sizes[i], out + n);
		memset(out + n + FRONT_NUMBER_HEAD, (int)i, sizes[i]);
		n += FRONT_NUMBER_HEAD + sizes[i];
		total += sizes[i];
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	_cleanup_buf_ struct buf kept = BUF_INIT(512 * KIB);
	assert_true(frontread(&how, ends[1], &kept)); /* nothing is there */
	for (size_t at = 0, step = 1; at < n; at += step, step = MIN(3 * step, n - at)) {
		step = MIN(step, 100 * KIB);
		assert_int_equal(send(ends[0], out + at, step, 0), step);
		size_t before = kept.len;
		assert_true(frontread(&how, ends[1], &kept));
		if (before == 0 && kept.len)
			assert_int_equal(chunk[step - 1], 0);
	}
	assert_int_equal(seen.frames, ARRAY_SIZE(sizes));
	assert_int_equal(seen.bytes, total);
	assert_true(seen.good);
	assert_int_equal(kept.len, 0);
	assert_int_equal(send(ends[0], "\0\0\0\1\1", 5, 0), 5); /* of the wrong side */
	assert_false(frontread(&how, ends[1], &kept));
	(void)close(ends[0]);
	assert_false(frontread(&how, ends[1], &kept));
	(void)close(ends[1]);
}

/* What is too long is refused by its head, before any of it is kept. */
static void test_maxima(void **state)
{
	(void)state;
	uint8_t p[FRONT_HEAD];
	struct front_frame f;
	size_t size;
	static const struct {
		enum front_type type;
		enum front_side from;
		size_t least, most;
	} all[] = {
		{FRONT_HELLO, FRONT_FROM_FRONT, 0, LIMIT_FRONT_JSON},
		{FRONT_MESSAGE, FRONT_FROM_FRONT, 13, 13 + LIMIT_MCP_LINE},
		{FRONT_BYE, FRONT_FROM_FRONT, 0, 0},
		{FRONT_ANSWER, FRONT_FROM_BROKER, 8, 8 + LIMIT_MCP_RESULT + 1},
		{FRONT_DONE, FRONT_FROM_BROKER, 8, 8},
		{FRONT_SESSION, FRONT_FROM_BROKER, 0, LIMIT_FRONT_HANDLE},
		{FRONT_SECRET, FRONT_FROM_FRONT, 2, 2 + LIMIT_SECRET_NAME + LIMIT_SECRET_BYTES},
		{FRONT_SECRETS, FRONT_FROM_BROKER, 0, LIMIT_FRONT_JSON},
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		frontwire_head(all[i].type, all[i].most, p);
		assert_true(frontwire_next(all[i].from, p, sizeof(p), &f, &size) >= 0);
		assert_int_equal(size, FRONT_HEAD + all[i].most);
		frontwire_head(all[i].type, all[i].most + 1, p);
		assert_int_equal(frontwire_next(all[i].from, p, sizeof(p), &f, &size), -EPROTO);
		if (all[i].least > 0) {
			frontwire_head(all[i].type, all[i].least - 1, p);
			assert_int_equal(
				frontwire_next(all[i].from, p, sizeof(p), &f, &size), -EPROTO);
		}
	}
	static const uint8_t none[FRONT_HEAD] = {0}, unknown[FRONT_HEAD] = {0, 0, 0, 1, 99};
	assert_int_equal(frontwire_next(FRONT_FROM_FRONT, none, sizeof(none), &f, &size), -EPROTO);
	assert_int_equal(
		frontwire_next(FRONT_FROM_FRONT, unknown, sizeof(unknown), &f, &size), -EPROTO);
}

/* ---- hello ---- */

static struct front_hello example(void)
{
	return (struct front_hello){
		.protocol_min = 1,
		.protocol_max = 3,
		.build = "1.2.3",
		.kind = FRONT_RUN,
		.front = {1, 2, 3},
		.resume = true,
		.session = "s-0123456789abcdef0123456789abcdef",
		.name = "desk",
		.provider = "local",
		.mounts = {{"a", "/srv/a"}, {"b", "/srv/\xc3\xa9"}},
		.n_mounts = 2,
		.limits = {"memory=1G", "pids=64"},
		.n_limits = 2,
		.outputs = "/out",
	};
}

static void test_hello(void **state)
{
	(void)state;
	struct front_hello h = example(), got = {0};
	struct err err = {0};
	_cleanup_buf_ struct buf text = BUF_INIT(LIMIT_FRONT_JSON);
	assert_int_equal(front_hello_encode(&h, &text, &err), 0);
	assert_int_equal(front_hello_decode((const char *)text.data, text.len, &got, &err), 0);
	assert_int_equal(got.protocol_min, 1);
	assert_int_equal(got.protocol_max, 3);
	assert_string_equal(got.build, "1.2.3");
	assert_int_equal(got.kind, FRONT_RUN);
	assert_memory_equal(got.front, h.front, DELIVERY_FRONT);
	assert_true(got.resume);
	assert_string_equal(got.session, h.session);
	assert_string_equal(got.name, "desk");
	assert_string_equal(got.provider, "local");
	assert_int_equal(got.n_mounts, 2);
	assert_string_equal(got.mounts[1].name, "b");
	assert_string_equal(got.mounts[1].source, "/srv/\xc3\xa9");
	assert_int_equal(got.n_limits, 2);
	assert_string_equal(got.limits[1], "pids=64");
	assert_string_equal(got.outputs, "/out");
	front_hello_done(&got);

	h.mounts[0].source = "/srv/\xff"; /* no UTF-8: it cannot be said, and nothing is left out */
	buf_clear(&text);
	assert_true(front_hello_encode(&h, &text, &err) < 0);
	assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
}

static void test_bad_hello(void **state)
{
	(void)state;
#define GOOD                                                                                       \
	"\"protocol\":[1,1],\"build\":\"1\",\"kind\":\"serve\","                                   \
	"\"front\":\"00000000000000000000000000000000\""
	static const char *const bad[] = {
		"",
		"[]",
		"{}",
		"{" GOOD ",\"build\":\"2\"}", /* twice */
		"{" GOOD ",\"session\":\"s-1\"}",
		"{" GOOD ",\"session\":7}",
		"{" GOOD ",\"mounts\":{}}",
		"{" GOOD ",\"mounts\":[{\"name\":\"a\"}]}",
		"{" GOOD ",\"mounts\":[{\"name\":\"..\",\"source\":\"/\"}]}",
		"{" GOOD ",\"mounts\":[{\"name\":\"a\",\"source\":\"b\"}]}",
		"{" GOOD ",\"mounts\":[{\"name\":\"a\",\"source\":\"/\"},"
		"{\"name\":\"a\",\"source\":\"/\"}]}",
		"{" GOOD ",\"limits\":[7]}",
		"{" GOOD ",\"outputs\":\"relative\"}",
		"{" GOOD ",\"name\":\"a\\u0000b\"}",
	};
	static const char good[] = "{" GOOD ",\"unknown\":[{}]}";
	struct front_hello h = {0};
	struct err err = {0};
	assert_int_equal(front_hello_decode(good, sizeof(good) - 1, &h, &err), 0);
	assert_string_equal(h.name, "");
	assert_null(h.provider);
	front_hello_done(&h);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(front_hello_decode(bad[i], strlen(bad[i]), &h, &err) < 0);
		assert_int_equal(err.code, ERR_PROTOCOL);
	}
}

static void test_reply(void **state)
{
	(void)state;
	struct front_reply r = {.retry = true}, got;
	struct err err = {0};
	_cleanup_buf_ struct buf text = BUF_INIT(LIMIT_FRONT_JSON);
	(void)err_set(&r.why, ERR_CONFLICT, 0, "no \"%s\"", "way");
	front_reply_encode(&r, &text);
	assert_int_equal(front_reply_decode((const char *)text.data, text.len, &got, &err), 0);
	assert_string_equal(got.build, build.version);
	assert_int_equal(got.why.code, ERR_CONFLICT);
	assert_string_equal(got.why.text, "no \"way\"");
	assert_true(got.retry);
	assert_true(front_reply_decode("{}", 2, &got, &err) < 0);
}

static void test_versions(void **state)
{
	(void)state;
	assert_true(front_build_compare("0.2.0", "0.1.9") > 0);
	assert_true(front_build_compare("0.10.0", "0.9.0") > 0);
	assert_true(front_build_compare("1.0.0", "1.0.1") < 0);
	assert_int_equal(front_build_compare("1.0.0", "1.0.0"), 0);
	assert_int_equal(front_build_compare("2.0", "1.0.0"), 0);
	assert_int_equal(front_build_compare("", "1.0.0"), 0);
}

/* ---- secrets ---- */

static void test_wishes(void **state)
{
	(void)state;
	static const char *const argv[] = {"/bin/pass", "show", NULL};
	const struct vault_want wants[] = {
		{.name = "a", .source = VAULT_ENV, .place = "A_TOKEN", .variable = "VA"},
		{.name = "b", .source = VAULT_FILE, .place = "/x", .variable = "VB"},
		{.name = "c", .source = VAULT_EXEC, .argv = argv, .variable = "VC"},
	};
	struct frontsecret_wish wishes[LIMIT_SECRETS];
	struct vault *v = vault_new();
	struct err err;
	json_t *root;
	size_t n;
	vault_set_wants(v, "u", wants, 3);
	json_t *wanted = frontsecret_wanted(v, "u");
	char *text = json_dumps(wanted, 0);
	json_decref(wanted);
	assert_int_equal(frontsecret_wishes(text, strlen(text), &root, wishes, &n, &err), 0);
	assert_int_equal(n, 2); /* a file is the broker's to read */
	assert_string_equal(wishes[0].name, "a");
	assert_string_equal(wishes[0].variable, "A_TOKEN");
	assert_string_equal(wishes[1].name, "c");
	assert_null(wishes[1].variable);
	assert_string_equal(wishes[1].argv[1], "show");
	assert_null(wishes[1].argv[2]);
	json_decref(root);
	free(text);
	vault_free(v);

	static const char *const bad[] = {"", "[]", "{}", "{\"secrets\":{}}", "{\"secrets\":[1]}",
		"{\"secrets\":[{\"name\":\"a\"}]}",
		"{\"secrets\":[{\"name\":\"a b\",\"env\":\"X\"}]}",
		"{\"secrets\":[{\"name\":\"a\",\"env\":\"X=Y\"}]}",
		"{\"secrets\":[{\"name\":\"a\",\"env\":\"\"}]}",
		"{\"secrets\":[{\"name\":\"a\",\"exec\":[]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"exec\":[\"x\",1]}]}",
		"{\"secrets\":[{\"name\":\"a\",\"exec\":[\"x\\u0000y\"]}]}"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(
			frontsecret_wishes(bad[i], strlen(bad[i]), &root, wishes, &n, &err),
			-EPROTO);
}

static bool take(
	struct vault_giver *g, enum frontsecret_kind kind, const char *name, const char *text)
{
	uint8_t p[FRONTSECRET_HEAD + 64];
	size_t n = frontsecret_head(kind, name, p);
	memcpy(p + n, text, strlen(text));
	return frontsecret_take(g, p, n + strlen(text));
}

static void test_secret(void **state)
{
	(void)state;
	const struct vault_want want = {.name = "a",
		.source = VAULT_ENV,
		.place = "A",
		.exposure = VAULT_SESSION,
		.variable = "VA"};
	struct vault *v = vault_new();
	const struct vault_granted *list;
	vault_set_wants(v, "u", &want, 1);
	struct vault_giver *g = vault_giver_new(v, "u");
	vault_giver_ask(g);
	assert_true(take(g, FRONTSECRET_VALUE, "a", "long enough"));
	assert_true(take(g, FRONTSECRET_VALUE, "b", "nobody asked"));
	struct vault_grant *s = vault_grant_new(v, "u");
	assert_int_equal(vault_grant_list(s, &list), 1);
	assert_non_null(list[0].value);
	vault_grant_free(s);
	/* whatever a front thinks of its value, a short one is none; a reason is cut, and printable
	 */
	assert_true(take(g, FRONTSECRET_VALUE, "a", "short"));
	s = vault_grant_new(v, "u");
	(void)vault_grant_list(s, &list);
	assert_null(list[0].value);
	assert_non_null(strstr(list[0].why, "fewer than 8"));
	vault_grant_free(s);
	assert_true(take(g, FRONTSECRET_NONE, "a", "because\x1b[2J"));
	s = vault_grant_new(v, "u");
	(void)vault_grant_list(s, &list);
	assert_string_equal(list[0].why, "because?[2J");

	static const uint8_t bad[][4] = {
		{1, 0}, {1, 3, 'a', 'b'}, {1, 65}, {1, 1, 0}, {1, 1, '.'}, {2, 1, 'a'}};
	static const size_t sizes[] = {2, 4, 2, 3, 3, 3};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(frontsecret_take(g, bad[i], sizes[i]));
	assert_false(frontsecret_take(g, bad[0], 1));
	vault_free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_message),
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_maxima),
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_wishes),
		cmocka_unit_test(test_secret),
		cmocka_unit_test(test_bad_hello),
		cmocka_unit_test(test_reply),
		cmocka_unit_test(test_versions),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
