/* resources.c: see resources.h. */
#include "mcp/resources.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "files/outputs.h"
#include "mcp/base64.h"
#include "mcp/protocol.h"
#include "mcp/redaction.h"
#include "mcp/resource.h"
#include "policy/policy.h"
#include "policy/rate.h"

#define PAGE_ENTRIES 200
/* One piece: in base64 it stays below LIMIT_MCP_RESULT with room for the rest of the message. */
#define PIECE (512 * KIB)
/* … with what stands around it. */
#define PIECE_AROUND (PIECE + 2 * REDACT_REACH_MAX)
/* A piece of text, where a byte may need six in JSON: only what is short when escaped is given as
 * text, the rest as base64. */
#define ESCAPED_MAX (800 * 1000)

/* ---- list ---- */

struct page {
	json_t *list;
	const char *after; /* id that ended the page before; NULL: from the start */
	char next[ID_TEXT_SIZE];
	bool found, more;
};

static int add_output(void *user, const struct output *o)
{
	struct page *p = user;
	if (p->after && !p->found) {
		p->found = strcmp(p->after, o->id) == 0;
		return 0;
	}
	if (json_array_size(p->list) == PAGE_ENTRIES) {
		p->more = true;
		return 1;
	}
	json_t *r = json_object();
	json_object_set_new(r, "uri", jsonrpc_text(o->uri));
	json_object_set_new(r, "name", jsonrpc_text(o->name));
	if (o->title)
		json_object_set_new(r, "title", jsonrpc_text(o->title));
	json_object_set_new(r, "mimeType", jsonrpc_text(o->mime_type));
	json_object_set_new(r, "size", json_integer((json_int_t)o->size));
	json_object_set_new(r, "_meta", json_pack("{s:s}", "scb/sha256", o->sha256));
	json_array_append_new(p->list, r);
	str_copy(p->next, sizeof(p->next), o->id);
	return 0;
}

static int on_record(
	const struct mcp_server *s, const char *principal, const struct policy_decision *d)
{
	const struct audit_event e = {
		.event = "policy.decision",
		.principal = principal,
		.policy_rule = d->rule,
		.policy_denied = true,
		.detail = "presented files",
	};
	struct err err;
	if (audit_event(s->config.audit, &e, &err) < 0)
		log_error("%s", err.text); /* it is refused all the same */
	return -EACCES;
}

/* They are read as often as tools are called. */
static int take_rate(struct mcp_server *s, const char *principal, struct err *err)
{
	const struct policy_rate *rate = policy_rate(s->config.policy, principal);
	uint64_t wait_us = rates_take(s->rates, principal, rate, clock_monotonic_us());
	if (wait_us == 0)
		return 0;
	return err_set(err, ERR_LIMIT_REACHED, EAGAIN,
		"Too many requests (rule: %.80s). Try again in %llu s.", rate->rule,
		(unsigned long long)(wait_us / USEC_PER_SEC + 1));
}

/* Presented files only where files may leave. */
static int decide(struct mcp_server *s, const char *principal, struct err *err)
{
	struct policy_decision d;
	policy_decide_outputs(s->config.policy, principal, &d);
	if (d.allowed)
		return 0;
	(void)err_set(err, ERR_POLICY_DENIED, EACCES, "%.300s", d.reason);
	return on_record(s, principal, &d);
}

int resources_permit(struct mcp_server *s, const char *principal, struct err *err)
{
	int r = take_rate(s, principal, err);
	return r < 0 ? r : decide(s, principal, err);
}

static int told(int r, const struct err *err, struct jsonrpc_error *ret_error)
{
	if (r < 0)
		jsonrpc_error_set(ret_error, err_info(err->code)->jsonrpc, "%.400s", err->text);
	return r;
}

static int keep_rate(struct mcp_conn *c, struct jsonrpc_error *ret_error)
{
	struct err err;
	return told(take_rate(c->server, c->principal, &err), &err, ret_error);
}

static int permit(struct mcp_conn *c, struct jsonrpc_error *ret_error)
{
	struct err err;
	return told(decide(c->server, c->principal, &err), &err, ret_error);
}

char *resources_link(const struct mcp_conn *c, const char *uri, uint64_t *ret_until_s)
{
	if (!c->links.base)
		return NULL;
	*ret_until_s = clock_realtime_us() / USEC_PER_SEC + LIMIT_HTTP_LINK_S;
	return weblink_make(&c->links, c->principal, uri, *ret_until_s);
}

int resources_list(struct mcp_conn *c, const json_t *params, bool modern, json_t **ret_result,
	struct jsonrpc_error *ret_error)
{
	const char *cursor = json_string_value(json_object_get(params, "cursor"));
	struct page p = {.list = json_array(), .after = cursor && *cursor ? cursor : NULL};
	struct err err = {0};
	int r = keep_rate(c, ret_error);
	if (r == 0 && !p.after)
		resource_list(c->server->offer, p.list);
	if (r == 0)
		r = permit(c, ret_error);
	if (r < 0) {
		json_decref(p.list);
		return r;
	}
	if (c->server->config.outputs)
		r = outputs_list(c->server->config.outputs, c->principal, add_output, &p, &err);
	if (r < 0 || (p.after && !p.found)) {
		json_decref(p.list);
		if (r < 0)
			jsonrpc_error_set(
				ret_error, err_info(err.code)->jsonrpc, "%.200s", err.text);
		else
			jsonrpc_error_set(ret_error, JSONRPC_INVALID_PARAMS,
				"params.cursor is not one that this server gave");
		return -EINVAL;
	}
	json_t *result = json_pack("{s:o}", "resources", p.list);
	if (p.more)
		json_object_set_new(result, "nextCursor", json_string(p.next));
	mcp_result_cache(result, modern, 0, "private");
	*ret_result = result;
	return 0;
}

/* ---- read ---- */

static int range_value(const char *text, size_t n, uint64_t *ret)
{
	char digits[24];
	if (n == 0 || n >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, text, n);
	digits[n] = '\0';
	return str_to_u64(digits, INT64_MAX, ret);
}

int resource_range_parse(const char *uri, struct resource_range *ret)
{
	const char *q = strchr(uri, '?');
	*ret = (struct resource_range){.length = PIECE, .given = q != NULL};
	for (const char *p = q ? q + 1 : NULL; p && *p;) {
		size_t n = strcspn(p, "&");
		int r = -EINVAL;
		if (n > 7 && strncmp(p, "offset=", 7) == 0)
			r = range_value(p + 7, n - 7, &ret->offset);
		else if (n > 7 && strncmp(p, "length=", 7) == 0)
			r = range_value(p + 7, n - 7, &ret->length);
		if (r < 0)
			return -EINVAL;
		p += n + (p[n] == '&' ? 1 : 0);
	}
	ret->length = MIN(ret->length, PIECE);
	ret->uri = q ? xstrndup(uri, (size_t)(q - uri)) : xstrdup(uri);
	return 0;
}

static size_t escaped_size(const uint8_t *p, size_t n)
{
	size_t size = 0;
	for (size_t i = 0; i < n; i++)
		size += p[i] < 0x20 ? 6 : p[i] == '"' || p[i] == '\\' ? 2 : 1;
	return size;
}

/* Puts the piece into contents and returns how many of its bytes that took: text never ends inside
 * a character, unless the caller chose the range. */
static size_t put_piece(
	json_t *contents, const struct output *o, const struct buf *piece, bool last)
{
	size_t n = piece->len;
	if (o->text && !last)
		n = str_utf8_trim(piece->data, n);
	if (o->text && str_utf8_valid(piece->data, n) &&
		escaped_size(piece->data, n) <= ESCAPED_MAX) {
		json_object_set_new(contents, "text", jsonrpc_text_n(piece->data, n));
		return n;
	}
	json_object_set_new(contents, "blob", base64_json(piece->data, piece->len));
	return piece->len;
}

static int not_found(
	const char *uri, bool modern, const struct err *err, struct jsonrpc_error *ret_error)
{
	int code = err_info(err->code)->jsonrpc;
	if (err->code == ERR_NO_SUCH_RESOURCE)
		code = modern ? JSONRPC_INVALID_PARAMS : MCP_LEGACY_NO_RESOURCE;
	jsonrpc_error_set(ret_error, code, "%.200s", err->text);
	ret_error->data = json_pack("{s:s}", "uri", uri);
	return -EINVAL;
}

static json_t *read_result(const struct mcp_conn *c, const char *uri, const struct output *o,
	const struct resource_range *range, const struct buf *piece, bool modern)
{
	json_t *contents = json_object();
	json_object_set_new(contents, "uri", json_string(uri));
	json_object_set_new(contents, "mimeType", jsonrpc_text(o->mime_type));

	bool last = range->offset + piece->len >= o->size;
	uint64_t end = range->offset + put_piece(contents, o, piece, last);
	uint64_t until_s;
	_cleanup_free_ char *link = resources_link(c, o->uri, &until_s);
	if (end < o->size || range->given || link) {
		json_t *meta = json_object();
		if (link)
			json_object_set_new(meta, "scb/link", jsonrpc_text(link));
		json_object_set_new(meta, "scb/offset", json_integer((json_int_t)range->offset));
		json_object_set_new(meta, "scb/totalBytes", json_integer((json_int_t)o->size));
		if (end < o->size) {
			_cleanup_free_ char *next = xasprintf("%s?offset=%llu&length=%llu", o->uri,
				(unsigned long long)end, (unsigned long long)range->length);
			json_object_set_new(meta, "scb/nextUri", jsonrpc_text(next));
		}
		json_object_set_new(contents, "_meta", meta);
	}
	json_t *result = json_pack("{s:[o]}", "contents", contents);
	/* presented bytes never change */
	mcp_result_cache(result, modern, 3600 * 1000, "private");
	return result;
}

/* Reads range with what stands around it, and masks that: a secret may have become known after the
 * file was presented. What is not given as text must be what was presented, and is refused. */
static int read_masked(struct mcp_conn *c, const struct resource_range *range,
	const struct output *o, struct buf *ret, struct err *err)
{
	const struct redactor *redactor = redaction_of(c->server, c->principal);
	uint64_t before = MIN(range->offset, redactor_reach(redactor));
	int r = outputs_read(c->server->config.outputs, c->principal, range->uri,
		range->offset - before, before + range->length + redactor_reach(redactor), ret,
		err);
	if (r < 0)
		return r;
	uint64_t end = range->offset - before + ret->len;
	const char *secret = redact_find(redactor, ret->data, ret->len);
	if (secret && !o->text)
		return err_set(err, ERR_FILE_REFUSED, EACCES,
			"the secret %s stands in this file, which became known after it was "
			"presented",
			secret);
	if (redactor)
		redact_piece(
			redactor, ret->data, ret->len, range->offset > before, end < o->size, NULL);
	buf_consume(ret, MIN(before, ret->len));
	ret->len = MIN(ret->len, range->length);
	return 0;
}

int resources_read(struct mcp_conn *c, const json_t *params, bool modern, json_t **ret_result,
	struct jsonrpc_error *ret_error)
{
	const char *uri = json_string_value(json_object_get(params, "uri"));
	struct resource_range range;
	if (!uri || strlen(uri) > LIMIT_PATH) {
		jsonrpc_error_set(ret_error, JSONRPC_INVALID_PARAMS,
			"params.uri must be a string of at most %d bytes", LIMIT_PATH);
		return -EINVAL;
	}
	if (resource_range_parse(uri, &range) < 0) {
		jsonrpc_error_set(ret_error, JSONRPC_INVALID_PARAMS,
			"the query of params.uri must be ?offset=N&length=M with whole numbers");
		return -EINVAL;
	}

	_cleanup_free_ char *plain = range.uri;
	int r = keep_rate(c, ret_error);
	if (r < 0)
		return r;
	*ret_result = resource_read(c->server->offer, uri);
	if (*ret_result) {
		mcp_result_cache(*ret_result, modern, 3600 * 1000, "public");
		return 0;
	}
	r = permit(c, ret_error);
	if (r < 0)
		return r;
	_cleanup_buf_ struct buf piece = BUF_INIT(PIECE_AROUND);
	struct output o = {0};
	struct err err = {.code = ERR_NO_SUCH_RESOURCE, .text = "nothing was presented here"};
	struct outputs *outputs = c->server->config.outputs;
	r = outputs ? outputs_find(outputs, c->principal, plain, &o, &err) : -ENOENT;
	if (r == 0 && range.offset < o.size)
		r = read_masked(c, &range, &o, &piece, &err);
	if (r < 0) {
		output_done(&o);
		return not_found(uri, modern, &err, ret_error);
	}
	*ret_result = read_result(c, uri, &o, &range, &piece, modern);
	output_done(&o);
	return 0;
}
