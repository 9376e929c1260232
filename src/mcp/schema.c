/* schema.c: see schema.h. */
#include "mcp/schema.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

static const char *const type_words[] = {
	[ARG_TEXT] = "a string",
	[ARG_INTEGER] = "a whole number",
	[ARG_NUMBER] = "a number",
	[ARG_BOOLEAN] = "true or false",
	[ARG_LIST] = "a list of strings",
	[ARG_MAP] = "an object whose values are strings",
	[ARG_OBJECT] = "an object",
};

static const char *given_word(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "a list";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
	case JSON_REAL:
		return "a number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "true or false";
	case JSON_NULL:
		return "null";
	}
	return "something else";
}

static const struct arg *find_arg(const struct arg_table *t, const char *name)
{
	for (size_t i = 0; i < t->n_args; i++)
		if (strcmp(t->args[i].name, name) == 0)
			return &t->args[i];
	return NULL;
}

static const struct arg_action *find_action(const struct arg_table *t, const char *name)
{
	for (size_t i = 0; name && i < t->n_actions; i++)
		if (strcmp(t->actions[i].name, name) == 0)
			return &t->actions[i];
	return NULL;
}

/* Appends to a fixed text; what does not fit is left out. */
static void add(char *text, size_t size, const char *separator, const char *word)
{
	size_t used = strlen(text);
	(void)snprintf(text + used, size - used, "%s%s", used ? separator : "", word);
}

static int unknown_argument(const struct arg_table *t, const char *name, struct err *err)
{
	char names[300] = "";
	for (size_t i = 0; i < t->n_args; i++)
		add(names, sizeof(names), ", ", t->args[i].name);
	return err_set(err, ERR_INVALID_ARGUMENT, 0,
		"unknown argument \"%.60s\"; this tool accepts %s", name, names);
}

static int wrong_type(const struct arg *a, const json_t *v, struct err *err)
{
	return err_set(err, ERR_INVALID_ARGUMENT, 0, "argument \"%s\" must be %s, not %s", a->name,
		type_words[a->type], given_word(v));
}

static int wrong_choice(
	const char *name, const char *const *choices, const char *given, struct err *err)
{
	char names[240] = "";
	for (size_t i = 0; choices[i]; i++)
		add(names, sizeof(names), ", ", choices[i]);
	return err_set(err, ERR_INVALID_ARGUMENT, 0,
		"argument \"%s\" must be one of %s, not \"%.40s\"", name, names, given);
}

static int check_text(const struct arg *a, const json_t *v, struct err *err)
{
	size_t n = json_string_length(v);
	if (!a->binary && memchr(json_string_value(v), '\0', n))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"argument \"%s\" must not hold a NUL character", a->name);
	if ((double)n < a->min)
		return err_set(
			err, ERR_INVALID_ARGUMENT, 0, "argument \"%s\" must not be empty", a->name);
	if ((double)n > a->max)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"argument \"%s\" is %zu bytes long; at most %.0f are accepted", a->name, n,
			a->max);
	if (!a->choices)
		return 0;
	for (size_t i = 0; a->choices[i]; i++)
		if (strcmp(a->choices[i], json_string_value(v)) == 0)
			return 0;
	return wrong_choice(a->name, a->choices, json_string_value(v), err);
}

/* Within the range where a double names every whole number. */
static bool is_whole(double d)
{
	return d >= -9e15 && d <= 9e15 && d == (double)(json_int_t)d;
}

static int check_number(const struct arg *a, const json_t *v, json_t **ret, struct err *err)
{
	double d = json_number_value(v);
	bool whole = json_is_integer(v) || is_whole(d);
	if (a->type == ARG_INTEGER && !whole)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"argument \"%s\" must be a whole number, not %g", a->name, d);
	if (!(d >= a->min && d <= a->max))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"argument \"%s\" must be from %.15g to %.15g, not %.15g", a->name, a->min,
			a->max, d);
	*ret = a->type == ARG_INTEGER && json_is_real(v) ? json_integer((json_int_t)d)
							 : json_incref((json_t *)v);
	return 0;
}

static int check_member(const struct arg *a, const json_t *v, struct err *err)
{
	if (!json_is_string(v))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"argument \"%s\" must be %s; it holds %s", a->name, type_words[a->type],
			given_word(v));
	size_t n = json_string_length(v);
	if (n > LIMIT_ARG_BYTES - 1)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"argument \"%s\" holds a string of %zu bytes; Linux takes at most %llu",
			a->name, n, LIMIT_ARG_BYTES - 1);
	if (memchr(json_string_value(v), '\0', n))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"argument \"%s\" must not hold a NUL character", a->name);
	return 0;
}

static int check_members(const struct arg *a, const json_t *v, struct err *err)
{
	size_t n = a->type == ARG_LIST ? json_array_size(v) : json_object_size(v);
	if ((double)n < a->min || (double)n > a->max)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"argument \"%s\" has %zu elements; from %.0f to %.0f are accepted", a->name,
			n, a->min, a->max);
	int r = 0;
	if (a->type == ARG_LIST) {
		for (size_t i = 0; r == 0 && i < n; i++)
			r = check_member(a, json_array_get(v, i), err);
		return r;
	}
	const char *key;
	json_t *value;
	json_object_foreach ((json_t *)v, key, value) {
		if (!*key || strchr(key, '='))
			return err_set(err, ERR_INVALID_ARGUMENT, 0,
				"argument \"%s\" has the name \"%.60s\"; a name is not empty and "
				"holds "
				"no \"=\"",
				a->name, key);
		r = check_member(a, value, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_object(const struct arg *a, const json_t *v, json_t **ret, struct err *err)
{
	json_t *o = json_is_string(v)
			    ? json_loads(json_string_value(v), JSON_REJECT_DUPLICATES, NULL)
			    : json_incref((json_t *)v);
	_cleanup_free_ char *text = json_is_object(o) ? json_dumps(o, JSON_COMPACT) : NULL;
	size_t n = text ? strlen(text) : 0;
	if (text && (double)n <= a->max) {
		*ret = o;
		return 0;
	}
	json_decref(o);
	return text ? err_set(err, ERR_INVALID_ARGUMENT, 0,
			      "argument \"%s\" is %zu bytes long; at most %.0f are accepted",
			      a->name, n, a->max)
		    : wrong_type(a, v, err);
}

static int check_value(const struct arg *a, const json_t *v, json_t **ret, struct err *err)
{
	int r = 0;
	*ret = NULL;
	switch (a->type) {
	case ARG_TEXT:
		r = json_is_string(v) ? check_text(a, v, err) : wrong_type(a, v, err);
		break;
	case ARG_INTEGER:
	case ARG_NUMBER:
		return json_is_number(v) ? check_number(a, v, ret, err) : wrong_type(a, v, err);
	case ARG_BOOLEAN:
		r = json_is_boolean(v) ? 0 : wrong_type(a, v, err);
		break;
	case ARG_LIST:
		r = json_is_array(v) ? check_members(a, v, err) : wrong_type(a, v, err);
		break;
	case ARG_MAP:
		r = json_is_object(v) ? check_members(a, v, err) : wrong_type(a, v, err);
		break;
	case ARG_OBJECT:
		return check_object(a, v, ret, err);
	}
	if (r == 0)
		*ret = json_incref((json_t *)v);
	return r;
}

static int check_action(const struct arg_table *t, const json_t *args, struct err *err)
{
	const char *name = args_text(args, "action");
	const struct arg_action *action = find_action(t, name);
	if (!action) {
		const char *names[16] = {0};
		for (size_t i = 0; i < t->n_actions && i + 1 < ARRAY_SIZE(names); i++)
			names[i] = t->actions[i].name;
		return wrong_choice("action", names, name ? name : "", err);
	}
	for (size_t i = 0; i < ARRAY_SIZE(action->needs) && action->needs[i]; i++)
		if (!json_object_get(args, action->needs[i]))
			return err_set(err, ERR_INVALID_ARGUMENT, 0,
				"argument \"%s\" is missing: action %s needs it", action->needs[i],
				action->name);
	return 0;
}

int args_check(const struct arg_table *t, const json_t *arguments, json_t **ret, struct err *err)
{
	json_t *args = json_object();
	const char *name;
	json_t *v;
	int r = 0;
	json_object_foreach ((json_t *)arguments, name, v) {
		const struct arg *a = find_arg(t, name);
		json_t *checked = NULL;
		if (!a) {
			r = unknown_argument(t, name, err);
			break;
		}
		if (json_is_null(v))
			continue;
		r = check_value(a, v, &checked, err);
		if (r < 0)
			break;
		json_object_set_new(args, name, checked);
	}
	for (size_t i = 0; r == 0 && i < t->n_args; i++)
		if (t->args[i].required && !json_object_get(args, t->args[i].name))
			r = err_set(err, ERR_INVALID_ARGUMENT, 0, "argument \"%s\" is missing (%s)",
				t->args[i].name, type_words[t->args[i].type]);
	if (r == 0 && t->actions)
		r = check_action(t, args, err);
	if (r < 0) {
		json_decref(args);
		return r;
	}
	*ret = args;
	return 0;
}

const char *args_action(const struct arg_table *t, const json_t *arguments)
{
	const struct arg_action *a =
		find_action(t, json_string_value(json_object_get(arguments, "action")));
	return a ? a->name : NULL;
}

/* ---- schemas ---- */

static void set_text(json_t *o, const char *key, const char *text)
{
	if (text)
		json_object_set_new(o, key, json_string(text));
}

static json_t *typed(const char *type)
{
	json_t *o = json_object();
	set_text(o, "type", type);
	return o;
}

/* 50, not 50.0: some clients print the schema to their model. */
static json_t *number(double d)
{
	return is_whole(d) ? json_integer((json_int_t)d) : json_real(d);
}

static json_t *arg_schema(const struct arg *a)
{
	static const char *const names[] = {
		[ARG_TEXT] = "string",
		[ARG_INTEGER] = "integer",
		[ARG_NUMBER] = "number",
		[ARG_BOOLEAN] = "boolean",
		[ARG_LIST] = "array",
		[ARG_MAP] = "object",
		[ARG_OBJECT] = "object",
	};
	json_t *o = typed(names[a->type]);
	set_text(o, "description", a->description);
	set_text(o, "x-mcp-header", a->header);
	if (a->choices) {
		json_t *list = json_array();
		for (size_t i = 0; a->choices[i]; i++)
			json_array_append_new(list, json_string(a->choices[i]));
		json_object_set_new(o, "enum", list);
	}
	if (a->type == ARG_INTEGER || a->type == ARG_NUMBER) {
		json_object_set_new(o, "minimum", number(a->min));
		if (a->max < 1e15) /* beyond it is "no limit", which needs no words */
			json_object_set_new(o, "maximum", number(a->max));
	}
	if (a->type == ARG_LIST)
		json_object_set_new(o, "items", typed("string"));
	if (a->type == ARG_MAP)
		json_object_set_new(o, "additionalProperties", typed("string"));
	return o;
}

static json_t *action_schema(const struct arg_table *t)
{
	json_t *o = typed("string");
	json_t *list = json_array();
	for (size_t i = 0; i < t->n_actions; i++)
		json_array_append_new(list, json_string(t->actions[i].name));
	json_object_set_new(o, "enum", list);
	return o;
}

json_t *args_schema(const struct arg_table *t)
{
	json_t *root = typed("object");
	json_t *properties = json_object(), *required = json_array();
	for (size_t i = 0; i < t->n_args; i++) {
		const struct arg *a = &t->args[i];
		bool is_action = t->actions && strcmp(a->name, "action") == 0;
		json_object_set_new(
			properties, a->name, is_action ? action_schema(t) : arg_schema(a));
		if (a->required)
			json_array_append_new(required, json_string(a->name));
	}
	json_object_set_new(root, "properties", properties);
	if (json_array_size(required) > 0)
		json_object_set(root, "required", required);
	json_decref(required);
	json_object_set_new(root, "additionalProperties", json_false());
	return root;
}

static json_t *object_schema(const struct field *fields);

static json_t *field_schema(const struct field *f)
{
	const char *type = f->type;
	bool list = *type == '[';
	json_t *item;
	if (strstr(type, "object"))
		item = object_schema(f->sub);
	else
		item = typed(list ? "string" : type);
	if (!list)
		return item;
	json_t *o = typed("array");
	json_object_set_new(o, "items", item);
	return o;
}

static json_t *object_schema(const struct field *fields)
{
	json_t *o = typed("object");
	if (!fields)
		return o;
	json_t *properties = json_object(), *required = json_array();
	for (const struct field *f = fields; f->name; f++) {
		json_object_set_new(properties, f->name, field_schema(f));
		if (f->required)
			json_array_append_new(required, json_string(f->name));
	}
	json_object_set_new(o, "properties", properties);
	if (json_array_size(required) > 0)
		json_object_set(o, "required", required);
	json_decref(required);
	return o;
}

json_t *fields_schema(const struct field *fields)
{
	return object_schema(fields);
}

/* ---- reading ---- */

const char *args_text(const json_t *args, const char *name)
{
	return json_string_value(json_object_get(args, name));
}

size_t args_text_len(const json_t *args, const char *name)
{
	return json_string_length(json_object_get(args, name));
}

double args_number(const json_t *args, const char *name, double fallback)
{
	const json_t *v = json_object_get(args, name);
	return v ? json_number_value(v) : fallback;
}

uint64_t args_u64(const json_t *args, const char *name, uint64_t fallback)
{
	const json_t *v = json_object_get(args, name);
	return v ? (uint64_t)json_integer_value(v) : fallback;
}

bool args_bool(const json_t *args, const char *name)
{
	return json_is_true(json_object_get(args, name));
}
