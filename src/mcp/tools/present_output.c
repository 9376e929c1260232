/* present_output.c: a file's only way out of a sandbox. */
#include "base/limits.h"
#include "mcp/present.h"

static const struct arg args[] = {
	{"path", ARG_TEXT, .required = true, .min = 1, .max = LIMIT_PATH - 1,
		.description = "a regular file in /workspace"},
	{"title", ARG_TEXT, .max = 200, .description = "for the person"},
	{"session", ARG_TEXT, .max = 64 * KIB},
};

static const struct field result_fields[] = {
	{"session", "string", true, NULL},
	{"uri", "string", true, NULL},
	{"name", "string", true, NULL},
	{"path", "string", true, NULL},
	{"bytes", "integer", true, NULL},
	{"sha256", "string", true, NULL},
	{"mimeType", "string", true, NULL},
	{"executable", "boolean", true, NULL},
	{"link", "string", false, NULL},
	{0},
};

static void on_presented(struct call *c, const struct output *o, const struct err *err)
{
	c->state = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	present_tell(c, o);
	present_set(c, o, c->structured);
	call_finish(c);
}

static void run(struct call *c)
{
	char id[ID_TEXT_SIZE];
	struct present *p;
	struct err err = {0};
	delivery_id(&c->delivery, 'o', id);
	const struct present_wish wish = {
		.path = args_text(c->args, "path"),
		.title = args_text(c->args, "title"),
		.id = id,
		.again = c->delivery.replayed,
	};
	if (present_start(c, &wish, on_presented, &p, &err) < 0)
		call_fail(c, &err);
	else
		c->state = p;
}

static bool cancel(struct call *c)
{
	present_abandon(c->state);
	c->state = NULL;
	return true;
}

const struct tool tool_present_output = {
	.name = "present_output",
	.title = "Hand a file to the person",
	.description =
		"Copy a file of /workspace out of the sandbox, for the person. The only way a file "
		"leaves it. Returns a resource:// URI and where the person finds the file.",
	.args = {.args = args, .n_args = ARRAY_SIZE(args)},
	.result = result_fields,
	.run = run,
	.cancel = cancel,
};
