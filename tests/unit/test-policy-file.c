/* test-policy-file.c: a policy file's text: what it allows, what is wrong with it and where; who
 * may have written it; and that the schema in docs has the same keys as the parser. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "base/fd.h"
#include "base/limits.h"
#include "mcp/schema.h"
#include "mcp/tool.h"
#include "exec/exec.h"
#include "policy/place.h"
#include "policy/rules.h"

static struct policy_problems problems;

/* NULL: it is refused, and problems says why. */
static struct policy *parse_with(const char *text, const char *const *limits, size_t n_limits)
{
	const struct policy_source src = {.limits = limits, .n_limits = n_limits};
	struct policy *p = NULL;
	struct err err = {0};
	int r = policy_parse(&src, "p.json", text, strlen(text), &p, &problems, &err);
	assert_true((r == 0) == (p != NULL));
	if (r < 0)
		assert_int_equal(err.code, ERR_INVALID_ARGUMENT);
	return p;
}

static struct policy *parse(const char *text)
{
	return parse_with(text, NULL, 0);
}

static const char *rule(
	const struct policy *p, const char *principal, const char *tool, const char *action)
{
	static struct policy_decision d;
	policy_decide(p, &(struct policy_request){principal, tool, action}, &d);
	assert_true(d.allowed == (d.reason[0] == '\0'));
	static char text[200];
	(void)snprintf(text, sizeof(text), "%s %s", d.allowed ? "allow" : "deny", d.rule);
	return text;
}

static void what_is_missing_is_denied(void **state)
{
	(void)state;
	static const char *const texts[] = {"{\"version\":1}", "{\"version\":1,\"tools\":{}}",
		("{\"version\":1,\"tools\":{\"allow\":[]},\"mounts\":[],\"outputs\":{},"
		 "\"secrets\":{}}")};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct policy *p = parse(texts[i]);
		const struct policy_secret *secrets;
		struct policy_decision d;
		assert_non_null(p);
		for (size_t t = 0; t < POLICY_TOOLS; t++) {
			const struct policy_tool *tool = &policy_tools[t];
			policy_decide(p, &(struct policy_request){"uid:1", tool->name, NULL}, &d);
			assert_false(d.allowed);
			for (size_t a = 0; tool->actions[a]; a++) {
				policy_decide(p,
					&(struct policy_request){
						"uid:1", tool->name, tool->actions[a]},
					&d);
				assert_false(d.allowed);
				assert_non_null(strstr(d.reason, tool->actions[a]));
			}
		}
		policy_decide_mount(p, "uid:1", "data", "/srv", &d);
		assert_false(d.allowed);
		policy_decide_outputs(p, "uid:1", &d);
		assert_false(d.allowed);
		assert_false(policy_images(p, "uid:1"));
		assert_int_equal(policy_secrets(p, "uid:1", &secrets), 0);
		assert_int_equal(policy_limits(p, "uid:1")->memory, DEFAULT_MEMORY);
		policy_free(p);
	}
	struct policy *p = parse("{\"version\":1,\"principals\":{}}");
	assert_string_equal(rule(p, "uid:1", "session", "info"), "deny principals");
	policy_free(p);
}

static void the_rule_is_named(void **state)
{
	(void)state;
	struct policy *p = parse("{\"version\":1, \"tools\":{\"allow\":[\"run_code.python\","
				 "\"files\", \"job.wait\", \"files.read\"]},"
				 "\"principals\":{\"uid:7\":{\"tools\":{\"allow\":[\"run_code\"]}},"
				 "\"*\":{}}}");
	assert_non_null(p);
	assert_string_equal(rule(p, "uid:1", "run_code", "python"), "allow tools.allow[0]");
	assert_string_equal(rule(p, "uid:1", "run_code", "shell"), "deny tools.allow");
	assert_string_equal(rule(p, "uid:1", "run_code", "perl"), "deny tools.allow");
	assert_string_equal(rule(p, "uid:1", "run_code", NULL), "deny tools.allow");
	assert_string_equal(rule(p, "uid:1", "files", "read"), "allow tools.allow[1]");
	assert_string_equal(rule(p, "uid:1", "files", NULL), "allow tools.allow[1]");
	assert_string_equal(rule(p, "uid:1", "job", "wait"), "allow tools.allow[2]");
	assert_string_equal(rule(p, "uid:1", "job", "waits"), "deny tools.allow");
	assert_string_equal(rule(p, "uid:1", "file", "read"), "deny tools.allow");
	assert_string_equal(
		rule(p, "uid:7", "run_code", "shell"), "allow principals.\"uid:7\".tools.allow[0]");
	assert_string_equal(
		rule(p, "uid:7", "files", "read"), "deny principals.\"uid:7\".tools.allow");
	policy_free(p);
}

static void principals_narrow_or_replace(void **state)
{
	(void)state;
	struct policy *p = parse(
		"{\"version\":1, \"tools\":{\"allow\":[\"session\"],\"images\":true},"
		"\"limits\":{\"memory\":\"2G\",\"pids\":100}, \"outputs\":{\"allow\":true,"
		"\"quota\":\"10M\",\"executable\":true}, \"rate\":{\"callsPerMinute\":30},"
		"\"secrets\":{\"A\":{\"source\":\"env:AA\"}},"
		"\"principals\":{\"a\":{\"limits\":{\"pids\":50}},"
		"\"b\":{\"limits\":{\"memory\":\"4G\"},\"outputs\":{\"allow\":true},\"secrets\":{},"
		"\"rate\":{\"callsPerMinute\":60,\"burst\":5}}}}");
	const struct policy_secret *s;
	struct policy_decision d;
	assert_non_null(p);
	assert_int_equal(policy_limits(p, "a")->pids, 50);
	assert_int_equal(policy_limits(p, "a")->memory, 2 * GIB);
	assert_int_equal(policy_limits(p, "b")->pids, 100);
	assert_int_equal(policy_limits(p, "b")->memory, 4 * GIB);
	assert_int_equal(policy_limits(p, "b")->outputs_bytes, 10 * MIB);
	assert_true(policy_outputs(p, "a")->executable);
	assert_false(policy_outputs(p, "b")->executable);
	assert_int_equal(policy_secrets(p, "a", &s), 1);
	assert_string_equal(s->name, "A");
	assert_string_equal(s->source, "env");
	assert_string_equal(s->value, "AA");
	assert_string_equal(s->variable, "A");
	assert_int_equal(s->exposure, POLICY_PLACEHOLDER);
	assert_int_equal(policy_secrets(p, "b", &s), 0);
	assert_int_equal(policy_rate(p, "a")->burst, 30);
	assert_int_equal(policy_rate(p, "b")->per_minute, 60);
	assert_int_equal(policy_rate(p, "b")->burst, 5);
	assert_true(policy_images(p, "b"));
	/* there is no "*" */
	assert_string_equal(rule(p, "c", "session", "info"), "deny principals");
	policy_decide_outputs(p, "c", &d);
	assert_false(d.allowed);
	assert_int_equal(policy_secrets(p, "c", &s), 0);
	policy_free(p);
}

static void mounts_are_whole_folders(void **state)
{
	(void)state;
	static const struct {
		const char *name, *source;
		bool allowed;
	} cases[] = {
		{"data", "/work", true},
		{"data", "/work/a/b", true},
		{"data", "/work-evil", false},
		{"data", "/work.", false},
		{"data", "/wor", false},
		{"data", "/", false},
		{"data", "/srv/x", true},
		{"other", "/srv/x", false},
		{"other", "/work", true},
		{"data", "/Work", false},
	};
	struct policy *p = parse("{\"version\":1,\"mounts\":[{\"path\":\"/work\"},"
				 "{\"path\":\"/srv/x\",\"name\":\"data\"}]}");
	assert_non_null(p);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct policy_decision d;
		policy_decide_mount(p, "uid:1", cases[i].name, cases[i].source, &d);
		if (d.allowed != cases[i].allowed)
			fail_msg("%s=%s", cases[i].name, cases[i].source);
	}
	policy_free(p);
}

/* One problem each: its path, and what its text says. */
static void problems_have_a_place(void **state)
{
	(void)state;
	static const struct {
		const char *text, *path, *says;
		unsigned line, column;
	} cases[] = {
		{"", "", "", 1, 1},
		{"{", "", "", 1, 1},
		{"[]", "", "must be an object", 1, 1},
		{"{\"version\":1,\n \"version\":1}", "", "duplicate", 2, 10},
		{"{}", "", "\"version\" is missing", 1, 1},
		{"{\"version\":2}", "version", "from 1 to 1", 1, 2},
		{"{\"version\":\"1\"}", "version", "whole number", 1, 2},
		{"{\"version\":1,\n\n  \"tool\":{}}", "tool", "there are $schema, version", 3, 3},
		{"{\"version\":1,\"tools\":[]}", "tools", "not an array", 1, 14},
		{"{\"version\":1,\"tools\":{\"allow\":[\"files\",\n\"file\"]}}", "tools.allow[1]",
			"is no tool", 2, 1},
		{"{\"version\":1,\"tools\":{\"allow\":[\"run_command.x\"]}}", "tools.allow[0]",
			"is no action", 1, 32},
		{"{\"version\":1,\"tools\":{\"allow\":[3]}}", "tools.allow[0]", "a string", 1, 32},
		{"{\"version\":1,\"tools\":{\"allow\":\"files\"}}", "tools.allow", "an array", 1,
			23},
		{"{\"version\":1,\"tools\":{\"images\":1}}", "tools.images", "true or false", 1,
			23},
		{"{\"version\":1,\"limits\":{\"memory\":\"1M\"}}", "limits.memory", "128M", 1, 24},
		{"{\"version\":1,\"limits\":{\"timeout_s\":3601}}", "limits.timeout_s", "3600", 1,
			24},
		{"{\"version\":1,\"limits\":{\"pids\":-1}}", "limits.pids", "16", 1, 24},
		{"{\"version\":1,\"limits\":{\"pids\":20.5}}", "limits.pids", "a fraction", 1, 24},
		{"{\"version\":1,\"limits\":{\"outputs\":1}}", "limits.outputs", "no such key", 1,
			24},
		{"{\"version\":1,\"limits\":{\"workspace\":\"2G\"}}", "limits", "do not fit", 1,
			14},
		{"{\"version\":1,\"mounts\":[{\"path\":\"a\"}]}", "mounts[0].path", "real path", 1,
			25},
		{"{\"version\":1,\"mounts\":[{\"path\":\"/a/\"}]}", "mounts[0].path", "real path",
			1, 25},
		{"{\"version\":1,\"mounts\":[{\"path\":\"/a/../b\"}]}", "mounts[0].path",
			"real path", 1, 25},
		{"{\"version\":1,\"mounts\":[{}]}", "mounts[0]", "\"path\" is missing", 1, 24},
		{"{\"version\":1,\"outputs\":{\"maxBytes\":\"300M\"}}", "outputs.maxBytes", "256M",
			1, 25},
		{"{\"version\":1,\"secrets\":{\"a b\":{\"source\":\"env:X\",\"variable\":\"X\"}}}",
			"secrets.\"a b\"", "name", 1, 25},
		{"{\"version\":1,\"secrets\":{\"a\":{\"source\":\"X\"}}}", "secrets.a.source",
			"env:", 1, 30},
		{"{\"version\":1,\"secrets\":{\"a\":{\"source\":\"file:x\"}}}", "secrets.a.source",
			"file:/", 1, 30},
		{"{\"version\":1,\"secrets\":{\"a\":{}}}", "secrets.a", "missing", 1, 25},
		{"{\"version\":1,\"secrets\":{\"a-b\":{\"source\":\"env:X\"}}}", "secrets.a-b",
			"\"variable\" is needed", 1, 25},
		{"{\"version\":1,\"secrets\":{\"a\":{\"exec\":[]}}}", "secrets.a.exec", "1 to", 1,
			30},
		{"{\"version\":1,\"secrets\":{\"LD_PRELOAD\":{\"source\":\"env:X\"}}}",
			"secrets.LD_PRELOAD", "variable", 1, 25},
		{"{\"version\":1,\"require\":{}}", "require", "requires nothing", 1, 14},
		{"{\"version\":1,\"require\":{\"isolationLevel\":\"vm\"}}",
			"require.isolationLevel", "microvm", 1, 25},
		{"{\"version\":1,\"require\":{\"enforced\":[\"memry\"]}}", "require.enforced[0]",
			"killTree", 1, 37},
		{"{\"version\":1,\"rate\":{\"burst\":1}}", "rate", "callsPerMinute", 1, 14},
		{"{\"version\":1,\"rate\":{\"callsPerMinute\":0}}", "rate.callsPerMinute", "from 1",
			1, 22},
		{"{\"version\":1,\"principals\":{\"x\":{\"pool\":1}}}", "principals.x.pool",
			"no such key", 1, 33},
		{"{\"version\":1,\"principals\":{\"uid:1\":{\"limits\":{\"pool\":1}}}}",
			"principals.\"uid:1\".limits.pool", "no such key", 1, 47},
		{"{\"version\":1,\"\\u00e9\\\"\":1}", "\"\xc3\xa9\\\"\"", "no such key", 1, 14},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct policy *p = parse(cases[i].text);
		const struct policy_problem *one = &problems.v[0];
		assert_null(p);
		if (problems.n != 1 || strcmp(one->path, cases[i].path) != 0 ||
			!strstr(one->text, cases[i].says))
			fail_msg("%s: %zu problems, %s: %s", cases[i].text, problems.n, one->path,
				one->text);
		if (cases[i].text[0] && cases[i].text[1] &&
			(one->line != cases[i].line || one->column != cases[i].column))
			fail_msg("%s: %s at %u:%u", cases[i].text, one->path, one->line,
				one->column);
	}
}

static void the_command_line_narrows(void **state)
{
	(void)state;
	static const char *const limits[] = {"memory=1G", "pids=500", "sessions_principal=3"};
	struct policy *p = parse_with("{\"version\":1,\"limits\":{\"memory\":\"2G\",\"pids\":100},"
				      "\"principals\":{\"a\":{\"limits\":{\"memory\":\"512M\"}},"
				      "\"b\":{\"limits\":{\"memory\":\"3G\"}}}}",
		limits, ARRAY_SIZE(limits));
	assert_non_null(p);
	assert_int_equal(policy_limits(p, NULL)->memory, GIB);
	assert_int_equal(policy_limits(p, "a")->memory, 512 * MIB);
	assert_int_equal(policy_limits(p, "b")->memory, GIB);
	assert_int_equal(policy_limits(p, "b")->pids, 100);
	assert_int_equal(policy_limits(p, "b")->sessions_principal, 3);
	assert_true(policy_holds(p, "memory=1G"));
	assert_true(policy_holds(p, "memory=4G"));
	assert_false(policy_holds(p, "memory=768M"));
	policy_free(p);

	/* together they do not fit */
	static const char *const small[] = {"memory=256M"};
	assert_null(parse_with(
		"{\"version\":1,\"limits\":{\"workspace\":\"300M\"}}", small, ARRAY_SIZE(small)));

	p = policy_new_default();
	assert_true(policy_holds(p, "memory=1G"));
	assert_false(policy_holds(p, "memory=2G"));
	assert_false(policy_holds(p, "memory=nonsense"));
	policy_free(p);
}

/* What show prints allows the same. */
static void shown_and_parsed_again(void **state)
{
	(void)state;
	static const char text[] =
		"{\"version\":1,\"require\":{\"isolationLevel\":\"container\",\"enforced\":["
		"\"memory\"]},\"tools\":{\"allow\":[\"run_code.shell\",\"session\"],\"images\":"
		"true},"
		"\"limits\":{\"memory\":\"3G\",\"tmp\":1048577},\"mounts\":[{\"path\":\"/"
		"a\",\"name\":"
		"\"b\"}],\"outputs\":{\"allow\":true},\"secrets\":{\"x-y\":{\"exec\":[\"/bin/p\","
		"\"q\"],\"variable\":\"V\",\"exposure\":\"session\"},\"z\":{\"source\":"
		"\"file:/etc/z\"}},\"audit\":{\"fsync\":\"always\",\"maxBytes\":\"8M\",\"keep\":9},"
		"\"rate\":{\"callsPerMinute\":5},\"principals\":{\"uid:1\":{},\"*\":{\"tools\":{}}}"
		"}";
	struct policy *p = parse(text), *q;
	assert_non_null(p);
	char *shown = policy_text(p);
	q = parse(shown);
	assert_non_null(q);
	char *again = policy_text(q);
	assert_string_equal(shown, again);
	assert_string_equal(
		rule(q, "uid:1", "run_code", "shell"), "allow principals.\"uid:1\".tools.allow[0]");
	assert_string_equal(
		rule(q, "uid:2", "session", "info"), "deny principals.\"*\".tools.allow");
	assert_string_equal(policy_require(q)->isolation_level, "container");
	assert_string_equal(policy_require(q)->enforced[0], "memory");
	assert_null(policy_require(q)->enforced[1]);
	assert_int_equal(policy_limits(q, "uid:1")->tmp, 1048577);
	const struct policy_secret *s;
	assert_int_equal(policy_secrets(q, "uid:1", &s), 2);
	assert_string_equal(s[0].argv[1], "q");
	assert_null(s[0].argv[2]);
	free(shown);
	free(again);
	policy_free(p);
	policy_free(q);

	p = policy_new_default();
	shown = policy_text(p);
	q = parse(shown);
	assert_non_null(q);
	assert_string_equal(rule(q, "x", "run_code", "shell"), "allow tools.allow[0]");
	free(shown);
	policy_free(p);
	policy_free(q);
}

/* ---- files ---- */

static char dir[64];

static int make_dir(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/scb-policy-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	char cmd_path[128];
	(void)snprintf(cmd_path, sizeof(cmd_path), "%s/p.json", dir);
	(void)unlink(cmd_path);
	(void)snprintf(cmd_path, sizeof(cmd_path), "%s/link.json", dir);
	(void)unlink(cmd_path);
	return rmdir(dir);
}

static void write_file(const char *path, const char *text)
{
	char draft[160];
	(void)snprintf(draft, sizeof(draft), "%s.new", path);
	int fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_full(fd, text, strlen(text)), 0);
	(void)close(fd);
	assert_int_equal(rename(draft, path), 0);
}

static int open_file(const char *path, bool optional, struct policy **ret, struct err *err)
{
	const struct policy_source src = {.path = path, .optional = optional};
	return policy_open(&src, ret, &problems, err);
}

static void who_may_have_written_it(void **state)
{
	(void)state;
	char path[128], link[128];
	struct policy *p = NULL;
	struct err err;
	(void)snprintf(path, sizeof(path), "%s/p.json", dir);
	(void)snprintf(link, sizeof(link), "%s/link.json", dir);

	assert_int_equal(open_file(path, true, &p, &err), 0);
	assert_null(policy_path(p));
	assert_string_equal(policy_source_path(p), path);
	policy_free(p);
	assert_true(open_file(path, false, &p, &err) < 0);
	assert_int_equal(symlink("p.json", link), 0);
	assert_true(open_file(link, true, &p, &err) < 0); /* it leads nowhere */

	write_file(path, "{\"version\":1}");
	assert_int_equal(open_file(link, true, &p, &err), 0);
	assert_string_equal(policy_path(p), link);
	assert_int_equal(strlen(policy_sha256(p)), 64);
	policy_free(p);
	assert_int_equal(chmod(path, 0620), 0);
	assert_true(open_file(path, false, &p, &err) < 0);
	assert_non_null(strstr(err.text, "writable by others"));
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(open_file(path, false, &p, &err), 0);
	policy_free(p);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 12345, 0), 0);
		assert_true(open_file(path, true, &p, &err) < 0);
		assert_non_null(strstr(err.text, "another user"));
		assert_int_equal(chown(path, 0, 0), 0);
	}
	assert_int_equal(chmod(dir, 0777), 0);
	assert_true(open_file(path, true, &p, &err) < 0);
	assert_true(open_file(link, true, &p, &err) < 0);
	assert_non_null(strstr(err.text, dir));
	assert_int_equal(chmod(dir, 0700), 0);
	assert_true(open_file(dir, true, &p, &err) < 0); /* no file */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_true(open_file(path, true, &p, &err) < 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(unlink(link), 0);
}

static void reloads_are_whole_or_not_at_all(void **state)
{
	(void)state;
	char path[128];
	struct policy *p = NULL;
	struct err err;
	(void)snprintf(path, sizeof(path), "%s/p.json", dir);
	assert_int_equal(open_file(path, true, &p, &err), 0);
	assert_int_equal(policy_generation(p), 1);
	assert_string_equal(rule(p, "uid:1", "files", "read"), "allow default.tools");
	assert_int_equal(policy_reload(p, &err), 0);

	write_file(path, "{\"version\":1,\"tools\":{\"allow\":[\"files.read\"]}}");
	struct policy *pinned = policy_pin(p);
	assert_int_equal(policy_reload(p, &err), 1);
	assert_int_equal(policy_generation(p), 2);
	assert_int_equal(policy_generation(pinned), 1);
	assert_string_equal(rule(p, "uid:1", "files", "write"), "deny tools.allow");
	assert_string_equal(rule(pinned, "uid:1", "files", "write"), "allow default.tools");
	policy_free(pinned);
	assert_int_equal(policy_reload(p, &err), 0); /* the same file */

	write_file(path, "{\"version\":1,\"tools\":{\"allow\":[\"files.read\",\"fil\"]}}");
	assert_true(policy_reload(p, &err) < 0);
	assert_non_null(strstr(err.text, "p.json:1:45: tools.allow[1]: \"fil\" is no tool"));
	assert_int_equal(policy_generation(p), 2);
	assert_string_equal(rule(p, "uid:1", "files", "read"), "allow tools.allow[0]");

	/* gone is not allowed */
	assert_int_equal(unlink(path), 0);
	assert_true(policy_reload(p, &err) < 0);
	assert_string_equal(rule(p, "uid:1", "files", "write"), "deny tools.allow");
	policy_free(p);
}

/* ---- tables ---- */

static void the_schema_has_the_same_keys(void **state)
{
	(void)state;
	json_error_t error;
	json_t *schema = json_load_file(POLICY_SCHEMA, JSON_REJECT_DUPLICATES, &error);
	assert_non_null(schema);
	policy_free(parse("{\"version\":1}")); /* the names of limits are known from then on */
	const json_t *defs = json_object_get(schema, "$defs");
	size_t n = 0;
	for (const struct policy_section *s = policy_sections; s->name; s++) {
		const json_t *o = s->name[0] ? json_object_get(defs, s->name) : schema;
		const json_t *properties = json_object_get(o, "properties");
		assert_true(json_is_false(json_object_get(o, "additionalProperties")));
		size_t keys = 0;
		for (; s->keys[keys]; keys++)
			if (!json_object_get(properties, s->keys[keys]))
				fail_msg("%s.%s is not in the schema", s->name, s->keys[keys]);
		if (json_object_size(properties) != keys)
			fail_msg("\"%s\" of the schema has other keys", s->name);
		n++;
	}
	/* "size" is no object */
	assert_int_equal(json_object_size(defs), n - 1 + 1);
	/* a limit's bounds are the same */
	const json_t *limits = json_object_get(json_object_get(defs, "limits"), "properties");
	for (size_t i = 0; i < limit_keys_n; i++) {
		const json_t *l = json_object_get(limits, limit_keys[i].name);
		if (!l || limit_keys[i].size)
			continue;
		assert_int_equal(
			json_integer_value(json_object_get(l, "minimum")), limit_keys[i].min);
		assert_int_equal(
			json_integer_value(json_object_get(l, "maximum")), limit_keys[i].max);
	}
	json_decref(schema);
}

static void the_tools_are_those_there_are(void **state)
{
	(void)state;
	const struct tool *const *all = product_offer()->tools;
	size_t n = 0;
	for (; all[n]; n++) {
		int t = policy_tool_find(all[n]->name, strlen(all[n]->name));
		if (t < 0)
			fail_msg("%s is not known to policy", all[n]->name);
		const struct arg_action *a = all[n]->args.actions;
		size_t actions = 0;
		for (; a && actions < all[n]->args.n_actions; actions++)
			if (policy_action_find(t, a[actions].name) < 0)
				fail_msg("%s.%s is not known to policy", all[n]->name,
					a[actions].name);
		if (t == policy_tool_find("run_code", 8))
			for (; exec_languages[actions]; actions++)
				assert_true(policy_action_find(t, exec_languages[actions]) >= 0);
		assert_null(policy_tools[t].actions[actions]);
	}
	assert_int_equal(n, POLICY_TOOLS);
}

static void places(void **state)
{
	(void)state;
	static const char text[] =
		"{\"a\": [1, {\"b c\": \"x]\\\"}\"}, []],\n \"\\u0061\\ud83d\\ude00\": "
		"{\"c\": null}}";
	static const struct {
		const char *path;
		unsigned line, column;
	} cases[] = {
		{"", 1, 1},
		{"a", 1, 2},
		{"a[0]", 1, 8},
		{"a[1]", 1, 11},
		{"a[1].\"b c\"", 1, 12},
		{"a[2]", 1, 29},
		{"\"a\xf0\x9f\x98\x80\"", 2, 2},
		{"\"a\\ud83d\\ude00\".c", 2, 25},
		{"a[3]", 0, 0},
		{"a[2][0]", 0, 0},
		{"a.b", 0, 0},
		{"a[", 0, 0},
		{"a[1", 0, 0},
		{".a", 0, 0},
		{"b", 0, 0},
		{"a[1].\"b", 0, 0},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct place p = {0};
		bool found = place_find(text, sizeof(text) - 1, cases[i].path, &p);
		if (found != (cases[i].line > 0) || p.line != cases[i].line ||
			p.column != cases[i].column)
			fail_msg("%s: %u:%u", cases[i].path, p.line, p.column);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_missing_is_denied),
		cmocka_unit_test(the_rule_is_named),
		cmocka_unit_test(principals_narrow_or_replace),
		cmocka_unit_test(mounts_are_whole_folders),
		cmocka_unit_test(problems_have_a_place),
		cmocka_unit_test(the_command_line_narrows),
		cmocka_unit_test(shown_and_parsed_again),
		cmocka_unit_test_setup_teardown(who_may_have_written_it, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(
			reloads_are_whole_or_not_at_all, make_dir, remove_dir),
		cmocka_unit_test(the_schema_has_the_same_keys),
		cmocka_unit_test(the_tools_are_those_there_are),
		cmocka_unit_test(places),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
