/* fixture.c: the conformance suite's server: `fixture`, MCP over HTTP at a port of its own choice,
 * which it prints. Everything but what it offers is scb's: protocol, transport, policy, audit. Ends
 * when its stdin does. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "audit/audit.h"
#include "mcp/http.h"
#include "mcp/server.h"
#include "policy/policy.h"
#include "session/session.h"

#define TOOLS_MAX 64

struct fixture {
	uv_loop_t loop;
	struct mcp_server *server;
	struct mcp_http *http;
	uv_pipe_t in;
};

static void on_http_closed(void *user)
{
	struct fixture *f = user;
	mcp_server_close(f->server);
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *ret)
{
	static char room[64];
	(void)h;
	(void)size;
	*ret = uv_buf_init(room, sizeof(room));
}

static void on_input(uv_stream_t *in, ssize_t n, const uv_buf_t *b)
{
	struct fixture *f = in->data;
	(void)b;
	if (n >= 0)
		return;
	uv_close((uv_handle_t *)in, NULL);
	mcp_http_close(f->http, on_http_closed, f);
}

static struct audit *open_audit(void)
{
	const char *dir = getenv("FIXTURE_DIR");
	struct audit *audit = NULL;
	struct err err = {0};
	_cleanup_free_ char *path = xasprintf("%s/audit.jsonl", dir ? dir : ".");
	_cleanup_free_ char *key = xasprintf("%s/audit.key", dir ? dir : ".");
	if (audit_open(path, key, NULL, &audit, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	return audit;
}

static const struct tool *const *all_tools(void)
{
	static const struct tool *all[TOOLS_MAX + 1];
	size_t n = 0;
	for (const struct tool *t = fixture_tools; t->name && n < TOOLS_MAX; t++)
		all[n++] = t;
	for (const struct tool *t = fixture_ask_tools; t->name && n < TOOLS_MAX; t++)
		all[n++] = t;
	return all;
}

int main(void)
{
	struct fixture f = {0};
	struct err err = {0};
	struct audit *audit = open_audit();
	struct policy *policy = policy_new_default();
	const struct mcp_offer offer = {
		.name = "scb-fixture",
		.title = "scb's library, with the conformance suite's tools",
		.tools = all_tools(),
		.prompts = fixture_prompts,
		.resources = fixture_resources,
		.logs = true,
		.changes = true,
	};
	CHECK(uv_loop_init(&f.loop) == 0);
	f.server = mcp_server_new(&(struct mcp_config){
		.loop = &f.loop, .offer = &offer, .policy = policy, .audit = audit});
	const struct session_profile profile = {0};
	const struct mcp_http_config http = {
		.loop = &f.loop,
		.server = f.server,
		.profile = &profile,
		.host = "127.0.0.1",
		.anyone = "anyone",
	};
	if (mcp_http_new(&http, &f.http, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	(void)uv_pipe_init(&f.loop, &f.in, 0);
	f.in.data = &f;
	CHECK(uv_pipe_open(&f.in, STDIN_FILENO) == 0);
	CHECK(uv_read_start((uv_stream_t *)&f.in, on_alloc, on_input) == 0);
	(void)printf("http://127.0.0.1:%u/mcp\n", mcp_http_port(f.http));
	(void)fflush(stdout);
	(void)uv_run(&f.loop, UV_RUN_DEFAULT);
	CHECK(uv_loop_close(&f.loop) == 0);
	audit_close(audit);
	policy_free(policy);
	return 0;
}
