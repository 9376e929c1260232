/* permit.c: what the policy says of a sandbox: its mounts, and what holds it. */
#include "session/session.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "provider/provider.h"

static const char *const levels[] = {"subprocess", "container", "container+gvisor", "microvm"};

static size_t level_of(const char *name)
{
	size_t i = 0;
	while (i < ARRAY_SIZE(levels) && strcmp(levels[i], name) != 0)
		i++;
	return i < ARRAY_SIZE(levels) ? i : 0; /* what is not known is no boundary */
}

static const char *held_by(const struct capabilities *k, const char *what)
{
	const struct {
		const char *name, *value;
	} all[] = {
		{"memory", k->memory},
		{"pids", k->pids},
		{"cpu", k->cpu},
		{"disk", k->disk},
		{"inodes", k->inodes},
		{"killTree", k->kill_tree},
		{"egress", k->egress},
		{"agentApart", k->agent_apart},
		{"seccomp", k->seccomp},
		{"readOnlyRoot", k->read_only_root},
		{"hostUid", k->host_uid},
	};
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strcmp(all[i].name, what) == 0)
			return all[i].value;
	return "none";
}

/* "none" with a reason (of egress) is the strongest there is. */
static bool enforced(const char *what, const char *by)
{
	if (strcmp(what, "hostUid") == 0)
		return strcmp(by, "dedicated") == 0;
	return strcmp(by, "none") != 0 && strcmp(by, "not enforced") != 0 &&
	       strcmp(by, CAPABILITY_RLIMIT_MEMORY) != 0;
}

PRINTF_LIKE(3, 4)
static bool no(struct policy_decision *d, const char *rule, const char *fmt, ...)
{
	va_list ap;
	*d = (struct policy_decision){.rule = rule};
	va_start(ap, fmt);
	(void)vsnprintf(d->reason, sizeof(d->reason), fmt, ap);
	va_end(ap);
	return false;
}

bool session_permit_held(const struct policy *p, const struct provider *provider,
	const struct capabilities *k, struct policy_decision *ret)
{
	const struct policy_require *r = policy_require(p);
	if (r->isolation_level && level_of(k->isolation_level) < level_of(r->isolation_level))
		return no(ret, "require.isolationLevel",
			"The policy requires isolation %s, and provider %s gives %s (rule: "
			"require.isolationLevel). Another provider is needed; `scb doctor` tells "
			"which there are.",
			r->isolation_level, provider->name, k->isolation_level);
	for (size_t i = 0; r->enforced && r->enforced[i]; i++) {
		const char *by = held_by(k, r->enforced[i]);
		if (!enforced(r->enforced[i], by))
			return no(ret, "require.enforced",
				"The policy requires that %s is enforced, and with provider %s it "
				"is: %s (rule: require.enforced). `scb doctor` tells what is "
				"needed "
				"for it.",
				r->enforced[i], provider->name, by);
	}
	return true;
}

bool session_permit(const struct policy *p, const char *principal,
	const struct session_profile *profile, const struct capabilities *k,
	struct policy_decision *ret)
{
	for (size_t i = 0; i < profile->n_mounts; i++) {
		policy_decide_mount(
			p, principal, profile->mounts[i].name, profile->mounts[i].source, ret);
		if (!ret->allowed)
			return false;
	}
	return session_permit_held(p, profile->provider, k, ret);
}
