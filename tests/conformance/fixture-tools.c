/* fixture-tools.c: the conformance suite's tools, but for those that ask their client
 * (fixture-asks.c). */
#include "fixture.h"

#include <uv.h>

#include "base/limits.h"
#include "mcp/tell.h"

#define STEP_MS 50

const char fixture_png[] =
	"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAA"
	"ABJRU5ErkJggg==";
const char fixture_wav[] = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";

json_t *fixture_image(void)
{
	return json_pack(
		"{s:s,s:s,s:s}", "type", "image", "data", fixture_png, "mimeType", "image/png");
}

static json_t *embedded(const char *uri, const char *mime_type, const char *text)
{
	return json_pack("{s:s,s:{s:s,s:s,s:s}}", "type", "resource", "resource", "uri", uri,
		"mimeType", mime_type, "text", text);
}

/* ---- kinds of content ---- */

static void simple_text(struct call *c)
{
	call_print(c, "This is a simple text response for testing.");
	call_finish(c);
}

static void image_content(struct call *c)
{
	call_block(c, fixture_image());
	call_finish(c);
}

static void audio_content(struct call *c)
{
	call_block(c, json_pack("{s:s,s:s,s:s}", "type", "audio", "data", fixture_wav, "mimeType",
			      "audio/wav"));
	call_finish(c);
}

static void embedded_resource(struct call *c)
{
	call_block(c, embedded("test://embedded-resource", "text/plain",
			      "This is an embedded resource content."));
	call_finish(c);
}

static void multiple_content_types(struct call *c)
{
	call_print(c, "Multiple content types test:");
	call_block(c, fixture_image());
	call_block(c, embedded("test://mixed-content-resource", "application/json",
			      "{\"test\":\"data\",\"value\":123}"));
	call_finish(c);
}

static void error_handling(struct call *c)
{
	call_failf(c, ERR_IO, "This tool intentionally returns an error for testing");
}

/* ---- what is told before the answer, in steps ---- */

struct steps {
	uv_timer_t timer;
	struct call *call;
	void (*step)(struct call *c, unsigned number); /* 0, 1, 2: the last one ends the call */
	unsigned number;
};

static void on_steps_closed(uv_handle_t *h)
{
	free(h->data);
}

static bool stop_steps(struct call *c)
{
	struct steps *s = TAKE_PTR(c->state);
	uv_close((uv_handle_t *)&s->timer, on_steps_closed);
	return true;
}

static void on_step(uv_timer_t *t)
{
	struct steps *s = t->data;
	struct call *c = s->call;
	unsigned number = s->number++;
	s->step(c, number);
	if (number < 2)
		return;
	(void)stop_steps(c);
	call_finish(c);
}

static void run_steps(struct call *c, void (*step)(struct call *c, unsigned number))
{
	struct steps *s = xcalloc(1, sizeof(*s));
	s->call = c;
	s->step = step;
	(void)uv_timer_init(c->server->config.loop, &s->timer);
	s->timer.data = s;
	c->state = s;
	(void)uv_timer_start(&s->timer, on_step, 0, STEP_MS);
}

static void log_step(struct call *c, unsigned number)
{
	static const char *const texts[] = {
		"Tool execution started", "Tool processing data", "Tool execution completed"};
	tell_log(c, TELL_INFO, json_string(texts[number]));
	if (number == 2)
		call_print(c, "Tool with logging executed successfully");
}

static void with_logging(struct call *c)
{
	run_steps(c, log_step);
}

static void progress_step(struct call *c, unsigned number)
{
	tell_progress(c, 50.0 * number, 100, number < 2 ? "working" : "done");
	if (number == 2)
		call_print(c, "Tool with progress executed successfully");
}

static void with_progress(struct call *c)
{
	run_steps(c, progress_step);
}

static void logging_tool(struct call *c)
{
	tell_log(c, TELL_INFO, json_string("somebody asked for this"));
	call_print(c, "Logging evaluated");
	call_finish(c);
}

/* ---- changes ---- */

static void tools_change(struct call *c)
{
	mcp_server_changed(c->server, MCP_TOOLS);
	call_print(c, "those who listen were told that the tools have changed");
	call_finish(c);
}

static void prompts_change(struct call *c)
{
	mcp_server_changed(c->server, MCP_PROMPTS);
	call_print(c, "those who listen were told that the prompts have changed");
	call_finish(c);
}

/* ---- schemas and headers ---- */

static const char *const contact_methods[] = {"phone", "email", NULL};
static const struct arg schema_args[] = {
	{"name", ARG_TEXT, .max = KIB},
	{"address", ARG_MAP, .max = 2},
	{"contactMethod", ARG_TEXT, .max = KIB, .choices = contact_methods},
	{"phone", ARG_TEXT, .max = KIB},
	{"email", ARG_TEXT, .max = KIB},
};
static const char schema_text[] =
	"{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","
	"\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{"
	"\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},"
	"\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},"
	"\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},"
	"\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},"
	"\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],"
	"\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},"
	"\"required\":[\"contactMethod\"]},"
	"\"then\":{\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},"
	"\"additionalProperties\":false}";

static const struct arg header_args[] = {
	{"region", ARG_TEXT, .required = true, .max = 200, .header = "Region"},
	{"limit", ARG_INTEGER, .max = 1000, .header = "Limit"},
	{"verbose", ARG_BOOLEAN, .header = "Verbose"},
};

static void print_arguments(struct call *c)
{
	char *text = json_dumps(c->args, JSON_COMPACT);
	call_print(c, "called with: %s", text);
	free(text);
	call_finish(c);
}

/* ---- the table ---- */

#define SAYS(text)  .title = text, .description = text, .session = TOOL_SESSION_SELF
#define ARGS(table) .args = {.args = table, .n_args = ARRAY_SIZE(table)}

const struct tool fixture_tools[] = {
	{.name = "test_simple_text", SAYS("Answers with text"), .run = simple_text},
	{.name = "test_image_content", SAYS("Answers with an image"), .run = image_content},
	{.name = "test_audio_content", SAYS("Answers with sound"), .run = audio_content},
	{.name = "test_embedded_resource",
		SAYS("Answers with a resource"),
		.run = embedded_resource},
	{.name = "test_multiple_content_types",
		SAYS("Answers with several kinds of content"),
		.run = multiple_content_types},
	{.name = "test_error_handling", SAYS("Fails"), .run = error_handling},
	{.name = "test_tool_with_logging",
		SAYS("Logs three times"),
		.run = with_logging,
		.cancel = stop_steps},
	{.name = "test_tool_with_progress",
		SAYS("Makes progress"),
		.run = with_progress,
		.cancel = stop_steps},
	{.name = "test_logging_tool", SAYS("Logs for those who asked for it"), .run = logging_tool},
	{.name = "test_trigger_tool_change",
		SAYS("Says that the tools have changed"),
		.run = tools_change},
	{.name = "test_trigger_prompt_change",
		SAYS("Says that the prompts have changed"),
		.run = prompts_change},
	{.name = "json_schema_2020_12_tool",
		SAYS("Has a schema beyond its table"),
		ARGS(schema_args),
		.input_schema = schema_text,
		.run = print_arguments},
	{.name = "test_header_parameters",
		SAYS("Has arguments that stand in header fields"),
		ARGS(header_args),
		.run = print_arguments},
	{0},
};
