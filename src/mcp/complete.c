/* complete.c: see complete.h. */
#include "mcp/complete.h"

#include <string.h>

#include "mcp/prompts.h"
#include "mcp/resource.h"

/* MCP's maximum. */
#define VALUES_MAX 100

static json_t *bad(struct jsonrpc_error *e, const char *text)
{
	jsonrpc_error_set(e, JSONRPC_INVALID_PARAMS, "%s", text);
	return NULL;
}

static json_t *matching(const char *const *choices, const char *begin)
{
	json_t *values = json_array();
	json_int_t total = 0;
	for (size_t i = 0; choices && choices[i]; i++) {
		if (strncmp(choices[i], begin, strlen(begin)) != 0)
			continue;
		if (total++ < VALUES_MAX)
			json_array_append_new(values, json_string(choices[i]));
	}
	return json_pack("{s:{s:o,s:I,s:b}}", "completion", "values", values, "total", total,
		"hasMore", total > VALUES_MAX);
}

static const struct prompt_arg *prompt_arg(const struct prompt *p, const char *name)
{
	for (size_t i = 0; i < p->n_args; i++)
		if (strcmp(p->args[i].name, name) == 0)
			return &p->args[i];
	return NULL;
}

json_t *complete(const struct mcp_offer *o, const json_t *params, struct jsonrpc_error *ret_error)
{
	const json_t *ref = json_object_get(params, "ref");
	const json_t *argument = json_object_get(params, "argument");
	const char *type = json_string_value(json_object_get(ref, "type"));
	const char *name = json_string_value(json_object_get(argument, "name"));
	const char *value = json_string_value(json_object_get(argument, "value"));
	if (!type || !name || !value)
		return bad(ret_error, "params has ref (with type) and argument (name and value)");
	if (strcmp(type, "ref/prompt") == 0) {
		const struct prompt *p =
			prompts_find(o, json_string_value(json_object_get(ref, "name")));
		const struct prompt_arg *a = p ? prompt_arg(p, name) : NULL;
		return a ? matching(a->choices, value)
			 : bad(ret_error, "params.ref and params.argument name no argument of a "
					  "prompt");
	}
	if (strcmp(type, "ref/resource") == 0) {
		const struct resource *r =
			resource_of_template(o, json_string_value(json_object_get(ref, "uri")));
		return r ? matching(strcmp(r->variable, name) == 0 ? r->choices : NULL, value)
			 : bad(ret_error, "params.ref names no template");
	}
	return bad(ret_error, "params.ref.type must be ref/prompt or ref/resource");
}
