/* Buffers, text, ids, times and confined opening of paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"

static void buf_keeps_its_maximum(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf b = BUF_INIT(10);
	assert_int_equal(buf_append(&b, "12345678", 8), 0);
	assert_int_equal(buf_append(&b, "90x", 3), -ENOBUFS);
	assert_int_equal(b.len, 8);
	assert_int_equal(buf_append(&b, "90", 2), 0);
	buf_consume(&b, 4);
	assert_int_equal(buf_printf(&b, "%d", 1234), 0);
	assert_memory_equal(b.data, "5678901234", 10);
}

static void a_socket_takes_what_it_can(void **state)
{
	(void)state;
	int ends[2];
	char got[64 * KIB];
	size_t want = 4 * MIB, n = 0;
	_cleanup_buf_ struct buf out = BUF_INIT(4 * MIB);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(fd_send(ends[0], &out), 0);
	for (uint32_t i = 0; i < want / sizeof(i); i++)
		assert_int_equal(buf_append(&out, &i, sizeof(i)), 0);
	assert_int_equal(fd_send(ends[0], &out), 0); /* although it may block */
	assert_in_range(out.len, 1, want - 1);
	while (n < want) {
		ssize_t r = read(ends[1], got, sizeof(got));
		assert_true(r > 0 && r % sizeof(uint32_t) == 0);
		for (uint32_t at = 0; at < (size_t)r; at += sizeof(at), n += sizeof(at)) {
			uint32_t i;
			memcpy(&i, got + at, sizeof(i));
			assert_int_equal(i, n / sizeof(i));
		}
		assert_int_equal(fd_send(ends[0], &out), 0);
	}
	assert_int_equal(out.len, 0);
	(void)close(ends[1]);
	assert_int_equal(buf_append(&out, "x", 1), 0);
	assert_int_equal(fd_send(ends[0], &out), -EPIPE);
	assert_int_equal(out.len, 1);
	(void)close(ends[0]);
}

static void utf8_is_checked_and_repaired(void **state)
{
	(void)state;
	static const struct {
		const char *in, *out;
	} rows[] = {
		{"plain", "plain"},
		{"\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x99\x82", "\xC3\xA9\xE6\xBC\xA2\xF0\x9F\x99\x82"},
		{"a\xFFz", "a\xEF\xBF\xBDz"},
		{"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* overlong */
		{"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* surrogate */
		{"\xE6\xBC", "\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* cut */
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf b = BUF_INIT(KIB);
		size_t replaced;
		assert_int_equal(str_utf8_repair(&b, rows[i].in, strlen(rows[i].in), &replaced), 0);
		assert_int_equal(b.len, strlen(rows[i].out));
		assert_memory_equal(b.data, rows[i].out, b.len);
		assert_true(str_utf8_valid(b.data, b.len));
		assert_int_equal(str_utf8_valid(rows[i].in, strlen(rows[i].in)), replaced == 0);
	}
	assert_int_equal(str_utf8_trim("a\xE6\xBC\xA2", 4), 4);
	assert_int_equal(str_utf8_trim("a\xE6\xBC", 3), 1);
	assert_int_equal(str_utf8_trim("a\xF0\x9F\x99", 4), 1);
	assert_int_equal(str_utf8_skip("\xBC\xA2z", 3), 2);
}

static void numbers_are_strict(void **state)
{
	(void)state;
	uint64_t v;
	assert_int_equal(str_to_u64("18446744073709551615", UINT64_MAX, &v), 0);
	assert_true(v == UINT64_MAX);
	assert_int_equal(str_to_u64("18446744073709551616", UINT64_MAX, &v), -ERANGE);
	assert_int_equal(str_to_u64("", 9, &v), -EINVAL);
	assert_int_equal(str_to_u64("-1", 9, &v), -EINVAL);
	assert_int_equal(str_to_u64(" 1", 9, &v), -EINVAL);
	assert_int_equal(str_to_u64("10", 9, &v), -ERANGE);
	assert_int_equal(str_to_size("512M", &v), 0);
	assert_true(v == 512 * MIB);
	assert_int_equal(str_to_size("1MB", &v), -EINVAL);
	assert_int_equal(str_to_size("99999999999T", &v), -ERANGE);
}

static void ids(void **state)
{
	(void)state;
	char a[ID_TEXT_SIZE], b[ID_TEXT_SIZE];
	id_new('s', a);
	id_new('s', b);
	assert_true(id_valid('s', a));
	assert_false(id_valid('j', a));
	assert_string_not_equal(a, b);
	a[5] = 'G';
	assert_false(id_valid('s', a));
	assert_true(id_equal("abc", "abc", 3));
	assert_false(id_equal("abc", "abd", 3));
}

static void times(void **state)
{
	(void)state;
	char text[CLOCK_RFC3339_SIZE];
	clock_rfc3339(1764445561123456ULL, text);
	assert_string_equal(text, "2025-11-29T19:46:01.123456Z");
	clock_rfc3339(0, text);
	assert_string_equal(text, "1970-01-01T00:00:00.000000Z");
	clock_rfc3339(UINT64_MAX, text); /* a file's time is what the sandbox says it is */
	assert_string_equal(text, "9999-12-31T23:59:59.551615Z");
}

static void texts_are_cut_to_fit(void **state)
{
	(void)state;
	char to[4] = "xyz";
	str_copy(to, sizeof(to), "abc");
	assert_string_equal(to, "abc");
	str_copy(to, sizeof(to), "defg");
	assert_string_equal(to, "def");
	str_copy(to, sizeof(to), "");
	assert_string_equal(to, "");
	str_copy(to, sizeof(to), "h");
	str_copy(to, sizeof(to), NULL);
	assert_string_equal(to, "");
	str_copy(to, 1, "i");
	assert_string_equal(to, "");
}

static void every_code_has_its_row(void **state)
{
	(void)state;
	for (int c = 0; c < ERR_CODE_MAX_; c++) {
		assert_non_null(err_info((enum err_code)c)->name);
		if (c != ERR_INTERNAL)
			assert_string_not_equal(err_info((enum err_code)c)->name, "internal");
	}
	struct err e;
	assert_int_equal(err_set(&e, ERR_IO, ENOSPC, "disk is %s", "full"), -ENOSPC);
	assert_int_equal(err_wrap(&e, "write %s", "x"), -ENOSPC);
	assert_string_equal(e.text, "write x: disk is full");
}

static void paths_stay_beneath(void **state)
{
	(void)state;
	char dir[] = "/tmp/scb-test-XXXXXX";
	assert_non_null(mkdtemp(dir));
	_cleanup_close_ int d = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(d >= 0);
	assert_int_equal(mkdirat(d, "sub", 0755), 0);
	assert_int_equal(symlinkat("/etc/passwd", d, "abs"), 0);
	assert_int_equal(symlinkat("../../etc/passwd", d, "rel"), 0);
	assert_int_equal(symlinkat("sub", d, "inside"), 0);
	static const struct {
		const char *path;
		int expect;
	} rows[] = {
		{"sub", 0},
		{"inside", 0},
		{".", 0},
		{"", 0},
		{"sub/..", 0},
		{"..", -EXDEV},
		{"abs", -EXDEV},
		{"rel", -EXDEV},
		{"/etc/passwd", -EXDEV},
		{"sub/../../x", -EXDEV},
		{"nothing", -ENOENT},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_close_ int fd = fd_open_beneath(d, rows[i].path, O_RDONLY, 0);
		if (rows[i].expect == 0)
			assert_true(fd >= 0);
		else
			assert_int_equal(fd, rows[i].expect);
	}
	_cleanup_close_ int link = fd_open_beneath(d, "inside", O_RDONLY | O_NOFOLLOW, 0);
	assert_int_equal(link, -ELOOP);
	const char *name;
	_cleanup_close_ int parent = fd_open_parent_beneath(d, "sub/new", &name);
	assert_true(parent >= 0);
	assert_string_equal(name, "new");
	assert_int_equal(fd_open_parent_beneath(d, "sub/..", &name), -EINVAL);
	(void)unlinkat(d, "abs", 0);
	(void)unlinkat(d, "rel", 0);
	(void)unlinkat(d, "inside", 0);
	(void)unlinkat(d, "sub", AT_REMOVEDIR);
	(void)rmdir(dir);
}

static void texts_are_made_printable(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {{"", ""}, {"plain é €", "plain é €"},
		{"a\nb\x1b[2J\x7f", "a?b?[2J?"},
		{"\xc2\x9b"
		 "31m \xff \xc3",
			"?31m ? ?"},
		{"\xe2\x80\xae"
		 "abc\xe2\x81\xa6\xe2\x80\xa8",
			"?abc??"},
		{"\xe2\x80\xa6 \xf0\x9f\x98\x80", "\xe2\x80\xa6 \xf0\x9f\x98\x80"}};
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		_cleanup_free_ char *text = xstrdup(pairs[i][0]);
		str_make_printable(text);
		assert_string_equal(text, pairs[i][1]);
	}
	struct err e;
	(void)err_set(&e, ERR_IO, 0, "no \"%.5s\"", "abcd\xc3\xa9");
	assert_string_equal(e.text, "no \"abcd?\"");
	(void)err_wrap(&e, "x\ny");
	assert_string_equal(e.text, "x?y: no \"abcd?\"");
}

/* ---- log ---- */

static off_t size_of(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 ? st.st_size : -1;
}

static void log_file_is_bounded(void **state)
{
	(void)state;
	char dir[] = "/tmp/scb-log-XXXXXX";
	assert_non_null(mkdtemp(dir));
	_cleanup_free_ char *path = xasprintf("%s/log", dir), *old = xasprintf("%s.1", path);
	int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	assert_true(saved >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
	log_bound_file(path, 1000);
	for (int i = 0; i < 1000; i++)
		log_error("line %04d of a log that goes on and on", i);
	log_bound_file(NULL, 0);
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	(void)close(saved);
	(void)close(fd);
	assert_in_range(size_of(path), 0, 1000);
	assert_in_range(size_of(old), 1000, 1100); /* the line that was one too many is whole */
	(void)unlink(path);
	(void)unlink(old);
	(void)rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_are_made_printable),
		cmocka_unit_test(buf_keeps_its_maximum),
		cmocka_unit_test(a_socket_takes_what_it_can),
		cmocka_unit_test(utf8_is_checked_and_repaired),
		cmocka_unit_test(numbers_are_strict),
		cmocka_unit_test(ids),
		cmocka_unit_test(times),
		cmocka_unit_test(texts_are_cut_to_fit),
		cmocka_unit_test(every_code_has_its_row),
		cmocka_unit_test(paths_stay_beneath),
		cmocka_unit_test(log_file_is_bounded),
	};
	return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
