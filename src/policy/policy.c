/* policy.c: see policy.h. */
#include "policy/policy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "policy/place.h"
#include "policy/rules.h"
#include "wire/sha256.h"

struct policy {
	struct generation *now;
	/* where it comes from; a pinned one comes from nowhere */
	char *path;
	bool optional;
	char **limits;
	size_t n_limits;
};

const struct policy_tool policy_tools[POLICY_TOOLS] = {
	{"run_code", {"python", "shell"}},
	{"run_command", {NULL}},
	{"job", {"wait", "read", "search", "input", "signal", "list"}},
	{"files", {"list", "stat", "read", "write", "edit", "search", "move", "delete", "mkdir"}},
	{"present_output", {NULL}},
	{"data_dashboard", {NULL}},
	{"dashboard_event", {NULL}},
	{"session", {"open", "info", "list", "interrupt", "restart", "fork", "close"}},
};

/* ---- generations ---- */

struct generation *generation_new(void)
{
	struct generation *g = xcalloc(1, sizeof(*g));
	g->refs = 1;
	g->number = 1;
	g->audit = AUDIT_CONFIG_DEFAULT;
	return g;
}

static struct generation *generation_ref(struct generation *g)
{
	g->refs++;
	return g;
}

void generation_unref(struct generation *g)
{
	if (!g || --g->refs > 0)
		return;
	for (size_t i = 0; i < g->n_pool; i++)
		free(g->pool[i]);
	free(g->pool);
	free(g->path);
	free(g);
}

void *generation_alloc(struct generation *g, size_t n)
{
	void *p = xcalloc(1, MAX(n, 1U));
	g->pool = xrealloc(g->pool, (g->n_pool + 1) * sizeof(*g->pool));
	g->pool[g->n_pool++] = p;
	return p;
}

const char *generation_text(struct generation *g, const char *text)
{
	size_t n = strlen(text) + 1;
	return memcpy(generation_alloc(g, n), text, n);
}

void rules_default(struct rules *r)
{
	*r = (struct rules){
		.limits = limits_default(),
		.images = true,
		.any_tool = true,
		.tools_rule = "default.tools",
		.any_mount = true,
		.mounts_rule = "default.mounts",
		.outputs_allowed = true,
		.outputs = {.max_bytes = LIMIT_PRESENT_BYTES, .executable = true},
		.outputs_rule = "default.outputs",
	};
	for (size_t t = 0; t < POLICY_TOOLS; t++)
		r->allow[t][0] = "default.tools";
}

int policy_tool_find(const char *name, size_t n)
{
	for (int t = 0; t < POLICY_TOOLS; t++)
		if (strlen(policy_tools[t].name) == n && memcmp(policy_tools[t].name, name, n) == 0)
			return t;
	return -1;
}

int policy_action_find(int tool, const char *name)
{
	const char *const *actions = policy_tools[tool].actions;
	for (int a = 0; actions[a]; a++)
		if (strcmp(actions[a], name) == 0)
			return a;
	return -1;
}

/* ---- limits of the command line ---- */

/* One limit on one set of rules. A file's is never widened. */
static void narrow(struct rules *r, const struct limit_key *k, uint64_t v, bool replace)
{
	if (!replace && v >= limits_get(&r->limits, k))
		return;
	limits_put(&r->limits, k, v);
	r->given |= limits_bit(k);
}

static int apply_limits(struct generation *g, const char *const *limits, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct limit_key *k;
		uint64_t v;
		int r = limits_parse(limits[i], &k, &v, err);
		if (r < 0)
			return r;
		narrow(&g->top, k, v, !g->path);
		for (size_t j = 0; j < g->n_principals; j++)
			narrow(&g->principals[j].rules, k, v, false);
	}
	return 0;
}

static int fit_limits(struct generation *g, struct err *err)
{
	int r = limits_fit(&g->top.limits, g->top.given, err);
	for (size_t i = 0; r == 0 && i < g->n_principals; i++) {
		struct rules *rules = &g->principals[i].rules;
		rules->limits.sessions = g->top.limits.sessions;
		r = limits_fit(&rules->limits, rules->given, err);
		if (r < 0)
			(void)err_wrap(err, "principal %.80s", g->principals[i].name);
	}
	return r;
}

/* ---- from a text ---- */

static void hash_text(const char *text, size_t n, char ret_hex[static 65])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t hash[SHA256_SIZE];
	struct sha256 s;
	sha256_init(&s);
	sha256_update(&s, text, n);
	sha256_final(&s, hash);
	for (size_t i = 0; i < sizeof(hash); i++) {
		ret_hex[2 * i] = digits[hash[i] >> 4];
		ret_hex[2 * i + 1] = digits[hash[i] & 15];
	}
	ret_hex[64] = '\0';
}

static int first_problem(const char *name, const struct policy_problems *all, struct err *err)
{
	const struct policy_problem *p = &all->v[0];
	char where[40] = "";
	if (p->line)
		(void)snprintf(where, sizeof(where), ":%u:%u", p->line, p->column);
	return err_set(err, ERR_INVALID_ARGUMENT, EINVAL, "policy file %.180s%s: %.120s%s%s", name,
		where, p->path, p->path[0] ? ": " : "", p->text);
}

static int parse(const struct policy_source *src, const char *name, const char *text, size_t n,
	struct generation **ret, struct policy_problems *problems, struct err *err)
{
	struct generation *g = generation_new();
	struct err misfit = {0};
	g->path = xstrdup(name);
	hash_text(text, n, g->sha256);
	if (policy_parse_text(g, text, n, problems) && fit_limits(g, &misfit) < 0)
		policy_problem(problems, text, n, "limits", "%s", misfit.text);
	int r = problems->n > 0 ? first_problem(name, problems, err)
				: apply_limits(g, src->limits, src->n_limits, err);
	if (r == 0 && src->n_limits > 0) {
		r = fit_limits(g, err);
		if (r < 0)
			(void)err_wrap(err, "with the limits of the command line");
	}
	if (r < 0)
		generation_unref(g);
	else
		*ret = g;
	return r;
}

static int built_in(const struct policy_source *src, struct generation **ret, struct err *err)
{
	struct generation *g = generation_new();
	rules_default(&g->top);
	int r = apply_limits(g, src->limits, src->n_limits, err);
	if (r == 0)
		r = fit_limits(g, err);
	if (r < 0)
		generation_unref(g);
	else
		*ret = g;
	return r;
}

/* ---- the handle ---- */

static struct policy *new_policy(const struct policy_source *src, struct generation *g)
{
	struct policy *p = xcalloc(1, sizeof(*p));
	p->now = g;
	p->path = src->path ? xstrdup(src->path) : NULL;
	p->optional = src->optional;
	p->limits = xcalloc(MAX(src->n_limits, 1U), sizeof(*p->limits));
	for (; p->n_limits < src->n_limits; p->n_limits++)
		p->limits[p->n_limits] = xstrdup(src->limits[p->n_limits]);
	return p;
}

int policy_parse(const struct policy_source *src, const char *name, const char *text, size_t n,
	struct policy **ret, struct policy_problems *ret_problems, struct err *err)
{
	struct policy_problems problems = {0};
	struct generation *g = NULL;
	int r = parse(src, name, text, n, &g, &problems, err);
	if (ret_problems)
		*ret_problems = problems;
	if (r == 0)
		*ret = new_policy(src, g);
	return r;
}

/* The rules of src as they are now. */
static int load(const struct policy_source *src, struct generation **ret,
	struct policy_problems *problems, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t n = 0;
	if (!src->path)
		return built_in(src, ret, err);
	int r = policy_file_read(src->path, &text, &n, err);
	if (r == -ENOENT && src->optional)
		return built_in(src, ret, err);
	if (r < 0) {
		policy_problem(problems, NULL, 0, NULL, "%s", err->text);
		return r;
	}
	return parse(src, src->path, text, n, ret, problems, err);
}

int policy_open(const struct policy_source *src, struct policy **ret,
	struct policy_problems *ret_problems, struct err *err)
{
	struct policy_problems problems = {0};
	struct generation *g = NULL;
	int r = load(src, &g, &problems, err);
	if (ret_problems)
		*ret_problems = problems;
	if (r == 0)
		*ret = new_policy(src, g);
	return r;
}

int policy_reload(struct policy *p, struct err *err)
{
	const struct policy_source src = {
		.path = p->path,
		.optional = p->optional,
		.limits = (const char *const *)p->limits,
		.n_limits = p->n_limits,
	};
	struct policy_problems problems = {0};
	struct generation *g = NULL;
	int r = load(&src, &g, &problems, err);
	if (r < 0)
		return r;
	if (p->now->path && !g->path) { /* a file that is gone is no permission */
		generation_unref(g);
		return err_set(
			err, ERR_NO_SUCH_FILE, ENOENT, "policy file %.200s is gone", p->path);
	}
	if (strcmp(g->sha256, p->now->sha256) == 0) {
		generation_unref(g);
		return 0;
	}
	g->number = p->now->number + 1;
	generation_unref(p->now);
	p->now = g;
	return 1;
}

struct policy *policy_pin(const struct policy *p)
{
	struct policy *pinned = xcalloc(1, sizeof(*pinned));
	pinned->now = generation_ref(p->now);
	return pinned;
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	generation_unref(p->now);
	for (size_t i = 0; i < p->n_limits; i++)
		free(p->limits[i]);
	free(p->limits);
	free(p->path);
	free(p);
}

const struct generation *policy_rules(const struct policy *p)
{
	return p->now;
}

const char *policy_source_path(const struct policy *p)
{
	return p->path;
}

const char *policy_path(const struct policy *p)
{
	return p->now->path;
}

const char *policy_sha256(const struct policy *p)
{
	return p->now->sha256;
}

uint64_t policy_generation(const struct policy *p)
{
	return p->now->number;
}

/* ---- decisions ---- */

/* NULL: the file names others only. */
static const struct rules *rules_for(const struct policy *p, const char *principal)
{
	const struct generation *g = p->now;
	if (!principal || !g->only_named)
		return &g->top;
	for (size_t i = 0; i < g->n_principals; i++)
		if (strcmp(g->principals[i].name, principal) == 0)
			return &g->principals[i].rules;
	return g->others;
}

/* For settings: who may do nothing has the limits of all. */
static const struct rules *settings_for(const struct policy *p, const char *principal)
{
	const struct rules *r = rules_for(p, principal);
	return r ? r : &p->now->top;
}

PRINTF_LIKE(3, 4)
static void deny(struct policy_decision *d, const char *rule, const char *fmt, ...)
{
	va_list ap;
	*d = (struct policy_decision){.rule = rule};
	va_start(ap, fmt);
	(void)vsnprintf(d->reason, sizeof(d->reason), fmt, ap);
	va_end(ap);
	str_make_printable(d->reason); /* it names what was asked for */
}

static void deny_principal(struct policy_decision *d, const char *principal)
{
	deny(d, "principals",
		"The policy allows nothing to %.80s (rule: principals). Whoever runs scb can name "
		"it there.",
		principal);
}

void policy_decide(
	const struct policy *p, const struct policy_request *req, struct policy_decision *ret)
{
	const struct rules *r = rules_for(p, req->principal);
	if (!r) {
		deny_principal(ret, req->principal);
		return;
	}
	int tool = policy_tool_find(req->tool, strlen(req->tool));
	const char *rule = tool >= 0 ? r->allow[tool][0] : r->any_tool ? r->tools_rule : NULL;
	if (tool >= 0 && !rule && req->action) {
		int action = policy_action_find(tool, req->action);
		rule = action >= 0 ? r->allow[tool][action + 1] : NULL;
	}
	if (rule && strcmp(req->tool, "present_output") == 0 && !r->outputs_allowed) {
		policy_decide_outputs(p, req->principal, ret);
		return;
	}
	if (rule) {
		*ret = (struct policy_decision){.allowed = true, .rule = rule};
		return;
	}
	char what[100];
	(void)snprintf(what, sizeof(what), "%.40s%s%.40s", req->tool, req->action ? "." : "",
		req->action ? req->action : "");
	deny(ret, r->tools_rule,
		"The policy does not allow %s (rule: no entry of %.80s names it). Do without it; "
		"whoever runs scb can add \"%s\" there.",
		what, r->tools_rule, what);
}

/* Is path dir or below it, by whole components? */
static bool below(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	if (strcmp(dir, "/") == 0)
		return path[0] == '/';
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

void policy_decide_mount(const struct policy *p, const char *principal, const char *name,
	const char *source, struct policy_decision *ret)
{
	const struct rules *r = rules_for(p, principal);
	if (!r) {
		deny_principal(ret, principal);
		return;
	}
	*ret = (struct policy_decision){.allowed = true, .rule = r->mounts_rule};
	if (r->any_mount)
		return;
	for (size_t i = 0; i < r->n_mounts; i++) {
		const struct mount_rule *m = &r->mounts[i];
		if (!below(source, m->path) || (m->name && strcmp(m->name, name) != 0))
			continue;
		ret->rule = m->rule;
		return;
	}
	deny(ret, r->mounts_rule,
		"The policy does not allow the mount %.64s=%.100s (rule: no entry of %.80s has "
		"that "
		"folder). scb is to be started without it, or whoever runs scb can add it there.",
		name, source, r->mounts_rule);
}

void policy_decide_outputs(
	const struct policy *p, const char *principal, struct policy_decision *ret)
{
	const struct rules *r = rules_for(p, principal);
	if (!r)
		deny_principal(ret, principal);
	else if (r->outputs_allowed)
		*ret = (struct policy_decision){.allowed = true, .rule = r->outputs_rule};
	else
		deny(ret, r->outputs_rule,
			"The policy lets no file out (rule: %.80s is not true). Give the result as "
			"text; whoever runs scb can allow it there.",
			r->outputs_rule);
}

bool policy_rule_place(
	const struct policy *p, const char *rule, unsigned *ret_line, unsigned *ret_column)
{
	_cleanup_free_ char *text = NULL;
	struct place place;
	struct err err;
	size_t n;
	if (!p->now->path || policy_file_read(p->now->path, &text, &n, &err) < 0 ||
		!place_find(text, n, rule, &place))
		return false;
	*ret_line = place.line;
	*ret_column = place.column;
	return true;
}

/* ---- settings ---- */

const struct policy_limits *policy_limits(const struct policy *p, const char *principal)
{
	return &settings_for(p, principal)->limits;
}

const struct policy_outputs *policy_outputs(const struct policy *p, const char *principal)
{
	return &settings_for(p, principal)->outputs;
}

const struct policy_rate *policy_rate(const struct policy *p, const char *principal)
{
	return &settings_for(p, principal)->rate;
}

bool policy_images(const struct policy *p, const char *principal)
{
	return settings_for(p, principal)->images;
}

size_t policy_secrets(
	const struct policy *p, const char *principal, const struct policy_secret **ret)
{
	const struct rules *r = rules_for(p, principal);
	*ret = r ? r->secrets : NULL;
	return r ? r->n_secrets : 0;
}

const struct policy_require *policy_require(const struct policy *p)
{
	return &p->now->require;
}

const struct audit_config *policy_audit(const struct policy *p)
{
	return &p->now->audit;
}

/* ---- a command line's limits ---- */

int policy_check_limit(const char *assignment, struct err *err)
{
	const struct limit_key *k;
	uint64_t v;
	return limits_parse(assignment, &k, &v, err);
}

static bool same_limits(const struct policy_limits *a, const struct policy_limits *b)
{
	for (size_t i = 0; i < limit_keys_n; i++)
		if (limits_get(a, &limit_keys[i]) != limits_get(b, &limit_keys[i]))
			return false;
	return true;
}

bool policy_holds(const struct policy *p, const char *assignment)
{
	const struct generation *g = p->now;
	const struct limit_key *k;
	struct err err;
	uint64_t v;
	if (limits_parse(assignment, &k, &v, &err) < 0)
		return false;
	if (g->path) {
		bool holds = limits_get(&g->top.limits, k) <= v;
		for (size_t i = 0; i < g->n_principals; i++)
			holds &= limits_get(&g->principals[i].rules.limits, k) <= v;
		return holds;
	}
	struct policy_limits l = g->top.limits;
	limits_put(&l, k, v);
	return limits_fit(&l, g->top.given | limits_bit(k), &err) == 0 &&
	       same_limits(&l, &g->top.limits);
}

struct policy *policy_new_default(void)
{
	static const struct policy_source nowhere = {0};
	struct generation *g = generation_new();
	rules_default(&g->top);
	return new_policy(&nowhere, g);
}

int policy_set_limit(struct policy *p, const char *assignment, struct err *err)
{
	CHECK(!p->now->path);
	return apply_limits(p->now, &assignment, 1, err);
}

int policy_check_limits(struct policy *p, struct err *err)
{
	return fit_limits(p->now, err);
}
