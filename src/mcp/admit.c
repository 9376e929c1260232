/* admit.c: see admit.h. */
#include "mcp/admit.h"

#include <errno.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "exec/exec.h"
#include "policy/rate.h"

/* What the policy is asked about: the action, of run_code the language. That of a kernel is seen
 * later: call_permit_language(). */
static const char *asked_action(const struct call *c, const json_t *arguments)
{
	if (c->tool != &tool_run_code)
		return c->action;
	const char *language = json_string_value(json_object_get(arguments, "language"));
	return language ? language : exec_languages[0];
}

/* A call too many is not on record, but that there are some is, every now and then. */
static int keep_rate(struct call *c, struct err *err)
{
	const struct policy_rate *rate = policy_rate(c->policy, c->principal);
	uint64_t now = clock_monotonic_us();
	uint64_t wait_us = rates_take(c->server->rates, c->principal, rate, now);
	if (wait_us == 0)
		return 0;
	c->unrecorded = true;
	uint64_t n = rates_refused(c->server->rates, c->principal, now);
	if (n > 0) {
		_cleanup_free_ char *detail =
			xasprintf("%llu call%s refused", (unsigned long long)n, str_plural(n));
		struct audit_event e = {
			.event = "rate.limited",
			.policy_rule = rate->rule,
			.policy_denied = true,
			.detail = detail,
		};
		int r = call_audit(c, &e, err);
		if (r < 0)
			return r;
	}
	return err_set(err, ERR_LIMIT_REACHED, EAGAIN,
		"too many calls: the policy gives %u a minute, %u at once (rule: %.80s). Try again "
		"in %llu s, and do more in each call.",
		rate->per_minute, rate->burst, rate->rule,
		(unsigned long long)(wait_us / USEC_PER_SEC + 1));
}

int admit_call(struct call *c, const json_t *arguments, struct err *err)
{
	struct policy_decision d;
	c->again = c->delivery.replayed &&
		   audit_recorded(c->server->config.audit, "tool.call", c->delivery_text);
	c->action = args_action(&c->tool->args, arguments);
	int r = c->again ? 0 : keep_rate(c, err);
	if (r < 0)
		return r;
	const struct policy_request request = {
		c->principal, c->tool->name, asked_action(c, arguments)};
	policy_decide(c->policy, &request, &d);

	struct audit_event e = {
		.event = "tool.call",
		.policy_rule = d.rule,
		.policy_denied = !d.allowed,
		.with_next = c->tool->starts_job,
	};
	r = call_audit(c, &e, err);
	if (r < 0)
		return r;
	if (!d.allowed)
		return err_set(err, ERR_POLICY_DENIED, 0, "%s", d.reason);

	return args_check(&c->tool->args, arguments, &c->args, err);
}
