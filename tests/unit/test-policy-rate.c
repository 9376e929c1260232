/* test-policy-rate.c: how often a principal may call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/limits.h"
#include "policy/rate.h"

#define START (1000 * USEC_PER_SEC)

static void a_burst_and_then_its_rate(void **state)
{
	(void)state;
	struct rates *r = rates_new();
	const struct policy_rate rule = {.per_minute = 60, .burst = 3};
	for (int i = 0; i < 3; i++)
		assert_int_equal(rates_take(r, "a", &rule, START), 0);
	assert_int_equal(rates_take(r, "a", &rule, START), USEC_PER_SEC);
	/* asking does not make it longer */
	assert_int_equal(rates_take(r, "a", &rule, START + 1), USEC_PER_SEC - 1);
	assert_int_equal(rates_take(r, "b", &rule, START), 0);
	assert_int_equal(rates_take(r, "a", &rule, START + USEC_PER_SEC), 0);
	assert_true(rates_take(r, "a", &rule, START + USEC_PER_SEC) > 0);
	/* a pause gives back no more than the burst */
	unsigned n = 0;
	while (rates_take(r, "a", &rule, START + 3600 * USEC_PER_SEC) == 0)
		n++;
	assert_int_equal(n, 3);
	/* over time the rate holds exactly */
	const struct policy_rate slow = {.per_minute = 7, .burst = 1};
	n = 0;
	for (uint64_t t = 0; t < 600 * USEC_PER_SEC; t += 10 * USEC_PER_MSEC)
		n += rates_take(r, "c", &slow, START + t) == 0;
	assert_int_equal(n, 70);
	rates_free(r);
}

static void a_rule_may_change(void **state)
{
	(void)state;
	struct rates *r = rates_new();
	const struct policy_rate slow = {.per_minute = 1, .burst = 1}, fast = {6000, 10, "rate"},
				 none = {0};
	assert_int_equal(rates_take(r, "a", &slow, START), 0);
	assert_int_equal(rates_take(r, "a", &slow, START), 60 * USEC_PER_SEC);
	/* what the old one made it wait for is over */
	assert_int_equal(rates_take(r, "a", &none, START), 0);
	uint64_t wait = rates_take(r, "a", &fast, START);
	assert_true(wait <= 10 * USEC_PER_MSEC);
	assert_int_equal(rates_take(r, "a", &fast, START + wait), 0);
	rates_free(r);
}

static void refusals_are_told_now_and_then(void **state)
{
	(void)state;
	struct rates *r = rates_new();
	const struct policy_rate rule = {.per_minute = 1, .burst = 1};
	uint64_t told = 0, lines = 0;
	assert_int_equal(rates_take(r, "a", &rule, START), 0);
	assert_int_equal(rates_refused(r, "b", START), 0); /* never asked */
	for (unsigned i = 0; i < 2500; i++) {
		uint64_t n = rates_refused(r, "a", START + i * 10 * USEC_PER_MSEC);
		told += n;
		lines += n > 0;
	}
	assert_int_equal(lines, 3); /* 25 s */
	assert_int_equal(told, 2001);
	rates_free(r);
}

/* Whoever makes names up pushes out only who would not wait. */
static void it_does_not_grow(void **state)
{
	(void)state;
	struct rates *r = rates_new();
	const struct policy_rate slow = {.per_minute = 1, .burst = 1},
				 fast = {.per_minute = 600, .burst = 1};
	assert_int_equal(rates_take(r, "waits", &slow, START), 0);
	for (unsigned i = 0; i < 3 * RATES_MAX; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "p%u", i);
		assert_int_equal(rates_take(r, name, &fast, START + i), 0);
	}
	assert_true(rates_take(r, "waits", &slow, START + USEC_PER_SEC) > 0);
	rates_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_burst_and_then_its_rate),
		cmocka_unit_test(a_rule_may_change),
		cmocka_unit_test(refusals_are_told_now_and_then),
		cmocka_unit_test(it_does_not_grow),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
