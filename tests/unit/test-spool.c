/* test-spool.c: the output of jobs against a model that keeps everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent/spool.h"
#include "base/limits.h"
#include "base/mem.h"

#define BLOCK (64 * KIB)

/* Byte number offset of a stream, so that no model has to be kept in memory. */
static uint8_t byte_at(int stream, uint64_t offset)
{
	uint64_t x = offset * 0x9e3779b97f4a7c15ULL + (uint64_t)stream;
	return (uint8_t)(x >> 56);
}

static uint32_t random_state;
static uint32_t random_below(uint32_t n)
{
	random_state = random_state * 1664525 + 1013904223;
	return (uint32_t)(((uint64_t)random_state * n) >> 32);
}

static uint64_t now_us;

static void add(struct spool *s, int stream, size_t n)
{
	uint64_t at = spool_total(s, stream);
	uint8_t *p = malloc(n + 1);
	for (size_t i = 0; i < n; i++)
		p[i] = byte_at(stream, at + i);
	spool_add(s, stream, p, n, now_us);
	free(p);
}

/* Everything that is promised of one stream; head_max and tail_max as far as they are promised. */
static void check_stream(struct spool *s, int stream, uint64_t head_max, uint64_t tail_max)
{
	uint64_t total = spool_total(s, stream), from;
	uint64_t lost = spool_lost(s, stream, &from);
	assert_true(from + lost <= total);
	if (lost) {
		assert_true(from >= MIN(head_max, total));
		assert_true(total - from - lost >= MIN(tail_max, total - MIN(head_max, total)));
	}
	uint64_t at = 0, kept = 0;
	while (at < total) {
		const uint8_t *p;
		size_t n = spool_peek(s, stream, at, &p);
		if (!n) {
			assert_true(lost && at == from);
			at += lost;
			continue;
		}
		assert_true(at + n <= total);
		for (size_t i = 0; i < n; i++)
			if (p[i] != byte_at(stream, at + i))
				fail_msg("stream %d: byte %llu is wrong", stream,
					(unsigned long long)(at + i));
		at += n;
		kept += n;
	}
	assert_int_equal(kept + lost, total);
	const uint8_t *p;
	assert_int_equal(spool_peek(s, stream, total, &p), 0);
	assert_int_equal(spool_peek(s, stream, UINT64_MAX, &p), 0);
}

/* The pieces cover both streams whole, each in its own order. */
static void check_pieces(struct spool *s)
{
	uint64_t next[3] = {0, 0, 0}, at = 0, time = 0;
	struct spool_piece piece;
	while (spool_piece_at(s, at, &piece)) {
		assert_true(piece.stream == CHANNEL_STDOUT || piece.stream == CHANNEL_STDERR);
		assert_true(piece.len > 0);
		assert_int_equal(piece.offset, next[piece.stream]);
		assert_true(piece.time_us >= time);
		time = piece.time_us;
		next[piece.stream] += piece.len;
		at += piece.len;
	}
	assert_int_equal(next[CHANNEL_STDOUT], spool_total(s, CHANNEL_STDOUT));
	assert_int_equal(next[CHANNEL_STDERR], spool_total(s, CHANNEL_STDERR));
}

static void test_small(void **state)
{
	(void)state;
	spool_init(1000, 100000, 100 * MIB, NULL);
	struct spool *s = spool_new();
	uint64_t from;
	assert_int_equal(spool_lost(s, CHANNEL_STDOUT, &from), 0);
	spool_add(s, CHANNEL_STDOUT, "hello ", 6, 0);
	spool_add(s, CHANNEL_STDOUT, "world", 5, 10);
	spool_add(s, CHANNEL_STDERR, "", 0, 20);
	char text[16];
	assert_int_equal(spool_copy(s, CHANNEL_STDOUT, 3, text, sizeof(text)), 8);
	assert_memory_equal(text, "lo world", 8);
	assert_int_equal(spool_copy(s, CHANNEL_STDOUT, 3, text, 2), 2);
	assert_int_equal(spool_copy(s, CHANNEL_STDOUT, 11, text, 2), 0);
	assert_int_equal(spool_copy(s, CHANNEL_STDERR, 0, text, 2), 0);
	assert_true(spool_size(s) <= 256);
	struct spool_piece piece;
	assert_true(spool_piece_at(s, 4, &piece));
	assert_int_equal(piece.offset, 4);
	assert_int_equal(piece.len, 7);
	assert_false(spool_piece_at(s, 11, &piece));
	spool_free(s);
	assert_int_equal(spool_used(), 0);
	spool_free(NULL);
}

/* Before the first output there is no spool. */
static void test_none_yet(void **state)
{
	(void)state;
	uint64_t from = 1;
	const uint8_t *p;
	struct spool_piece piece;
	char text[4];
	assert_int_equal(spool_total(NULL, CHANNEL_STDERR), 0);
	assert_int_equal(spool_lost(NULL, CHANNEL_STDOUT, &from), 0);
	assert_int_equal(from, 0);
	assert_int_equal(spool_peek(NULL, CHANNEL_STDOUT, 0, &p), 0);
	assert_int_equal(spool_copy(NULL, CHANNEL_STDERR, 0, text, sizeof(text)), 0);
	assert_false(spool_piece_at(NULL, 0, &piece));
	assert_int_equal(spool_size(NULL), 0);
	assert_false(spool_shed(NULL));
	spool_drop(NULL);
}

static void test_hole_is_exact(void **state)
{
	(void)state;
	const uint64_t head = 3 * BLOCK + 17, tail = 5 * BLOCK + 1000;
	spool_init(head, tail, 100 * MIB, NULL);
	struct spool *s = spool_new();
	for (uint64_t total = 0; total < head + tail + 3 * BLOCK;) {
		add(s, CHANNEL_STDOUT, 4099);
		total += 4099;
		uint64_t from, lost = spool_lost(s, CHANNEL_STDOUT, &from);
		assert_int_equal(lost, total > head + tail ? total - head - tail : 0);
		if (lost)
			assert_int_equal(from, head);
	}
	check_stream(s, CHANNEL_STDOUT, head, tail);
	assert_true(spool_size(s) <= head + tail + 3 * BLOCK);
	spool_free(s);
	assert_int_equal(spool_used(), 0);
}

static void test_random_writes(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 40; seed++) {
		random_state = seed * 77777;
		uint64_t head = random_below(3) ? random_below(4 * BLOCK) : 0;
		uint64_t tail = BLOCK + random_below(6 * BLOCK);
		spool_init(head, tail, 100 * MIB, NULL);
		struct spool *s = spool_new();
		now_us = 0;
		for (int i = 0; i < 60; i++) {
			int stream = random_below(3) ? CHANNEL_STDOUT : CHANNEL_STDERR;
			uint32_t kind = random_below(4);
			size_t n = kind == 0   ? 1 + random_below(3)
				   : kind == 1 ? 1 + random_below(300)
				   : kind == 2 ? 1 + random_below(30000)
					       : 1 + random_below(3 * BLOCK);
			add(s, stream, n);
			now_us += random_below(150000);
			if (i % 10 == 9) {
				check_stream(s, CHANNEL_STDOUT, head, tail);
				check_stream(s, CHANNEL_STDERR, head, tail);
				check_pieces(s);
			}
		}
		assert_int_equal(spool_used(), spool_size(s));
		spool_free(s);
		assert_int_equal(spool_used(), 0);
	}
}

static void test_block_boundaries(void **state)
{
	(void)state;
	for (int shift = -1; shift <= 1; shift++) {
		spool_init(
			(uint64_t)(BLOCK + shift), (uint64_t)(2 * BLOCK + shift), 100 * MIB, NULL);
		struct spool *s = spool_new();
		for (int i = 0; i < 8; i++) {
			add(s, CHANNEL_STDERR, (size_t)(BLOCK / 2));
			check_stream(s, CHANNEL_STDERR, (uint64_t)(BLOCK + shift),
				(uint64_t)(2 * BLOCK + shift));
		}
		spool_free(s);
	}
}

static void test_order_exact_up_to_the_bound(void **state)
{
	(void)state;
	spool_init(10 * MIB, MIB, 100 * MIB, NULL);
	struct spool *s = spool_new();
	now_us = 0;
	for (int i = 0; i < SPOOL_PIECES; i++) {
		add(s, i % 2 ? CHANNEL_STDERR : CHANNEL_STDOUT, 10);
		now_us += 1000;
	}
	for (uint64_t i = 0; i < SPOOL_PIECES; i++) {
		struct spool_piece piece;
		assert_true(spool_piece_at(s, i * 10, &piece));
		assert_int_equal(piece.stream, i % 2 ? CHANNEL_STDERR : CHANNEL_STDOUT);
		assert_int_equal(piece.offset, i / 2 * 10);
		assert_int_equal(piece.len, 10);
		assert_int_equal(piece.time_us, i * 1000);
	}
	spool_free(s);
}

static void test_order_coarser_beyond(void **state)
{
	(void)state;
	spool_init(10 * MIB, MIB, 100 * MIB, NULL);
	struct spool *s = spool_new();
	random_state = 5;
	now_us = 0;
	for (int i = 0; i < 50000; i++) {
		add(s, random_below(2) ? CHANNEL_STDERR : CHANNEL_STDOUT, 1 + random_below(5));
		now_us += 200000; /* far apart: only the bound joins them */
	}
	check_pieces(s);
	/* The newest ones are still exact. */
	add(s, CHANNEL_STDOUT, 1);
	now_us += 200000;
	add(s, CHANNEL_STDERR, 1);
	uint64_t both = spool_total(s, CHANNEL_STDOUT) + spool_total(s, CHANNEL_STDERR);
	struct spool_piece piece;
	assert_true(spool_piece_at(s, both - 2, &piece));
	assert_int_equal(piece.stream, CHANNEL_STDOUT);
	assert_int_equal(piece.len, 1);
	spool_free(s);
}

static void test_pieces_join_in_time(void **state)
{
	(void)state;
	spool_init(MIB, MIB, 100 * MIB, NULL);
	struct spool *s = spool_new();
	spool_add(s, CHANNEL_STDOUT, "a", 1, 0);
	spool_add(s, CHANNEL_STDOUT, "b", 1, 99999);
	spool_add(s, CHANNEL_STDOUT, "c", 1, 100000);
	struct spool_piece piece;
	assert_true(spool_piece_at(s, 0, &piece));
	assert_int_equal(piece.len, 2);
	assert_true(spool_piece_at(s, 2, &piece));
	assert_int_equal(piece.time_us, 100000);
	spool_free(s);
}

static void test_drop(void **state)
{
	(void)state;
	spool_init(MIB, MIB, 100 * MIB, NULL);
	struct spool *s = spool_new();
	add(s, CHANNEL_STDOUT, 3 * MIB);
	add(s, CHANNEL_STDERR, 100);
	spool_drop(s);
	uint64_t from;
	assert_int_equal(spool_size(s), 0);
	assert_int_equal(spool_lost(s, CHANNEL_STDOUT, &from), 3 * MIB);
	assert_int_equal(from, 0);
	assert_int_equal(spool_lost(s, CHANNEL_STDERR, &from), 100);
	add(s, CHANNEL_STDERR, 50); /* a background child goes on */
	assert_int_equal(spool_lost(s, CHANNEL_STDERR, &from), 100);
	check_stream(s, CHANNEL_STDERR, 0, 50);
	check_pieces(s);
	spool_free(s);
	assert_int_equal(spool_used(), 0);
}

static struct spool *others[3];
static bool shed_others(void)
{
	struct spool *largest = NULL;
	for (int i = 0; i < 3; i++)
		if (others[i] && (!largest || spool_size(others[i]) > spool_size(largest)))
			largest = others[i];
	return largest && spool_shed(largest);
}

static void test_session_maximum(void **state)
{
	(void)state;
	const uint64_t session = 20 * BLOCK;
	spool_init(2 * BLOCK, 16 * BLOCK, session, shed_others);
	for (int i = 0; i < 3; i++)
		others[i] = spool_new();
	random_state = 3;
	now_us = 0;
	for (int i = 0; i < 400; i++) {
		add(others[random_below(3)], random_below(2) ? CHANNEL_STDOUT : CHANNEL_STDERR,
			1 + random_below(BLOCK));
		now_us += 1000;
		/* A block a stream may stand above it. */
		assert_true(spool_used() <= session + 6 * BLOCK);
	}
	for (int i = 0; i < 3; i++) {
		check_stream(others[i], CHANNEL_STDOUT, 0, 1);
		check_stream(others[i], CHANNEL_STDERR, 0, 1);
		check_pieces(others[i]);
		assert_true(spool_size(others[i]) > 2 * BLOCK); /* nobody is starved */
		spool_free(others[i]);
		others[i] = NULL;
	}
	assert_int_equal(spool_used(), 0);
}

static void test_no_memory_at_all(void **state)
{
	(void)state;
	spool_init(MIB, MIB, 0, NULL);
	struct spool *s = spool_new();
	for (int i = 0; i < 100; i++)
		add(s, CHANNEL_STDOUT, 10000);
	check_stream(s, CHANNEL_STDOUT, 0, 1);
	uint64_t from;
	assert_true(spool_lost(s, CHANNEL_STDOUT, &from) >= 1000000 - BLOCK);
	assert_true(spool_size(s) <= BLOCK);
	spool_free(s);
}

static void test_charge(void **state)
{
	(void)state;
	spool_init(0, MIB, 10 * BLOCK, shed_others);
	others[0] = spool_new();
	add(others[0], CHANNEL_STDOUT, 9 * BLOCK);
	assert_false(spool_charge(11 * BLOCK)); /* not even with everything else gone */
	add(others[0], CHANNEL_STDERR, 9 * BLOCK);
	assert_true(spool_charge(3 * BLOCK)); /* output makes room for it */
	assert_true(spool_used() <= 10 * BLOCK);
	assert_int_equal(spool_used(), spool_size(others[0]) + 3 * BLOCK);
	spool_free(others[0]);
	others[0] = NULL;
	assert_int_equal(spool_used(), 3 * BLOCK);
	spool_uncharge(3 * BLOCK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_none_yet),
		cmocka_unit_test(test_hole_is_exact),
		cmocka_unit_test(test_random_writes),
		cmocka_unit_test(test_block_boundaries),
		cmocka_unit_test(test_order_exact_up_to_the_bound),
		cmocka_unit_test(test_order_coarser_beyond),
		cmocka_unit_test(test_pieces_join_in_time),
		cmocka_unit_test(test_drop),
		cmocka_unit_test(test_session_maximum),
		cmocka_unit_test(test_no_memory_at_all),
		cmocka_unit_test(test_charge),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
