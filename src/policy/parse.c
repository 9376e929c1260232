/* parse.c: see parse.h. */
#include "policy/parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "policy/place.h"

#define KEY_PATH_MAX 400
#define TEXT_MAX     4096 /* of a string in the file: a path */

/* ---- problems ---- */

void policy_problem(struct policy_problems *all, const char *text, size_t n, const char *path,
	const char *fmt, ...)
{
	if (all->n == POLICY_PROBLEMS_MAX)
		return;
	struct policy_problem *p = &all->v[all->n++];
	*p = (struct policy_problem){0};
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(p->text, sizeof(p->text), fmt, ap);
	va_end(ap);
	str_make_printable(p->text);
	struct place place = {0};
	if (path && place_find(text, n, path, &place)) {
		p->line = place.line;
		p->column = place.column;
	}
	str_copy(p->path, sizeof(p->path), path);
	str_make_printable(p->path);
}

static const char *path_now(struct parse *p)
{
	CHECK(buf_append(&p->path, "", 1) == 0); /* there is always room for it */
	p->path.len--;
	return (const char *)p->path.data;
}

void parse_problem(struct parse *p, const char *fmt, ...)
{
	char text[sizeof(((struct policy_problem *)0)->text)];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	policy_problem(p->problems, p->text, p->n, path_now(p), "%s", text);
}

size_t parse_enter_key(struct parse *p, const char *key)
{
	size_t before = p->path.len;
	place_key(&p->path, key);
	if (p->path.len > KEY_PATH_MAX) /* its parent is named instead */
		p->path.len = before;
	return before;
}

size_t parse_enter_index(struct parse *p, size_t index)
{
	size_t before = p->path.len;
	place_index(&p->path, index);
	return before;
}

void parse_leave(struct parse *p, size_t before)
{
	p->path.len = before;
}

/* The path as a rule's name, for as long as the rules live. */
const char *parse_rule(struct parse *p)
{
	return generation_text(p->g, path_now(p));
}

/* ---- values ---- */

static const char *type_name(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "a whole number";
	case JSON_REAL:
		return "a fraction";
	case JSON_TRUE:
	case JSON_FALSE:
		return "true or false";
	case JSON_NULL:
		break;
	}
	return "null";
}

bool parse_is(struct parse *p, const json_t *v, bool right, const char *wanted)
{
	if (!right)
		parse_problem(p, "must be %s, not %s", wanted, type_name(v));
	return right;
}

bool parse_bool(struct parse *p, const json_t *v, bool *ret)
{
	if (!parse_is(p, v, json_is_boolean(v), "true or false"))
		return false;
	*ret = json_is_true(v);
	return true;
}

bool parse_integer(struct parse *p, const json_t *v, uint64_t min, uint64_t max, uint64_t *ret)
{
	if (!parse_is(p, v, json_is_integer(v), "a whole number"))
		return false;
	json_int_t i = json_integer_value(v);
	if (i < 0 || (uint64_t)i < min || (uint64_t)i > max) {
		parse_problem(p, "must be from %llu to %llu", (unsigned long long)min,
			(unsigned long long)max);
		return false;
	}
	*ret = (uint64_t)i;
	return true;
}

bool parse_size(struct parse *p, const json_t *v, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t bytes = 0;
	if (!parse_is(p, v, json_is_integer(v) || json_is_string(v),
		    "a size like \"512M\", or a number of bytes"))
		return false;
	bool good = json_is_integer(v) ? json_integer_value(v) >= 0
				       : str_to_size(json_string_value(v), &bytes) == 0;
	if (json_is_integer(v))
		bytes = (uint64_t)json_integer_value(v);
	if (!good || bytes < min || bytes > max) {
		char from[LIMITS_TEXT], to[LIMITS_TEXT];
		limits_size_text(min, from);
		limits_size_text(max, to);
		parse_problem(p, "must be a size from \"%s\" to \"%s\"", from, to);
		return false;
	}
	*ret = bytes;
	return true;
}

/* NULL: it is none. */
const char *parse_text(struct parse *p, const json_t *v)
{
	if (!parse_is(p, v, json_is_string(v), "a string"))
		return NULL;
	if (json_string_length(v) == 0 || json_string_length(v) > TEXT_MAX) {
		parse_problem(p, "must be a text of 1 to %d bytes", TEXT_MAX);
		return NULL;
	}
	return json_string_value(v);
}

/* One of names; -1. */
int parse_choice(struct parse *p, const json_t *v, const char *const *names)
{
	const char *text = parse_text(p, v);
	if (!text)
		return -1;
	_cleanup_buf_ struct buf all = BUF_INIT(1000);
	for (int i = 0; names[i]; i++) {
		if (strcmp(names[i], text) == 0)
			return i;
		CHECK(buf_printf(&all, "%s%s", i ? ", " : "", names[i]) == 0);
	}
	parse_problem(p, "\"%.60s\" is not accepted; accepted are %.*s", text, (int)all.len,
		(const char *)all.data);
	return -1;
}

/* Absolute, and the one way to write it. */
bool parse_is_path(const char *path)
{
	if (path[0] != '/')
		return false;
	if (path[1] == '\0')
		return true;
	for (const char *part = path; part; part = strchr(part + 1, '/')) {
		size_t n = strcspn(part + 1, "/");
		if (n == 0 || (n <= 2 && strncmp(part + 1, "..", n) == 0))
			return false;
	}
	return true;
}

/* ---- objects ---- */

void parse_unknown_key(struct parse *p, const char *key, const char *const *names)
{
	_cleanup_buf_ struct buf all = BUF_INIT(1000);
	for (int i = 0; names[i]; i++)
		CHECK(buf_printf(&all, "%s%s", i ? ", " : "", names[i]) == 0);
	size_t before = parse_enter_key(p, key);
	parse_problem(p, "no such key here; there are %.*s", (int)all.len, (const char *)all.data);
	parse_leave(p, before);
}

bool parse_is_name(const char *const *names, const char *key)
{
	for (int i = 0; names[i]; i++)
		if (strcmp(names[i], key) == 0)
			return true;
	return false;
}

/* Its members in the order of the names, whatever the file's. */
void parse_object(struct parse *p, const json_t *v, const char *const *names,
	const struct parse_key *keys, struct rules *r)
{
	const char *key;
	json_t *member;
	if (!parse_is(p, v, json_is_object(v), "an object"))
		return;
	json_object_foreach ((json_t *)v, key, member) {
		if (!parse_is_name(names, key))
			parse_unknown_key(p, key, names);
	}
	for (int i = 0; names[i]; i++) {
		const json_t *m = json_object_get(v, names[i]);
		if (!m && keys[i].required)
			parse_problem(p, "the key \"%s\" is missing", names[i]);
		if (!m || !keys[i].parse)
			continue;
		size_t before = parse_enter_key(p, names[i]);
		keys[i].parse(p, m, r);
		parse_leave(p, before);
	}
}

bool parse_array(struct parse *p, const json_t *v, size_t min, size_t max)
{
	if (!parse_is(p, v, json_is_array(v), "an array"))
		return false;
	bool fits = json_array_size(v) >= min && json_array_size(v) <= max;
	if (!fits)
		parse_problem(p, "must have %zu to %zu elements", min, max);
	return fits;
}

/* ---- the whole ---- */

bool policy_parse_text(
	struct generation *g, const char *text, size_t n, struct policy_problems *problems)
{
	json_error_t error;
	size_t before = problems->n;
	json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
	if (!root) {
		policy_problem(problems, text, n, NULL, "%s", error.text);
		if (problems->n > before) {
			problems->v[before].line = (unsigned)MAX(error.line, 1);
			problems->v[before].column = (unsigned)MAX(error.column, 1);
		}
		return false;
	}
	struct parse p = {.g = g,
		.text = text,
		.n = n,
		.problems = problems,
		.path = BUF_INIT(2 * KEY_PATH_MAX + 8)};
	parse_file(&p, root);
	buf_done(&p.path);
	json_decref(root);
	return problems->n == before;
}
