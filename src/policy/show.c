/* show.c: the rules in force as a policy file with every key, for `scb policy show`. */
#include "policy/rules.h"

#include <jansson.h>
#include <string.h>

static json_t *size_json(uint64_t bytes)
{
	char text[LIMITS_TEXT];
	limits_size_text(bytes, text);
	return json_string(text);
}

static json_t *tools_json(const struct rules *r)
{
	json_t *allow = json_array();
	for (size_t t = 0; t < POLICY_TOOLS; t++) {
		const struct policy_tool *tool = &policy_tools[t];
		if (r->allow[t][0])
			json_array_append_new(allow, json_string(tool->name));
		for (size_t a = 0; !r->allow[t][0] && tool->actions[a]; a++)
			if (r->allow[t][a + 1])
				json_array_append_new(
					allow, json_sprintf("%s.%s", tool->name, tool->actions[a]));
	}
	return json_pack("{s:o,s:b}", "allow", allow, "images", r->images);
}

static json_t *limits_json(const struct rules *r, bool broker)
{
	json_t *o = json_object();
	for (size_t i = 0; i < limit_keys_n; i++) {
		const struct limit_key *k = &limit_keys[i];
		uint64_t v = limits_get(&r->limits, k);
		if (k->in_file && (broker || !k->in_broker))
			json_object_set_new(
				o, k->name, k->size ? size_json(v) : json_integer((json_int_t)v));
	}
	return o;
}

static json_t *mounts_json(const struct rules *r)
{
	if (r->any_mount)
		return json_pack("[{s:s}]", "path", "/");
	json_t *all = json_array();
	for (size_t i = 0; i < r->n_mounts; i++)
		json_array_append_new(all, json_pack("{s:s,s:s*}", "path", r->mounts[i].path,
						   "name", r->mounts[i].name));
	return all;
}

static json_t *outputs_json(const struct rules *r)
{
	return json_pack("{s:b,s:o,s:o,s:b}", "allow", r->outputs_allowed, "quota",
		size_json(r->limits.outputs_bytes), "maxBytes", size_json(r->outputs.max_bytes),
		"executable", r->outputs.executable);
}

static json_t *secret_json(const struct policy_secret *s)
{
	json_t *o = json_object();
	if (s->argv) {
		json_t *argv = json_array();
		for (size_t i = 0; s->argv[i]; i++)
			json_array_append_new(argv, json_string(s->argv[i]));
		json_object_set_new(o, "exec", argv);
	} else {
		json_object_set_new(o, "source", json_sprintf("%s:%s", s->source, s->value));
	}
	json_object_set_new(o, "exposure",
		json_string(s->exposure == POLICY_SESSION ? "session" : "placeholder"));
	json_object_set_new(o, "variable", json_string(s->variable));
	return o;
}

static json_t *secrets_json(const struct rules *r)
{
	json_t *o = json_object();
	for (size_t i = 0; i < r->n_secrets; i++)
		json_object_set_new(o, r->secrets[i].name, secret_json(&r->secrets[i]));
	return o;
}

static void set_rules(json_t *o, const struct rules *r, bool broker)
{
	json_object_set_new(o, "tools", tools_json(r));
	json_object_set_new(o, "limits", limits_json(r, broker));
	json_object_set_new(o, "mounts", mounts_json(r));
	json_object_set_new(o, "outputs", outputs_json(r));
	json_object_set_new(o, "secrets", secrets_json(r));
	if (r->rate.per_minute)
		json_object_set_new(o, "rate",
			json_pack("{s:I,s:I}", "callsPerMinute", (json_int_t)r->rate.per_minute,
				"burst", (json_int_t)r->rate.burst));
}

static void set_require(json_t *o, const struct policy_require *require)
{
	json_t *r = json_pack("{s:s*}", "isolationLevel", require->isolation_level);
	json_t *enforced = json_array();
	for (size_t i = 0; require->enforced && require->enforced[i]; i++)
		json_array_append_new(enforced, json_string(require->enforced[i]));
	if (json_array_size(enforced) > 0)
		json_object_set(r, "enforced", enforced);
	json_decref(enforced);
	if (json_object_size(r) > 0)
		json_object_set(o, "require", r);
	json_decref(r);
}

static json_t *audit_json(const struct audit_config *a)
{
	return json_pack("{s:s,s:I,s:o,s:I}", "fsync", policy_fsync[a->fsync], "intervalMs",
		(json_int_t)a->interval_ms, "maxBytes", size_json(a->max_bytes), "keep",
		(json_int_t)a->keep);
}

char *policy_text(const struct policy *p)
{
	const struct generation *g = policy_rules(p);
	json_t *o = json_pack("{s:i}", "version", 1);
	set_require(o, &g->require);
	set_rules(o, &g->top, true);
	json_object_set_new(o, "audit", audit_json(&g->audit));
	if (g->only_named) {
		json_t *all = json_object();
		for (size_t i = 0; i < g->n_principals; i++) {
			json_t *named = json_object();
			set_rules(named, &g->principals[i].rules, false);
			json_object_set_new(all, g->principals[i].name, named);
		}
		json_object_set_new(o, "principals", all);
	}
	char *text = json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	json_decref(o);
	return text;
}
