/* test-idempotency.c: what a key stands for, kept in a store beyond the life of a broker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "mcp/idempotency.h"
#include "store/store.h"

#define JOB     "j-00112233445566778899aabbccddeeff"
#define SESSION "s-00112233445566778899aabbccddeeff"

static struct store *store;

static int setup(void **state)
{
	(void)state;
	return store_memory_open(&store);
}

static int teardown(void **state)
{
	(void)state;
	store->ops->close(store);
	return 0;
}

static struct idempotency_name name(const char *principal, const char *host, const char *key)
{
	struct idempotency_name n;
	idempotency_name(principal, host, key, &n);
	return n;
}

static const struct idempotency_record *find(
	struct idempotency *k, const char *principal, const char *host, const char *key)
{
	struct idempotency_name n = name(principal, host, key);
	return idempotency_find(k, &n);
}

static const struct idempotency_record some = {
	.session = SESSION, .job = JOB, .kind = JOB_KIND_CELL, .timeout_us = 5};

static void put(struct idempotency *k, const char *key)
{
	struct err err = {0};
	struct idempotency_name n = name("uid:1", "host", key);
	assert_int_equal(idempotency_put(k, &n, &some, &err), 0);
}

static int count_one(void *user, const char *key)
{
	(void)key;
	++*(unsigned *)user;
	return 0;
}

static unsigned in_store(void)
{
	unsigned n = 0;
	struct err err;
	assert_int_equal(store->ops->each(store, "key/", count_one, &n, &err), 0);
	return n;
}

static void a_key_is_of_principal_and_host(void **state)
{
	(void)state;
	struct idempotency *k = idempotency_new(store);
	put(k, "key");
	assert_string_equal(find(k, "uid:1", "host", "key")->job, JOB);
	assert_null(find(k, "uid:2", "host", "key"));
	assert_null(find(k, "uid:1", "other", "key"));
	assert_null(find(k, "uid:1", "host", "other"));
	/* the three do not run into each other */
	assert_null(find(k, "uid:1", "hostk", "ey"));
	assert_null(find(k, "uid:1h", "ost", "key"));
	assert_int_equal(in_store(), 1);

	struct idempotency_name n = name("uid:1", "host", "key");
	idempotency_remove(k, &n);
	assert_null(find(k, "uid:1", "host", "key"));
	assert_int_equal(in_store(), 0);
	idempotency_free(k);
}

static void the_next_broker_knows(void **state)
{
	(void)state;
	struct idempotency *k = idempotency_new(store);
	put(k, "runs");
	put(k, "done");
	idempotency_free(k);

	k = idempotency_new(store);
	const struct idempotency_record *r = find(k, "uid:1", "host", "runs");
	assert_non_null(r);
	assert_memory_equal(r, &some, sizeof(some));
	const struct exec_status status = {
		.state = JOB_DONE,
		.reason = REASON_SIGNAL,
		.evidence = EVIDENCE_MEASURED,
		.signal = 9,
		.out = {.total = 10},
		.err = {.total = 20},
		.duration_us = 30,
	};
	idempotency_ended(k, JOB, &status);
	idempotency_free(k);

	k = idempotency_new(store);
	r = find(k, "uid:1", "host", "done");
	assert_true(r->ended);
	assert_false(r->has_exit);
	assert_int_equal(r->reason, REASON_SIGNAL);
	assert_int_equal(r->evidence, EVIDENCE_MEASURED);
	assert_int_equal(r->signal, 9);
	assert_int_equal(r->bytes_out, 10);
	assert_int_equal(r->bytes_err, 20);
	assert_int_equal(r->duration_us, 30);
	/* what it ended with first is how it ended */
	idempotency_ended(k, JOB, &(struct exec_status){.reason = REASON_SANDBOX_LOST});
	assert_int_equal(find(k, "uid:1", "host", "done")->reason, REASON_SIGNAL);
	idempotency_free(k);
}

static void old_and_broken_records_go(void **state)
{
	(void)state;
	struct err err;
	struct idempotency *k = idempotency_new(store);
	put(k, "key");
	idempotency_free(k);

	/* the same, written a day ago */
	char key[100], text[400];
	static const char hex[] = "00112233445566778899aabbccddeeff"
				  "00112233445566778899aabbccddeeff";
	(void)snprintf(key, sizeof(key), "key/%s", hex);
	(void)snprintf(text, sizeof(text),
		"{\"version\":1,\"written_us\":%llu,\"arguments\":\"%s\",\"session\":\"" SESSION
		"\",\"job\":\"" JOB "\",\"kind\":1,\"timeout_us\":1}",
		(unsigned long long)(clock_realtime_us() - 24 * 3600 * USEC_PER_SEC), hex);
	assert_int_equal(store->ops->put(store, key, text, strlen(text), &err), 0);
	assert_int_equal(store->ops->put(store, "key/nonsense", "{}", 2, &err), 0);
	assert_int_equal(in_store(), 3);
	k = idempotency_new(store);
	assert_non_null(find(k, "uid:1", "host", "key"));
	assert_int_equal(in_store(), 1);
	idempotency_free(k);
}

static void there_is_a_most(void **state)
{
	(void)state;
	/* no store: 4,096 puts into the sorted list of the memory store take their time */
	struct idempotency *k = idempotency_new(NULL);
	for (unsigned i = 0; i < LIMIT_IDEMPOTENCY_KEYS + 1; i++) {
		char key[16];
		(void)snprintf(key, sizeof(key), "k%u", i);
		put(k, key);
	}
	assert_null(find(k, "uid:1", "host", "k0"));
	assert_non_null(find(k, "uid:1", "host", "k1"));
	idempotency_free(k);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_key_is_of_principal_and_host),
		TEST(the_next_broker_knows),
		TEST(old_and_broken_records_go),
		TEST(there_is_a_most),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
