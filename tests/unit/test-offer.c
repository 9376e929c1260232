/* test-offer.c: the library with the conformance suite's tools, prompts and resources: what the
 * suite does not ask, above all of calls that ask their client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "../conformance/fixture.h"
#include "audit/audit.h"
#include "base/limits.h"
#include "mcp/conn.h"
#include "mcp/httprules.h"
#include "policy/policy.h"
#include "provider/record.h"

#define ENVELOPE(capabilities)                                                                     \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                   \
	"\"io.modelcontextprotocol/clientCapabilities\":{" capabilities "}}"
#define ALL  ENVELOPE("\"elicitation\":{},\"sampling\":{},\"roots\":{}")
#define NONE ENVELOPE("")

static uv_loop_t loop;
static struct mcp_server *server;
static struct policy *policy;
static struct audit *audit;
static char audit_dir[] = "/tmp/test-offer-XXXXXX";

/* A client: its connection, and what it was sent. */
struct client {
	struct mcp_transport transport;
	struct mcp_conn *conn;
	json_t *sent[8];
	size_t n;
	int code; /* of the error before it was sent */
	bool out_of_reach;
};
static struct client mine, theirs;

static void on_send(struct mcp_transport *t, uint64_t number, const char *message, size_t n)
{
	struct client *c = container_of(t, struct client, transport);
	(void)number;
	assert_true(c->n < ARRAY_SIZE(c->sent));
	c->sent[c->n] = json_loadb(message, n, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(c->sent[c->n++]);
}

static bool on_congested(const struct mcp_transport *t)
{
	(void)t;
	return false;
}

static void on_failed(struct mcp_transport *t, uint64_t number, int code)
{
	(void)number;
	container_of(t, struct client, transport)->code = code;
}

static bool on_reaches(const struct mcp_transport *t)
{
	return !container_of(t, const struct client, transport)->out_of_reach;
}

static void forget(struct client *c)
{
	for (size_t i = 0; i < c->n; i++)
		json_decref(c->sent[i]);
	c->n = 0;
	c->code = 0;
}

static void enter(struct client *c, const char *principal)
{
	c->transport = (struct mcp_transport){.send = on_send,
		.congested = on_congested,
		.failed = on_failed,
		.reaches = on_reaches};
	c->conn = mcp_conn_new(
		server, &c->transport, &(struct mcp_conn_config){.principal = principal});
}

static const struct tool *const *tools(void)
{
	static const struct tool *all[64];
	size_t n = 0;
	for (const struct tool *t = fixture_tools; t->name; t++)
		all[n++] = t;
	for (const struct tool *t = fixture_ask_tools; t->name; t++)
		all[n++] = t;
	return all;
}

static struct mcp_offer offer = {.name = "fixture",
	.title = "Fixture",
	.prompts = fixture_prompts,
	.resources = fixture_resources,
	.logs = true,
	.changes = true};

static int group_setup(void **state)
{
	(void)state;
	struct err err = {0};
	assert_non_null(mkdtemp(audit_dir));
	_cleanup_free_ char *path = xasprintf("%s/audit.jsonl", audit_dir);
	_cleanup_free_ char *key = xasprintf("%s/audit.key", audit_dir);
	assert_int_equal(uv_loop_init(&loop), 0);
	policy = policy_new_default();
	assert_int_equal(audit_open(path, key, NULL, &audit, &err), 0);
	offer.tools = tools();
	server = mcp_server_new(&(struct mcp_config){
		.loop = &loop, .offer = &offer, .policy = policy, .audit = audit});
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	mcp_server_close(server);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	policy_free(policy);
	audit_close(audit);
	return record_remove_tree(audit_dir);
}

static int setup(void **state)
{
	(void)state;
	enter(&mine, "uid:1");
	enter(&theirs, "uid:2");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (struct client *c = &mine; c; c = c == &mine ? &theirs : NULL) {
		mcp_conn_close(c->conn);
		forget(c);
		*c = (struct client){0};
	}
	return 0;
}

static void say(struct client *c, const char *message)
{
	forget(c);
	mcp_conn_message(c->conn, &(struct mcp_message){.p = message, .n = strlen(message)});
}

static void request(struct client *c, const char *method, const char *params)
{
	_cleanup_free_ char *message = xasprintf(
		"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"%s\",\"params\":{%s}}", method, params);
	say(c, message);
}

/* The one answer: its result, or NULL. */
static json_t *result(struct client *c)
{
	assert_int_equal(c->n, 1);
	assert_int_equal(json_integer_value(json_object_get(c->sent[0], "id")), 7);
	return json_object_get(c->sent[0], "result");
}

static int error_code(struct client *c)
{
	assert_null(result(c));
	int code = (int)json_integer_value(
		json_object_get(json_object_get(c->sent[0], "error"), "code"));
	assert_int_equal(c->code, code);
	return code;
}

static const char *text_of(const json_t *o, const char *name)
{
	const char *t = json_string_value(json_object_get(o, name));
	return t ? t : "";
}

static const char *content(struct client *c)
{
	return text_of(json_array_get(json_object_get(result(c), "content"), 0), "text");
}

static bool is_error(struct client *c)
{
	return json_is_true(json_object_get(result(c), "isError"));
}

/* ---- the modern era ---- */

/* Asks for it the first time; what is kept is returned, owned by the caller. */
static char *first_round(struct client *c, const char *tool, const char *more)
{
	_cleanup_free_ char *params = xasprintf("\"name\":\"%s\",%s" ALL, tool, more);
	request(c, "tools/call", params);
	const json_t *r = result(c);
	assert_string_equal(text_of(r, "resultType"), "input_required");
	assert_null(json_object_get(r, "content"));
	assert_true(*text_of(r, "requestState"));
	return xstrdup(text_of(r, "requestState"));
}

static void second_round(
	struct client *c, const char *tool, const char *more, const char *kept, const char *answers)
{
	_cleanup_free_ char *params =
		xasprintf("\"name\":\"%s\",%s\"requestState\":\"%s\",\"inputResponses\":{%s}," ALL,
			tool, more, kept, answers);
	request(c, "tools/call", params);
}

#define CONFIRM "test_input_required_result_request_state"
#define YES     "\"confirm\":{\"action\":\"accept\",\"content\":{\"ok\":true}}"

static void what_is_kept_is_sealed(void **state)
{
	(void)state;
	_cleanup_free_ char *kept = first_round(&mine, CONFIRM, "");
	second_round(&mine, CONFIRM, "", kept, YES);
	assert_non_null(strstr(content(&mine), "state-ok"));

	/* by somebody else, for another tool, with other arguments */
	second_round(&theirs, CONFIRM, "", kept, YES);
	assert_int_equal(error_code(&theirs), -32602);
	second_round(&mine, "test_input_required_result_tampered_state", "", kept, YES);
	assert_int_equal(error_code(&mine), -32602);
	second_round(&mine, CONFIRM, "\"arguments\":{\"x\":\"y\"},", kept, YES);
	assert_int_equal(error_code(&mine), -32602);

	/* changed anywhere, cut anywhere */
	size_t n = strlen(kept);
	for (size_t i = 0; i < n; i += 7) {
		char was = kept[i];
		kept[i] = was == 'a' ? 'b' : 'a';
		second_round(&mine, CONFIRM, "", kept, YES);
		assert_int_equal(error_code(&mine), -32602);
		kept[i] = was;
	}
	for (size_t i = 0; i < n; i += 5) {
		_cleanup_free_ char *part = xstrndup(kept, i);
		second_round(&mine, CONFIRM, "", part, YES);
		assert_int_equal(error_code(&mine), -32602);
	}
	second_round(&mine, CONFIRM, "", kept, YES);
	assert_non_null(strstr(content(&mine), "state-ok"));
}

static void answers_have_their_form(void **state)
{
	(void)state;
	static const char *const none[] = {"", "\"confirm\":7", "\"confirm\":{\"content\":{}}",
		"\"confirm\":{\"action\":7}", "\"other\":{\"action\":\"accept\"}"};
	_cleanup_free_ char *kept = first_round(&mine, CONFIRM, "");
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) { /* it is asked again */
		second_round(&mine, CONFIRM, "", kept, none[i]);
		assert_string_equal(text_of(result(&mine), "resultType"), "input_required");
	}
	request(&mine, "tools/call", "\"name\":\"" CONFIRM "\",\"inputResponses\":[]," ALL);
	assert_int_equal(error_code(&mine), -32602);
	request(&mine, "tools/call", "\"name\":\"" CONFIRM "\",\"requestState\":{}," ALL);
	assert_int_equal(error_code(&mine), -32602);
}

static void undeclared_is_not_asked(void **state)
{
	(void)state;
	request(&mine, "tools/call",
		"\"name\":\"test_missing_capability\"," ENVELOPE("\"roots\":{}"));
	assert_int_equal(error_code(&mine), -32021);
	const json_t *data = json_object_get(json_object_get(mine.sent[0], "error"), "data");
	assert_true(json_is_object(
		json_object_get(json_object_get(data, "requiredCapabilities"), "sampling")));
	request(&mine, "tools/call", "\"name\":\"test_input_required_result_capabilities\"," NONE);
	assert_string_equal(content(&mine), "No supported capabilities declared");
	assert_int_equal(httprules_status(-32021), 400);
	assert_int_equal(httprules_status(-32602), 200);
}

static void a_prompt_asks(void **state)
{
	(void)state;
	request(&mine, "prompts/get", "\"name\":\"test_input_required_result_prompt\"," NONE);
	assert_int_equal(error_code(&mine), -32021);
	request(&mine, "prompts/get", "\"name\":\"test_input_required_result_prompt\"");
	assert_int_equal(error_code(&mine), -32602); /* the older era has no way for it */
}

/* ---- the older era ---- */

static void begin(struct client *c, const char *capabilities)
{
	_cleanup_free_ char *params = xasprintf("\"protocolVersion\":\"2025-11-25\","
						"\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"},"
						"\"capabilities\":{%s}",
		capabilities);
	request(c, "initialize", params);
	assert_non_null(result(c));
}

/* The request that it was sent as number i: its id, owned by the caller. */
static char *asked(struct client *c, size_t i, const char *method)
{
	assert_true(i < c->n);
	assert_string_equal(text_of(c->sent[i], "method"), method);
	assert_int_equal(strlen(text_of(c->sent[i], "id")), 34);
	return xstrdup(text_of(c->sent[i], "id"));
}

static void respond(struct client *c, const char *id, const char *what)
{
	_cleanup_free_ char *message =
		xasprintf("{\"jsonrpc\":\"2.0\",\"id\":\"%s\",%s}", id, what);
	say(c, message);
}

#define NAMED(name) "\"result\":{\"action\":\"accept\",\"content\":{\"name\":\"" name "\"}}"

static void the_older_era_is_sent_requests(void **state)
{
	(void)state;
	begin(&mine, "\"elicitation\":{}");
	begin(&theirs, "\"elicitation\":{}");
	request(&mine, "tools/call", "\"name\":\"test_input_required_result_multi_round\"");
	assert_int_equal(mine.n, 1);
	_cleanup_free_ char *first = asked(&mine, 0, "elicitation/create");
	respond(&theirs, first, NAMED("Eve")); /* not theirs to answer */
	assert_int_equal(mine.n + theirs.n, 1);
	respond(&mine, first, NAMED("Alice"));
	assert_int_equal(mine.n, 1);
	_cleanup_free_ char *second = asked(&mine, 0, "elicitation/create");
	respond(&mine, first, NAMED("again")); /* once is enough */
	assert_int_equal(mine.n, 0);
	respond(&mine, second,
		"\"result\":{\"action\":\"accept\",\"content\":{\"color\":\"blue\"}}");
	assert_string_equal(content(&mine), "Multi-round complete for Alice who likes blue");
}

static void several_at_once(void **state)
{
	(void)state;
	begin(&mine, "\"elicitation\":{},\"sampling\":{},\"roots\":{}");
	request(&mine, "tools/call", "\"name\":\"test_input_required_result_multiple_inputs\"");
	assert_int_equal(mine.n, 3);
	_cleanup_free_ char *name = asked(&mine, 0, "elicitation/create");
	_cleanup_free_ char *greeting = asked(&mine, 1, "sampling/createMessage");
	_cleanup_free_ char *roots = asked(&mine, 2, "roots/list");
	respond(&mine, roots, "\"result\":{\"roots\":[]}");
	respond(&mine, greeting,
		"\"result\":{\"role\":\"assistant\",\"content\":{\"type\":\"text\",\"text\":\"hi\"}"
		",\"model\":\"m\"}");
	assert_int_equal(mine.n, 0);
	respond(&mine, name, NAMED("Alice"));
	assert_string_equal(content(&mine), "Name: Alice; Greeting: hi; Roots: 0");
}

#define ASK_NAME "\"name\":\"test_input_required_result_elicitation\""

static void it_may_come_to_nothing(void **state)
{
	(void)state;
	begin(&mine, "\"elicitation\":{}");
	request(&mine, "tools/call", ASK_NAME);
	_cleanup_free_ char *id = asked(&mine, 0, "elicitation/create");
	respond(&mine, id, "\"error\":{\"code\":-1,\"message\":\"no\\nthanks\"}");
	assert_true(is_error(&mine));
	assert_non_null(strstr(content(&mine), "thanks"));

	request(&mine, "tools/call", ASK_NAME);
	_cleanup_free_ char *cancelled = asked(&mine, 0, "elicitation/create");
	say(&mine, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
		   "\"params\":{\"requestId\":7}}");
	respond(&mine, cancelled, NAMED("late"));
	assert_int_equal(mine.n, 0);

	request(&mine, "tools/call", "\"name\":\"test_sampling\",\"arguments\":{\"prompt\":\"x\"}");
	assert_true(is_error(&mine)); /* not declared */
	assert_non_null(strstr(content(&mine), "sampling"));

	mine.out_of_reach = true;
	request(&mine, "tools/call", ASK_NAME);
	assert_true(is_error(&mine));
	mine.out_of_reach = false;

	request(&mine, "tools/call", ASK_NAME); /* and the client goes */
	assert_int_equal(mine.n, 1);
}

/* ---- log messages ---- */

static void logs_are_for_who_asks(void **state)
{
	(void)state;
	static const char call[] = "\"name\":\"test_logging_tool\"";
	request(&mine, "tools/call", "\"name\":\"test_logging_tool\"," NONE);
	assert_int_equal(mine.n, 1);
	for (int info = 0; info < 2; info++) {
		_cleanup_free_ char *params = xasprintf(
			"%s,\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
			"\"io.modelcontextprotocol/clientCapabilities\":{},"
			"\"io.modelcontextprotocol/logLevel\":\"%s\"}",
			call, info ? "info" : "notice");
		request(&mine, "tools/call", params);
		assert_int_equal(mine.n, info ? 2 : 1);
	}
	assert_string_equal(text_of(mine.sent[0], "method"), "notifications/message");

	request(&mine, "logging/setLevel", "\"level\":\"loud\"");
	assert_int_equal(error_code(&mine), -32602);
	request(&mine, "logging/setLevel", "\"level\":\"warning\"");
	request(&mine, "tools/call", call);
	assert_int_equal(mine.n, 1);
	request(&mine, "logging/setLevel", "\"level\":\"debug\"");
	request(&mine, "tools/call", call);
	assert_int_equal(mine.n, 2);
}

/* ---- changes ---- */

static void listen_to(struct client *c, const char *id, const char *filter)
{
	_cleanup_free_ char *message =
		xasprintf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"subscriptions/listen\","
			  "\"params\":{\"notifications\":%s," NONE "}}",
			id, filter);
	say(c, message);
}

static void change(void)
{
	request(&theirs, "tools/call", "\"name\":\"test_trigger_tool_change\"");
	assert_false(is_error(&theirs));
}

static void who_listens_is_told(void **state)
{
	(void)state;
	listen_to(&mine, "\"l\"", "{\"toolsListChanged\":true,\"resourceSubscriptions\":[\"x\"]}");
	assert_int_equal(mine.n, 1);
	const json_t *params = json_object_get(mine.sent[0], "params");
	assert_int_equal(json_object_size(json_object_get(params, "notifications")), 1);
	listen_to(&mine, "8", "{\"promptsListChanged\":true}");
	forget(&mine);
	change();
	assert_int_equal(mine.n, 1);
	assert_string_equal(text_of(mine.sent[0], "method"), "notifications/tools/list_changed");
	assert_string_equal(
		text_of(json_object_get(json_object_get(mine.sent[0], "params"), "_meta"),
			"io.modelcontextprotocol/subscriptionId"),
		"l");

	listen_to(&mine, "\"l\"", "{}"); /* the same id */
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(mine.sent[0], "error"), "code")),
		-32600);
	say(&mine, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
		   "\"params\":{\"requestId\":\"l\"}}");
	change();
	assert_int_equal(mine.n, 0);
}

static void listening_has_its_bounds(void **state)
{
	(void)state;
	request(&mine, "subscriptions/listen", "\"notifications\":{}");
	assert_int_equal(error_code(&mine), -32601); /* not in the older era */
	request(&mine, "subscriptions/listen", NONE);
	assert_int_equal(error_code(&mine), -32602);
	mine.out_of_reach = true;
	request(&mine, "subscriptions/listen", "\"notifications\":{}," NONE);
	assert_int_equal(error_code(&mine), -32600);
	mine.out_of_reach = false;
	for (unsigned i = 0; i < LIMIT_MCP_LISTENS; i++) {
		char id[16];
		(void)snprintf(id, sizeof(id), "%u", 100 + i);
		listen_to(&mine, id, "{}");
		assert_non_null(json_object_get(mine.sent[0], "method"));
	}
	request(&mine, "subscriptions/listen", "\"notifications\":{}," NONE);
	assert_int_equal(error_code(&mine), -32603);
}

/* ---- prompts, templates, completion ---- */

static void prompts_check_their_arguments(void **state)
{
	(void)state;
	static const char *const bad[] = {"\"name\":\"nope\"", "\"other\":1",
		"\"name\":\"test_prompt_with_arguments\"",
		"\"name\":\"test_prompt_with_arguments\",\"arguments\":[]",
		"\"name\":\"test_prompt_with_arguments\",\"arguments\":{\"arg1\":\"a\"}",
		"\"name\":\"test_prompt_with_arguments\",\"arguments\":{\"arg1\":\"a\",\"arg2\":2}",
		"\"name\":\"test_simple_prompt\",\"arguments\":{\"x\":\"y\"}"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		request(&mine, "prompts/get", bad[i]);
		assert_int_equal(error_code(&mine), -32602);
	}
}

static const json_t *completed(const char *ref, const char *argument, const char *value)
{
	_cleanup_free_ char *params =
		xasprintf("\"ref\":{%s},\"argument\":{\"name\":\"%s\",\"value\":\"%s\"}", ref,
			argument, value);
	request(&mine, "completion/complete", params);
	return json_object_get(json_object_get(result(&mine), "completion"), "values");
}

static void completion(void **state)
{
	(void)state;
	static const char prompt[] =
		"\"type\":\"ref/prompt\",\"name\":\"test_prompt_with_arguments\"";
	static const char template[] =
		"\"type\":\"ref/resource\",\"uri\":\"test://template/{id}/data\"";
	assert_int_equal(json_array_size(completed(prompt, "arg1", "test")), 3);
	assert_int_equal(json_array_size(completed(prompt, "arg1", "x")), 0);
	assert_int_equal(json_array_size(completed(prompt, "arg2", "")), 0);
	assert_int_equal(json_array_size(completed(template, "id", "12")), 2);
	assert_int_equal(json_array_size(completed(template, "other", "")), 0);
	assert_null(completed(prompt, "arg3", ""));
	assert_null(completed("\"type\":\"ref/prompt\"", "arg1", ""));
	assert_null(
		completed("\"type\":\"ref/resource\",\"uri\":\"test://static-text\"", "id", ""));
	assert_null(completed("\"type\":\"ref/other\"", "id", ""));
	assert_null(completed("", "id", ""));
}

static void templates(void **state)
{
	(void)state;
	static const char *const none[] = {"test://template//data", "test://template/a/b/data",
		"test://template/a/dat", "test://template/", "test://template/data",
		"test://static"};
	request(&mine, "resources/read", "\"uri\":\"test://template/x?y/data\"");
	assert_int_equal(error_code(&mine), -32602); /* a query is ours: resources.h */
	request(&mine, "resources/read", "\"uri\":\"test://template/7/data\"");
	const json_t *c = json_array_get(json_object_get(result(&mine), "contents"), 0);
	assert_string_equal(text_of(c, "uri"), "test://template/7/data");
	assert_non_null(strstr(text_of(c, "text"), "\"id\":\"7\""));
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		_cleanup_free_ char *params = xasprintf("\"uri\":\"%s\"", none[i]);
		request(&mine, "resources/read", params);
		assert_int_equal(error_code(&mine), -32002);
	}
	request(&mine, "resources/list", "");
	assert_int_equal(json_array_size(json_object_get(result(&mine), "resources")), 3);
	request(&mine, "resources/templates/list", "");
	assert_int_equal(json_array_size(json_object_get(result(&mine), "resourceTemplates")), 1);
}

/* ---- arguments in header fields ---- */

static unsigned judged(const char *arguments, const char *field, const char *value)
{
	_cleanup_free_ char *text =
		xasprintf("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
			  "\"name\":\"test_header_parameters\",\"arguments\":{%s}," NONE "}}",
			arguments);
	struct http_field fields[] = {{(char *)"mcp-protocol-version", (char *)"2026-07-28"},
		{(char *)"mcp-method", (char *)"tools/call"},
		{(char *)"mcp-name", (char *)"test_header_parameters"},
		{(char *)field, (char *)value}};
	const struct http_head head = {.fields = fields, .n_fields = field ? 4 : 3};
	struct jsonrpc_msg m = {0};
	struct jsonrpc_error e = {0};
	struct httprules_verdict v;
	assert_int_equal(jsonrpc_parse(text, strlen(text), &m, &e), 0);
	httprules_judge(&head, &m, &offer, &v);
	jsonrpc_msg_done(&m);
	assert_int_equal(v.status ? v.error.code : 0, v.status ? MCP_HEADER_MISMATCH : 0);
	jsonrpc_error_done(&v.error);
	return v.status;
}

static void header_and_argument_agree(void **state)
{
	(void)state;
	static const struct {
		const char *arguments, *field, *value;
		unsigned status;
	} cases[] = {
		{"\"region\":\"eu\"", "mcp-param-region", "eu", 0},
		{"\"region\":\"eu\"", "mcp-param-region", "us", 400},
		{"\"region\":\"eu\"", "mcp-param-region", "EU", 400},
		{"\"region\":\"eu\"", NULL, NULL, 400},
		{"\"region\":\"eu\"", "mcp-param-region", "=?base64?ZXU=?=", 0},
		{"\"region\":\"eu\"", "mcp-param-region", "=?base64?ZXU?=", 400},
		{"\"region\":\"e\\u0000\"", "mcp-param-region", "=?base64?ZQA=?=", 400},
		{"\"region\":null", NULL, NULL, 0},
		{"\"region\":null", "mcp-param-region", "", 400},
		{"", "mcp-param-region", "eu", 400},
		{"\"limit\":42", "mcp-param-limit", "42", 0},
		{"\"limit\":42", "mcp-param-limit", "42.0", 0},
		{"\"limit\":42", "mcp-param-limit", "0x2a", 400},
		{"\"limit\":42", "mcp-param-limit", "43", 400},
		{"\"limit\":42", "mcp-param-limit", "", 400},
		{"\"verbose\":true", "mcp-param-verbose", "true", 0},
		{"\"verbose\":true", "mcp-param-verbose", "True", 400},
		{"\"verbose\":false", "mcp-param-verbose", "true", 400},
		{"\"verbose\":[1]", "mcp-param-verbose", "1", 400},
		{"", "mcp-param-unknown", "x", 0},
	};
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned status = judged(cases[i].arguments, cases[i].field, cases[i].value);
		if (status != cases[i].status)
			fail_msg("%s, %s: %s → %u", cases[i].arguments,
				cases[i].field ? cases[i].field : "none",
				cases[i].value ? cases[i].value : "", status);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest all[] = {
		TEST(what_is_kept_is_sealed),
		TEST(answers_have_their_form),
		TEST(undeclared_is_not_asked),
		TEST(a_prompt_asks),
		TEST(the_older_era_is_sent_requests),
		TEST(several_at_once),
		TEST(it_may_come_to_nothing),
		TEST(logs_are_for_who_asks),
		TEST(who_listens_is_told),
		TEST(listening_has_its_bounds),
		TEST(prompts_check_their_arguments),
		TEST(completion),
		TEST(templates),
		TEST(header_and_argument_agree),
	};
	return cmocka_run_group_tests(all, group_setup, group_teardown);
}
