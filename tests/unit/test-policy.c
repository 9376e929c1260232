/* test-policy.c: limits by assignment, and sizes that must fit together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/limits.h"
#include "policy/policy.h"

static void defaults_fit(void **state)
{
	(void)state;
	struct policy *p = policy_new_default();
	struct err err = {0};
	assert_int_equal(policy_check_limits(p, &err), 0);
	assert_int_equal(policy_limits(p, NULL)->workspace, DEFAULT_WORKSPACE);
	assert_int_equal(policy_limits(p, NULL)->max_wait_s, LIMIT_WAIT_S);
	policy_free(p);
}

static void unset_sizes_scale_down(void **state)
{
	(void)state;
	struct policy *p = policy_new_default();
	struct err err = {0};
	assert_int_equal(policy_set_limit(p, "memory=256M", &err), 0);
	assert_int_equal(policy_check_limits(p, &err), 0);
	const struct policy_limits *l = policy_limits(p, NULL);
	assert_true(l->workspace + l->tmp + l->shm + 64 * MIB <= 256 * MIB);
	assert_true(l->workspace > l->tmp && l->tmp > l->shm);

	/* more memory does not make them larger than their defaults */
	assert_int_equal(policy_set_limit(p, "memory=8G", &err), 0);
	assert_int_equal(policy_check_limits(p, &err), 0);
	assert_int_equal(l->workspace, DEFAULT_WORKSPACE);
	policy_free(p);
}

static void set_sizes_are_kept_or_refused(void **state)
{
	(void)state;
	struct policy *p = policy_new_default();
	struct err err = {0};
	assert_int_equal(policy_set_limit(p, "memory=512M", &err), 0);
	assert_int_equal(policy_set_limit(p, "workspace=400M", &err), 0);
	assert_int_equal(policy_check_limits(p, &err), 0);
	const struct policy_limits *l = policy_limits(p, NULL);
	assert_int_equal(l->workspace, 400 * MIB);
	assert_true(l->workspace + l->tmp + l->shm + 64 * MIB <= 512 * MIB);

	assert_int_equal(policy_set_limit(p, "workspace=600M", &err), 0);
	assert_true(policy_check_limits(p, &err) < 0);
	assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
	assert_non_null(strstr(err.text, "memory"));
	policy_free(p);
}

static void bad_assignments_say_what_is_accepted(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "memory"},
		{"memory", "NAME=VALUE"},
		{"memory=", "512M"},
		{"memory=-1", "512M"},
		{"memory=12x", "512M"},
		{"memory=1K", "128"},
		{"pids=1", "16"},
		{"pids=99999999999999999999", "32768"},
		{"timeout_s=4000", "3600"},
		{"nonsense=1", "pids"},
	};
	struct policy *p = policy_new_default();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = {0};
		assert_true(policy_set_limit(p, cases[i].text, &err) < 0);
		assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
		if (!strstr(err.text, cases[i].says))
			fail_msg("\"%s\" answers \"%s\"", cases[i].text, err.text);
	}
	assert_int_equal(policy_limits(p, NULL)->memory, DEFAULT_MEMORY);
	policy_free(p);
}

static void default_policy_allows(void **state)
{
	(void)state;
	struct policy *p = policy_new_default();
	struct policy_decision d;
	policy_decide(p, &(struct policy_request){"uid:1", "run_code", NULL}, &d);
	assert_true(d.allowed);
	assert_string_equal(d.rule, "default.tools");
	policy_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_fit),
		cmocka_unit_test(unset_sizes_scale_down),
		cmocka_unit_test(set_sizes_are_kept_or_refused),
		cmocka_unit_test(bad_assignments_say_what_is_accepted),
		cmocka_unit_test(default_policy_allows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
