/* The host page's cookie: what was made is taken, for whom, with which token and until when it was,
 * and nothing else; and what is found in a Cookie field and a query. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mcp/webcookie.h"

#define UNTIL 1800000000ULL

static const uint8_t key[WEBLINK_KEY] = "0123456789abcdef0123456789abcde";
static const uint8_t token[SHA256_SIZE] = "token", other[SHA256_SIZE] = "other";
static const struct webcookie_of ana = {"token:ana", token, false};

static bool holds(const struct webcookie_of *of, const char *value, uint64_t now_s)
{
	return webcookie_holds(key, of, value, strlen(value), now_s, NULL);
}

static void test_round(void **state)
{
	(void)state;
	const struct webcookie_of bob = {"token:bob", token, false},
				  changed = {"token:ana", other, false};
	const uint8_t key2[WEBLINK_KEY] = "another";
	char value[WEBCOOKIE_VALUE];
	uint64_t until_s = 0;
	webcookie_make(key, &ana, UNTIL, value);
	assert_true(webcookie_holds(key, &ana, value, strlen(value), UNTIL - 1, &until_s));
	assert_int_equal(until_s, UNTIL);
	assert_false(holds(&ana, value, UNTIL));
	assert_false(holds(&bob, value, 1));
	assert_false(holds(&changed, value, 1));
	assert_false(webcookie_holds(key2, &ana, value, strlen(value), 1, NULL));
	/* a code, which others may have seen, is no cookie, and a cookie no code */
	const struct webcookie_of once = {"token:ana", token, true};
	assert_false(holds(&once, value, 1));
	webcookie_make(key, &once, UNTIL, value);
	assert_true(holds(&once, value, 1));
	assert_false(holds(&ana, value, 1));
	/* the longest time there is */
	webcookie_make(key, &ana, INT64_MAX, value);
	assert_true(holds(&ana, value, UNTIL));
}

/* Every byte of it counts. */
static void test_changed(void **state)
{
	(void)state;
	char value[WEBCOOKIE_VALUE];
	webcookie_make(key, &ana, UNTIL, value);
	size_t n = strlen(value);
	for (size_t i = 0; i < n; i++) {
		for (int bit = 0; bit < 7; bit++) {
			char was = value[i];
			value[i] = (char)(was ^ (1 << bit));
			/* hex in capitals is the same number */
			if (webcookie_holds(key, &ana, value, n, 1, NULL))
				assert_true(bit == 5 && was >= 'a' && was <= 'f');
			value[i] = was;
		}
		assert_false(webcookie_holds(key, &ana, value, i, 1, NULL));
	}
	static const char *const odd[] = {
		"", ".", "1", "1.", ".0", "-1.0", "99999999999999999999999.0"};
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		assert_false(holds(&ana, odd[i], 1));
}

static void found(const char *field, const char *expected)
{
	size_t n = 0;
	const char *v = webcookie_find(field, "scb-1", &n);
	if (!expected) {
		assert_null(v);
		return;
	}
	assert_non_null(v);
	assert_int_equal(n, strlen(expected));
	assert_memory_equal(v, expected, n);
}

static void test_field(void **state)
{
	(void)state;
	found(NULL, NULL);
	found("", NULL);
	found("scb-1=a", "a");
	found("a=b; scb-1=c.d ; e", "c.d");
	found(" ;; scb-1=", "");
	found("scb-1", NULL);
	found("scb-10=a; xscb-1=b", NULL);
	found("scb-1=a; scb-1=b", NULL);
}

static void query(const char *target, const char *expected)
{
	char *v = webcookie_query(target, "token");
	if (expected)
		assert_string_equal(v, expected);
	else
		assert_null(v);
	free(v);
}

static void test_query(void **state)
{
	(void)state;
	query("/", NULL);
	query("/?", NULL);
	query("/?token", NULL);
	query("/?token=", "");
	query("/?a=b&token=x%2By&c", "x+y");
	query("/?xtoken=a", NULL);
	query("/?token=a&token=a", NULL);
	query("/?token=%00", NULL);
	query("/?token=%4", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_field),
		cmocka_unit_test(test_query),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
