/* httprules.c: see httprules.h. */
#include "mcp/httprules.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "mcp/base64.h"
#include "mcp/protocol.h"
#include "mcp/server.h"
#include "mcp/tool.h"

/* A name, URI or argument that is given in a header field. */
#define NAME_MAX_BYTES (24 * 1024)
/* Mcp-Param- and its name. */
#define FIELD_MAX 100

/* ---- media types ---- */

static bool is_type(const char *at, size_t n, const char *type)
{
	while (n && (at[n - 1] == ' ' || at[n - 1] == '\t'))
		n--;
	return n == strlen(type) && strncasecmp(at, type, n) == 0;
}

bool httprules_names_type(const char *field, const char *type)
{
	while (field && *field) {
		field += strspn(field, " \t,");
		size_t n = strcspn(field, ",");
		if (is_type(field, MIN(n, strcspn(field, ";")), type))
			return true;
		field += n;
	}
	return false;
}

/* ---- from where ---- */

/* The host of "host", "host:port", "[v6]:port"; its length, 0 where it is none. */
static size_t host_length(const char *text)
{
	size_t n = text[0] == '[' ? strcspn(text, "]") + 1 : strcspn(text, ":");
	size_t all = strlen(text);
	if (n > all)
		return 0;
	bool port = text[n] == ':' && strspn(text + n + 1, "0123456789") == all - n - 1;
	return n == all || port ? n : 0;
}

static bool is_local(const char *host)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
	size_t n = host_length(host);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (n == strlen(names[i]) && strncasecmp(host, names[i], n) == 0)
			return true;
	return false;
}

static bool is_allowed_host(const char *host, const struct httprules_allowed *allowed)
{
	size_t n = host_length(host);
	for (size_t i = 0; n && i < allowed->n_hosts; i++) {
		const char *name = allowed->hosts[i];
		size_t all = strlen(name);
		bool with_port = host_length(name) < all;
		if (with_port ? strcasecmp(name, host) == 0
			      : all == n && strncasecmp(name, host, n) == 0)
			return true;
	}
	return false;
}

static bool is_allowed_origin(const char *origin, const struct httprules_allowed *allowed)
{
	for (size_t i = 0; i < allowed->n_origins; i++)
		if (strcasecmp(allowed->origins[i], origin) == 0)
			return true;
	const char *host = strncmp(origin, "http://", 7) == 0    ? origin + 7
			   : strncmp(origin, "https://", 8) == 0 ? origin + 8
								 : NULL;
	return host && is_local(host);
}

/* A page of this server, as the browser calls it. */
static bool is_own_origin(const char *origin, const char *host)
{
	const char *rest = strstr(origin, "://");
	return rest && strcasecmp(rest + 3, host) == 0;
}

bool httprules_from_here(const struct http_head *head, const struct httprules_allowed *allowed)
{
	const char *host = http_field(head, "host"), *origin = http_field(head, "origin");
	if (!host || !(is_local(host) || is_allowed_host(host, allowed)))
		return false;
	return http_count(head, "origin") == 0 ||
	       (origin && (is_own_origin(origin, host) || is_allowed_origin(origin, allowed)));
}

/* ---- eras ---- */

static void fail(struct httprules_verdict *v, unsigned status, int code, const char *text)
{
	v->status = status;
	if (text)
		jsonrpc_error_set(&v->error, code, "%s", text);
}

/* The field's value, with =?base64?…?= taken off; NULL where it is missing or broken. */
static const char *decoded(const struct http_head *head, const char *name, struct buf *room)
{
	static const char begin[] = "=?base64?", end[] = "?=";
	const char *value = http_field(head, name);
	size_t n = value ? strlen(value) : 0, extra = sizeof(begin) - 1 + sizeof(end) - 1;
	if (n < extra || strncmp(value, begin, sizeof(begin) - 1) != 0 ||
		strcmp(value + n - 2, end) != 0)
		return value;
	if (base64_decode(value + sizeof(begin) - 1, n - extra, room) < 0 ||
		memchr(room->data, '\0', room->len) || buf_append(room, "", 1) < 0)
		return NULL;
	return (const char *)room->data;
}

/* What Mcp-Name must say; NULL: this method has no such field. */
static const char *name_of(const struct jsonrpc_msg *m)
{
	static const struct {
		const char *method, *member;
	} named[] = {{"tools/call", "name"}, {"prompts/get", "name"}, {"resources/read", "uri"}};
	for (size_t i = 0; i < ARRAY_SIZE(named); i++) {
		if (strcmp(m->method, named[i].method) != 0)
			continue;
		const char *name = json_string_value(json_object_get(m->params, named[i].member));
		return name ? name : "";
	}
	return NULL;
}

/* Does the field say what the argument says? 42.0 and 42 are alike. */
static bool says(const char *given, const json_t *v)
{
	if (json_is_string(v))
		return strlen(given) == json_string_length(v) &&
		       strcmp(given, json_string_value(v)) == 0;
	if (json_is_boolean(v))
		return strcmp(given, json_is_true(v) ? "true" : "false") == 0;
	/* decimal alone: strtod() takes more */
	return json_is_number(v) && *given && strspn(given, "-.0123456789eE") == strlen(given) &&
	       strtod(given, NULL) == json_number_value(v);
}

/* Arguments that stand in Mcp-Param-… as well: both say the same, or neither says anything. */
static bool params_agree(
	const struct http_head *head, const struct jsonrpc_msg *m, const struct mcp_offer *offer)
{
	const char *name = json_string_value(json_object_get(m->params, "name"));
	const struct tool *tool =
		strcmp(m->method, "tools/call") == 0 && name ? tools_find(offer, name) : NULL;
	for (size_t i = 0; tool && i < tool->args.n_args; i++) {
		const struct arg *a = &tool->args.args[i];
		char field[FIELD_MAX];
		_cleanup_buf_ struct buf room = BUF_INIT(NAME_MAX_BYTES);
		if (!a->header)
			continue;
		(void)snprintf(field, sizeof(field), "mcp-param-%s", a->header);
		for (char *p = field; *p; p++)
			*p = (char)tolower((unsigned char)*p);
		const json_t *v = json_object_get(json_object_get(m->params, "arguments"), a->name);
		bool is_given = v && !json_is_null(v);
		const char *given = decoded(head, field, &room);
		if (is_given ? !given || !says(given, v) : http_count(head, field) > 0)
			return false;
	}
	return true;
}

static void judge_modern(const struct http_head *head, const struct jsonrpc_msg *m,
	const struct mcp_offer *offer, struct httprules_verdict *v)
{
	struct mcp_envelope envelope;
	_cleanup_buf_ struct buf room = BUF_INIT(NAME_MAX_BYTES);
	const char *said = http_field(head, "mcp-protocol-version");
	const char *method = http_field(head, "mcp-method"), *name = name_of(m);
	const char *version = mcp_envelope_version(m->params);
	if (!version) {
		fail(v, 400, JSONRPC_INVALID_PARAMS,
			"params._meta[\"io.modelcontextprotocol/protocolVersion\"] is missing or "
			"no string");
		return;
	}
	if (!said || strcmp(said, version) != 0) {
		fail(v, 400, MCP_HEADER_MISMATCH,
			"The MCP-Protocol-Version header and the version in params._meta differ");
		return;
	}
	if (mcp_envelope_read(m->method, m->params, &envelope, &v->error) < 0) {
		fail(v, 400, 0, NULL);
		return;
	}
	if (!method || strcmp(method, m->method) != 0) {
		fail(v, 400, MCP_HEADER_MISMATCH,
			"The Mcp-Method header and the method of the message differ");
		return;
	}
	const char *given = name ? decoded(head, "mcp-name", &room) : NULL;
	if (name && (!given || strcmp(given, name) != 0)) {
		fail(v, 400, MCP_HEADER_MISMATCH,
			"The Mcp-Name header and the name in the message differ");
		return;
	}
	if (!mcp_is_method(offer, m->method, true))
		fail(v, 404, JSONRPC_METHOD_NOT_FOUND, "Method not found");
	else if (!params_agree(head, m, offer))
		fail(v, 400, MCP_HEADER_MISMATCH,
			"A Mcp-Param header and the argument in the message differ");
}

void httprules_judge(const struct http_head *head, const struct jsonrpc_msg *m,
	const struct mcp_offer *offer, struct httprules_verdict *ret)
{
	const char *said = http_field(head, "mcp-protocol-version");
	size_t times = http_count(head, "mcp-protocol-version");
	*ret = (struct httprules_verdict){0};
	if (times > 1) {
		fail(ret, 400, MCP_HEADER_MISMATCH,
			"The MCP-Protocol-Version header is there twice");
	} else if (m->kind != JSONRPC_REQUEST) {
		ret->status = 202;
	} else if (mcp_envelope_version(m->params) || (said && mcp_version_is_modern(said))) {
		ret->modern = true;
		judge_modern(head, m, offer, ret);
	} else if (said && !mcp_version_is_legacy(said)) {
		fail(ret, 400, JSONRPC_INVALID_REQUEST,
			"The MCP-Protocol-Version header names a version that is not supported");
	}
	if (ret->error.code)
		ret->error.id = json_incref(m->id);
}

unsigned httprules_status(int code)
{
	return code == MCP_MISSING_CAPABILITY ? 400 : 200;
}
