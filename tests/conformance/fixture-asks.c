/* fixture-asks.c: the conformance suite's tools that ask their client, each written once for both
 * eras. */
#include "fixture.h"

#include <string.h>

#include "base/id.h"
#include "base/limits.h"
#include "mcp/callask.h"

json_t *fixture_form(const char *message, json_t *fields)
{
	json_t *required = json_array();
	const char *name;
	json_t *v;
	json_object_foreach (fields, name, v)
		json_array_append_new(required, json_string(name));
	return json_pack("{s:s,s:{s:s,s:o,s:o}}", "message", message, "requestedSchema", "type",
		"object", "properties", fields, "required", required);
}

const char *fixture_field(const json_t *answer, const char *name)
{
	const char *text =
		json_string_value(json_object_get(json_object_get(answer, "content"), name));
	return text ? text : "";
}

static json_t *field(const char *name, const char *type)
{
	return json_pack("{s:{s:s}}", name, "type", type);
}

static json_t *question(const char *text, int tokens)
{
	return json_pack("{s:[{s:s,s:{s:s,s:s}}],s:i}", "messages", "role", "user", "content",
		"type", "text", "text", text, "maxTokens", tokens);
}

/* Of a message of the model's. */
static const char *said(const json_t *answer)
{
	return fixture_field(answer, "text");
}

/* ---- one question ---- */

static void ask_name(struct call *c)
{
	const json_t *name = ask_answer(c->ask, "user_name", ASK_ELICITATION);
	if (!name) {
		ask_for(c->ask, "user_name", ASK_ELICITATION,
			fixture_form("What is your name?", field("name", "string")));
		callask_send(c);
		return;
	}
	call_print(c, "Hello, %s!", fixture_field(name, "name"));
	call_finish(c);
}

static void ask_capital(struct call *c)
{
	const json_t *answer = ask_answer(c->ask, "capital_question", ASK_SAMPLING);
	if (!answer) {
		ask_for(c->ask, "capital_question", ASK_SAMPLING,
			question("What is the capital of France?", 100));
		callask_send(c);
		return;
	}
	call_print(c, "Sampling result: %s", said(answer));
	call_finish(c);
}

static void ask_roots(struct call *c)
{
	const json_t *answer = ask_answer(c->ask, "client_roots", ASK_ROOTS);
	if (!answer) {
		ask_for(c->ask, "client_roots", ASK_ROOTS, json_object());
		callask_send(c);
		return;
	}
	call_print(c, "Found %zu root(s)", json_array_size(json_object_get(answer, "roots")));
	call_finish(c);
}

/* The suite calls it without the capability. */
static void missing_capability(struct call *c)
{
	ask_capital(c);
}

static void sampling(struct call *c)
{
	const json_t *answer = ask_answer(c->ask, "prompt", ASK_SAMPLING);
	if (!answer) {
		ask_for(c->ask, "prompt", ASK_SAMPLING,
			question(args_text(c->args, "prompt"), 100));
		callask_send(c);
		return;
	}
	call_print(c, "LLM response: %s", said(answer));
	call_finish(c);
}

/* What a person did with a form, in words. */
static void print_form(struct call *c, const char *what, const json_t *answer)
{
	const json_t *content = json_object_get(answer, "content");
	char *text = content ? json_dumps(content, JSON_COMPACT) : NULL;
	call_print(c, "%s: action=%s, content=%s", what,
		json_string_value(json_object_get(answer, "action")), text ? text : "{}");
	free(text);
	call_finish(c);
}

static void elicitation(struct call *c)
{
	const json_t *answer = ask_answer(c->ask, "form", ASK_ELICITATION);
	if (!answer) {
		json_t *fields = json_pack("{s:{s:s,s:s},s:{s:s,s:s}}", "username", "type",
			"string", "description", "User's response", "email", "type", "string",
			"description", "User's email address");
		ask_for(c->ask, "form", ASK_ELICITATION,
			fixture_form(args_text(c->args, "message"), fields));
		callask_send(c);
		return;
	}
	print_form(c, "User response", answer);
}

/* A form as it stands there, in JSON. */
static void given_form(struct call *c, const char *text)
{
	const json_t *answer = ask_answer(c->ask, "form", ASK_ELICITATION);
	if (!answer) {
		json_t *params = json_loads(text, 0, NULL);
		CHECK(params);
		ask_for(c->ask, "form", ASK_ELICITATION, params);
		callask_send(c);
		return;
	}
	print_form(c, "Elicitation completed", answer);
}

static void defaults(struct call *c)
{
	given_form(c,
		"{\"message\":\"Please review and update the form fields with defaults\","
		"\"requestedSchema\":{\"type\":\"object\",\"properties\":{"
		"\"name\":{\"type\":\"string\",\"description\":\"User name\",\"default\":\"John "
		"Doe\"},"
		"\"age\":{\"type\":\"integer\",\"description\":\"User age\",\"default\":30},"
		"\"score\":{\"type\":\"number\",\"description\":\"User score\",\"default\":95.5},"
		"\"status\":{\"type\":\"string\",\"description\":\"User status\","
		"\"enum\":[\"active\",\"inactive\",\"pending\"],\"default\":\"active\"},"
		"\"verified\":{\"type\":\"boolean\",\"description\":\"Verification status\","
		"\"default\":true}},\"required\":[]}}");
}

static void enums(struct call *c)
{
	given_form(c,
		"{\"message\":\"Please select options from the enum fields\","
		"\"requestedSchema\":{\"type\":\"object\",\"properties\":{"
		"\"untitledSingle\":{\"type\":\"string\",\"description\":\"Select one option\","
		"\"enum\":[\"option1\",\"option2\",\"option3\"]},"
		"\"titledSingle\":{\"type\":\"string\",\"description\":\"Select one, with titles\","
		"\"oneOf\":[{\"const\":\"value1\",\"title\":\"First Option\"},"
		"{\"const\":\"value2\",\"title\":\"Second Option\"},"
		"{\"const\":\"value3\",\"title\":\"Third Option\"}]},"
		"\"legacyEnum\":{\"type\":\"string\",\"description\":\"Select one (legacy)\","
		"\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"
		"\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},"
		"\"untitledMulti\":{\"type\":\"array\",\"description\":\"Select several\","
		"\"minItems\":1,\"maxItems\":3,\"items\":{\"type\":\"string\","
		"\"enum\":[\"option1\",\"option2\",\"option3\"]}},"
		"\"titledMulti\":{\"type\":\"array\",\"description\":\"Select several, with "
		"titles\",\"minItems\":1,\"maxItems\":3,\"items\":{\"anyOf\":["
		"{\"const\":\"value1\",\"title\":\"First Choice\"},"
		"{\"const\":\"value2\",\"title\":\"Second Choice\"},"
		"{\"const\":\"value3\",\"title\":\"Third Choice\"}]}}},\"required\":[]}}");
}

/* ---- what is kept ---- */

/* Never the same twice, as the suite wants of what is kept. */
static json_t *kept(const char *kind)
{
	char nonce[ID_TEXT_SIZE];
	id_new('n', nonce);
	return json_pack("{s:s,s:s}", "kind", kind, "nonce", nonce);
}

static bool is_kept(const struct call *c, const char *kind)
{
	const char *text = json_string_value(json_object_get(ask_kept(c->ask), "kind"));
	return text && strcmp(text, kind) == 0;
}

static void confirm(struct call *c)
{
	const json_t *answer = ask_answer(c->ask, "confirm", ASK_ELICITATION);
	if (!answer || !is_kept(c, "confirm")) {
		ask_for(c->ask, "confirm", ASK_ELICITATION,
			fixture_form("Please confirm", field("ok", "boolean")));
		ask_keep(c->ask, kept("confirm"));
		callask_send(c);
		return;
	}
	call_print(c, "state-ok: what was kept came back whole");
	call_finish(c);
}

static void three_questions(struct call *c)
{
	const json_t *name = ask_answer(c->ask, "user_name", ASK_ELICITATION);
	const json_t *greeting = ask_answer(c->ask, "greeting", ASK_SAMPLING);
	const json_t *roots = ask_answer(c->ask, "client_roots", ASK_ROOTS);
	if (!name || !greeting || !roots || !is_kept(c, "three")) {
		ask_for(c->ask, "user_name", ASK_ELICITATION,
			fixture_form("What is your name?", field("name", "string")));
		ask_for(c->ask, "greeting", ASK_SAMPLING, question("Generate a greeting", 50));
		ask_for(c->ask, "client_roots", ASK_ROOTS, json_object());
		ask_keep(c->ask, kept("three"));
		callask_send(c);
		return;
	}
	call_print(c, "Name: %s; Greeting: %s; Roots: %zu", fixture_field(name, "name"),
		said(greeting), json_array_size(json_object_get(roots, "roots")));
	call_finish(c);
}

static void two_rounds(struct call *c)
{
	const json_t *name = ask_answer(c->ask, "step1", ASK_ELICITATION);
	const json_t *color = ask_answer(c->ask, "step2", ASK_ELICITATION);
	if (is_kept(c, "second") && color) {
		call_print(c, "Multi-round complete for %s who likes %s",
			json_string_value(json_object_get(ask_kept(c->ask), "name")),
			fixture_field(color, "color"));
		call_finish(c);
		return;
	}
	if (is_kept(c, "first") && name) {
		json_t *second = kept("second");
		json_object_set_new(second, "name", json_string(fixture_field(name, "name")));
		ask_keep(c->ask, second);
		ask_for(c->ask, "step2", ASK_ELICITATION,
			fixture_form(
				"Step 2: What is your favorite color?", field("color", "string")));
	} else {
		ask_keep(c->ask, kept("first"));
		ask_for(c->ask, "step1", ASK_ELICITATION,
			fixture_form("Step 1: What is your name?", field("name", "string")));
	}
	callask_send(c);
}

/* ---- what the client can ---- */

static void what_is_declared(struct call *c)
{
	const json_t *form = ask_answer(c->ask, "elicit_input", ASK_ELICITATION);
	const json_t *sample = ask_answer(c->ask, "sample_input", ASK_SAMPLING);
	if (form || sample) {
		call_print(c, "capabilities-ok");
		call_finish(c);
		return;
	}
	if (ask_can(c->ask, ASK_ELICITATION))
		ask_for(c->ask, "elicit_input", ASK_ELICITATION,
			fixture_form("Elicitation input", field("value", "string")));
	if (ask_can(c->ask, ASK_SAMPLING))
		ask_for(c->ask, "sample_input", ASK_SAMPLING, question("Sample request", 50));
	if (ask_pending(c->ask)) {
		ask_keep(c->ask, kept("capabilities"));
		callask_send(c);
		return;
	}
	call_print(c, "No supported capabilities declared");
	call_finish(c);
}

/* ---- the table ---- */

static const struct arg prompt_arg[] = {{"prompt", ARG_TEXT, .required = true, .max = 64 * KIB}};
static const struct arg message_arg[] = {{"message", ARG_TEXT, .required = true, .max = 64 * KIB}};

#define ASKS(text)  .title = text, .description = text, .session = TOOL_SESSION_SELF, .asks = true
#define ARGS(table) .args = {.args = table, .n_args = ARRAY_SIZE(table)}
#define IRR         "test_input_required_result_"

const struct tool fixture_ask_tools[] = {
	{.name = "test_sampling", ASKS("Asks the model"), ARGS(prompt_arg), .run = sampling},
	{.name = "test_elicitation",
		ASKS("Asks the person"),
		ARGS(message_arg),
		.run = elicitation},
	{.name = "test_elicitation_sep1034_defaults",
		ASKS("A form with defaults"),
		.run = defaults},
	{.name = "test_elicitation_sep1330_enums", ASKS("A form with choices"), .run = enums},
	{.name = "test_missing_capability", ASKS("Needs sampling"), .run = missing_capability},
	{.name = "test_streaming_elicitation", ASKS("Asks for a name"), .run = ask_name},
	{.name = IRR "elicitation", ASKS("Asks for a name"), .run = ask_name},
	{.name = IRR "sampling", ASKS("Asks the model"), .run = ask_capital},
	{.name = IRR "list_roots", ASKS("Asks for folders"), .run = ask_roots},
	{.name = IRR "request_state", ASKS("Keeps something"), .run = confirm},
	{.name = IRR "tampered_state", ASKS("Keeps something"), .run = confirm},
	{.name = IRR "multiple_inputs", ASKS("Asks three things at once"), .run = three_questions},
	{.name = IRR "multi_round", ASKS("Asks twice"), .run = two_rounds},
	{.name = IRR "capabilities", ASKS("Asks what can be asked"), .run = what_is_declared},
	{0},
};
