/* policy.c: what it costs to ask the policy, as a call does: a hold on the rules, the rate, the
 * tool and its action, a mount, the limits; one "NAME NANOSECONDS" a line. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "policy/policy.h"
#include "policy/rate.h"

#define ROUNDS     200000
#define PRINCIPALS 20

static uint64_t now_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static struct policy *of_file(void)
{
	static const struct policy_source nowhere = {0};
	_cleanup_buf_ struct buf b = BUF_INIT(MIB);
	struct policy *p;
	struct err err;
	CHECK(buf_printf(&b,
		      "{\"version\":1,\"tools\":{\"allow\":[\"run_command\",\"files\",\"job\","
		      "\"session\",\"run_code.python\"],\"images\":true},\"mounts\":[{\"path\":"
		      "\"/srv/a\"},{\"path\":\"/srv/b\"}],\"rate\":{\"callsPerMinute\":1000000},"
		      "\"principals\":{") == 0);
	for (int i = 0; i < PRINCIPALS; i++)
		CHECK(buf_printf(&b, "%s\"uid:%d\":{}", i ? "," : "", 1000 + i) == 0);
	CHECK(buf_append_str(&b, "}}") == 0);
	CHECK(policy_parse(&nowhere, "bench", (const char *)b.data, b.len, &p, NULL, &err) == 0);
	return p;
}

/* One call of the last principal. */
static bool ask(struct policy *policy, struct rates *rates)
{
	struct policy_decision tool, mount;
	struct policy *p = policy_pin(policy);
	const char *who = "uid:1019";
	uint64_t wait = rates_take(rates, who, policy_rate(p, who), clock_monotonic_us());
	policy_decide(p, &(struct policy_request){who, "run_code", "python"}, &tool);
	policy_decide_mount(p, who, "data", "/srv/b/data", &mount);
	bool good = wait == 0 && tool.allowed && mount.allowed && policy_images(p, who) &&
		    policy_limits(p, who)->timeout_s > 0;
	policy_free(p);
	return good;
}

static void measure(const char *name, struct policy *p)
{
	struct rates *rates = rates_new();
	uint64_t best = UINT64_MAX;
	for (int turn = 0; turn < 5; turn++) {
		uint64_t begin = now_ns();
		for (int i = 0; i < ROUNDS; i++)
			CHECK(ask(p, rates));
		best = MIN(best, now_ns() - begin);
	}
	printf("%s %.1f\n", name, (double)best / ROUNDS);
	rates_free(rates);
	policy_free(p);
}

int main(void)
{
	measure("built_in", policy_new_default());
	measure("file", of_file());
	return 0;
}
