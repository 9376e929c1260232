/* fuzz-mcp.c: lines from an MCP client against the whole server, but for sandboxes: there are none
 * to be had. Whatever comes in, what goes out is one JSON-RPC message within the limit. */
#include "fuzz.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/limits.h"
#include "base/str.h"
#include "files/outputs.h"
#include "mcp/lines.h"
#include "mcp/server.h"
#include "policy/policy.h"

static void check_message(struct mcp_transport *t, uint64_t number, const char *message, size_t n)
{
	(void)number;
	(void)t;
	CHECK(n <= LIMIT_MCP_RESULT && !memchr(message, '\n', n));
	json_t *root = json_loadb(message, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	CHECK(json_is_object(root));
	const json_t *result = json_object_get(root, "result");
	const json_t *error = json_object_get(root, "error");
	CHECK(!json_object_get(root, "method") || !json_object_get(root, "id"));
	if (!json_object_get(root, "method")) {
		CHECK(!result != !error);
		CHECK(json_object_get(root, "id"));
	}
	if (error)
		CHECK(json_is_integer(json_object_get(error, "code")) &&
			json_is_string(json_object_get(error, "message")));
	json_decref(root);
}

static bool never_congested(const struct mcp_transport *t)
{
	(void)t;
	return false;
}

static void on_line(void *user, const char *line, size_t n)
{
	mcp_conn_message(user, &(struct mcp_message){.p = line, .n = n});
}

static struct audit *audit;
static char *audit_path;
static struct outputs *outputs;

/* Once: what is costly to make and keeps no state of an input. */
static void prepare(void)
{
	static char dir[] = "/tmp/scb-fuzz-XXXXXX";
	struct err err = {0};
	if (audit)
		return;
	CHECK(mkdtemp(dir));
	audit_path = xasprintf("%s/audit.jsonl", dir);
	_cleanup_free_ char *key = xasprintf("%s/audit.key", dir);
	const struct audit_config small = {.max_bytes = MIB, .keep = 1};
	CHECK(audit_open(audit_path, key, &small, &audit, &err) == 0);
	CHECK(outputs_open(dir, &outputs, &err) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	prepare();
	struct err none = {.code = ERR_PROVIDER_UNUSABLE, .text = "no sandbox here"};
	struct mcp_transport transport = {.send = check_message, .congested = never_congested};
	uv_loop_t loop;
	CHECK(uv_loop_init(&loop) == 0);
	struct policy *policy = policy_new_default();
	struct mcp_config config = {
		.loop = &loop,
		.policy = policy,
		.audit = audit,
		.outputs = outputs,
	};
	struct mcp_server *server = mcp_server_new(&config);
	struct mcp_conn *conn = mcp_conn_new(server, &transport,
		&(struct mcp_conn_config){.principal = "uid:1", .no_provider = &none});

	/* The first byte is how much comes at once. */
	struct input in = {data, size};
	size_t piece = 1 + (size_t)input_u8(&in) * 4;
	struct lines lines;
	lines_init(&lines, 16 * KIB);
	while (in.n) {
		size_t n;
		const uint8_t *p = input_bytes(&in, piece, &n);
		lines_feed(&lines, (const char *)p, n, on_line, conn);
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	}
	lines_end(&lines, on_line, conn);
	lines_done(&lines);
	for (int i = 0; i < 4; i++)
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	mcp_conn_close(conn);
	mcp_server_close(server);
	CHECK(uv_run(&loop, UV_RUN_DEFAULT) == 0);
	CHECK(uv_loop_close(&loop) == 0);
	policy_free(policy);
	return 0;
}
