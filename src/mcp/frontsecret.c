/* frontsecret.c: see frontsecret.h. */
#include "mcp/frontsecret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mcp/jsonrpc.h"

/* Of a reason; longer ones are cut. */
#define WHY_MAX 240

json_t *frontsecret_wanted(const struct vault *v, const char *principal)
{
	const struct vault_want *wants;
	size_t n = vault_wants(v, principal, &wants);
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++) {
		const struct vault_want *w = &wants[i];
		json_t *o = NULL;
		if (w->source == VAULT_ENV)
			o = json_pack("{s:s,s:s}", "name", w->name, "env", w->place);
		else if (w->source == VAULT_EXEC)
			o = json_pack("{s:s,s:[]}", "name", w->name, "exec");
		json_t *argv = json_object_get(o, "exec");
		for (size_t j = 0; argv && w->argv[j]; j++)
			json_array_append_new(argv, jsonrpc_text(w->argv[j]));
		if (o)
			json_array_append_new(list, o);
	}
	return json_pack("{s:o}", "secrets", list);
}

static const char *text_of(const json_t *v)
{
	const char *text = json_string_value(v);
	return text && strlen(text) == json_string_length(v) ? text : NULL;
}

static bool read_wish(const json_t *o, struct frontsecret_wish *ret)
{
	const json_t *argv = json_object_get(o, "exec");
	*ret = (struct frontsecret_wish){
		.name = text_of(json_object_get(o, "name")),
		.variable = text_of(json_object_get(o, "env")),
	};
	if (!ret->name || !secret_name_valid(ret->name))
		return false;
	if (ret->variable)
		return ret->variable[0] && !strchr(ret->variable, '=');
	size_t n = json_array_size(argv);
	if (n == 0 || n > LIMIT_SECRET_EXEC_ARGS)
		return false;
	for (size_t i = 0; i < n; i++) {
		ret->argv[i] = text_of(json_array_get(argv, i));
		if (!ret->argv[i])
			return false;
	}
	return true;
}

int frontsecret_wishes(const char *p, size_t n, json_t **ret_root,
	struct frontsecret_wish ret[static LIMIT_SECRETS], size_t *ret_n, struct err *err)
{
	json_t *root = jsonrpc_too_deep(p, n, LIMIT_JSON_DEPTH)
			       ? NULL
			       : json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL);
	const json_t *list = json_object_get(root, "secrets");
	bool good = json_is_array(list) && json_array_size(list) <= LIMIT_SECRETS;
	for (size_t i = 0; good && i < json_array_size(list); i++)
		good = read_wish(json_array_get(list, i), &ret[i]);
	if (!good) {
		json_decref(root);
		return err_set(err, ERR_PROTOCOL, EPROTO,
			"the broker asks for secrets in a way that this scb does not understand");
	}
	*ret_n = json_array_size(list);
	*ret_root = root;
	return 0;
}

size_t frontsecret_head(
	enum frontsecret_kind kind, const char *name, uint8_t ret[static FRONTSECRET_HEAD])
{
	size_t n = strlen(name);
	CHECK(n <= LIMIT_SECRET_NAME);
	ret[0] = (uint8_t)kind;
	ret[1] = (uint8_t)n;
	memcpy(ret + 2, name, n);
	return 2 + n;
}

bool frontsecret_take(struct vault_giver *g, const uint8_t *p, size_t n)
{
	char name[LIMIT_SECRET_NAME + 1], why[WHY_MAX];
	if (n < 2 || p[1] > LIMIT_SECRET_NAME || n < 2U + p[1])
		return false;
	size_t rest = n - 2 - p[1];
	const uint8_t *text = p + 2 + p[1];
	memcpy(name, p + 2, p[1]);
	name[p[1]] = '\0';
	if (strlen(name) != p[1] || !secret_name_valid(name))
		return false;
	if (p[0] == FRONTSECRET_VALUE) {
		_cleanup_secret_ struct secret_value *value = NULL;
		struct err err;
		if (secret_value_new(name, text, rest, &value, &err) < 0)
			vault_give_nothing(g, name, err.text);
		else
			vault_give(g, value);
		return true;
	}
	(void)snprintf(why, sizeof(why), "%.*s", (int)MIN(rest, sizeof(why) - 1), text);
	vault_give_nothing(g, name, why);
	return p[0] == FRONTSECRET_NONE;
}
