/* Patterns of file names: cases, and many made ones beside the C library's fnmatch(3). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fnmatch.h>

#include "base/clock.h"
#include "base/glob.h"
#include "base/mem.h"

#define MADE 2000000

static void cases(void **state)
{
	(void)state;
	static const struct {
		const char *pattern, *text;
		bool path, matches;
	} rows[] = {
		{"*.csv", "a.csv", false, true},
		{"*.csv", "a.csv.gz", false, false},
		{"*", "", false, true},
		{"?", "", false, false},
		{"", "", false, true},
		{"", "a", false, false},
		{"a*b*c", "a-b-b-c", false, true},
		{"a*b*c", "a-c-b", false, false},
		{"data/*.csv", "data/a.csv", true, true},
		{"data/*.csv", "data/x/a.csv", true, false},
		{"*/*/a.csv", "data/x/a.csv", true, true},
		{"*/a.csv", "data/x/a.csv", true, false},
		{"a?b", "a/b", true, false},
		{"a[!x]b", "a/b", true, false},
		{"a[/]b", "a[/]b", true, true},
		{"[]x]", "]", false, true},
		{"[!]x]", "]", false, false},
		{"[a-c]", "b", false, true},
		{"[a-]", "-", false, true},
		{"[^a-c]", "b", false, false},
		{"[\\]]", "]", false, true},
		{"[a", "[a", false, true},
		{"\\*", "*", false, true},
		{"\\*", "x", false, false},
		{"[[:digit:]x]", "7", false, true},
		{"[[:digit:]x]", "x", false, true},
		{"[![:space:]]", " ", false, false},
		{"[[:xdigit:]]", "F", false, true},
		{"na?ve", "na\xC3\xAFve", false, true},
		{"[\xC3\xA0-\xC3\xBF]", "\xC3\xAF", false, true},
		{"[[:alpha:]]", "\xC3\xAF", false, false},
		{"a?", "a\xFF", false, true},
		{"a?", "a\xFF\xFF", false, false},
		{"a*\xE6\xBC", "a\xE6\xBC", false, true},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (glob_match(rows[i].pattern, rows[i].text, rows[i].path) != rows[i].matches)
			fail_msg(
				"%s on %s: not %d", rows[i].pattern, rows[i].text, rows[i].matches);
	}
}

static void make(const char *letters, char *ret_text, size_t max)
{
	size_t n = (size_t)rand() % max, of = strlen(letters);
	for (size_t i = 0; i < n; i++)
		ret_text[i] = letters[(size_t)rand() % of];
	ret_text[n] = '\0';
}

/* A backslash at the end, and in a path a set or "\/", mean what each library likes. */
static bool is_settled(const char *pattern, bool path)
{
	size_t n = strlen(pattern);
	if (n && pattern[n - 1] == '\\')
		return false;
	return !path || (!strchr(pattern, '[') && !strstr(pattern, "\\/"));
}

static void agrees_with_fnmatch(void **state)
{
	(void)state;
	srand(1);
	size_t matched = 0;
	for (int i = 0; i < MADE; i++) {
		char pattern[12], text[10];
		bool path = i % 2;
		make("aabc/**?[]!-\\", pattern, sizeof(pattern));
		make("aaabbc/-]", text, sizeof(text));
		if (!is_settled(pattern, path))
			continue;
		bool ours = glob_match(pattern, text, path);
		matched += ours;
		if (ours != (fnmatch(pattern, text, path ? FNM_PATHNAME : 0) == 0))
			fail_msg(
				"%s on %s%s: ours %d", pattern, text, path ? ", a path" : "", ours);
	}
	assert_in_range(matched, MADE / 100, MADE);
}

/* Stars do not multiply. */
static void time_is_bounded(void **state)
{
	(void)state;
	char pattern[201], text[4001];
	for (size_t i = 0; i + 1 < sizeof(pattern); i += 2)
		memcpy(pattern + i, "*a", 2);
	pattern[sizeof(pattern) - 2] = 'b';
	pattern[sizeof(pattern) - 1] = '\0';
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	uint64_t start = clock_monotonic_us();
	assert_false(glob_match(pattern, text, false));
	assert_in_range(clock_monotonic_us() - start, 0, 2000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cases),
		cmocka_unit_test(agrees_with_fnmatch),
		cmocka_unit_test(time_is_bounded),
	};
	return cmocka_run_group_tests_name("glob", tests, NULL, NULL);
}
