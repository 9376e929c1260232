/* prompts.c: see prompts.h. */
#include "mcp/prompts.h"

#include <errno.h>
#include <string.h>

/* ---- list ---- */

static json_t *args_json(const struct prompt *p)
{
	json_t *list = json_array();
	for (size_t i = 0; i < p->n_args; i++) {
		const struct prompt_arg *a = &p->args[i];
		json_t *o = json_pack("{s:s,s:b}", "name", a->name, "required", a->required);
		if (a->description)
			json_object_set_new(o, "description", json_string(a->description));
		json_array_append_new(list, o);
	}
	return list;
}

json_t *prompts_list(const struct mcp_offer *o)
{
	json_t *list = json_array();
	for (size_t i = 0; o->prompts && o->prompts[i]; i++) {
		const struct prompt *p = o->prompts[i];
		json_t *entry = json_pack("{s:s,s:s,s:s}", "name", p->name, "title", p->title,
			"description", p->description);
		if (p->n_args > 0)
			json_object_set_new(entry, "arguments", args_json(p));
		json_array_append_new(list, entry);
	}
	return json_pack("{s:o}", "prompts", list);
}

const struct prompt *prompts_find(const struct mcp_offer *o, const char *name)
{
	for (size_t i = 0; name && o->prompts && o->prompts[i]; i++)
		if (strcmp(o->prompts[i]->name, name) == 0)
			return o->prompts[i];
	return NULL;
}

/* ---- get ---- */

json_t *prompt_says(json_t *content)
{
	return json_pack("{s:s,s:o}", "role", "user", "content", content);
}

static const struct prompt_arg *find_arg(const struct prompt *p, const char *name)
{
	for (size_t i = 0; i < p->n_args; i++)
		if (strcmp(p->args[i].name, name) == 0)
			return &p->args[i];
	return NULL;
}

static int bad(struct jsonrpc_error *e, const char *what, const char *name)
{
	jsonrpc_error_set(e, JSONRPC_INVALID_PARAMS, "%s%.80s", what, name);
	return -EINVAL;
}

static int check(const struct prompt *p, const json_t *args, struct jsonrpc_error *e)
{
	const char *name;
	json_t *v;
	if (args && !json_is_object(args))
		return bad(e, "params.arguments must be an object", "");
	json_object_foreach ((json_t *)args, name, v) {
		if (!find_arg(p, name))
			return bad(e, "the prompt has no argument ", name);
		if (!json_is_string(v))
			return bad(e, "it must be a string: argument ", name);
	}
	for (size_t i = 0; i < p->n_args; i++)
		if (p->args[i].required && !json_object_get(args, p->args[i].name))
			return bad(e, "missing: argument ", p->args[i].name);
	return 0;
}

/* What a prompt asks of its client can be brought along by requests of the modern era alone. */
static int asked(struct mcp_conn *c, struct ask *ask, bool modern, json_t **ret_result,
	struct jsonrpc_error *e)
{
	if (ask_refused(ask, e))
		return -EINVAL;
	if (!modern) {
		jsonrpc_error_set(e, JSONRPC_INVALID_PARAMS,
			"this prompt asks for more, which needs a client of protocol 2026-07-28");
		return -EINVAL;
	}
	*ret_result =
		ask_result(ask, &(struct redacting){redaction_of(c->server, c->principal), NULL});
	return 0;
}

int prompts_get(struct mcp_conn *c, const struct jsonrpc_msg *m,
	const struct mcp_envelope *envelope, json_t **ret_result, struct jsonrpc_error *ret_error)
{
	const char *name = json_string_value(json_object_get(m->params, "name"));
	const struct prompt *p = prompts_find(c->server->offer, name);
	const json_t *args = json_object_get(m->params, "arguments");
	struct ask *ask = NULL;
	if (!p)
		return bad(ret_error,
			"Unknown prompt (prompts/list names those there are): ", name ? name : "");
	int r = check(p, args, ret_error);
	if (r == 0)
		r = conn_open_ask(c, m, envelope, &ask, ret_error);
	if (r < 0)
		return r;
	json_t *messages = p->messages(args, ask);
	if (messages)
		*ret_result =
			json_pack("{s:s,s:o}", "description", p->description, "messages", messages);
	else
		r = asked(c, ask, envelope->modern, ret_result, ret_error);
	ask_free(ask);
	return r;
}
