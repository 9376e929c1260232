/* Header fields that files are served with: ranges, entity tags, names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "http/fields.h"

static void range_is(const char *field, uint64_t size, const char *want)
{
	struct http_range r = {0};
	char got[64];
	enum http_range_kind kind = http_range(field, size, &r);
	(void)snprintf(got, sizeof(got), "%llu+%llu", (unsigned long long)r.first,
		(unsigned long long)r.length);
	assert_string_equal(kind == HTTP_RANGE_WHOLE  ? "whole"
			    : kind == HTTP_RANGE_PART ? got
						      : "outside",
		want);
}

static void test_ranges(void **state)
{
	(void)state;
	range_is(NULL, 10, "whole");
	range_is("bytes=0-0", 10, "0+1");
	range_is("bytes=2-5", 10, "2+4");
	range_is("Bytes= 2-5 ", 10, "2+4");
	range_is("bytes=2-", 10, "2+8");
	range_is("bytes=2-99", 10, "2+8");
	range_is("bytes=2-99999999999999999999999", 10, "2+8");
	range_is("bytes=-3", 10, "7+3");
	range_is("bytes=-99", 10, "0+10");
	range_is("bytes=10-", 10, "outside");
	range_is("bytes=99999999999999999999999-", 10, "outside");
	range_is("bytes=-0", 10, "outside");
	range_is("bytes=0-", 0, "outside");
	range_is("bytes=-1", 0, "outside");
	/* none, or more than one: as if it were not there */
	static const char *const others[] = {"", "bytes", "bytes=", "bytes=-", "bytes=5-2",
		"bytes=a-b", "bytes=1", "bytes=1-2,4-5", "bytes=1-2x", "bytes=+1-2", "bytes=1- 2",
		"bytes=--1", "items=1-2", "bytes=-1-2", "bytes=0x1-2"};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		range_is(others[i], 10, "whole");
}

static void test_tags(void **state)
{
	(void)state;
	assert_true(http_etag_listed("\"a\"", "\"a\""));
	assert_true(http_etag_listed("\"b\", \"a\"", "\"a\""));
	assert_true(http_etag_listed("\"b\",W/\"a\"", "\"a\""));
	assert_true(http_etag_listed("\"b, \", \"a\"", "\"a\""));
	assert_true(http_etag_listed("*", "\"a\""));
	static const char *const others[] = {
		"", "a", "\"a", "\"ab\"", "\"b\"", "\"x\"a\"", ",,,", "W/", "\"\\\"a\\\"\"", "* "};
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(http_etag_listed(others[i], "\"a\""));
	assert_false(http_etag_listed(NULL, "\"a\""));
}

static void name_is(const char *name, const char *want)
{
	char *got = http_disposition(true, name);
	assert_string_equal(got, want);
	free(got);
}

static void test_names(void **state)
{
	(void)state;
	char *shown = http_disposition(false, "a b.png");
	assert_string_equal(shown, "inline; filename=\"a b.png\"");
	free(shown);
	name_is("report.csv", "attachment; filename=\"report.csv\"");
	name_is("Übersicht.csv", "attachment; filename=\"_bersicht.csv\"; "
				 "filename*=UTF-8''%C3%9Cbersicht.csv");
	name_is("世界.txt", "attachment; filename=\"__.txt\"; "
			    "filename*=UTF-8''%E4%B8%96%E7%95%8C.txt");
	name_is("a\"b\\c.txt", "attachment; filename=\"a_b_c.txt\"; "
			       "filename*=UTF-8''a%22b_c.txt");
	name_is("50%.txt", "attachment; filename=\"50_.txt\"; filename*=UTF-8''50%25.txt");
	name_is("a\r\nb: c", "attachment; filename=\"a__b: c\"; filename*=UTF-8''a%0D%0Ab%3A%20c");
	name_is("../etc/x", "attachment; filename=\".._etc_x\"; filename*=UTF-8''.._etc_x");
	name_is("\xff\xfe", "attachment; filename=\"__\"");
	name_is("", "attachment; filename=\"\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_tags),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
