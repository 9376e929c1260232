/* policy.c: `scb policy show|check|explain`: the policy that a broker started now would have. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/settings.h"
#include "policy/policy.h"

struct command {
	struct settings settings;
	const char *verb, *word, *principal;
};

static int set_principal(void *user, const char *value, struct err *err)
{
	(void)err;
	((struct command *)user)->principal = value;
	return 0;
}

static int set_word(void *user, const char *value, struct err *err)
{
	struct command *c = user;
	return options_word(value, (const char **[]){&c->verb, &c->word}, 2, err);
}

static const struct option_def own_options[] = {{"--principal", "P", set_principal}, {0}};

static int flushed(int status)
{
	return fflush(stdout) != 0 ? err_info(ERR_IO)->exit_status : status;
}

/* ---- show ---- */

static int show(struct command *c, struct err *err)
{
	struct policy *p = NULL;
	if (c->word)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"`scb policy show` takes no argument; --policy FILE names another file");
	int r = settings_policy(&c->settings, &p, NULL, err);
	if (r < 0)
		return r;
	char *text = policy_text(p);
	printf("%s\n", text);
	free(text);
	policy_free(p);
	return 0;
}

/* ---- check ---- */

/* 0, or 1 where something is wrong. */
static int check(struct command *c, struct err *err)
{
	struct policy_problems problems;
	struct policy *p = NULL;
	if (c->word) {
		int r = c->settings.policy
				? err_set(err, ERR_INVALID_ARGUMENT, 0, "two files are named")
				: settings_set_policy(&c->settings, c->word, err);
		if (r < 0)
			return r;
	}
	if (settings_policy(&c->settings, &p, &problems, err) == 0) {
		const char *path = policy_path(p);
		printf("%s: good\n", path ? path : "the built-in policy");
		policy_free(p);
		return 0;
	}
	if (problems.n == 0)
		return -EINVAL; /* of the command line's limits */
	const char *name = c->settings.policy ? c->settings.policy : "policy";
	for (size_t i = 0; i < problems.n; i++) {
		const struct policy_problem *one = &problems.v[i];
		if (one->line)
			printf("%s:%u:%u: ", name, one->line, one->column);
		printf("%s%s%s\n", one->path, one->path[0] ? ": " : "", one->text);
	}
	return 1;
}

/* ---- explain ---- */

static void print_decision(
	const struct policy *p, const char *what, const struct policy_decision *d)
{
	unsigned line, column;
	printf("%s: %s\n  rule: %s", what, d->allowed ? "allowed" : "denied", d->rule);
	if (policy_rule_place(p, d->rule, &line, &column))
		printf(" (%s:%u:%u)", policy_path(p), line, column);
	else if (policy_path(p))
		printf(" (%s has no such key)", policy_path(p));
	printf("\n");
	if (!d->allowed)
		printf("  %s\n", d->reason);
}

/* 0, or 1 where it is denied. */
static int explain(struct command *c, struct err *err)
{
	char principal[32], tool[64];
	struct policy_decision d;
	struct policy *p = NULL;
	if (!c->word)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"say `scb policy explain TOOL` or TOOL.ACTION, say run_code.python or "
			"files.write");
	int r = settings_policy(&c->settings, &p, NULL, err);
	if (r < 0)
		return r;
	(void)snprintf(principal, sizeof(principal), "uid:%u", getuid());
	const char *who = c->principal ? c->principal : principal, *dot = strchr(c->word, '.');
	(void)snprintf(tool, sizeof(tool), "%.*s", dot ? (int)MIN(dot - c->word, 63) : 63, c->word);
	const struct policy_request request = {who, tool, dot ? dot + 1 : NULL};
	policy_decide(p, &request, &d);
	printf("principal %s\n", who);
	print_decision(p, c->word, &d);
	bool all = d.allowed;
	for (size_t i = 0; i < c->settings.n_mounts; i++) {
		const struct sandbox_mount *m = &c->settings.mounts[i];
		_cleanup_free_ char *text = xasprintf("mount %s=%s", m->name, m->source);
		policy_decide_mount(p, who, m->name, m->source, &d);
		print_decision(p, text, &d);
		all &= d.allowed;
	}
	policy_free(p);
	return all ? 0 : 1;
}

int cli_policy(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(struct command *c, struct err *err);
	} verbs[] = {{"show", show}, {"check", check}, {"explain", explain}};
	struct command c = {0};
	struct err err = {0};
	const struct option_table tables[] = {
		{own_options, &c}, {settings_options, &c.settings}, {0}};
	if (options_want_help(argc, argv, tables))
		return cli_help();
	settings_init(&c.settings);
	int r = options_parse(argc, argv, tables, set_word, &err);
	if (r == 0) {
		r = err_set(&err, ERR_INVALID_ARGUMENT, 0,
			"say `scb policy show`, `scb policy check` or `scb policy explain`");
		for (size_t i = 0; c.verb && i < ARRAY_SIZE(verbs); i++)
			if (strcmp(c.verb, verbs[i].name) == 0)
				r = verbs[i].run(&c, &err);
	}
	settings_done(&c.settings);
	if (r < 0)
		return cli_failed(&err);
	/* check and explain: as grep does */
	return flushed(r);
}
