/* Links to presented files: what was made is taken, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mcp/weblink.h"

#define URI "resource://scb/o-0123456789abcdef0123456789abcdef/a%20%C3%BC.txt"

static const uint8_t key[WEBLINK_KEY] = "0123456789abcdef0123456789abcde";

static char *make(const char *principal)
{
	const struct weblink_place place = {key, "https://x"};
	return weblink_make(&place, principal, URI, 1800000000);
}

static void test_round(void **state)
{
	(void)state;
	static const char *const principals[] = {"uid:1000", "token:ana", "token:a&key=b?%"};
	for (size_t i = 0; i < 3; i++) {
		char *link = make(principals[i]);
		struct weblink l;
		assert_memory_equal(link, "https://x/outputs/o-", 20);
		assert_int_equal(weblink_read(key, link + strlen("https://x"), &l), 0);
		assert_true(l.valid);
		assert_string_equal(l.uri, URI);
		assert_string_equal(l.principal, principals[i]);
		assert_int_equal(l.until_s, 1800000000);
		weblink_done(&l);
		free(link);
	}
}

/* Every byte of it counts. */
static void test_changed(void **state)
{
	(void)state;
	char *link = make("uid:1000");
	char *target = link + strlen("https://x");
	struct weblink l;
	for (size_t i = 0; target[i]; i++) {
		for (int bit = 0; bit < 7; bit++) {
			char was = target[i];
			target[i] = (char)(was ^ (1 << bit));
			if (target[i] && weblink_read(key, target, &l) == 0) {
				/* hex in capitals is the same number */
				bool same = l.valid && l.until_s == 1800000000 &&
					    strcmp(l.uri, URI) == 0 &&
					    strcmp(l.principal, "uid:1000") == 0;
				if (l.valid)
					assert_true(same && bit == 5);
				weblink_done(&l);
			}
			target[i] = was;
		}
	}
	uint8_t other[WEBLINK_KEY];
	memcpy(other, key, sizeof(other));
	other[5] ^= 1;
	assert_int_equal(weblink_read(other, target, &l), 0);
	assert_false(l.valid);
	weblink_done(&l);
	free(link);
}

static void test_refused(void **state)
{
	(void)state;
	struct weblink l;
	static const char *const bad[] = {"/outputs", "/output/x", "/outputs/x?",
		"/outputs/x?for=a", "/outputs/x?for=a&until=1&key=00",
		"/outputs/x?for=a&until=-1&key=", "/mcp",
		"/outputs/x?until=1&key=00000000000000000000000000000000",
		"/outputs/x?for=%&until=1&key=00000000000000000000000000000000",
		"/outputs/x?for=%0&until=1&key=00000000000000000000000000000000",
		"/outputs/x?for=%00&until=1&key=00000000000000000000000000000000",
		"/outputs/x?for=&until=1&key=00000000000000000000000000000000",
		"/outputs/x?for=a&for=b&until=1&key=00000000000000000000000000000000",
		"/outputs/x?for=a&until=1&until=2&key=00000000000000000000000000000000",
		"/outputs/x?for=a&until=1&key=00000000000000000000000000000000&x=1",
		"/outputs/x?for=a&until=1&key=0000000000000000000000000000000000000000"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_true(weblink_read(key, bad[i], &l) < 0);
	assert_int_equal(weblink_read(key, "/outputs/o-1/name", &l), 0);
	assert_null(l.principal);
	assert_false(l.valid);
	assert_string_equal(l.uri, "resource://scb/o-1/name");
	weblink_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
