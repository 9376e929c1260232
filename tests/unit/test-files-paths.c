/* Paths and names as callers and sandboxes write them, replacing text, telling kinds of files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "base/str.h"
#include "files/edit.h"
#include "files/mime.h"
#include "files/name.h"
#include "files/path.h"

static void paths(void **state)
{
	(void)state;
	static const struct {
		const char *in, *out;
		enum err_code code;
	} rows[] = {
		{".", ".", ERR_NONE},
		{"./", ".", ERR_NONE},
		{"/workspace", ".", ERR_NONE},
		{"/workspace/", ".", ERR_NONE},
		{"a", "a", ERR_NONE},
		{"a//b/./c/", "a/b/c", ERR_NONE},
		{"/workspace/a/b", "a/b", ERR_NONE},
		{"/mnt/sales", "/mnt/sales", ERR_NONE},
		{"/mnt//sales//x.csv", "/mnt/sales/x.csv", ERR_NONE},
		{"/run/ws/a", "a", ERR_NONE}, /* the workspace's other name */
		{"~/x", "~/x", ERR_NONE},
		{"日本 語.csv", "日本 語.csv", ERR_NONE},
		{"", NULL, ERR_INVALID_ARGUMENT},
		{"a\xFF", NULL, ERR_INVALID_ARGUMENT},
		{"a\nb", NULL, ERR_FILE_REFUSED},
		{"a\x1b[31m", NULL, ERR_FILE_REFUSED},
		{"..", NULL, ERR_FILE_REFUSED},
		{"../etc/passwd", NULL, ERR_FILE_REFUSED},
		{"a/../b", NULL, ERR_FILE_REFUSED}, /* a may be a link */
		{"a/..", NULL, ERR_FILE_REFUSED},
		{"a../..b", "a../..b", ERR_NONE},
		{"a/../../b", NULL, ERR_FILE_REFUSED},
		{"/workspace/../etc", NULL, ERR_FILE_REFUSED},
		{"/workspace-evil/a", NULL, ERR_FILE_REFUSED},
		{"/workspaceevil", NULL, ERR_FILE_REFUSED},
		{"/Workspace/a", NULL, ERR_FILE_REFUSED},
		{"//workspace/a", NULL, ERR_FILE_REFUSED},
		{"/run/ws2/a", NULL, ERR_FILE_REFUSED},
		{"/mnt", "/mnt", ERR_NONE},
		{"/mnt/", "/mnt", ERR_NONE},
		{"/mnt/..", NULL, ERR_FILE_REFUSED},
		{"/mnt/sales/../x", NULL, ERR_FILE_REFUSED},
		{"/mnt/sales/../../etc", NULL, ERR_FILE_REFUSED},
		{"/mnt/typo/x", NULL, ERR_NO_SUCH_FILE},
		{"/mnt/sale", NULL, ERR_NO_SUCH_FILE},
		{"/mnt/saless", NULL, ERR_NO_SUCH_FILE},
		{"/mnt/.", NULL, ERR_NO_SUCH_FILE},
		{"/mntx/sales", NULL, ERR_FILE_REFUSED},
		{"/etc/passwd", NULL, ERR_FILE_REFUSED},
		{"/", NULL, ERR_FILE_REFUSED},
		{"/proc/self/root/workspace", NULL, ERR_FILE_REFUSED},
	};
	char *mounts[] = {(char *)"data", (char *)"sales"};
	const struct path_view view = {"/run/ws", mounts, ARRAY_SIZE(mounts)};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *got = NULL;
		struct err err = {0};
		int r = path_canonical(&view, rows[i].in, &got, &err);
		assert_int_equal(err.code, rows[i].code);
		assert_int_equal(r < 0, rows[i].code != ERR_NONE);
		if (r == 0)
			assert_string_equal(got, rows[i].out);
		else
			assert_true(str_utf8_valid(err.text, strlen(err.text)) &&
				    !strpbrk(err.text, "\n\x1b"));
	}
	static const struct path_view bare = {0};
	struct err err = {0};
	char *got = NULL;
	char longer[LIMIT_PATH + 2];
	memset(longer, 'a', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	assert_true(path_canonical(&bare, longer, &got, &err) < 0);
	assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
	longer[LIMIT_NAME + 1] = '\0';
	assert_true(path_canonical(&bare, longer, &got, &err) < 0);
	longer[LIMIT_NAME] = '\0';
	assert_int_equal(path_canonical(&bare, longer, &got, &err), 0);
	free(got);
}

/* A refusal says what to do next: what leads nowhere is not advised. */
static void refusals_lead_on(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		size_t n_mounts;
		const char *has, *has_not;
	} rows[] = {
		{"/etc/passwd", 2, "cp", "--mount"},
		{"/tmp/x", 0, "cp", "--mount"},
		{"/usr/share/dict/words", 2, "cp", "--mount"},
		{"/home/me/x.csv", 2, "--mount", "cp"},
		{"/home/me/x.csv", 2, "mounts: data, sales", "cp"},
		{"/usrx", 0, "no folder is mounted", "cp"},
		{"/mnt/typo/x", 2, "no mount 'typo'; mounts: data, sales", "cp"},
		{"/mnt/typo", 1, "no mount 'typo'; mounts: data", "sales"},
		{"/mnt/typo", 0, "no mount 'typo'; no folder is mounted", "cp"},
		{"a/../b.txt", 2, "\"..\" is not taken", "cp"},
		{"../b.txt", 2, "\"..\" is not taken", "cp"},
		{"/mnt/../x", 2, "\"..\" is not taken", "cp"},
	};
	char *mounts[] = {(char *)"data", (char *)"sales"};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct path_view view = {NULL, mounts, rows[i].n_mounts};
		struct err err = {0};
		char *got = NULL;
		assert_true(path_canonical(&view, rows[i].path, &got, &err) < 0);
		if (!strstr(err.text, rows[i].has) || strstr(err.text, rows[i].has_not))
			fail_msg("%s: %s", rows[i].path, err.text);
	}
	char name[65], text[PATH_MOUNTS], *many[LIMIT_MOUNTS];
	memset(name, 'm', 64);
	name[64] = '\0';
	for (size_t i = 0; i < LIMIT_MOUNTS; i++)
		many[i] = name;
	path_mounts(&(struct path_view){NULL, many, LIMIT_MOUNTS}, text);
	assert_true(strlen(text) < PATH_MOUNTS && strstr(text, ", …"));
}

static void what_is_shown_is_harmless(void **state)
{
	(void)state;
	_cleanup_free_ char *a = path_printable("a\n\x1b[2Jb\xFF\xC2\x9B", 9);
	assert_true(str_utf8_valid(a, strlen(a)));
	assert_null(strpbrk(a, "\n\x1b"));
	assert_null(strstr(a, "\xC2\x9B"));
	char shown[PATH_SHOWN], path[1000] = "";
	for (int i = 0; i < 100; i++)
		strncat(path, "日本", sizeof(path) - strlen(path) - 1);
	path_shown(path, shown);
	assert_true(strlen(shown) < PATH_SHOWN && str_utf8_valid(shown, strlen(shown)));
	assert_true(str_starts(shown, "…"));
}

static void names(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool good;
	} rows[] = {
		{"a", true},
		{"report 2026 (final).csv", true},
		{"日本語.csv", true},
		{"e\xCC\x81.txt", true}, /* NFD: as it is */
		{"👩‍🔬.png", true},
		{"console.log", true},
		{"COM10.txt", true},
		{"a..b", true},
		{"100%.txt", true},
		{"meta.json", true},
		{"", false},
		{".", false},
		{"..", false},
		{".hidden", false},
		{".scb-meta.json", false},
		{"-rf", false},
		{"a.", false},
		{"a ", false},
		{" a", false},
		{"a\nb", false},
		{"a\tb", false},
		{"a\x7F", false},
		{"a\xC2\x85", false},
		{"a\xFF", false},
		{"a/b", false},
		{"a\\b", false},
		{"a:b", false},
		{"a?", false},
		{"a*b", false},
		{"a\"b", false},
		{"a<b", false},
		{"con", false},
		{"CON", false},
		{"Con.txt", false},
		{"con .txt", false},
		{"nul.tar.gz", false},
		{"com1", false},
		{"LPT9.csv", false},
		{"com\xC2\xB9.x", false},
		{"CONOUT$", false},
		{"gpj.\xE2\x80\xAE"
		 "exe",
			false}, /* right-to-left override */
		{"a\xE2\x81\xA6"
		 "b",
			false},
		{"a\xE2\x80\xA8"
		 "b",
			false},
		{"\xEF\xBB\xBF"
		 "a",
			false},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct err err = {0};
		int r = name_check(rows[i].name, &err);
		if ((r == 0) != rows[i].good)
			fail_msg("%s: %s", rows[i].name, err.text);
		if (r < 0) {
			assert_int_equal(err.code, ERR_FILE_REFUSED);
			assert_true(str_utf8_valid(err.text, strlen(err.text)) &&
				    !strpbrk(err.text, "\n\x1b"));
		}
	}
	char longer[LIMIT_NAME + 2];
	memset(longer, 'a', sizeof(longer));
	longer[LIMIT_NAME + 1] = '\0';
	assert_true(name_check(longer, NULL) < 0);
	longer[LIMIT_NAME] = '\0';
	assert_int_equal(name_check(longer, NULL), 0);
	_cleanup_free_ char *uri = name_encode("a b%é~_-.#?.csv");
	assert_string_equal(uri, "a%20b%25%C3%A9~_-.%23%3F.csv");
}

static void edits(void **state)
{
	(void)state;
	static const struct {
		const char *in, *old_text, *new_text;
		bool all;
		int places;
		const char *out;
	} rows[] = {
		{"one two three", "two", "2", false, 1, "one 2 three"},
		{"a a", "a", "b", false, -1, NULL}, {"a a", "a", "bb", true, 2, "bb bb"},
		{"aaa", "aa", "b", true, 1, "ba"}, {"abc", "", "x", false, -1, NULL},
		{"abc", "d", "x", true, -1, NULL}, {"", "d", "x", true, -1, NULL},
		{"abc", "abc", "", false, 1, ""},
		{"x", "x", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", false, -1, NULL}, /* too large */
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf in = BUF_INIT(KIB), out = BUF_INIT(32);
		struct err err = {0};
		assert_int_equal(buf_append_str(&in, rows[i].in), 0);
		int r = edit_replace(
			&in, rows[i].old_text, rows[i].new_text, rows[i].all, NULL, &out, &err);
		assert_int_equal(MAX(r, -1), rows[i].places);
		assert_int_equal(err.code != ERR_NONE, r < 0);
		if (r > 0) {
			assert_int_equal(out.len, strlen(rows[i].out));
			assert_memory_equal(out.data, rows[i].out, out.len);
		}
	}
}

static void kinds(void **state)
{
	(void)state;
	static const struct {
		const char *name, *head;
		size_t n;
		bool utf8;
		mode_t mode;
		const char *type;
		bool text, runs;
	} rows[] = {
		{"a.csv", "x,y\n", 4, true, 0644, "text/csv", true, false},
		{"A.CSV", "x,y\n", 4, true, 0644, "text/csv", true, false},
		{"a", "hello", 5, true, 0644, "text/plain", true, false},
		{"a", "", 0, true, 0644, "text/plain", true, false},
		{"a.dat", "\0\1", 2, false, 0644, "application/octet-stream", false, false},
		{"a.png", "\x89PNG\r\n\x1a\n..", 10, false, 0644, "image/png", false, false},
		{"a.txt", "\x89PNG\r\n\x1a\n..", 10, false, 0644, "image/png", false, false},
		{"a.png", "not a picture", 13, true, 0644, "text/plain", true, false},
		{"a.png",
			"\x7F"
			"ELF....",
			8, false, 0644, "application/x-executable", false, true},
		{"a.xlsx", "PK\x03\x04....", 8, false, 0644,
			"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", false,
			false},
		{"a.xlsm", "PK\x03\x04....", 8, false, 0644,
			"application/vnd.ms-excel.sheet.macroEnabled.12", false, true},
		{"a.zip", "PK\x03\x04....", 8, false, 0644, "application/zip", false, false},
		{"a.html", "hello", 5, true, 0644, "text/html", true, true},
		{"a.txt", " <!DOCTYPE HTML><p>", 19, true, 0644, "text/plain", true, true},
		{"a", "\n<html>", 7, true, 0644, "text/html", true, true},
		{"a.svg", "<svg xmlns", 10, true, 0644, "image/svg+xml", true, true},
		{"a.txt", "x <ScRipt>alert(1)", 18, true, 0644, "text/plain", true, true},
		{"run", "#!/bin/sh\n", 10, true, 0644, "text/plain", true, true},
		{"a.py", "print(1)", 8, true, 0644, "text/x-python", true, true},
		{"a.desktop", "[Desktop", 8, true, 0644, "text/plain", true, true},
		{"a.txt", "x", 1, true, 0755, "text/plain", true, true},
		{"a.exe", "MZ\x90\0", 4, false, 0644,
			"application/vnd.microsoft.portable-executable", false, true},
		{"a.txt", "MZ is how it begins", 19, true, 0644, "text/plain", true, false},
		{"a.doc", "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1..", 10, false, 0644,
			"application/msword", false, true},
		{"a.pdf", "%PDF-1.4", 8, true, 0644, "application/pdf", false, false},
		{"a.parquet", "PAR1\0", 5, false, 0644, "application/vnd.apache.parquet", false,
			false},
		{"a.pkl", "\x80\x04", 2, false, 0644, "application/x-python-pickle", false, true},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mime m =
			mime_of(rows[i].name, rows[i].head, rows[i].n, rows[i].utf8, rows[i].mode);
		if (strcmp(m.type, rows[i].type) != 0 || m.text != rows[i].text ||
			m.runs != rows[i].runs)
			fail_msg("row %zu, %s: %s text %d runs %d", i, rows[i].name, m.type, m.text,
				m.runs);
		assert_ptr_equal(mime_intern(m.type), mime_intern(rows[i].type));
	}
	assert_string_equal(mime_intern("text/evil"), "application/octet-stream");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths),
		cmocka_unit_test(refusals_lead_on),
		cmocka_unit_test(what_is_shown_is_harmless),
		cmocka_unit_test(names),
		cmocka_unit_test(edits),
		cmocka_unit_test(kinds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
