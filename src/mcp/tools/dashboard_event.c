/* dashboard_event.c: the App's own tool: a control moved, a page wanted. It never runs code that
 * was not approved as data_dashboard's, so that a host's permission for it covers no more. */
#include <string.h>

#include "base/limits.h"
#include "mcp/board.h"

/* Then the App is told that it takes long, and asks again. */
#define EVENT_WAIT_US (400 * USEC_PER_MSEC)

static const struct arg args[] = {
	{"dashboard", ARG_TEXT, .max = 64, .description = NULL},
	/* one that has no handle yet has the dashboard's code */
	{"event", ARG_OBJECT, .required = true, .max = BOARD_CODE_MAX + 64 * KIB,
		.description = NULL},
	{"plain", ARG_BOOLEAN, .description = "answers as JSON text"},
};

static const struct field result_fields[] = {
	{"dashboard", "string", true, NULL},
	{"status", "string", true, NULL},
	{0},
};

static void set_all(struct call *c, const json_t *o)
{
	const char *name;
	json_t *v;
	json_object_foreach ((json_t *)o, name, v)
		call_set(c, name, json_incref(v));
}

static const char *status_of(const struct dashboard_answer *a, const json_t *shown)
{
	const char *said = json_string_value(json_object_get(shown, "status"));
	return a->running ? "running" : a->expired ? "expired" : said ? said : "ok";
}

static void answered(
	struct call *c, struct dashboard *d, const struct dashboard_answer *a, json_t *exported)
{
	const json_t *shown = a->patch ? a->patch : a->page ? a->page : a->tree;
	_cleanup_free_ char *trouble = board_trouble(a);
	if (trouble) {
		call_failf(c, ERR_INVALID_ARGUMENT, "%s", trouble);
		return;
	}
	if (shown)
		set_all(c, shown);
	call_set_text(c, "dashboard", dashboard_id(d));
	call_set_text(c, "id", dashboard_id(d));
	call_set_text(c, "status", status_of(a, shown));
	if (a->seq)
		call_set_u64(c, "seq", a->seq);
	if (exported)
		call_set(c, "export", json_incref(exported));
	if (a->image)
		board_add_image(c, a->image);
	_cleanup_free_ char *text =
		args_bool(c->args, "plain") ? json_dumps(c->structured, JSON_COMPACT) : NULL;
	c->bare = text;
	if (text)
		call_print(c, "%s\n", text);
	else if (!exported)
		call_print(c, "dashboard %s: %s\n", dashboard_id(d), status_of(a, shown));
	call_finish(c);
}

static void run(struct call *c)
{
	struct dashboard *d;
	struct err err = {0};
	if (board_find(c, &d, &err) < 0)
		call_fail(c, &err);
	else
		board_event(c, d, json_object_get(c->args, "event"), EVENT_WAIT_US, answered);
}

const struct tool tool_dashboard_event = {
	.name = "dashboard_event",
	.title = "A dashboard's control was moved",
	.description =
		"For the dashboard's own page: moves a control, fetches a page of a table or "
		"a part of a chart. Runs again what depends on it, nothing else.",
	.args = {.args = args, .n_args = ARRAY_SIZE(args)},
	.result = result_fields,
	.idempotent = true,
	.session = TOOL_SESSION_SELF,
	.starts_job = true,
	.ui = DASHBOARD_URI,
	.app_only = true,
	.run = run,
	.cancel = board_cancel,
};
