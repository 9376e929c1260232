/* test-mcp.c: the server's answers, message by message, in both eras; no sandbox can be made here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "audit/audit.h"
#include "base/limits.h"
#include "mcp/jsonrpc.h"
#include "mcp/resources.h"
#include "mcp/server.h"
#include "provider/record.h"
#include "policy/policy.h"

#define META                                                                                       \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                   \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}"

static uv_loop_t loop;
static struct mcp_server *server;
static struct mcp_conn *conn;
static struct policy *policy;
static struct audit *audit;
static const struct err no_provider = {.code = ERR_PROVIDER_UNUSABLE, .text = "install bubblewrap"};
static char audit_dir[] = "/tmp/test-mcp-XXXXXX";

static json_t *answer; /* the last message sent; NULL: none since ask() */
static unsigned answers;

static void on_send(struct mcp_transport *t, uint64_t number, const char *message, size_t n)
{
	(void)number;
	(void)t;
	json_decref(answer);
	answer = json_loadb(message, n, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(answer);
	assert_null(memchr(message, '\n', n));
	answers++;
}

static bool on_congested(const struct mcp_transport *t)
{
	(void)t;
	return false;
}

static struct mcp_transport transport = {.send = on_send, .congested = on_congested};

static int setup(void **state)
{
	(void)state;
	struct err err = {0};
	assert_non_null(mkdtemp(audit_dir));
	_cleanup_free_ char *audit_path = xasprintf("%s/audit.jsonl", audit_dir);
	_cleanup_free_ char *audit_key = xasprintf("%s/audit.key", audit_dir);
	assert_int_equal(uv_loop_init(&loop), 0);
	policy = policy_new_default();
	assert_int_equal(audit_open(audit_path, audit_key, NULL, &audit, &err), 0);
	server = mcp_server_new(
		&(struct mcp_config){.loop = &loop, .policy = policy, .audit = audit});
	conn = mcp_conn_new(server, &transport,
		&(struct mcp_conn_config){.principal = "uid:1", .no_provider = &no_provider});
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	mcp_conn_close(conn);
	mcp_server_close(server);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	policy_free(policy);
	audit_close(audit);
	json_decref(answer);
	return record_remove_tree(audit_dir);
}

/* The one answer to a message, or NULL. */
static const json_t *ask(const char *message)
{
	json_decref(answer);
	answer = NULL;
	answers = 0;
	mcp_conn_message(conn, &(struct mcp_message){.p = message, .n = strlen(message)});
	assert_true(answers <= 1);
	return answer;
}

static const json_t *request(const char *method, const char *params)
{
	char message[2048];
	(void)snprintf(message, sizeof(message),
		"{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"%s\",\"params\":{%s}}", method,
		params);
	const json_t *a = ask(message);
	assert_string_equal(json_string_value(json_object_get(a, "id")), "q");
	return a;
}

static const json_t *result(const char *method, const char *params)
{
	const json_t *r = json_object_get(request(method, params), "result");
	assert_non_null(r);
	return r;
}

static int error(const char *method, const char *params)
{
	return (int)json_integer_value(
		json_object_get(json_object_get(request(method, params), "error"), "code"));
}

static const char *text(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));
	return s ? s : "";
}

static void legacy_versions(void **state)
{
	(void)state;
	static const char *const asked[][2] = {{"2025-11-25", "2025-11-25"},
		{"2025-06-18", "2025-06-18"}, {"2025-03-26", "2025-03-26"},
		{"2024-11-05", "2024-11-05"}, {"1999-01-01", "2025-11-25"},
		{"2026-07-28", "2025-11-25"}};
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		char params[100];
		(void)snprintf(params, sizeof(params), "\"protocolVersion\":\"%s\"", asked[i][0]);
		const json_t *r = result("initialize", params);
		assert_string_equal(text(r, "protocolVersion"), asked[i][1]);
		assert_string_equal(text(json_object_get(r, "serverInfo"), "name"), "scb");
		assert_null(json_object_get(r, "resultType"));
	}
	assert_int_equal(error("initialize", ""), -32602);
	assert_int_equal(error("initialize", META), -32601);
	assert_int_equal(json_object_size(result("ping", "")), 0);
	assert_int_equal(json_object_size(result("logging/setLevel", "\"level\":\"info\"")), 0);
	assert_int_equal(json_object_size(result("resources/subscribe", "\"uri\":\"x\"")), 0);
	assert_null(json_object_get(result("tools/list", ""), "ttlMs"));
}

static void modern_era(void **state)
{
	(void)state;
	const json_t *r = result("server/discover", META);
	assert_string_equal(text(r, "resultType"), "complete");
	assert_string_equal(
		json_string_value(json_array_get(json_object_get(r, "supportedVersions"), 0)),
		"2026-07-28");
	static const char *const lists[] = {
		"tools/list", "prompts/list", "resources/list", "resources/templates/list"};
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		r = result(lists[i], META);
		assert_string_equal(text(r, "resultType"), "complete");
		assert_true(json_is_integer(json_object_get(r, "ttlMs")));
		assert_true(*text(r, "cacheScope"));
		const json_t *info = json_object_get(
			json_object_get(r, "_meta"), "io.modelcontextprotocol/serverInfo");
		assert_string_equal(text(info, "name"), "scb");
		(void)result(lists[i], ""); /* and legacy clients ask for what was not declared */
	}
	static const char *const removed[] = {"ping", "initialize", "logging/setLevel",
		"resources/subscribe", "resources/unsubscribe"};
	for (size_t i = 0; i < ARRAY_SIZE(removed); i++)
		assert_int_equal(error(removed[i], META), -32601);
}

static void envelopes_are_checked(void **state)
{
	(void)state;
	assert_int_equal(error("server/discover", ""), -32602);
	assert_int_equal(
		error("tools/list", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":7}"),
		-32602);
	assert_int_equal(
		error("tools/list",
			"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"),
		-32602);
	assert_int_equal(error("tools/list", "\"_meta\":[]"), -32602);
	const json_t *a = request("tools/list",
		"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2031-01-01\","
		"\"io.modelcontextprotocol/clientCapabilities\":{}}");
	const json_t *e = json_object_get(a, "error"), *data = json_object_get(e, "data");
	assert_int_equal(json_integer_value(json_object_get(e, "code")), -32022);
	assert_string_equal(text(data, "requested"), "2031-01-01");
	assert_int_equal(json_array_size(json_object_get(data, "supported")), 1);
}

static void discover_then_initialize(void **state)
{
	(void)state;
	(void)result("server/discover", META);
	(void)result("initialize", "\"protocolVersion\":\"2025-06-18\"");
	assert_null(ask("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"));
	(void)result("ping", "");
	(void)result("tools/list", META);
}

static void cursors(void **state)
{
	(void)state;
	(void)result("tools/list", "\"cursor\":\"\"");
	assert_int_equal(error("tools/list", "\"cursor\":\"x\""), -32602);
	(void)result("resources/list", "\"cursor\":\"\"");
	assert_int_equal(error("resources/list", "\"cursor\":\"x\""), -32602);
}

static void resources_not_found(void **state)
{
	(void)state;
	assert_int_equal(error("resources/read", "\"uri\":\"resource://scb/o-1/x\""), -32002);
	assert_int_equal(error("resources/read", "\"uri\":\"resource://scb/o-1/x\"," META), -32602);
	assert_string_equal(text(json_object_get(json_object_get(answer, "error"), "data"), "uri"),
		"resource://scb/o-1/x");
	assert_int_equal(error("resources/read", ""), -32602);
	assert_int_equal(error("resources/read", "\"uri\":\"x?offset=-1\""), -32602);
}

static void tool_errors(void **state)
{
	(void)state;
	assert_int_equal(error("tools/call", ""), -32602);
	assert_int_equal(error("tools/call", "\"name\":7"), -32602);
	assert_int_equal(error("tools/call", "\"name\":\"nope\""), -32602);
	assert_int_equal(error("tools/call", "\"name\":\"job\",\"arguments\":[]"), -32602);
	assert_int_equal(error("no/such", ""), -32601);

	static const char *const bad[][2] = {
		{"\"name\":\"run_code\",\"arguments\":{\"code\":7}", "code"},
		{"\"name\":\"run_code\",\"arguments\":{\"code\":\"1\"}", "install bubblewrap"},
		{"\"name\":\"session\",\"arguments\":{\"action\":\"open\"}", "install bubblewrap"},
		{"\"name\":\"job\",\"arguments\":{\"action\":\"list\"}", "install bubblewrap"},
		{"\"name\":\"present_output\",\"arguments\":{\"path\":\"x\"}",
			"install bubblewrap"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const json_t *r = result("tools/call", bad[i][0]);
		assert_true(json_is_true(json_object_get(r, "isError")));
		assert_null(json_object_get(r, "structuredContent"));
		const char *t = text(json_array_get(json_object_get(r, "content"), 0), "text");
		if (!strstr(t, bad[i][1]))
			fail_msg("%s: %s", bad[i][0], t);
	}
	const json_t *r = result(
		"tools/call", "\"name\":\"session\",\"arguments\":{\"action\":\"list\"}," META);
	assert_string_equal(text(r, "resultType"), "complete");
	assert_non_null(json_object_get(json_object_get(r, "structuredContent"), "sessions"));
}

static void nothing_is_said_to_nobody(void **state)
{
	(void)state;
	assert_null(ask("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\","
			"\"params\":{\"requestId\":\"none\"}}"));
	assert_null(ask("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}"));
	assert_null(ask("{\"jsonrpc\":\"2.0\",\"method\":\"unknown\"}"));
	assert_null(ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"));
	mcp_conn_message(conn, &(struct mcp_message){0});
	assert_int_equal(
		json_integer_value(json_object_get(json_object_get(answer, "error"), "code")),
		-32600);
	assert_true(json_is_null(json_object_get(answer, "id")));
}

/* A message in which @ stands for a string of n bytes. */
static const json_t *ask_long(const char *message, size_t n)
{
	const char *at = strchr(message, '@');
	char *text = xmalloc(strlen(message) + n + 1);
	size_t before = (size_t)(at - message);
	memcpy(text, message, before);
	memset(text + before, 'A', n);
	memcpy(text + before + n, at + 1, strlen(at));
	const json_t *a = ask(text);
	free(text);
	return a;
}

static void what_is_echoed_is_short(void **state)
{
	(void)state;
	static const size_t sizes[] = {1024, 1025, 890 * 1000, 2 * MIB};
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		bool fits = sizes[i] <= 1024;
		const json_t *a = ask_long(
			"{\"jsonrpc\":\"2.0\",\"id\":\"@\",\"method\":\"ping\"}", sizes[i]);
		assert_int_equal(json_object_get(a, "result") != NULL, fits);
		assert_int_equal(json_is_null(json_object_get(a, "id")), !fits);
		a = ask_long("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\","
			     "\"params\":{\"_meta\":{"
			     "\"io.modelcontextprotocol/protocolVersion\":\"@\"}}}",
			sizes[i]);
		assert_int_equal(
			json_integer_value(json_object_get(json_object_get(a, "error"), "code")),
			fits ? -32022 : -32602);
	}
}

static void ranges(void **state)
{
	(void)state;
	struct resource_range r;
	assert_int_equal(resource_range_parse("resource://scb/o/x%3F", &r), 0);
	assert_false(r.given);
	assert_string_equal(r.uri, "resource://scb/o/x%3F");
	free(r.uri);
	assert_int_equal(resource_range_parse("u?offset=5&length=99999999999", &r), 0);
	assert_int_equal(r.offset, 5);
	assert_int_equal(r.length, 512 * KIB);
	assert_string_equal(r.uri, "u");
	free(r.uri);
	static const char *const bad[] = {"u?offset=", "u?offset=x", "u?length=-1", "u?other=1",
		"u?offset=1&&", "u?offset=99999999999999999999999999"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_true(resource_range_parse(bad[i], &r) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(legacy_versions),
		cmocka_unit_test(modern_era),
		cmocka_unit_test(envelopes_are_checked),
		cmocka_unit_test(discover_then_initialize),
		cmocka_unit_test(cursors),
		cmocka_unit_test(resources_not_found),
		cmocka_unit_test(tool_errors),
		cmocka_unit_test(nothing_is_said_to_nobody),
		cmocka_unit_test(what_is_echoed_is_short),
		cmocka_unit_test(ranges),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
