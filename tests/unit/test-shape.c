/* Raw output as text: what a terminal would show, within bounds, with nothing that steers one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/str.h"
#include "exec/shape.h"

static void what_a_terminal_shows(void **state)
{
	(void)state;
	static const struct {
		const char *in, *out;
	} rows[] = {
		{"", ""},
		{"plain\ntext\n", "plain\ntext\n"},
		{"no newline", "no newline"},
		{"tab\there", "tab\there"},
		/* carriage returns */
		{"10%\r20%\r100%\n", "100%\n"},
		{"10%\r20%\r100%\r", "100%"},
		{"crlf\r\nend\r\n", "crlf\nend\n"},
		{"longer\rabc\n", "abcger\n"},
		{"wiped\r     \r\n", "\n"},
		{"é漢字\rx\n", "x漢字\n"},
		/* erase in line */
		{"abcdef\r\x1b[Kxy\n", "xy\n"},
		{"abc\x1b[2Kd\n", "   d\n"},
		{"abc\x1b[1K\n", "   \n"},
		/* the cursor on its line */
		{"\x1b[2K\x1b[1Gstep 1\x1b[2K\x1b[1Gstep 2\n", "step 2\n"},
		{"abcdef\x1b[3GX\x1b[2DY\x1b[CZ\n", "aYXZef\n"},
		{"ab\x1b[999999GX\x1b[999999999DY\n", "YbX\n"},
		/* and between lines */
		{"a 0\nb 0\n\x1b[2Aa 1\nb 1\n\x1b[2Aa 22\nb 2\n", "a 22\nb 2\n"},
		{"\rbar 1\n\rbar 2\x1b[A\rBAR 1\n\rBAR 2\n", "BAR 1\nBAR 2\n"},
		{"old\nkept\n\x1b[2F\x1b[2Knew\x1b[E\x1b[Bend\n", "new\nkept\nend\n"},
		{"first\x1b[99999Asecond\n", "second\n"},
		{"x\x1b[", "x"},
		/* backspaces */
		{"ab\bc", "ac"},
		{"\b\bx", "x"},
		{"N\bNA\bA", "NA"},
		{"漢\b字", "字"},
		/* escape sequences */
		{"\x1b[31mred\x1b[0m", "red"},
		{"\x1b[38;5;12mx\x1b[?25l\x1b[2J\x1b[H", "x"},
		{"\x1b]0;title\x07x", "x"},
		{"\x1b]52;c;ZXZpbA==\x1b\\x", "x"},
		{"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"\x1bP+q544e\x1b\\x\x1b_apc\x1b\\y\x1b^pm\x1b\\z\x1bXsos\x1b\\", "xyz"},
		{"\x1b(B\x1b)0\x1b=\x1b>\x1b"
		 "7\x1b"
		 "8\x1b"
		 "cx",
			"x"},
		{"\x1b\x1b[31mx", "x"},
		{"x\x1b", "x"},
		{"x\x1b[", "x"},
		{"x\x1b[3", "x"},
		{"x\x1b]0;never ended\nnext", "x\nnext"},
		{"\xC2\x9B"
		 "31mx\xC2\x9D"
		 "0;t\xC2\x9Cy",
			"xy"},
		{"\xC2\x85x", "x"},
		/* other controls become pictures */
		{"a\x07"
		 "b\x0E"
		 "c\x7F\x0B\x0C",
			"a␇b␎c␡␋␌"},
		/* what is no UTF-8 */
		{"a\xFFz", "a\xEF\xBF\xBDz"},
		{"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
		{"\x9B"
		 "31m",
			"\xEF\xBF\xBD"
			"31m"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct shape_text t;
		shape_bytes(rows[i].in, strlen(rows[i].in), KIB, NULL, &t);
		assert_string_equal(t.text, rows[i].out);
		assert_true(t.omitted == 0);
		free(t.text);
	}
	struct shape_text t;
	shape_bytes("a\0b", 3, KIB, NULL, &t);
	assert_string_equal(t.text, "a␀b");
	free(t.text);
	shape_bytes("\xFF\xFE ok \xC3", 7, KIB, NULL, &t);
	assert_int_equal(t.replaced, 3);
	free(t.text);
}

static char *repeat(const char *line, size_t n, size_t *ret_len)
{
	size_t len = strlen(line);
	char *all = xmalloc(n * len + 1);
	for (size_t i = 0; i < n; i++)
		memcpy(all + i * len, line, len);
	all[n * len] = '\0';
	*ret_len = n * len;
	return all;
}

static void long_text_is_cut_at_lines(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf b = BUF_INIT(MIB);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(buf_printf(&b, "line %d\n", i), 0);
	struct shape_text t;
	shape_bytes(b.data, b.len, 2000, NULL, &t);
	assert_true(str_starts(t.text, "line 0\nline 1\n"));
	assert_non_null(strstr(t.text, "\nline 9999\n"));
	const char *note = strstr(t.text, "… ");
	assert_non_null(note);
	assert_true(note[-1] == '\n'); /* on a line of its own */
	assert_non_null(strstr(note, " left out …\nline "));
	size_t shown = strlen(t.text) - (strcspn(note, "\n") + 1);
	assert_true(t.omitted + shown == b.len);
	char count[64];
	size_t lines = 0;
	for (const char *c = t.text; (c = strstr(c, "line ")); c++)
		lines++;
	(void)snprintf(count, sizeof(count), "(%zu,%03zu lines)", (10000 - lines) / 1000,
		(10000 - lines) % 1000);
	assert_non_null(strstr(note, count));
	free(t.text);
}

static void long_lines_are_cut_between_characters(void **state)
{
	(void)state;
	size_t n;
	_cleanup_free_ char *text = repeat("é漢字🙂", 100000, &n);
	for (size_t max = 1000; max < 1024; max++) {
		struct shape_text t;
		shape_bytes(text, n, max, NULL, &t);
		assert_true(str_utf8_valid(t.text, strlen(t.text)));
		assert_null(strstr(t.text, "\xEF\xBF\xBD"));
		assert_int_equal(t.replaced, 0);
		assert_true(strlen(t.text) > max - 16);
		const char *note = strstr(t.text, "\n… ");
		size_t note_len = strcspn(note + 1, "\n") + 2;
		assert_true(strlen(t.text) - note_len + t.omitted == n);
		free(t.text);
	}
}

static void progress_takes_no_room(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf b = BUF_INIT(MIB);
	for (int i = 0; i <= 2000; i++)
		assert_int_equal(buf_printf(&b, "\r%4d of 2000", i), 0);
	assert_int_equal(buf_append_str(&b, "\ndone\n"), 0);
	struct shape_text t;
	shape_bytes(b.data, b.len, KIB, NULL, &t);
	assert_string_equal(t.text, "2000 of 2000\ndone\n");
	assert_true(t.omitted == 0);
	free(t.text);
}

static struct exec_output output(const char *head, const char *tail, uint64_t total, uint64_t lost)
{
	struct exec_output o = {
		.total = total, .lost = lost, .head = BUF_INIT(MIB), .tail = BUF_INIT(MIB)};
	assert_int_equal(buf_append_str(&o.head, head), 0);
	assert_int_equal(buf_append_str(&o.tail, tail), 0);
	return o;
}

static void gaps(void **state)
{
	(void)state;
	struct shape_text t;
	/* no gap: a line goes on from head to tail, a character too */
	struct exec_output o = output("one\ntwo \xC3", "\xA9 three\n", 17, 0);
	shape_output(&o, KIB, NULL, &t);
	assert_string_equal(t.text, "one\ntwo é three\n");
	assert_true(t.omitted == 0);
	free(t.text);
	/* a gap that breaks characters on both sides */
	o.total = 1234017;
	shape_output(&o, KIB, NULL, &t);
	assert_string_equal(t.text, "one\ntwo \n… 1,234,002 bytes left out …\n three\n");
	assert_true(t.omitted == 1234002);
	assert_int_equal(t.replaced, 0);
	o.lost = 1000;
	free(t.text);
	shape_output(&o, KIB, NULL, &t);
	assert_non_null(strstr(t.text, "left out, 1,000 of them no longer kept …\n"));
	free(t.text);
	buf_done(&o.head);
	buf_done(&o.tail);
	o = output("", "", 0, 0);
	shape_output(&o, KIB, NULL, &t);
	assert_string_equal(t.text, "");
	free(t.text);
	o.total = 77; /* nothing is given of it */
	shape_output(&o, KIB, NULL, &t);
	assert_true(t.omitted == 77);
	free(t.text);
}

/* What can steer a terminal is not in it. */
static void assert_harmless(const char *text)
{
	for (const uint8_t *c = (const uint8_t *)text; *c; c++) {
		assert_true(*c >= 0x20 || *c == '\n' || *c == '\t');
		assert_true(*c != 0x7F);
		assert_false(*c == 0xC2 && c[1] < 0xA0);
	}
}

static void any_bytes(void **state)
{
	(void)state;
	static const char alphabet[] =
		"ab \t\n\n\r\b\x1b\x1b[]PK;0m12\\\x07\xC2\x9B\x9D\xC3\xA9\xF0\x9F"
		"\x99\x82\xFF\xED\xA0\x7F";
	uint64_t seed = 88172645463325252ULL; /* xorshift64: the same cases each time */
	for (int round = 0; round < 4000; round++) {
		uint8_t raw[600];
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		size_t n = seed % sizeof(raw), max = (seed >> 20) % 400,
		       split = n ? (seed >> 32) % n : 0;
		uint64_t x = seed | 1;
		for (size_t i = 0; i < n; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			raw[i] = round & 1 ? (uint8_t)(x >> 11)
					   : (uint8_t)alphabet[(x >> 11) % (sizeof(alphabet) - 1)];
		}
		struct exec_output o = {.total = n + (round & 2 ? 5000 : 0),
			.head = BUF_INIT(KIB),
			.tail = BUF_INIT(KIB)};
		assert_int_equal(buf_append(&o.head, raw, split), 0);
		assert_int_equal(buf_append(&o.tail, raw + split, n - split), 0);
		struct shape_text t;
		shape_output(&o, max, NULL, &t);
		size_t len = strlen(t.text);
		assert_true(str_utf8_valid(t.text, len));
		assert_harmless(t.text);
		assert_true(len <= max + SHAPE_NOTE);
		assert_true(t.omitted <= o.total);
		assert_true(round & 2 ? t.omitted >= 5000 : true);
		assert_true(t.replaced <= o.total - t.omitted);
		assert_true((strstr(t.text, " left out") != NULL) == (t.omitted > 0));
		free(t.text);
		buf_done(&o.head);
		buf_done(&o.tail);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_terminal_shows),
		cmocka_unit_test(long_text_is_cut_at_lines),
		cmocka_unit_test(long_lines_are_cut_between_characters),
		cmocka_unit_test(progress_takes_no_room),
		cmocka_unit_test(gaps),
		cmocka_unit_test(any_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
