/* server.c: see server.h. */
#include "mcp/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "mcp/board.h"
#include "mcp/callask.h"
#include "mcp/complete.h"
#include "mcp/fit.h"
#include "mcp/follow.h"
#include "mcp/idempotency.h"
#include "mcp/listen.h"
#include "mcp/metrics.h"
#include "mcp/prompts.h"
#include "mcp/protocol.h"
#include "mcp/redaction.h"
#include "mcp/resource.h"
#include "mcp/resources.h"
#include "mcp/tell.h"
#include "policy/rate.h"

/* How often calls are asked whether their client is due some news. */
#define TICK_MS 1000
/* After so long without a message the processors begin to forget the way of a call. */
#define QUIET_MS 2
/* For how long clients may keep what does not change while the server runs. */
#define LIST_TTL_MS (3600 * 1000)

/* ---- sending ---- */

/* What is no answer of a tool; those are masked where they end (call.c). */
static void mask(struct mcp_conn *c, json_t *message)
{
	redaction_mask(message, &(struct redacting){redaction_of(c->server, c->principal), NULL});
}

void conn_send(struct mcp_conn *c, uint64_t number, json_t *message)
{
	_cleanup_buf_ struct buf out = BUF_INIT(LIMIT_MCP_RESULT);
	mask(c, message);
	if (jsonrpc_encode(message, &out) == 0)
		c->transport->send(c->transport, number, (const char *)out.data, out.len);
	else
		log_error("a message of more than %d bytes was dropped", LIMIT_MCP_RESULT);
	json_decref(message);
}

void conn_done(struct mcp_conn *c, uint64_t number)
{
	if (c->transport->done)
		c->transport->done(c->transport, number);
}

void conn_set_session(struct mcp_conn *c, const char *handle)
{
	if (strcmp(c->default_session, handle) == 0)
		return;
	str_copy(c->default_session, sizeof(c->default_session), handle);
	if (c->transport->session)
		c->transport->session(c->transport, handle);
}

void conn_failed(struct mcp_conn *c, uint64_t number, int code)
{
	if (c->transport->failed)
		c->transport->failed(c->transport, number, code);
}

void conn_error(struct mcp_conn *c, uint64_t number, struct jsonrpc_error *e)
{
	conn_failed(c, number, e->code);
	conn_send(c, number, jsonrpc_error_message(e));
	jsonrpc_error_done(e);
}

void conn_encode_result(
	const struct mcp_offer *o, json_t *id, json_t *result, bool modern, struct buf *out)
{
	mcp_result_finish(o, result, modern);
	json_t *message = jsonrpc_result(id, result);
	int r = jsonrpc_encode(message, out);
	for (unsigned round = 0; r < 0 && fit_shrink(result, round); round++)
		r = jsonrpc_encode(message, out);
	json_decref(message);
	if (r == 0)
		return;

	struct jsonrpc_error e = {.id = id};
	jsonrpc_error_set(&e, JSONRPC_INTERNAL,
		"The answer is larger than %d bytes; ask for less of it", LIMIT_MCP_RESULT);
	message = jsonrpc_error_message(&e);
	CHECK(jsonrpc_encode(message, out) == 0);
	json_decref(message);
}

int conn_open_ask(struct mcp_conn *c, const struct jsonrpc_msg *m,
	const struct mcp_envelope *envelope, struct ask **ret, struct jsonrpc_error *ret_error)
{
	const struct ask_request request = {
		.key = c->server->ask_key,
		.principal = c->principal,
		.method = m->method,
		.params = m->params,
		.modern = envelope->modern,
		.capabilities = envelope->modern ? envelope->capabilities : c->capabilities,
	};
	return ask_open(&request, ret, ret_error);
}

void conn_result(struct mcp_conn *c, uint64_t number, json_t *id, json_t *result, bool modern)
{
	_cleanup_buf_ struct buf out = BUF_INIT(LIMIT_MCP_RESULT);
	conn_encode_result(c->server->offer, id, result, modern, &out);
	c->transport->send(c->transport, number, (const char *)out.data, out.len);
}

/* ---- methods that are answered at once ---- */

struct request {
	struct mcp_conn *conn;
	const struct jsonrpc_msg *message;
	const json_t *params;
	const struct mcp_envelope *envelope;
	bool modern;
	struct jsonrpc_error *error;
};

static json_t *do_initialize(const struct request *r)
{
	const char *version = json_string_value(json_object_get(r->params, "protocolVersion"));
	json_t *capabilities = json_object_get(r->params, "capabilities");
	if (!version) {
		jsonrpc_error_set(r->error, JSONRPC_INVALID_PARAMS,
			"params.protocolVersion is missing or no string");
		return NULL;
	}
	json_decref(r->conn->capabilities);
	r->conn->capabilities =
		json_is_object(capabilities) ? json_incref(capabilities) : json_object();
	return mcp_initialize_result(r->conn->server->offer, version);
}

static json_t *do_discover(const struct request *r)
{
	json_t *result = mcp_discover_result(r->conn->server->offer);
	mcp_result_cache(result, r->modern, LIST_TTL_MS, "public");
	return result;
}

static json_t *do_nothing(const struct request *r)
{
	(void)r;
	return json_object();
}

static json_t *do_set_level(const struct request *r)
{
	int level = tell_level_of(json_string_value(json_object_get(r->params, "level")));
	if (level < 0) {
		jsonrpc_error_set(r->error, JSONRPC_INVALID_PARAMS,
			"params.level must be one of debug, info, notice, warning, error, "
			"critical, alert, emergency");
		return NULL;
	}
	r->conn->log_level = level;
	return json_object();
}

static json_t *public_list(const struct request *r, json_t *result)
{
	mcp_result_cache(result, r->modern, LIST_TTL_MS, "public");
	return result;
}

static json_t *do_prompts_list(const struct request *r)
{
	return public_list(r, prompts_list(r->conn->server->offer));
}

static json_t *do_prompts_get(const struct request *r)
{
	json_t *result = NULL;
	if (prompts_get(r->conn, r->message, r->envelope, &result, r->error) == 0)
		mask(r->conn, result);
	return result;
}

static json_t *do_complete(const struct request *r)
{
	return complete(r->conn->server->offer, r->params, r->error);
}

static json_t *do_templates_list(const struct request *r)
{
	return public_list(r, resource_templates(r->conn->server->offer));
}

static json_t *do_resources_list(const struct request *r)
{
	json_t *result = NULL;
	if (resources_list(r->conn, r->params, r->modern, &result, r->error) == 0)
		mask(r->conn, result);
	return result;
}

static json_t *do_resources_read(const struct request *r)
{
	json_t *result = NULL;
	if (resources_read(r->conn, r->params, r->modern, &result, r->error) == 0)
		mask(r->conn, result);
	return result;
}

/* ---- messages ---- */

static struct call *find_call(struct mcp_conn *c, const json_t *id)
{
	list_for_each (call, next, &c->calls, struct call, link)
		if (!call->cancelled && json_equal(call->id, id))
			return call;
	return NULL;
}

static void on_tick(uv_timer_t *t);

static void start_call(struct mcp_conn *c, const struct mcp_message *message,
	const struct jsonrpc_msg *m, const struct mcp_envelope *envelope)
{
	struct jsonrpc_error e = {0};
	if (find_call(c, m->id))
		jsonrpc_error_set(&e, JSONRPC_INVALID_REQUEST,
			"A request with this id is still being worked on");
	else if (c->n_calls >= LIMIT_MCP_INFLIGHT)
		jsonrpc_error_set(&e, JSONRPC_INTERNAL,
			"Too many requests at once: %d are being worked on; try again when one has "
			"been answered",
			LIMIT_MCP_INFLIGHT);
	if (e.code) {
		e.id = json_incref(m->id);
		conn_error(c, message->number, &e);
		return;
	}
	uv_timer_t *ticker = &c->server->ticker;
	if (!uv_is_active((uv_handle_t *)ticker))
		(void)uv_timer_start(ticker, on_tick, TICK_MS, TICK_MS);
	call_start(c, message, m, envelope);
}

/* The list is the same for every request, and clients ask for it all the time: it is made once. */
static const struct buf *tools_text(struct mcp_server *s, bool modern)
{
	struct buf *text = &s->tools[modern];
	if (text->len > 0)
		return text;
	json_t *list = tools_list(s->offer);
	mcp_result_cache(list, modern, LIST_TTL_MS, "public");
	mcp_result_finish(s->offer, list, modern);
	buf_init(text, LIMIT_MCP_RESULT);
	CHECK(jsonrpc_encode(list, text) == 0);
	json_decref(list);
	return text;
}

static void list_tools(struct mcp_conn *c, const struct mcp_message *message,
	const struct jsonrpc_msg *m, const struct mcp_envelope *envelope)
{
	const char *cursor = json_string_value(json_object_get(m->params, "cursor"));
	if (cursor && *cursor) {
		struct jsonrpc_error e = {.id = json_incref(m->id)};
		jsonrpc_error_set(&e, JSONRPC_INVALID_PARAMS,
			"params.cursor is not one that this server gave: the list has one page");
		conn_error(c, message->number, &e);
		return;
	}
	const struct buf *text = tools_text(c->server, envelope->modern);
	_cleanup_free_ char *id = json_dumps(m->id, JSON_ENCODE_ANY);
	_cleanup_buf_ struct buf out = BUF_INIT(text->len + 8 * LIMIT_MCP_ID);
	CHECK(buf_printf(&out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":", id) == 0 &&
		buf_append(&out, text->data, text->len) == 0 && buf_append_str(&out, "}") == 0);
	c->transport->send(c->transport, message->number, (const char *)out.data, out.len);
}

/* ---- methods ---- */

enum { LEGACY = 1, MODERN = 2, BOTH = LEGACY | MODERN };

static bool has_prompts(const struct mcp_offer *o)
{
	return o->prompts;
}

static bool has_changes(const struct mcp_offer *o)
{
	return o->changes;
}

static const struct method {
	const char *name;
	int eras;
	/* Answered at once: the result, or NULL and r->error is set … */
	json_t *(*run)(const struct request *r);
	/* … or in its own time. */
	void (*start)(struct mcp_conn *c, const struct mcp_message *message,
		const struct jsonrpc_msg *m, const struct mcp_envelope *envelope);
	bool (*offered)(const struct mcp_offer *offer); /* NULL: always */
} methods[] = {
	{"tools/call", BOTH, .start = start_call},
	{"initialize", LEGACY, .run = do_initialize},
	{"ping", LEGACY, .run = do_nothing},
	{"logging/setLevel", LEGACY, .run = do_set_level},
	{"resources/subscribe", LEGACY, .run = do_nothing},
	{"resources/unsubscribe", LEGACY, .run = do_nothing},
	{"server/discover", MODERN, .run = do_discover},
	{"subscriptions/listen", MODERN, .start = listen_start, .offered = has_changes},
	{"tools/list", BOTH, .start = list_tools},
	{"prompts/list", BOTH, .run = do_prompts_list},
	{"prompts/get", BOTH, .run = do_prompts_get, .offered = has_prompts},
	{"completion/complete", BOTH, .run = do_complete, .offered = has_prompts},
	{"resources/list", BOTH, .run = do_resources_list},
	{"resources/templates/list", BOTH, .run = do_templates_list},
	{"resources/read", BOTH, .run = do_resources_read},
};

static const struct method *find_method(const struct mcp_offer *o, const char *name, bool modern)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
		if (strcmp(methods[i].name, name) == 0 &&
			(methods[i].eras & (modern ? MODERN : LEGACY)) &&
			(!methods[i].offered || methods[i].offered(o)))
			return &methods[i];
	return NULL;
}

bool mcp_is_method(const struct mcp_offer *o, const char *name, bool modern)
{
	return find_method(o, name, modern);
}

static void on_request(
	struct mcp_conn *c, const struct mcp_message *message, const struct jsonrpc_msg *m)
{
	struct jsonrpc_error e = {0};
	struct mcp_envelope envelope;
	json_t *result = NULL;

	if (mcp_envelope_read(m->method, m->params, &envelope, &e) == 0) {
		const struct method *method =
			find_method(c->server->offer, m->method, envelope.modern);
		if (method && method->start) {
			method->start(c, message, m, &envelope);
			return;
		}
		if (method)
			result = method->run(
				&(struct request){c, m, m->params, &envelope, envelope.modern, &e});
		else
			jsonrpc_error_set(
				&e, JSONRPC_METHOD_NOT_FOUND, "Method not found: %.80s", m->method);
	}
	if (result) {
		conn_result(c, message->number, m->id, result, envelope.modern);
	} else {
		e.id = json_incref(m->id);
		conn_error(c, message->number, &e);
	}
}

static void on_notification(struct mcp_conn *c, uint64_t number, const struct jsonrpc_msg *m)
{
	const json_t *id = strcmp(m->method, "notifications/cancelled") == 0
				   ? json_object_get(m->params, "requestId")
				   : NULL;
	struct call *call = id ? find_call(c, id) : NULL;
	if (call)
		call_cancel(call, number);
	else if (!id || !listen_cancel(c, id, number))
		conn_done(c, number);
}

static void on_response(struct mcp_conn *c, uint64_t number, const struct jsonrpc_msg *m)
{
	callask_response(c->server, c->principal, m);
	conn_done(c, number);
}

void mcp_server_changed(struct mcp_server *s, enum mcp_list list)
{
	for (size_t i = 0; list == MCP_TOOLS && i < ARRAY_SIZE(s->tools); i++)
		buf_done(&s->tools[i]);
	listen_changed(s, list);
}

void mcp_server_response(struct mcp_server *s, const char *principal, const struct jsonrpc_msg *m)
{
	callask_response(s, principal, m);
}

/* While a call is judged here, who will run it wakes up and goes once the way of a small cell: to
 * wake and to fetch all that from memory takes longer than the call. On a busy server it is awake.
 */
static void expect_call(struct mcp_conn *c)
{
	struct mcp_server *s = c->server;
	uint64_t now_ms = uv_now(s->config.loop);
	bool quiet = now_ms - s->heard_ms >= QUIET_MS;
	s->heard_ms = now_ms;
	if (quiet && c->default_session[0] && s->config.sessions)
		sessions_expect(s->config.sessions, c->default_session);
}

void mcp_conn_message(struct mcp_conn *c, const struct mcp_message *message)
{
	struct jsonrpc_msg m = {0};
	struct jsonrpc_error e = {0};
	if (!message->p) {
		jsonrpc_error_set(&e, JSONRPC_INVALID_REQUEST,
			"Invalid request: a line of more than %llu bytes was thrown away; send "
			"large "
			"data in pieces (files, action write with append)",
			LIMIT_MCP_LINE);
		conn_error(c, message->number, &e);
		return;
	}
	expect_call(c);
	if (jsonrpc_parse(message->p, message->n, &m, &e) < 0) {
		conn_error(c, message->number, &e);
		return;
	}
	mcp_conn_parsed(c, message, &m);
	jsonrpc_msg_done(&m);
}

void mcp_conn_parsed(
	struct mcp_conn *c, const struct mcp_message *message, const struct jsonrpc_msg *m)
{
	if (m->kind == JSONRPC_REQUEST)
		on_request(c, message, m);
	else if (m->kind == JSONRPC_NOTIFICATION)
		on_notification(c, message->number, m);
	else
		on_response(c, message->number, m);
}

/* ---- life ---- */

static void on_tick(uv_timer_t *t)
{
	struct mcp_server *s = t->data;
	uint64_t now_us = clock_monotonic_us();
	bool any = false;
	list_for_each (c, next_conn, &s->conns, struct mcp_conn, link) {
		any = any || c->n_calls > 0;
		bool slow = c->transport->congested(c->transport);
		list_for_each (call, next, &c->calls, struct call, link) {
			if (!slow)
				tell_time(call, now_us);
			callask_tick(call, now_us);
		}
	}
	if (!any) /* a broker without work sleeps */
		(void)uv_timer_stop(t);
}

struct mcp_server *mcp_server_new(const struct mcp_config *config)
{
	struct mcp_server *s = xcalloc(1, sizeof(*s));
	s->config = *config;
	s->offer = config->offer ? config->offer : product_offer();
	list_init(&s->conns);
	list_init(&s->follows);
	list_init(&s->asking);
	id_random(s->ask_key, sizeof(s->ask_key));
	s->keys = idempotency_new(config->store);
	s->rates = rates_new();
	if (config->sessions)
		s->dashboards = dashboards_new(&(struct dashboards_config){
			.loop = config->loop,
			.sessions = config->sessions,
			.store = config->store,
			.mask = board_mask,
			.ended = board_ended,
			.user = s,
		});
	s->metrics = metrics_new(s->offer);
	(void)uv_timer_init(config->loop, &s->ticker);
	s->ticker.data = s;
	uv_unref((uv_handle_t *)&s->ticker);
	follow_restored(s);
	return s;
}

const struct mcp_offer *mcp_server_offer(const struct mcp_server *s)
{
	return s->offer;
}

void mcp_server_secrets(struct mcp_server *s)
{
	list_for_each (c, next_conn, &s->conns, struct mcp_conn, link)
		list_for_each (call, next, &c->calls, struct call, link)
			call_secrets(call);
}

static void on_ticker_closed(uv_handle_t *h)
{
	free(h->data);
}

void mcp_server_close(struct mcp_server *s)
{
	if (!s)
		return;
	CHECK(list_empty(&s->conns));
	dashboards_free(s->dashboards);
	follow_drop_all(s);
	idempotency_free(s->keys);
	rates_free(s->rates);
	for (size_t i = 0; i < ARRAY_SIZE(s->tools); i++)
		buf_done(&s->tools[i]);
	metrics_free(s->metrics);
	uv_close((uv_handle_t *)&s->ticker, on_ticker_closed);
}

struct mcp_conn *mcp_conn_new(
	struct mcp_server *s, struct mcp_transport *transport, const struct mcp_conn_config *config)
{
	struct mcp_conn *c = xcalloc(1, sizeof(*c));
	c->server = s;
	c->transport = transport;
	c->principal = xstrdup(config->principal);
	c->host = xstrdup(config->host ? config->host : "");
	if (config->profile)
		session_profile_copy(config->profile, &c->profile);
	if (config->no_provider)
		c->no_provider = *config->no_provider;
	if (config->links)
		c->links = (struct weblink_place){config->links->key, xstrdup(config->links->base)};
	if (config->default_session && id_valid('s', config->default_session))
		str_copy(c->default_session, sizeof(c->default_session), config->default_session);
	c->log_level = TELL_INFO;
	list_init(&c->calls);
	list_init(&c->listens);
	list_append(&s->conns, &c->link);
	return c;
}

void mcp_conn_close(struct mcp_conn *c)
{
	if (!c)
		return;
	list_for_each (call, next, &c->calls, struct call, link)
		call_orphan(call);
	listen_close_all(c);
	list_remove(&c->link);
	session_profile_done(&c->profile);
	json_decref(c->capabilities);
	free(c->principal);
	free(c->host);
	free((char *)c->links.base);
	free(c);
}
