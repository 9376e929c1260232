/* call.c: see call.h. */
#include "mcp/call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "mcp/admit.h"
#include "mcp/callask.h"
#include "mcp/metrics.h"
#include "mcp/tell.h"
#include "secret/vault.h"

/* Text of one answer; what tools print is bounded far below by their own limits. */
#define TEXT_MAX (600 * 1000)

static void leave_conn(struct call *c)
{
	if (!c->conn)
		return;
	list_remove(&c->link);
	c->conn->n_calls--;
	c->conn = NULL;
}

static void call_free(struct call *c)
{
	if (c->state_free)
		c->state_free(c->state);
	leave_conn(c);
	if (c->session)
		session_release(c->session);
	provider_wait_cancel(&c->provider);
	ask_free(c->ask);
	json_decref(c->id);
	json_decref(c->progress_token);
	json_decref(c->args);
	json_decref(c->structured);
	json_decref(c->blocks);
	json_decref(c->meta);
	buf_done(&c->text);
	redact_hits_done(&c->hits);
	free(c->principal);
	policy_free(c->policy);
	free(c);
}

/* ---- sessions ---- */

void call_use_session(struct call *c, struct session *s)
{
	session_hold(s);
	if (c->session)
		session_release(c->session);
	c->session = s;
	str_copy(c->handle, sizeof(c->handle), session_handle(s));
	call_set_text(c, "session", c->handle); /* the first member, for people who read it */
}

static int no_sessions(struct call *c, struct err *err)
{
	const struct err *why = &c->conn->no_provider;
	if (why->code)
		return err_set(err, why->code, why->errnum, "%s", why->text);
	return err_set(err, ERR_PROVIDER_UNUSABLE, 0, "no sandbox can be made; see `scb doctor`");
}

/* A refusal that comes after the line of the call. */
static int refuse(struct call *c, const struct policy_decision *d, struct err *err)
{
	struct audit_event e = {
		.event = "policy.decision",
		.policy_rule = d->rule,
		.policy_denied = true,
		.detail = d->reason,
	};
	int r = call_audit(c, &e, err);
	return r < 0 ? r : err_set(err, ERR_POLICY_DENIED, 0, "%s", d->reason);
}

int call_permit_session(struct call *c, const struct session *s, struct err *err)
{
	struct policy_decision d;
	bool closes = c->action && strcmp(c->action, "close") == 0;
	if (closes || session_permit(c->policy, c->principal, session_profile(s),
			      session_capabilities(s), &d))
		return 0;
	return refuse(c, &d, err);
}

int call_permit_language(struct call *c, const char *language, struct err *err)
{
	struct policy_decision d;
	policy_decide(
		c->policy, &(struct policy_request){c->principal, c->tool->name, language}, &d);
	return d.allowed ? 0 : refuse(c, &d, err);
}

int call_permit_tool(struct call *c, const char *tool, struct err *err)
{
	struct policy_decision d;
	if (strcmp(tool, c->tool->name) == 0)
		return 0; /* it has been asked about */
	policy_decide(c->policy, &(struct policy_request){c->principal, tool, NULL}, &d);
	return d.allowed ? 0 : refuse(c, &d, err);
}

int call_find_session(struct call *c, bool create, struct err *err)
{
	struct sessions *all = c->server->config.sessions;
	const char *named = args_text(c->args, "session");
	const char *own = c->conn->default_session;
	struct session *s = NULL;
	int r;

	if (!all || (!named && !c->conn->profile.provider))
		return no_sessions(c, err);
	if (named) {
		r = sessions_find(all, c->principal, named, &s, err);
		if (r < 0)
			return r;
	} else if (!own[0] || sessions_find(all, c->principal, own, &s, NULL) < 0 ||
		   session_lost(s)) {
		bool lost = own[0] != '\0';
		if (lost && c->again) /* it was done there, or not: never once more elsewhere */
			return err_set(err, ERR_SANDBOX_LOST, 0,
				"the sandbox of this session was lost while the call was on its "
				"way, and what it did cannot be known any more; open a new "
				"session and look before it is done again");
		if (!create)
			return err_set(err, ERR_NO_SUCH_SESSION, 0,
				"no session is open yet; any run_code, run_command or files call "
				"opens "
				"one");
		const struct session_wish wish = {
			c->principal, &c->conn->profile, true, &c->delivery};
		r = sessions_open(all, &wish, &s, err);
		if (r < 0)
			return r;
		conn_set_session(c->conn, session_handle(s));
		call_tell_secrets(c, s);
		if (lost)
			call_print(c, "Note: the session used before has ended; this is a new one, "
				      "without its variables and files.\n");
	}
	r = call_permit_session(c, s, err);
	if (r == 0)
		call_use_session(c, s);
	return r == 0 && !c->silent ? session_speaks(s, err) : r;
}

void call_tell_secrets(struct call *c, const struct session *s)
{
	const struct vault_granted *list;
	size_t n = session_secrets(s, &list);
	for (size_t i = 0; i < n; i++)
		if (list[i].why[0])
			call_print(c,
				"Note: the variable %s (secret \"%s\") is not set in this "
				"session: %s\n",
				list[i].variable, list[i].name, list[i].why);
}

const uint8_t *call_tag(
	const struct call *c, enum call_step step, uint8_t room[static DELIVERY_TAG])
{
	if (!c->delivery.given)
		return NULL;
	delivery_tag(&c->delivery, step, room);
	return room;
}

/* ---- the answer ---- */

struct redacting call_redacting(struct call *c)
{
	return (struct redacting){redaction_of(c->server, c->principal), &c->hits};
}

void call_print(struct call *c, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *text = NULL;
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n >= 0)
		call_print_n(c, text, (size_t)n);
	free(text);
}

void call_print_n(struct call *c, const void *p, size_t n)
{
	size_t room = c->text.max - c->text.len;
	if (n > room)
		n = str_utf8_trim(p, room);
	CHECK(buf_append(&c->text, p, n) == 0);
}

void call_block(struct call *c, json_t *block)
{
	json_array_append_new(c->blocks, block);
}

void call_set(struct call *c, const char *name, json_t *v)
{
	json_object_set_new(c->structured, name, v);
}

void call_set_text(struct call *c, const char *name, const char *text)
{
	if (text)
		call_set(c, name, jsonrpc_text(text));
}

void call_set_u64(struct call *c, const char *name, uint64_t v)
{
	call_set(c, name, json_integer((json_int_t)v));
}

int call_audit(struct call *c, struct audit_event *e, struct err *err)
{
	const struct session *s = c->session;
	struct capabilities caps;
	e->tool = c->tool->name;
	e->action = c->action;
	e->principal = c->principal;
	e->session = c->handle[0] ? c->handle : NULL;
	e->job = c->job[0] ? c->job : NULL;
	e->delivery = c->delivery_text;
	e->redactor = redaction_of(c->server, c->principal);
	if (s) {
		e->provider = session_provider(s)->name;
		e->isolation_level = session_capabilities(s)->isolation_level;
		e->sandbox_id = session_sandbox_id(s);
	} else if (c->conn && c->server->config.sessions && c->conn->profile.provider) {
		/* the first line of a call, or one without any */
		e->provider = c->conn->profile.provider->name;
		sessions_capabilities(c->server->config.sessions, &c->conn->profile, &caps);
		e->isolation_level = caps.isolation_level;
		e->sandbox_id = c->sandbox_id[0] ? c->sandbox_id : NULL;
	}
	return c->delivery.replayed ? audit_event_once(c->server->config.audit, e, err)
				    : audit_event(c->server->config.audit, e, err);
}

static json_t *text_block(const void *p, size_t n)
{
	json_t *o = json_object();
	json_object_set_new(o, "type", json_string("text"));
	json_object_set_new(o, "text", jsonrpc_text_n(p, n));
	return o;
}

static json_t *error_result(struct call *c, const struct err *err)
{
	_cleanup_free_ char *text =
		c->handle[0] && err->code != ERR_NO_SUCH_SESSION
			? xasprintf("session %s\nError (%s): %s", c->handle,
				  err_info(err->code)->name, err->text)
			: xasprintf("Error (%s): %s", err_info(err->code)->name, err->text);
	json_t *result = json_object();
	json_t *content = json_array();
	json_array_append_new(content, text_block(text, strlen(text)));
	json_object_set_new(result, "content", content);
	json_object_set_new(result, "isError", json_true());
	return result;
}

static json_t *good_result(struct call *c)
{
	json_t *content = json_array();
	_cleanup_buf_ struct buf text = BUF_INIT(TEXT_MAX + 1024);
	if (c->handle[0] && !c->session_over && !c->bare)
		CHECK(args_text(c->args, "session")
				? buf_printf(&text, "session %s\n", c->handle) == 0
				: buf_printf(&text,
					  "session %s (pass session=\"%s\" to later calls to keep "
					  "its files "
					  "and "
					  "variables)\n",
					  c->handle, c->handle) == 0);
	if (c->text.len > 0)
		CHECK(buf_append(&text, c->text.data, c->text.len) == 0);
	if (text.len > 0 || json_array_size(c->blocks) == 0)
		json_array_append_new(content, text_block(text.data, text.len));
	if (policy_images(c->policy, c->principal))
		json_array_extend(content, c->blocks);

	json_t *result = json_object();
	json_object_set_new(result, "content", content);
	if (c->tool->result)
		json_object_set(result, "structuredContent", c->structured);
	if (c->is_error)
		json_object_set_new(result, "isError", json_true());
	if (c->meta)
		json_object_set(result, "_meta", c->meta);
	return result;
}

/* The last thing that is done to an answer. */
static json_t *masked(struct call *c, json_t *result)
{
	struct redacting w = call_redacting(c);
	redaction_mask(result, &w);
	return result;
}

/* A line for each secret that was masked: in one write with the call's end, so that all of them are
 * on record where that is. */
static int audit_hits(struct call *c, struct err *err)
{
	int r = 0;
	if (c->again && audit_recorded(c->server->config.audit, "tool.end", c->delivery_text))
		return 0;
	for (size_t i = 0; i < c->hits.n && r == 0; i++) {
		const struct redact_count *hit = &c->hits.counts[i];
		_cleanup_free_ char *detail =
			xasprintf("%s: %llu", hit->name, (unsigned long long)hit->count);
		struct audit_event e = {.event = "redact.hit", .detail = detail, .with_next = true};
		r = call_audit(c, &e, err);
	}
	return r;
}

/* The answer's result, or the whole message of an error of the protocol. */
static json_t *answer(struct call *c, const struct err *failed)
{
	if (failed)
		return error_result(c, failed);
	if (c->refusal)
		return jsonrpc_error_message(c->refusal);
	return c->result ? TAKE_PTR(c->result) : good_result(c);
}

/* Takes it, masked. */
static void encode(struct call *c, json_t *answer, bool refused, struct buf *out)
{
	if (!refused) {
		conn_encode_result(c->server->offer, c->id, answer, c->modern, out);
		return;
	}
	conn_failed(c->conn, c->number, c->refusal->code);
	CHECK(jsonrpc_encode(answer, out) == 0);
	json_decref(answer);
}

/* Puts the end on record, then answers. detail: of an end that is no failure; NULL: none. */
static void finish(struct call *c, const struct err *failed, const char *detail)
{
	_cleanup_buf_ struct buf out = BUF_INIT(LIMIT_MCP_RESULT);
	struct mcp_conn *conn = c->conn;
	bool answers = conn && !c->cancelled;
	struct err mute = {0};
	/* it may have been found out meanwhile that what the sandbox says cannot be masked */
	if (c->session && !c->silent && session_speaks(c->session, &mute) < 0)
		failed = &mute;
	json_t *said = masked(c, answer(c, failed));
	if (answers)
		encode(c, said, c->refusal && !failed, &out);
	else
		json_decref(said);

	metrics_call(c->server->metrics, c->tool, failed ? failed->code : ERR_NONE,
		clock_monotonic_us() - c->started_us);
	struct err err = {0};
	struct audit_event foreign = {.event = "handle.foreign", .with_next = true};
	if (failed && failed->code == ERR_NO_SUCH_SESSION && args_text(c->args, "session"))
		(void)!call_audit(c, &foreign, &err); /* fails as the next one does */
	struct audit_event e = {
		.event = "tool.end",
		.has_exit = c->has_exit,
		.exit_code = c->exit_code,
		.exit_reason = c->exit_reason,
		.duration_us = clock_monotonic_us() - c->started_us,
		.bytes_out = out.len,
		.detail = failed ? err_info(failed->code)->name : detail,
	};
	if (!c->unrecorded && (audit_hits(c, &err) < 0 || call_audit(c, &e, &err) < 0)) {
		log_error("%s", err.text);
		if (answers) {
			buf_clear(&out);
			encode(c, masked(c, error_result(c, &err)), false, &out);
		}
	}
	leave_conn(c); /* which may end with what is sent */
	if (answers) {
		conn->transport->send(conn->transport, c->number, (const char *)out.data, out.len);
	} else if (conn) {
		conn_done(conn, c->number);
		conn_done(conn, c->cancel_number);
	}
	call_free(c); /* nobody waits for that */
}

void call_finish(struct call *c)
{
	if (c->handle[0] && !json_object_get(c->structured, "session")) {
		/* of one that is no more */
		json_t *o = json_pack("{s:s}", "session", c->handle);
		json_object_update(o, c->structured);
		json_decref(c->structured);
		c->structured = o;
	}
	finish(c, NULL, NULL);
}

void call_end_with(struct call *c, json_t *result, const char *detail)
{
	c->result = result;
	finish(c, NULL, detail);
}

void call_refuse(struct call *c, const struct jsonrpc_error *e)
{
	struct jsonrpc_error refusal = *e;
	refusal.id = c->id;
	c->refusal = &refusal;
	finish(c, NULL, "refused");
}

void call_fail(struct call *c, const struct err *err)
{
	finish(c, err, NULL);
}

void call_failf(struct call *c, enum err_code code, const char *fmt, ...)
{
	struct err err = {.code = code};
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(err.text, sizeof(err.text), fmt, ap);
	va_end(ap);
	str_make_printable(err.text);
	finish(c, &err, NULL);
}

void call_end_cancelled(struct call *c)
{
	c->exit_reason = "cancelled";
	call_failf(c, ERR_CANCELLED, "%s", c->why);
}

/* ---- life ---- */

static void bad_params(struct mcp_conn *conn, const struct mcp_message *message, json_t *id,
	const char *text, const char *name)
{
	struct jsonrpc_error e = {.id = json_incref(id)};
	jsonrpc_error_set(&e, JSONRPC_INVALID_PARAMS, "%s%.60s", text, name ? name : "");
	conn_error(conn, message->number, &e);
}

static enum call_pages pages_of(const json_t *capabilities)
{
	const json_t *extensions = json_object_get(capabilities, "extensions");
	if (!capabilities)
		return PAGES_UNKNOWN;
	return json_object_get(extensions, MCP_UI_EXTENSION) ? PAGES_SHOWN : PAGES_NONE;
}

static struct call *call_new(struct mcp_conn *conn, const struct mcp_message *message, json_t *id,
	const struct mcp_envelope *envelope, const struct tool *tool)
{
	struct call *c = xcalloc(1, sizeof(*c));
	c->server = conn->server;
	c->conn = conn;
	c->principal = xstrdup(conn->principal);
	c->policy = policy_pin(conn->server->config.policy);
	c->id = json_incref(id);
	c->number = message->number;
	c->delivery = message->delivery;
	delivery_text(&c->delivery, c->delivery_text);
	c->modern = envelope->modern;
	c->progress_token = json_incref(envelope->progress_token);
	c->log_level = envelope->modern ? tell_level_of(envelope->log_level) : conn->log_level;
	c->pages = pages_of(envelope->modern ? envelope->capabilities : conn->capabilities);
	c->tool = tool;
	c->started_us = clock_monotonic_us() - message->age_us;
	c->structured = json_object();
	c->blocks = json_array();
	buf_init(&c->text, TEXT_MAX);
	list_append(&conn->calls, &c->link);
	conn->n_calls++;
	return c;
}

static void begin(struct call *c)
{
	struct err err = {0};
	struct audit *audit = c->server->config.audit;
	if (c->tool->session == TOOL_SESSION_ANY && call_find_session(c, true, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	c->tool->run(c);
	/* Where the tool recorded nothing: it waits for what a former call began. */
	if (audit_flush(audit, &err) < 0)
		log_error("%s", err.text);
}

/* A session that it opens, or one that an earlier broker left, needs values that are just being
 * fetched. */
static bool secrets_pending(const struct call *c)
{
	const struct vault *v = c->server->config.vault;
	return v && vault_pending(v, c->principal);
}

void call_secrets(struct call *c)
{
	if (!c->awaits_secrets || secrets_pending(c))
		return;
	c->awaits_secrets = false;
	if (!c->provider.waits)
		begin(c);
}

static void on_provider_known(void *user)
{
	struct call *c = user;
	if (!c->awaits_secrets)
		begin(c);
}

/* Does it make a sandbox, where it comes to that? Others need not know what can be had. */
static bool opens_session(const struct call *c)
{
	const char *own = c->conn->default_session;
	struct sessions *all = c->server->config.sessions;
	struct session *s;
	if (!all || !c->conn->profile.provider || args_text(c->args, "session"))
		return false;
	return (c->tool == &tool_session && strcmp(c->action, "open") == 0) || !own[0] ||
	       sessions_find(all, c->principal, own, &s, NULL) < 0 || session_lost(s);
}

static bool awaits_provider(struct call *c)
{
	c->provider = (struct provider_wait){.done = on_provider_known, .user = c};
	return opens_session(c) && provider_await(c->server->config.loop,
					   c->conn->profile.provider->name, &c->provider);
}

void call_start(struct mcp_conn *conn, const struct mcp_message *message,
	const struct jsonrpc_msg *m, const struct mcp_envelope *envelope)
{
	const char *name = json_string_value(json_object_get(m->params, "name"));
	json_t *arguments = json_object_get(m->params, "arguments");
	const struct tool *tool = name ? tools_find(conn->server->offer, name) : NULL;
	if (!tool) {
		bad_params(conn, message, m->id,
			name ? "Unknown tool (tools/list names those there are): "
			     : "params.name is missing",
			name);
		return;
	}
	if (arguments && !json_is_object(arguments) && !json_is_null(arguments)) {
		bad_params(conn, message, m->id, "params.arguments must be an object", NULL);
		return;
	}

	struct ask *ask = NULL;
	struct jsonrpc_error e = {0};
	if (tool->asks && conn_open_ask(conn, m, envelope, &ask, &e) < 0) {
		e.id = json_incref(m->id);
		conn_error(conn, message->number, &e);
		return;
	}

	struct call *c = call_new(conn, message, m->id, envelope, tool);
	c->ask = ask;
	json_t *none = json_object();
	struct err err = {0};
	int r = admit_call(c, json_is_object(arguments) ? arguments : none, &err);
	json_decref(none);
	if (r < 0) {
		call_fail(c, &err);
		return;
	}
	c->awaits_secrets = secrets_pending(c);
	if (!awaits_provider(c) && !c->awaits_secrets) {
		begin(c);
		return;
	}
	str_copy(c->doing, sizeof(c->doing),
		c->awaits_secrets ? "waiting for a secret to be fetched"
				  : "waiting for the container engine to answer");
	if (audit_flush(c->server->config.audit, &err) < 0)
		log_error("%s", err.text);
}

static void end_early(struct call *c, const char *why)
{
	c->why = why;
	if (c->awaits_secrets || c->provider.waits || callask_stop(c) ||
		(c->tool->cancel && c->tool->cancel(c)))
		call_end_cancelled(c);
	/* else its callback still comes, and finish() then answers nobody */
}

void call_cancel(struct call *c, uint64_t number)
{
	c->cancelled = true;
	c->cancel_number = number;
	end_early(c, "cancelled by the client");
}

void call_orphan(struct call *c)
{
	leave_conn(c);
	if (!c->cancelled && !c->keyed)
		end_early(c, "the client has gone");
}
