/* test-permit.c: a policy's `require` against what providers say that holds a sandbox. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "policy/policy.h"
#include "provider/provider.h"
#include "session/session.h"

static const struct capabilities strong = {
	.isolation_level = "container",
	.memory = "cgroup2",
	.pids = "rlimit",
	.cpu = "cgroup1",
	.disk = "tmpfs",
	.inodes = "memory",
	.kill_tree = "cgroup.kill",
	.egress = "none: no network device",
	.agent_apart = "user namespace",
	.seccomp = "allow-list",
	.read_only_root = "yes",
	.host_uid = "dedicated",
};
static const struct capabilities weak = {
	.isolation_level = "subprocess",
	.memory = CAPABILITY_RLIMIT_MEMORY,
	.pids = "none",
	.cpu = "none",
	.disk = "none",
	.inodes = "none",
	.kill_tree = "subreaper",
	.egress = "not enforced",
	.agent_apart = "not enforced",
	.seccomp = "not enforced",
	.read_only_root = "not enforced",
	.host_uid = "own",
};

/* NULL: permitted; else the rule that says no. */
static const char *rule(const char *require, const struct capabilities *k)
{
	static const struct policy_source nowhere = {0};
	static struct policy *p;
	static struct policy_decision d;
	char text[300];
	struct err err;
	policy_free(p); /* the rule is borrowed from it */
	p = NULL;
	int n = snprintf(text, sizeof(text), "{\"version\":1,\"require\":%s}", require);
	assert_int_equal(policy_parse(&nowhere, "p", text, (size_t)n, &p, NULL, &err), 0);
	bool permitted = session_permit_held(p, &provider_local, k, &d);
	assert_true(permitted || (!d.allowed && strstr(d.reason, "scb doctor")));
	return permitted ? NULL : d.rule;
}

static void levels_are_ordered(void **state)
{
	(void)state;
	static const char *const names[] = {
		"subprocess", "container", "container+gvisor", "microvm"};
	for (size_t has = 0; has < 4; has++)
		for (size_t wants = 0; wants < 4; wants++) {
			char text[80];
			struct capabilities k = strong;
			k.isolation_level = names[has];
			(void)snprintf(
				text, sizeof(text), "{\"isolationLevel\":\"%s\"}", names[wants]);
			const char *r = rule(text, &k);
			if (has >= wants)
				assert_null(r);
			else
				assert_string_equal(r, "require.isolationLevel");
		}
	struct capabilities unknown = strong;
	unknown.isolation_level = "perfect";
	assert_non_null(rule("{\"isolationLevel\":\"container\"}", &unknown));
}

static void each_must_be_enforced(void **state)
{
	(void)state;
	static const char *const names[] = {"memory", "pids", "cpu", "disk", "inodes", "egress",
		"agentApart", "seccomp", "readOnlyRoot", "hostUid"};
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char text[80];
		(void)snprintf(
			text, sizeof(text), "{\"enforced\":[\"killTree\",\"%s\"]}", names[i]);
		if (rule(text, &strong))
			fail_msg("%s is enforced", names[i]);
		const char *r = rule(text, &weak);
		if (!r || strcmp(r, "require.enforced") != 0)
			fail_msg("%s is not enforced", names[i]);
	}
	assert_null(rule("{\"enforced\":[\"killTree\"]}", &weak));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_are_ordered),
		cmocka_unit_test(each_must_be_enforced),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
