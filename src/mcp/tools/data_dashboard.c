/* data_dashboard.c: runs an analysis and shows it as an App. */
#include <string.h>

#include "base/limits.h"
#include "mcp/board.h"
#include "mcp/run.h"

static const struct arg args[] = {
	{"code", ARG_TEXT, .min = 1, .max = BOARD_CODE_MAX,
		.description = "a new dashboard, or new code for one"},
	{"dashboard", ARG_TEXT, .max = 64, .description = "d-…: change this one"},
	{"event", ARG_OBJECT, .max = BOARD_CODE_MAX + 64 * KIB,
		.description = "moves controls: {\"type\":\"set\",\"values\":{label: value}}"},
	{"title", ARG_TEXT, .max = 200, .description = NULL},
	{"session", ARG_TEXT, .max = 64 * KIB, .description = "handle from an earlier result"},
	{"timeout_s", ARG_NUMBER, .min = 0.1, .max = LIMIT_TIMEOUT_S, .description = NULL},
	{"wait_s", ARG_NUMBER, .min = 0, .max = LIMIT_WAIT_S, .description = NULL},
};

static const struct field result_fields[] = {
	{"session", "string", false, NULL},
	{"dashboard", "string", true, NULL},
	{"rev", "integer", false, NULL},
	{"title", "string", false, NULL},
	{"status", "string", true, NULL},
	{"controls", "[object]", false, NULL},
	{"shown", "[string]", false, NULL},
	{"notes", "[string]", false, NULL},
	{"export", "object", false, NULL},
	{0},
};

/* Members of the outline that clients are told of, as the schema says. */
static void set_outline(struct call *c, const json_t *outline)
{
	static const struct {
		const char *name;
		json_type type;
	} members[] = {{"rev", JSON_INTEGER}, {"title", JSON_STRING}, {"controls", JSON_ARRAY},
		{"shown", JSON_ARRAY}, {"notes", JSON_ARRAY}};
	for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
		json_t *v = json_object_get(outline, members[i].name);
		if (v && json_typeof(v) == members[i].type)
			call_set(c, members[i].name, json_incref(v));
	}
}

/* What the page shows first, where its host passes it on. A large one it fetches itself: some hosts
 * read _meta to the model. */
static void set_tree(struct call *c, const struct dashboard *d, const json_t *tree)
{
	if (!tree || json_dumpb(tree, NULL, 0, JSON_COMPACT) > LIMIT_DASHBOARD_META)
		return;
	json_t *whole = json_copy((json_t *)tree);
	json_object_set_new(whole, "id", json_string(dashboard_id(d)));
	c->meta = json_pack("{s:o}", "scb/tree", whole);
}

static void answered(
	struct call *c, struct dashboard *d, const struct dashboard_answer *a, json_t *exported)
{
	const char *id = dashboard_id(d);
	_cleanup_free_ char *trouble = board_trouble(a);
	const char *status = json_string_value(json_object_get(a->outline, "status"));
	if (trouble) {
		call_failf(c, ERR_INVALID_ARGUMENT, "%s", trouble);
		return;
	}
	if (a->running)
		status = "running";
	else if (a->expired)
		status = "expired";
	call_set_text(c, "dashboard", id);
	call_set_text(c, "status", status ? status : "ok");
	if (a->outline)
		set_outline(c, a->outline);
	if (exported)
		call_set(c, "export", json_incref(exported));
	if (c->pages == PAGES_SHOWN)
		set_tree(c, d, a->tree);
	if (a->image)
		board_add_image(c, a->image);
	if (a->text)
		call_print(c, "%s\n", a->text);
	else if (a->running)
		call_print(c,
			"Dashboard %s is still being computed. Its state: data_dashboard with "
			"dashboard=\"%s\" and event={\"type\":\"poll\",\"wait_s\":20}\n",
			id, id);
	else if (a->expired)
		call_print(c,
			"Dashboard %s: its session has ended; run its code again for a new one.\n",
			id);
	else
		call_print(c, "Dashboard %s\n", id);
	/* nothing at all was shown, and the text says why */
	c->is_error = status && strcmp(status, "error") == 0 &&
		      json_array_size(json_object_get(a->outline, "shown")) == 0 &&
		      json_array_size(json_object_get(a->outline, "controls")) == 0;
	call_finish(c);
}

static void run_code(struct call *c, struct dashboard *d, const char *op, const char *code)
{
	json_t *request = json_pack("{s:s, s:s, s:s, s:s*, s:b}", "op", op, "id", dashboard_id(d),
		"code", code, "title", args_text(c->args, "title"), "plain",
		c->pages == PAGES_NONE);
	dashboard_set_code(d, code);
	board_send(c, d, DASHBOARD_RUN, request, 0, run_wait_us(c), answered);
}

static void run_new(struct call *c, const char *code)
{
	char id[ID_TEXT_SIZE];
	struct dashboard *d;
	struct err err = {0};
	int r = c->server->dashboards
			? call_find_session(c, true, &err)
			: err_set(&err, ERR_PROVIDER_UNUSABLE, 0, "no sandbox can be made here");
	delivery_id(&c->delivery, 'd', id);
	if (r == 0)
		r = dashboards_make(c->server->dashboards, c->session, NULL, id, &d, &err);
	if (r < 0)
		call_fail(c, &err);
	else
		run_code(c, d, "new", code);
}

static void run_known(struct call *c, const char *code, const json_t *event)
{
	struct dashboard *d;
	struct err err = {0};
	if (board_find(c, &d, &err) < 0)
		call_fail(c, &err);
	else if (event)
		board_event(c, d, event, run_wait_us(c), answered);
	else if (!dashboard_session(d))
		call_failf(c, ERR_NO_SUCH_SESSION,
			"the session of this dashboard has ended: leave \"dashboard\" out and give "
			"all of the code, for a new one");
	else
		run_code(c, d, "edit", code);
}

static void run(struct call *c)
{
	const char *code = args_text(c->args, "code");
	const json_t *event = json_object_get(c->args, "event");
	if (!code == !event)
		call_failf(c, ERR_INVALID_ARGUMENT,
			"give either \"code\" (a new dashboard, or new code for \"dashboard\") or "
			"\"event\" with \"dashboard\"");
	else if (args_text(c->args, "dashboard"))
		run_known(c, code, event);
	else if (event)
		run_known(c, NULL, event);
	else
		run_new(c, code);
}

const struct tool tool_data_dashboard = {
	.name = "data_dashboard",
	.title = "Show an interactive dashboard",
	.description =
		"Run an analysis in the session's python kernel and show it to the person as an "
		"interactive page. Write it like Streamlit (import scb, or streamlit as st), or "
		"just "
		"end with a DataFrame, Series, dict, number or figure. Controls return their "
		"value: "
		"selectbox, radio, multiselect, slider, number_input, date_range, checkbox, "
		"text_input, button. Shown: title, markdown, metric, chart, table, figure, "
		"columns, "
		"tabs. Load data at top level: only what depends on a moved control runs again. "
		"Call again with dashboard and new code to change it.",
	.args = {.args = args, .n_args = ARRAY_SIZE(args)},
	.result = result_fields,
	.session = TOOL_SESSION_SELF,
	.starts_job = true,
	.ui = DASHBOARD_URI,
	.run = run,
	.cancel = board_cancel,
};
