/* sections.c: the keys of a policy file. Each kind of object has a table of them: what is not in it
 * is a problem, and docs/policy.schema.json has the same ones (a test compares them). */
#include "policy/parse.h"

#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "secret/value.h"

#define VERSION 1

const char *const policy_levels[] = {
	"subprocess", "container", "container+gvisor", "microvm", NULL};
const char *const policy_enforced[POLICY_REQUIRE_MAX + 1] = {"memory", "pids", "cpu", "disk",
	"inodes", "killTree", "egress", "agentApart", "seccomp", "readOnlyRoot", "hostUid", NULL};

/* ---- tools ---- */

static void allow_one(struct parse *p, const json_t *v, struct rules *r)
{
	const char *text = parse_text(p, v);
	if (!text)
		return;
	size_t n = strcspn(text, ".");
	int tool = policy_tool_find(text, n), action = -1;
	if (tool >= 0 && text[n] == '.')
		action = policy_action_find(tool, text + n + 1);
	if (tool < 0 || (text[n] == '.' && action < 0)) {
		_cleanup_buf_ struct buf all = BUF_INIT(1000);
		for (int t = 0; tool < 0 && t < POLICY_TOOLS; t++)
			CHECK(buf_printf(&all, "%s%s", t ? ", " : "", policy_tools[t].name) == 0);
		for (int a = 0; tool >= 0 && policy_tools[tool].actions[a]; a++)
			CHECK(buf_printf(&all, "%s%s", a ? ", " : "",
				      policy_tools[tool].actions[a]) == 0);
		parse_problem(p, "\"%.80s\" is no %s; there %s%.*s", text,
			tool < 0 ? "tool" : "action of that tool", all.len ? "are " : "is none",
			(int)all.len, all.data ? (const char *)all.data : "");
		return;
	}
	const char **slot = &r->allow[tool][action + 1];
	if (!*slot) /* the first that allows it is its rule */
		*slot = parse_rule(p);
}

static void parse_allow(struct parse *p, const json_t *v, struct rules *r)
{
	r->tools_rule = parse_rule(p);
	if (!parse_array(p, v, 0, 200))
		return;
	for (size_t i = 0; i < json_array_size(v); i++) {
		size_t before = parse_enter_index(p, i);
		allow_one(p, json_array_get(v, i), r);
		parse_leave(p, before);
	}
}

static void parse_images(struct parse *p, const json_t *v, struct rules *r)
{
	(void)parse_bool(p, v, &r->images);
}

static const char *const tools_names[] = {"allow", "images", NULL};
static void parse_tools(struct parse *p, const json_t *v, struct rules *r)
{
	static const struct parse_key keys[] = {{parse_allow, false}, {parse_images, false}};
	memset(r->allow, 0, sizeof(r->allow));
	r->any_tool = false;
	r->images = false;
	r->tools_rule = parse_rule(p);
	parse_object(p, v, tools_names, keys, r);
}

/* ---- limits ---- */

static const char *limits_names[sizeof(limit_set) * 8],
	*principal_limits_names[sizeof(limit_set) * 8];

/* The names that a file takes come from the one table of limits. */
static void name_limits(void)
{
	size_t n = 0, n_principal = 0;
	for (size_t i = 0; i < limit_keys_n; i++) {
		if (!limit_keys[i].in_file)
			continue;
		limits_names[n++] = limit_keys[i].name;
		if (!limit_keys[i].in_broker)
			principal_limits_names[n_principal++] = limit_keys[i].name;
	}
}

static void parse_limits_of(
	struct parse *p, const json_t *v, const char *const *names, struct rules *r)
{
	const char *name;
	json_t *m;
	if (!parse_is(p, v, json_is_object(v), "an object"))
		return;
	json_object_foreach ((json_t *)v, name, m) {
		if (!parse_is_name(names, name)) {
			parse_unknown_key(p, name, names);
			continue;
		}
		const struct limit_key *k = limits_find(name, strlen(name));
		uint64_t value;
		size_t before = parse_enter_key(p, name);
		if (k->size ? parse_size(p, m, k->min, k->max, &value)
			    : parse_integer(p, m, k->min, k->max, &value)) {
			limits_put(&r->limits, k, value);
			r->given |= limits_bit(k);
		}
		parse_leave(p, before);
	}
}

static void parse_limits(struct parse *p, const json_t *v, struct rules *r)
{
	parse_limits_of(p, v, limits_names, r);
}

static void parse_principal_limits(struct parse *p, const json_t *v, struct rules *r)
{
	parse_limits_of(p, v, principal_limits_names, r);
}

/* ---- mounts ---- */

static const char *const mount_names[] = {"path", "name", NULL};

static void parse_mount(struct parse *p, const json_t *v, struct rules *r)
{
	struct mount_rule m = {.rule = parse_rule(p)};
	static const struct parse_key keys[] = {{NULL, true}, {NULL, false}};
	parse_object(p, v, mount_names, keys, r);
	const json_t *path = json_object_get(v, "path"), *name = json_object_get(v, "name");
	size_t before = parse_enter_key(p, "path");
	const char *text = path ? parse_text(p, path) : NULL;
	if (text && !parse_is_path(text))
		parse_problem(p,
			"\"%.100s\" is not a real path: absolute, without \".\", \"..\" and "
			"doubled or last \"/\"",
			text);
	if (text)
		m.path = generation_text(p->g, text);
	parse_leave(p, before);
	before = parse_enter_key(p, "name");
	text = name ? parse_text(p, name) : NULL;
	if (text && !secret_name_valid(text))
		parse_problem(p, "a name has up to 64 letters, digits, \"_\", \"-\" and \".\"");
	if (text)
		m.name = generation_text(p->g, text);
	parse_leave(p, before);
	if (m.path)
		r->mounts[r->n_mounts++] = m;
}

static void parse_mounts(struct parse *p, const json_t *v, struct rules *r)
{
	r->any_mount = false;
	r->mounts_rule = parse_rule(p);
	r->n_mounts = 0;
	if (!parse_array(p, v, 0, POLICY_MOUNTS_MAX))
		return;
	r->mounts = generation_alloc(p->g, json_array_size(v) * sizeof(*r->mounts));
	for (size_t i = 0; i < json_array_size(v); i++) {
		size_t before = parse_enter_index(p, i);
		parse_mount(p, json_array_get(v, i), r);
		parse_leave(p, before);
	}
}

/* ---- outputs ---- */

static void parse_outputs_allow(struct parse *p, const json_t *v, struct rules *r)
{
	r->outputs_rule = parse_rule(p);
	(void)parse_bool(p, v, &r->outputs_allowed);
}

static void parse_outputs_quota(struct parse *p, const json_t *v, struct rules *r)
{
	const struct limit_key *k = limits_find("outputs", strlen("outputs"));
	(void)parse_size(p, v, k->min, k->max, &r->limits.outputs_bytes);
}

static void parse_outputs_max(struct parse *p, const json_t *v, struct rules *r)
{
	(void)parse_size(p, v, 1, LIMIT_PRESENT_BYTES, &r->outputs.max_bytes);
}

static void parse_outputs_executable(struct parse *p, const json_t *v, struct rules *r)
{
	(void)parse_bool(p, v, &r->outputs.executable);
}

static const char *const outputs_names[] = {"allow", "quota", "maxBytes", "executable", NULL};
static void parse_outputs(struct parse *p, const json_t *v, struct rules *r)
{
	static const struct parse_key keys[] = {{parse_outputs_allow, false},
		{parse_outputs_quota, false}, {parse_outputs_max, false},
		{parse_outputs_executable, false}};
	r->outputs_allowed = r->outputs.executable = false;
	r->outputs_rule = parse_rule(p);
	parse_object(p, v, outputs_names, keys, r);
}

/* ---- secrets ---- */

/* The secret that is being parsed is the last one of r. */
static struct policy_secret *last_secret(struct rules *r)
{
	return &r->secrets[r->n_secrets - 1];
}

static void parse_secret_source(struct parse *p, const json_t *v, struct rules *r)
{
	struct policy_secret *s = last_secret(r);
	const char *text = parse_text(p, v);
	if (!text)
		return;
	if (str_starts(text, "env:") && text[4] && !strchr(text, '=')) {
		s->source = "env";
		s->value = generation_text(p->g, text + 4);
	} else if (str_starts(text, "file:") && parse_is_path(text + 5) && text[6]) {
		s->source = "file";
		s->value = generation_text(p->g, text + 5);
	} else {
		parse_problem(p,
			"\"%.60s\" is neither \"env:VARIABLE\" nor \"file:/absolute/path\"", text);
	}
}

static void parse_secret_exec(struct parse *p, const json_t *v, struct rules *r)
{
	struct policy_secret *s = last_secret(r);
	if (!parse_array(p, v, 1, LIMIT_SECRET_EXEC_ARGS))
		return;
	size_t n = json_array_size(v);
	const char **argv = generation_alloc(p->g, (n + 1) * sizeof(*argv));
	for (size_t i = 0; i < n; i++) {
		size_t before = parse_enter_index(p, i);
		const char *text = parse_text(p, json_array_get(v, i));
		if (text && i == 0 && !parse_is_path(text))
			parse_problem(p, "the program is named by its absolute path");
		argv[i] = generation_text(p->g, text ? text : "");
		parse_leave(p, before);
	}
	if (s->source)
		parse_problem(p, "a secret has one origin: \"source\" or \"exec\"");
	s->source = "exec";
	s->value = NULL;
	s->argv = argv;
}

static void parse_secret_exposure(struct parse *p, const json_t *v, struct rules *r)
{
	static const char *const names[] = {"placeholder", "session", NULL};
	int i = parse_choice(p, v, names);
	if (i >= 0)
		last_secret(r)->exposure = i ? POLICY_SESSION : POLICY_PLACEHOLDER;
}

static void parse_secret_variable(struct parse *p, const json_t *v, struct rules *r)
{
	const char *text = parse_text(p, v);
	if (text && !secret_variable_valid(text))
		parse_problem(p,
			"\"%.64s\" cannot be the variable of a secret: letters, digits and "
			"\"_\", and none that a loader, shell or interpreter acts on",
			text);
	if (text)
		last_secret(r)->variable = generation_text(p->g, text);
}

static const char *const secret_names[] = {"source", "exec", "exposure", "variable", NULL};
static void parse_secret(struct parse *p, const json_t *v, struct rules *r)
{
	static const struct parse_key keys[] = {{parse_secret_source, false},
		{parse_secret_exec, false}, {parse_secret_exposure, false},
		{parse_secret_variable, false}};
	struct policy_secret *s = last_secret(r);
	size_t before = p->problems->n;
	parse_object(p, v, secret_names, keys, r);
	if (p->problems->n > before)
		return;
	if (!s->source)
		parse_problem(p, "the key \"source\" (or \"exec\") is missing");
	if (!s->variable && !secret_variable_valid(s->name))
		parse_problem(p, "its name cannot be a variable: \"variable\" is needed");
	if (!s->variable)
		s->variable = s->name;
	for (const struct policy_secret *o = r->secrets; o < s; o++)
		if (strcmp(o->variable, s->variable) == 0)
			parse_problem(
				p, "the variable %.64s is that of another secret", s->variable);
}

static void parse_secrets(struct parse *p, const json_t *v, struct rules *r)
{
	const char *name;
	json_t *m;
	r->n_secrets = 0;
	if (!parse_is(p, v, json_is_object(v), "an object"))
		return;
	if (json_object_size(v) > LIMIT_SECRETS) {
		parse_problem(p, "at most %d secrets are accepted", LIMIT_SECRETS);
		return;
	}
	r->secrets = generation_alloc(p->g, json_object_size(v) * sizeof(*r->secrets));
	json_object_foreach ((json_t *)v, name, m) {
		size_t before = parse_enter_key(p, name);
		if (!secret_name_valid(name))
			parse_problem(p,
				"the name of a secret has up to 64 letters, digits, \"_\", "
				"\"-\" and \".\"");
		r->secrets[r->n_secrets++] = (struct policy_secret){
			.name = generation_text(p->g, name), .variable = NULL};
		parse_secret(p, m, r);
		if (!last_secret(r)->variable)
			last_secret(r)->variable = last_secret(r)->name;
		parse_leave(p, before);
	}
}

/* ---- rate ---- */

static void parse_rate_calls(struct parse *p, const json_t *v, struct rules *r)
{
	uint64_t n;
	if (parse_integer(p, v, 1, 1000 * 1000, &n))
		r->rate.per_minute = r->rate.burst = (uint32_t)n;
}

static void parse_rate_burst(struct parse *p, const json_t *v, struct rules *r)
{
	uint64_t n;
	if (parse_integer(p, v, 1, 1000 * 1000, &n))
		r->rate.burst = (uint32_t)n;
}

static const char *const rate_names[] = {"callsPerMinute", "burst", NULL};
static void parse_rate(struct parse *p, const json_t *v, struct rules *r)
{
	static const struct parse_key keys[] = {
		{parse_rate_calls, true}, {parse_rate_burst, false}};
	r->rate = (struct policy_rate){.rule = parse_rule(p)};
	parse_object(p, v, rate_names, keys, r);
}

/* ---- what is the broker's: require, audit ---- */

static void parse_level(struct parse *p, const json_t *v, struct rules *r)
{
	(void)r;
	int i = parse_choice(p, v, policy_levels);
	if (i >= 0)
		p->g->require.isolation_level = policy_levels[i];
}

static void parse_enforced(struct parse *p, const json_t *v, struct rules *r)
{
	size_t n = 0;
	(void)r;
	if (!parse_array(p, v, 1, POLICY_REQUIRE_MAX))
		return;
	const char **all = generation_alloc(p->g, (POLICY_REQUIRE_MAX + 1) * sizeof(*all));
	for (size_t i = 0; i < json_array_size(v); i++) {
		size_t before = parse_enter_index(p, i);
		int k = parse_choice(p, json_array_get(v, i), policy_enforced);
		if (k >= 0)
			all[n++] = policy_enforced[k];
		parse_leave(p, before);
	}
	p->g->require.enforced = all;
}

static const char *const require_names[] = {"isolationLevel", "enforced", NULL};
static void parse_require(struct parse *p, const json_t *v, struct rules *r)
{
	static const struct parse_key keys[] = {{parse_level, false}, {parse_enforced, false}};
	if (json_is_object(v) && json_object_size(v) == 0)
		parse_problem(p, "requires nothing: leave it out, or say what");
	parse_object(p, v, require_names, keys, r);
}

/* In the order of enum audit_fsync. */
const char *const policy_fsync[] = {"never", "interval", "always", NULL};

static void parse_fsync(struct parse *p, const json_t *v, struct rules *r)
{
	(void)r;
	int i = parse_choice(p, v, policy_fsync);
	if (i >= 0)
		p->g->audit.fsync = (enum audit_fsync)i;
}

static void parse_interval(struct parse *p, const json_t *v, struct rules *r)
{
	(void)r;
	(void)parse_integer(p, v, 10, 60 * 1000, &p->g->audit.interval_ms);
}

static void parse_audit_max(struct parse *p, const json_t *v, struct rules *r)
{
	(void)r;
	(void)parse_size(p, v, MIB, 1024 * GIB, &p->g->audit.max_bytes);
}

static void parse_keep(struct parse *p, const json_t *v, struct rules *r)
{
	uint64_t n;
	(void)r;
	if (parse_integer(p, v, 1, 10000, &n))
		p->g->audit.keep = (unsigned)n;
}

static const char *const audit_names[] = {"fsync", "intervalMs", "maxBytes", "keep", NULL};
static void parse_audit(struct parse *p, const json_t *v, struct rules *r)
{
	static const struct parse_key keys[] = {{parse_fsync, false}, {parse_interval, false},
		{parse_audit_max, false}, {parse_keep, false}};
	struct err err;
	size_t before = p->problems->n;
	parse_object(p, v, audit_names, keys, r);
	if (p->problems->n == before && audit_config_check(&p->g->audit, &err) < 0)
		parse_problem(p, "%s", err.text);
}

/* ---- principals ---- */

static const char *const principal_names[] = {
	"tools", "limits", "mounts", "outputs", "secrets", "rate", NULL};

static void parse_principals(struct parse *p, const json_t *v, struct rules *top)
{
	static const struct parse_key keys[] = {{parse_tools, false},
		{parse_principal_limits, false}, {parse_mounts, false}, {parse_outputs, false},
		{parse_secrets, false}, {parse_rate, false}};
	struct generation *g = p->g;
	const char *name;
	json_t *m;
	g->only_named = true;
	if (!parse_is(p, v, json_is_object(v), "an object"))
		return;
	if (json_object_size(v) > POLICY_PRINCIPALS_MAX) {
		parse_problem(p, "at most %d principals are accepted", POLICY_PRINCIPALS_MAX);
		return;
	}
	g->principals = generation_alloc(g, json_object_size(v) * sizeof(*g->principals));
	json_object_foreach ((json_t *)v, name, m) {
		struct named_rules *named = &g->principals[g->n_principals];
		size_t before = parse_enter_key(p, name);
		*named = (struct named_rules){generation_text(g, name), *top};
		if (!*name || strlen(name) > 128)
			parse_problem(p,
				"a principal's name has 1 to 128 bytes: \"uid:1000\", or \"*\" "
				"for every other one");
		parse_object(p, m, principal_names, keys, &named->rules);
		if (strcmp(name, "*") == 0)
			g->others = &named->rules;
		g->n_principals++;
		parse_leave(p, before);
	}
}

/* ---- the whole ---- */

static void parse_version(struct parse *p, const json_t *v, struct rules *r)
{
	uint64_t version;
	(void)r;
	(void)parse_integer(p, v, VERSION, VERSION, &version);
}

static void parse_schema(struct parse *p, const json_t *v, struct rules *r)
{
	(void)r;
	(void)parse_text(p, v);
}

/* In this order: principals begin with what the others say. */
static const char *const file_names[] = {"$schema", "version", "require", "tools", "limits",
	"mounts", "outputs", "secrets", "audit", "rate", "principals", NULL};
static const struct parse_key file_keys[] = {{parse_schema, false}, {parse_version, true},
	{parse_require, false}, {parse_tools, false}, {parse_limits, false}, {parse_mounts, false},
	{parse_outputs, false}, {parse_secrets, false}, {parse_audit, false}, {parse_rate, false},
	{parse_principals, false}};

const struct policy_section policy_sections[] = {{"", file_names}, {"require", require_names},
	{"tools", tools_names}, {"limits", limits_names},
	{"principalLimits", principal_limits_names}, {"mount", mount_names},
	{"outputs", outputs_names}, {"secret", secret_names}, {"audit", audit_names},
	{"rate", rate_names}, {"principal", principal_names}, {NULL, NULL}};

/* What a file that says nothing allows: nothing. Limits are those of the product. */
static void rules_nothing(struct rules *r)
{
	*r = (struct rules){
		.limits = limits_default(),
		.tools_rule = "tools",
		.mounts_rule = "mounts",
		.outputs = {.max_bytes = LIMIT_PRESENT_BYTES},
		.outputs_rule = "outputs",
	};
}

void parse_file(struct parse *p, const json_t *root)
{
	name_limits();
	rules_nothing(&p->g->top);
	parse_object(p, root, file_names, file_keys, &p->g->top);
}
