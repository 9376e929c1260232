/* fuzz-offer.c: lines from an MCP client against the library with the conformance suite's tools:
 * those that ask their client among them. What it was asked and what was sealed for it the client
 * can send back: the last message's requestState and id stand for @S and @I in what comes in. */
#include "fuzz.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../conformance/fixture.h"
#include "audit/audit.h"
#include "base/limits.h"
#include "mcp/lines.h"
#include "mcp/server.h"
#include "policy/policy.h"

struct client {
	struct mcp_transport transport;
	struct mcp_conn *conn;
	char *state, *id; /* of the last message that had one */
};

static void remember(char **slot, const json_t *text)
{
	if (!text)
		return;
	free(*slot);
	*slot = xstrdup(json_string_value(text));
}

static void check_message(struct mcp_transport *t, uint64_t number, const char *message, size_t n)
{
	struct client *c = container_of(t, struct client, transport);
	(void)number;
	CHECK(n <= LIMIT_MCP_RESULT && !memchr(message, '\n', n));
	json_t *root = json_loadb(message, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	CHECK(json_is_object(root));
	const json_t *result = json_object_get(root, "result");
	if (json_object_get(root, "method"))
		CHECK(!result && !json_object_get(root, "error"));
	else
		CHECK(!result != !json_object_get(root, "error") && json_object_get(root, "id"));
	if (json_object_get(root, "method") && json_object_get(root, "id"))
		remember(&c->id, json_object_get(root, "id"));
	remember(&c->state, json_object_get(result, "requestState"));
	json_decref(root);
}

static bool never_congested(const struct mcp_transport *t)
{
	(void)t;
	return false;
}

static void on_line(void *user, const char *line, size_t n)
{
	struct client *c = user;
	_cleanup_buf_ struct buf b = BUF_INIT(LIMIT_MCP_LINE);
	for (size_t i = 0; line && i < n; i++) {
		const char *text = line[i] != '@' || i + 1 == n ? NULL
				   : line[i + 1] == 'S'         ? c->state
				   : line[i + 1] == 'I'         ? c->id
								: NULL;
		if ((text ? buf_append_str(&b, text) : buf_append(&b, line + i, 1)) < 0)
			return;
		i += text ? 1 : 0;
	}
	mcp_conn_message(c->conn,
		&(struct mcp_message){.p = line ? (const char *)b.data : NULL, .n = b.len});
}

static struct audit *audit;

static void prepare(void)
{
	static char dir[] = "/tmp/scb-fuzz-XXXXXX";
	struct err err = {0};
	if (audit)
		return;
	CHECK(mkdtemp(dir));
	_cleanup_free_ char *path = xasprintf("%s/audit.jsonl", dir);
	_cleanup_free_ char *key = xasprintf("%s/audit.key", dir);
	const struct audit_config small = {.max_bytes = MIB, .keep = 1};
	CHECK(audit_open(path, key, &small, &audit, &err) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct tool *tools[64] = {NULL};
	size_t n_tools = 0;
	for (const struct tool *t = fixture_ask_tools; t->name; t++)
		tools[n_tools++] = t;
	for (const struct tool *t = fixture_tools; t->name; t++)
		tools[n_tools++] = t;
	const struct mcp_offer offer = {
		.name = "fuzz",
		.title = "Fuzz",
		.tools = tools,
		.prompts = fixture_prompts,
		.resources = fixture_resources,
		.logs = true,
		.changes = true,
	};
	struct client c = {.transport = {.send = check_message, .congested = never_congested}};
	uv_loop_t loop;
	prepare();
	CHECK(uv_loop_init(&loop) == 0);
	struct policy *policy = policy_new_default();
	struct mcp_server *server = mcp_server_new(&(struct mcp_config){
		.loop = &loop, .offer = &offer, .policy = policy, .audit = audit});
	c.conn =
		mcp_conn_new(server, &c.transport, &(struct mcp_conn_config){.principal = "uid:1"});

	struct lines lines;
	lines_init(&lines, 16 * KIB);
	lines_feed(&lines, (const char *)data, size, on_line, &c);
	lines_end(&lines, on_line, &c);
	lines_done(&lines);
	for (int i = 0; i < 4; i++)
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	mcp_conn_close(c.conn);
	mcp_server_close(server);
	CHECK(uv_run(&loop, UV_RUN_DEFAULT) == 0);
	CHECK(uv_loop_close(&loop) == 0);
	policy_free(policy);
	free(c.state);
	free(c.id);
	return 0;
}
