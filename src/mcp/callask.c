/* callask.c: see callask.h. */
#include "mcp/callask.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/limits.h"

/* A round of the older era, until all answers are there. */
struct callask {
	struct list link; /* of server->asking */
	struct call *call;
	json_t *open;    /* id of the request → key */
	json_t *answers; /* key → result */
	uint64_t deadline_us;
};

bool callask_stop(struct call *c)
{
	struct callask *w = TAKE_PTR(c->asking);
	if (!w)
		return false;
	list_remove(&w->link);
	json_decref(w->open);
	json_decref(w->answers);
	free(w);
	return true;
}

static void send_requests(struct callask *w)
{
	const char *key;
	json_t *request;
	json_object_foreach (ask_requests(w->call->ask), key, request) {
		char id[ID_TEXT_SIZE];
		id_new('q', id);
		json_object_set_new(w->open, id, json_string(key));
		json_t *message = json_pack("{s:s,s:s}", "jsonrpc", "2.0", "id", id);
		json_object_update(message, request);
		conn_send(w->call->conn, 0, message);
	}
}

/* What was said so far belongs to a round that is over. */
static void run_again(struct call *c, json_t *answers)
{
	ask_next(c->ask, answers);
	buf_clear(&c->text);
	json_object_clear(c->structured);
	json_array_clear(c->blocks);
	c->tool->run(c);
}

static bool is_reached(const struct call *c)
{
	const struct mcp_transport *t = c->conn ? c->conn->transport : NULL;
	return t && (!t->reaches || t->reaches(t));
}

static void wait_for_answers(struct call *c)
{
	if (!is_reached(c)) {
		call_failf(c, ERR_UNSUPPORTED,
			"the client must be asked something, and takes no event stream");
		return;
	}
	struct callask *w = xcalloc(1, sizeof(*w));
	w->call = c;
	w->open = json_object();
	w->answers = json_object();
	w->deadline_us = clock_monotonic_us() + LIMIT_ASK_US;
	list_append(&c->server->asking, &w->link);
	c->asking = w;
	(void)snprintf(c->doing, sizeof(c->doing), "waiting for the client's answer");
	send_requests(w);
}

void callask_send(struct call *c)
{
	struct jsonrpc_error e = {0};
	if (ask_refused(c->ask, &e)) {
		if (c->modern)
			call_refuse(c, &e);
		else
			call_failf(c, ERR_UNSUPPORTED, "%s", e.text);
		jsonrpc_error_done(&e);
	} else if (c->modern) {
		struct redacting w = call_redacting(c);
		call_end_with(c, ask_result(c->ask, &w), "input_required");
	} else if (json_object_size(ask_requests(c->ask)) == 0) {
		run_again(c, json_object());
	} else {
		wait_for_answers(c);
	}
}

static struct callask *find(struct mcp_server *s, const char *principal, const char *id)
{
	list_for_each (w, next, &s->asking, struct callask, link)
		if (json_object_get(w->open, id) && strcmp(w->call->principal, principal) == 0)
			return w;
	return NULL;
}

static void refused(struct call *c, const json_t *error)
{
	const char *message = json_string_value(json_object_get(error, "message"));
	(void)callask_stop(c);
	call_failf(c, ERR_UNSUPPORTED, "the client did not answer what it was asked: %.200s",
		message ? message : "no reason given");
}

void callask_response(struct mcp_server *s, const char *principal, const struct jsonrpc_msg *m)
{
	const char *id = json_string_value(m->id);
	struct callask *w = id ? find(s, principal, id) : NULL;
	if (!w)
		return;
	struct call *c = w->call;
	json_t *result = json_object_get(m->root, "result");
	if (!result) {
		refused(c, json_object_get(m->root, "error"));
		return;
	}
	json_object_set(w->answers, json_string_value(json_object_get(w->open, id)), result);
	json_object_del(w->open, id);
	if (json_object_size(w->open) > 0)
		return;
	json_t *answers = json_incref(w->answers);
	(void)callask_stop(c);
	run_again(c, answers);
}

void callask_tick(struct call *c, uint64_t now_us)
{
	if (!c->asking)
		return;
	bool reached = is_reached(c);
	if (reached && now_us < c->asking->deadline_us)
		return;
	(void)callask_stop(c);
	if (reached)
		call_failf(c, ERR_TIMEOUT,
			"the client did not answer what it was asked within %llu s",
			LIMIT_ASK_US / USEC_PER_SEC);
	else
		call_failf(c, ERR_CANCELLED, "the client has gone without an answer");
}
