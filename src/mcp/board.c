/* board.c: see board.h. */
#include "mcp/board.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "exec/exec.h"
#include "mcp/base64.h"
#include "mcp/follow.h"
#include "mcp/present.h"
#include "mcp/redaction.h"
#include "mcp/run.h"

/* How long an App's poll may wait. */
#define POLL_MAX_S 20
/* How long a page, a picture or a file is waited for, behind what runs in the kernel: there is
 * nothing to show in its place. Clients cut calls at 60 s. */
#define LOOK_WAIT_US (45 * USEC_PER_SEC)

/* ---- hooks ---- */

json_t *board_mask(void *user, struct session *s, json_t *v, struct err *ret)
{
	struct mcp_server *server = user;
	const struct redacting w = {redaction_of(server, session_principal(s)), NULL};
	if (session_speaks(s, ret) == 0)
		return redaction_mask_data(v, &w);
	json_decref(v);
	return NULL;
}

void board_ended(void *user, struct session *s, const struct dashboard_ask *ask,
	const struct exec_status *status, const struct err *err)
{
	const struct follow_who who = {s, ask->job, ask->tool, ask->once};
	struct err failed;
	if (follow_record_end(user, &who, err ? NULL : status,
		    err ? err_info(err->code)->name : NULL, false, &failed) < 0)
		log_error("%s", failed.text);
}

/* ---- finding ---- */

/* A page that was given no handle, because its host keeps it for itself, knows the code and the
 * session that the model named. */
static int look_up(struct call *c, struct dashboard **ret, struct err *err)
{
	struct dashboards *all = c->server->dashboards;
	const json_t *event = json_object_get(c->args, "event");
	const char *id = args_text(c->args, "dashboard");
	const char *code = json_string_value(json_object_get(event, "code"));
	const char *session = json_string_value(json_object_get(event, "session"));
	if (!all)
		return err_set(err, ERR_PROVIDER_UNUSABLE, 0, "no sandbox can be made here");
	if (!id && !code)
		return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"argument \"dashboard\" is missing: whose event is it?");
	return id ? dashboards_find(all, c->principal, id, ret, err)
		  : dashboards_find_code(all, c->principal, session, code, ret, err);
}

int board_find(struct call *c, struct dashboard **ret, struct err *err)
{
	struct dashboard *d;
	int r = look_up(c, &d, err);
	struct session *s = r == 0 ? dashboard_session(d) : NULL;
	if (s)
		r = call_permit_session(c, s, err);
	if (r == 0 && s) {
		call_use_session(c, s);
		r = session_speaks(s, err);
	}
	*ret = d;
	return r;
}

/* ---- asking ---- */

static void board_call_free(void *state)
{
	struct board_call *b = state;
	dashboard_wait_abandon(b->wait);
	dashboard_release(b->dashboard);
	json_decref(b->page);
	free(b);
}

static struct board_call *board_call(struct call *c, struct dashboard *d, board_fn answered)
{
	struct board_call *b = xcalloc(1, sizeof(*b));
	b->dashboard = d;
	dashboard_hold(d);
	b->answered = answered;
	c->state = b;
	c->state_free = board_call_free;
	return b;
}

static void on_presented(struct call *c, const struct output *o, const struct err *err)
{
	struct board_call *b = c->state;
	const struct dashboard_answer a = {.page = b->page, .seq = b->seq};
	b->presenting = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	json_t *exported = json_object();
	present_set(c, o, exported);
	if (!args_bool(c->args, "plain"))
		present_tell(c, o);
	b->answered(c, b->dashboard, &a, exported);
	json_decref(exported);
}

/* The file that an event has made goes out as those of present_output do. Whoever asks for that
 * event's answer again gets the same one. */
static int present(struct call *c, const struct dashboard_answer *a, struct err *err)
{
	struct board_call *b = c->state;
	char id[ID_TEXT_SIZE];
	(void)snprintf(id, sizeof(id), "o%s", a->job + 1);
	const struct present_wish wish = {.path = a->export_path, .id = id, .again = true};
	b->page = json_deep_copy(a->page);
	b->seq = a->seq;
	if (!c->session)
		return err_set(err, ERR_NO_SUCH_SESSION, ENOENT,
			"the session that has the file has ended; run the code again");
	return present_start(c, &wish, on_presented, &b->presenting, err);
}

/* A positive member of an event; 0: it has none. */
static uint64_t number_of(const json_t *event, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(event, name));
	return n > 0 ? (uint64_t)n : 0;
}

static void on_answer(void *user, const struct dashboard_answer *a, const struct err *err)
{
	struct call *c = user;
	struct board_call *b = c->state;
	struct err failed = {0};
	b->wait = NULL;
	if (!err && a->export_path && present(c, a, &failed) < 0)
		err = &failed;
	if (err)
		call_fail(c, err);
	else if (!b->presenting)
		b->answered(c, b->dashboard, a, NULL);
}

void board_send(struct call *c, struct dashboard *d, enum dashboard_kind kind, json_t *request,
	uint64_t seq, uint64_t wait_us, board_fn answered)
{
	struct err err = {0};
	uint64_t timeout_us = 0;
	delivery_id(&c->delivery, 'j', c->job);
	const struct dashboard_ask ask = {
		.kind = kind,
		.tool = c->tool->name,
		.once = c->delivery.replayed,
		.job = c->job,
		.request = request,
		.seq = seq,
		.have = number_of(json_object_get(request, "event"), "rev"),
	};
	int r = run_timeout_us(c, &timeout_us, &err);
	if (r == 0 && !dashboard_joins(d, &ask))
		r = run_audit_start(c, request, "dashboard", &err);
	if (r < 0) {
		json_decref(request);
		call_fail(c, &err);
		return;
	}
	struct board_call *b = board_call(c, d, answered);
	struct dashboard_ask timed = ask;
	timed.timeout_us = timeout_us;
	b->wait = dashboard_ask(d, &timed, wait_us, on_answer, c);
	json_decref(request);
}

bool board_cancel(struct call *c)
{
	struct board_call *b = c->state;
	if (b) {
		dashboard_wait_abandon(b->wait);
		b->wait = NULL;
		present_abandon(b->presenting);
		b->presenting = NULL;
	}
	return true;
}

/* ---- events ---- */

static bool is_one_of(const char *type, const char *const *names)
{
	for (size_t i = 0; names[i]; i++)
		if (strcmp(names[i], type) == 0)
			return true;
	return false;
}

static json_t *event_request(const struct dashboard *d, const json_t *event)
{
	json_t *own = json_copy((json_t *)event);
	json_object_del(own, "code"); /* by which it was found */
	json_object_del(own, "session");
	return json_pack("{s:s, s:s, s:o}", "op", "event", "id", dashboard_id(d), "event", own);
}

/* The dashboard as it is, without a cell. */
static void answer_state(struct call *c, struct dashboard *d, board_fn answered)
{
	json_t *tree = dashboard_tree(d);
	const struct dashboard_answer a = {
		.expired = !dashboard_session(d),
		.running = dashboard_busy(d),
		.tree = tree,
	};
	answered(c, d, &a, NULL);
	json_decref(tree);
}

static void open_board(struct call *c, struct dashboard *d, const json_t *event, uint64_t wait_us,
	board_fn answered)
{
	/* while it is busy its kernel answers nobody else, and without one nobody does */
	if (!dashboard_session(d) || (dashboard_busy(d) && dashboard_has_tree(d)))
		answer_state(c, d, answered);
	else
		board_send(c, d, DASHBOARD_LOOK, event_request(d, event), 0, wait_us, answered);
}

void board_event(struct call *c, struct dashboard *d, const json_t *event, uint64_t wait_us,
	board_fn answered)
{
	static const char *const moves[] = {"set", "click", "submit", "rerun", NULL};
	static const char *const looks[] = {"table", "zoom", "options", "image", "export", NULL};
	const char *type = json_string_value(json_object_get(event, "type"));
	uint64_t seq = number_of(event, "seq");
	if (!type) {
		call_failf(c, ERR_INVALID_ARGUMENT,
			"argument \"event\" needs a \"type\": set, click, submit, table, zoom, "
			"options, image, open, poll, cancel, export or rerun");
	} else if (strcmp(type, "poll") == 0) {
		double s = json_number_value(json_object_get(event, "wait_s"));
		s = MIN(MAX(s, 0), POLL_MAX_S);
		struct board_call *b = board_call(c, d, answered);
		b->wait = dashboard_wait_for(d, seq, number_of(event, "rev"),
			(uint64_t)(s * (double)USEC_PER_SEC), on_answer, c);
	} else if (strcmp(type, "cancel") == 0) {
		dashboard_cancel(d);
		answer_state(c, d, answered);
	} else if (strcmp(type, "open") == 0) {
		open_board(c, d, event, wait_us, answered);
	} else if (!is_one_of(type, moves) && !is_one_of(type, looks)) {
		call_failf(c, ERR_INVALID_ARGUMENT, "there is no event of type \"%.40s\"", type);
	} else if (!dashboard_session(d)) {
		answer_state(c, d, answered);
	} else if (is_one_of(type, moves)) {
		board_send(c, d, DASHBOARD_MOVE, event_request(d, event), seq, wait_us, answered);
	} else {
		board_send(
			c, d, DASHBOARD_LOOK, event_request(d, event), seq, LOOK_WAIT_US, answered);
	}
}

/* ---- what is answered ---- */

void board_add_image(struct call *c, const struct exec_mime *m)
{
	json_t *block = json_pack("{s:s, s:s}", "type", "image", "mimeType", m->type);
	json_object_set_new(block, "data", base64_json(m->data, m->n));
	call_block(c, block);
}

char *board_trouble(const struct dashboard_answer *a)
{
	const struct exec_status *s = a->status;
	const json_t *shown = a->patch ? a->patch : a->page ? a->page : a->tree;
	const char *said = json_string_value(json_object_get(shown, "status"));
	/* what says that it goes on, and has ended, was cut off */
	bool whole = (shown || a->image) && !(said && strcmp(said, "running") == 0);
	if (!s || whole)
		return NULL;
	if (s->error_name)
		return xasprintf("the dashboard's kernel answered %.100s: %.2000s", s->error_name,
			s->error_message ? s->error_message : "");
	if (s->reason == REASON_EXIT && s->has_exit_code && s->exit_code == 0)
		return a->text ? NULL : xstrdup("the dashboard's kernel answered nothing");
	return xasprintf("the dashboard's code ended: %s%s", exec_reason_name(s->reason),
		s->reason == REASON_INTERPRETER_DIED
			? " (the interpreter has gone with its variables)"
			: "");
}
