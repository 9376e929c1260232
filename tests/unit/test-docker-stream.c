/* test-docker-stream.c: what an engine attaches, unpacked, however it is cut. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "provider/docker_stream.h"

static const uint8_t stream[] = "\1\0\0\0\0\0\0\3abc"
				"\2\0\0\0\0\0\0\2!?"
				"\1\0\0\0\0\0\0\0"
				"\1\0\0\0\0\0\0\1d";
#define STREAM_SIZE (sizeof(stream) - 1)

static void test_cut_anywhere(void **state)
{
	(void)state;
	for (size_t cut = 1; cut <= STREAM_SIZE; cut++) {
		struct docker_stream s = {0};
		char out[3][8] = {"", "", ""};
		for (size_t at = 0; at < STREAM_SIZE;) {
			enum docker_stream_kind kind = DOCKER_STDOUT;
			const uint8_t *piece = NULL;
			size_t n = 0, give = STREAM_SIZE - at < cut ? STREAM_SIZE - at : cut;
			ssize_t used = docker_stream_next(&s, stream + at, give, &kind, &piece, &n);
			assert_true(used > 0 && (size_t)used <= give);
			if (n)
				strncat(out[kind], (const char *)piece, n);
			at += (size_t)used;
		}
		assert_string_equal(out[DOCKER_STDOUT], "abcd");
		assert_string_equal(out[DOCKER_STDERR], "!?");
	}
}

static void test_no_stream(void **state)
{
	(void)state;
	static const char *const bad[] = {
		"\0\0\0\0\0\0\0\1x", "\3\0\0\0\0\0\0\1x", "\1\0\1\0\0\0\0\1x", "HTTP/1.1 200 OK"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct docker_stream s = {0};
		enum docker_stream_kind kind;
		const uint8_t *piece;
		size_t n;
		assert_int_equal(
			docker_stream_next(&s, (const uint8_t *)bad[i], 9, &kind, &piece, &n),
			-EPROTO);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_no_stream),
	};
	return cmocka_run_group_tests_name("docker_stream", tests, NULL, NULL);
}
