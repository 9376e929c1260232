/* Who connects: addresses told apart, connections and wrong tokens bounded, and so is the table. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "http/peers.h"

static struct peer_address at(const char *text)
{
	struct peer_address a;
	assert_true(peer_address_parse(text, &a));
	return a;
}

static bool same(const char *a, const char *b)
{
	const struct peer_address x = at(a), y = at(b);
	return memcmp(x.bytes, y.bytes, sizeof(x.bytes)) == 0;
}

static void test_addresses(void **state)
{
	(void)state;
	assert_true(same("192.0.2.1", "::ffff:192.0.2.1"));
	assert_false(same("192.0.2.1", "192.0.2.2"));
	assert_true(same("2001:db8::1", "2001:db8::ffff:1"));
	assert_false(same("2001:db8::1", "2001:db8:0:1::1"));
	assert_true(at("127.0.0.1").local && at("127.9.9.9").local && at("::1").local);
	assert_true(at("::ffff:127.0.0.1").local);
	assert_false(at("10.0.0.1").local || at("::2").local || at("::").local);
	struct peer_address a;
	static const char *const bad[] = {
		"", "x", "1.2.3", "1.2.3.4.5", "1.2.3.4:80", "[::1]", " ::1"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(peer_address_parse(bad[i], &a));
}

static void test_connections(void **state)
{
	(void)state;
	struct peers *p = peers_new();
	const struct peer_address far = at("192.0.2.1"), near = at("127.0.0.1");
	for (unsigned i = 0; i < LIMIT_HTTP_CONNECTIONS_PEER; i++)
		assert_true(peers_enter(p, &far));
	assert_false(peers_enter(p, &far));
	peers_leave(p, &far);
	assert_true(peers_enter(p, &far));
	assert_false(peers_enter(p, &far));
	for (unsigned i = 0; i < 2 * LIMIT_HTTP_CONNECTIONS_PEER; i++)
		assert_true(peers_enter(p, &near));
	const struct peer_address other = at("192.0.2.2");
	assert_true(peers_enter(p, &other));
	peers_free(p);
}

static void test_failures(void **state)
{
	(void)state;
	struct peers *p = peers_new();
	const struct peer_address a = at("192.0.2.1"), b = at("192.0.2.2");
	uint64_t now = 1000 * USEC_PER_SEC;
	for (unsigned i = 0; i < LIMIT_HTTP_FAILURES; i++) {
		assert_int_equal(peers_wait_us(p, &a, now), 0);
		peers_failed(p, &a, now);
	}
	uint64_t wait = peers_wait_us(p, &a, now);
	assert_int_equal(wait, LIMIT_HTTP_FAILURE_US);
	assert_int_equal(peers_wait_us(p, &b, now), 0);
	/* a connection that comes and goes in between changes nothing */
	assert_true(peers_enter(p, &a));
	peers_leave(p, &a);
	assert_int_equal(peers_wait_us(p, &a, now), wait);
	now += wait;
	assert_int_equal(peers_wait_us(p, &a, now), 0);
	peers_failed(p, &a, now);
	assert_true(peers_wait_us(p, &a, now) > 0);
	now += LIMIT_HTTP_FAILURES * LIMIT_HTTP_FAILURE_US;
	assert_int_equal(peers_wait_us(p, &a, now), 0);
	peers_free(p);
}

/* More addresses than are remembered: the oldest are forgotten, the latest not. */
static void test_bounded(void **state)
{
	(void)state;
	struct peers *p = peers_new();
	char text[32];
	for (unsigned i = 0; i < 3 * LIMIT_HTTP_PEERS; i++) {
		(void)snprintf(text, sizeof(text), "10.%u.%u.%u", i >> 16, (i >> 8) & 255, i & 255);
		const struct peer_address a = at(text);
		for (unsigned j = 0; j < LIMIT_HTTP_FAILURES; j++)
			peers_failed(p, &a, USEC_PER_SEC);
		assert_true(peers_wait_us(p, &a, USEC_PER_SEC) > 0);
	}
	const struct peer_address first = at("10.0.0.0"), last = at(text);
	assert_int_equal(peers_wait_us(p, &first, USEC_PER_SEC), 0);
	assert_true(peers_wait_us(p, &last, USEC_PER_SEC) > 0);
	peers_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_connections),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
