/* test-principals.c: what one principal has is to another as if it did not exist: sessions, jobs,
 * kernels, presented files, idempotency keys, counts. Several connections of different principals
 * to one server with real sandboxes, as the HTTP transport will have them.
 *
 *   test-principals PROVIDER AGENT KERNELS-DIR */
#include "live.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/stat.h>

#include "audit/audit.h"
#include "files/outputs.h"
#include "mcp/jsonrpc.h"
#include "mcp/server.h"
#include "policy/policy.h"
#include "provider/record.h"
#include "session/session.h"
#include "store/store.h"

static const char rules[] =
	"{\"version\":1, \"tools\":{\"allow\":[\"run_code\",\"run_command\",\"job\",\"files\","
	"\"present_output\",\"session\"]}, \"mounts\":[], \"outputs\":{\"allow\":true},"
	"\"limits\":{\"sessions\":4,\"sessions_principal\":2,\"pool\":0},"
	"\"principals\":{\"a\":{},\"b\":{},\"c\":{\"tools\":{\"allow\":[\"session\"]},"
	"\"outputs\":{\"allow\":false}},"
	"\"slow\":{\"rate\":{\"callsPerMinute\":1,\"burst\":2}}}}";

struct peer {
	struct mcp_transport transport;
	struct mcp_conn *conn;
	json_t *answer;
	bool answered;
};

static struct {
	struct policy *policy;
	struct audit *audit;
	struct store *store;
	struct sessions *sessions;
	struct outputs *outputs;
	struct mcp_server *server;
	struct peer a, b, c, d, slow;
	char runtime[64];
	bool closed;
} got;

/* ---- peers ---- */

static void on_send(struct mcp_transport *t, uint64_t number, const char *message, size_t n)
{
	struct peer *p = container_of(t, struct peer, transport);
	if (!number)
		return;
	json_decref(p->answer);
	p->answer = json_loadb(message, n, JSON_REJECT_DUPLICATES, NULL);
	p->answered = true;
}

static bool on_congested(const struct mcp_transport *t)
{
	(void)t;
	return false;
}

static void connect_peer(struct peer *p, const char *principal)
{
	const struct session_profile profile = {.provider = live.provider};
	p->transport = (struct mcp_transport){.send = on_send, .congested = on_congested};
	p->conn = mcp_conn_new(got.server, &p->transport,
		&(struct mcp_conn_config){.principal = principal, .profile = &profile});
}

/* Its answer, borrowed until the next. */
static const json_t *ask(struct peer *p, const char *method, json_t *params)
{
	json_t *m = json_pack(
		"{s:s,s:i,s:s,s:o}", "jsonrpc", "2.0", "id", 1, "method", method, "params", params);
	char *text = json_dumps(m, JSON_COMPACT);
	mcp_conn_message(p->conn, &(struct mcp_message){.p = text, .n = strlen(text), .number = 1});
	free(text);
	json_decref(m);
	live_until(&p->answered);
	return p->answer;
}

static const json_t *call(struct peer *p, const char *tool, const char *args)
{
	json_error_t error;
	json_t *arguments = json_loads(args, JSON_REJECT_DUPLICATES, &error);
	if (!arguments)
		fail_msg("%s: %s", args, error.text);
	return ask(p, "tools/call", json_pack("{s:s,s:o}", "name", tool, "arguments", arguments));
}

static const char *member(const json_t *answer, const char *name)
{
	const json_t *o = json_object_get(json_object_get(answer, "result"), "structuredContent");
	const char *text = json_string_value(json_object_get(o, name));
	if (!text) {
		char *all = json_dumps(answer, 0);
		fail_msg("no %s in %s", name, all);
	}
	return text;
}

static char *text_of(const json_t *answer)
{
	return json_dumps(answer, JSON_COMPACT | JSON_SORT_KEYS);
}

static void assert_says(const json_t *answer, const char *text, bool says)
{
	char *all = text_of(answer);
	if ((strstr(all, text) != NULL) != says)
		fail_msg("%s \"%s\": %s", says ? "without" : "with", text, all);
	free(all);
}

/* ---- the server ---- */

static int set_up(void **state)
{
	(void)state;
	struct err err = {0};
	static const struct policy_source nowhere = {0};
	live_open_loop();
	assert_int_equal(chmod(live.dir, 0711), 0);
	(void)snprintf(got.runtime, sizeof(got.runtime), "%s/run", live.dir);
	assert_int_equal(mkdir(got.runtime, 0700), 0);
	_cleanup_free_ char *audit = xasprintf("%s/audit.jsonl", live.dir),
			    *key = xasprintf("%s/audit.key", live.dir),
			    *outputs = xasprintf("%s/outputs", live.dir);
	assert_int_equal(
		policy_parse(&nowhere, "rules", rules, strlen(rules), &got.policy, NULL, &err), 0);
	assert_int_equal(audit_open(audit, key, NULL, &got.audit, &err), 0);
	assert_int_equal(store_memory_open(&got.store), 0);
	assert_int_equal(outputs_open(outputs, &got.outputs, &err), 0);
	got.sessions = sessions_new(&(struct sessions_config){
		.loop = &live.loop,
		.policy = got.policy,
		.audit = got.audit,
		.store = got.store,
		.runtime_dir = got.runtime,
		.agent_path = live.agent_path,
		.kernels_dir = live.kernels_dir,
	});
	got.server = mcp_server_new(&(struct mcp_config){
		.loop = &live.loop,
		.policy = got.policy,
		.audit = got.audit,
		.store = got.store,
		.sessions = got.sessions,
		.outputs = got.outputs,
	});
	connect_peer(&got.a, "a");
	connect_peer(&got.b, "b");
	connect_peer(&got.c, "c");
	connect_peer(&got.d, "d");
	connect_peer(&got.slow, "slow");
	return 0;
}

static void on_closed(void *user)
{
	(void)user;
	got.closed = true;
}

static int tear_down(void **state)
{
	(void)state;
	struct peer *const peers[] = {&got.a, &got.b, &got.c, &got.d, &got.slow};
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++) {
		mcp_conn_close(peers[i]->conn);
		json_decref(peers[i]->answer);
	}
	sessions_close(got.sessions, on_closed, NULL);
	live_until(&got.closed);
	mcp_server_close(got.server);
	outputs_close(got.outputs);
	live_close_loop();
	got.store->ops->close(got.store);
	audit_close(got.audit);
	policy_free(got.policy);
	return record_remove_tree(live.dir);
}

/* ---- what is another's ---- */

/* With each "@" of args replaced. */
static char *with(const char *args, const char *id)
{
	const char *at = strchr(args, '@');
	assert_non_null(at);
	return xasprintf("%.*s%s%s", (int)(at - args), args, id, at + 1);
}

/* The same question about what is another's and about what nobody has: the same answer, but for
 * what was asked about. */
static void assert_same(
	struct peer *p, const char *tool, const char *args, const char *theirs, const char *nobodys)
{
	char *answers[2];
	for (int i = 0; i < 2; i++) {
		const char *id = i ? nobodys : theirs;
		_cleanup_free_ char *text = with(args, id);
		const json_t *a;
		if (strcmp(tool, "resources/read") == 0)
			a = ask(p, tool, json_loads(text, 0, NULL));
		else
			a = call(p, tool, text);
		answers[i] = text_of(a);
		/* ids that stand in the answer are of no interest */
		for (char *s; (s = strstr(answers[i], id)) != NULL;)
			memset(s, '?', strlen(id));
	}
	if (strcmp(answers[0], answers[1]) != 0)
		fail_msg("%s %s\n%s\n%s", tool, args, answers[0], answers[1]);
	if (!strstr(answers[0], "\"isError\":true") && !strstr(answers[0], "\"error\""))
		fail_msg("%s %s: %s", tool, args, answers[0]);
	free(answers[0]);
	free(answers[1]);
}

static void nothing_of_anothers_is_there(void **state)
{
	(void)state;
	static const char nobody_s[] = "s-00112233445566778899aabbccddeeff",
			  nobody_j[] = "j-00112233445566778899aabbccddeeff",
			  nobody_o[] = "o-00112233445566778899aabbccddeeff";
	static const struct {
		const char *tool, *args;
	} of_session[] =
		{
			{"run_code", "{\"code\":\"1\",\"session\":\"@\"}"},
			{"run_code",
				"{\"code\":\"1\",\"session\":\"@\",\"idempotency_key\":\"K\"}"},
			{"run_command", "{\"command\":\"true\",\"session\":\"@\"}"},
			{"job", "{\"action\":\"list\",\"session\":\"@\"}"},
			{"files", "{\"action\":\"list\",\"session\":\"@\",\"path\":\".\"}"},
			{"files", "{\"action\":\"read\",\"session\":\"@\",\"path\":\"f\"}"},
			{"files", "{\"action\":\"write\",\"session\":\"@\",\"path\":\"f\",\"text\":"
				  "\"x\"}"},
			{"files", "{\"action\":\"delete\",\"session\":\"@\",\"path\":\"f\"}"},
			{"present_output", "{\"path\":\"f\",\"session\":\"@\"}"},
			{"session", "{\"action\":\"info\",\"session\":\"@\"}"},
			{"session", "{\"action\":\"interrupt\",\"session\":\"@\"}"},
			{"session", "{\"action\":\"restart\",\"session\":\"@\"}"},
			{"session", "{\"action\":\"fork\",\"session\":\"@\"}"},
			{"session", "{\"action\":\"close\",\"session\":\"@\"}"},
		},
	  of_job[] = {
		  {"job", "{\"action\":\"wait\",\"job\":\"@\"}"},
		  {"job", "{\"action\":\"read\",\"job\":\"@\"}"},
		  {"job", "{\"action\":\"search\",\"job\":\"@\",\"pattern\":\"x\"}"},
		  {"job", "{\"action\":\"input\",\"job\":\"@\",\"text\":\"x\"}"},
		  {"job", "{\"action\":\"signal\",\"job\":\"@\",\"signal\":\"KILL\"}"},
	  };

	const json_t *r = call(&got.a, "run_command",
		"{\"command\":\"echo mine > f; echo said; sleep 300\",\"wait_s\":1,"
		"\"idempotency_key\":\"K\"}");
	char session[ID_TEXT_SIZE], job[ID_TEXT_SIZE];
	(void)snprintf(session, sizeof(session), "%s", member(r, "session"));
	(void)snprintf(job, sizeof(job), "%s", member(r, "job"));
	_cleanup_free_ char *uri =
		xstrdup(member(call(&got.a, "present_output", "{\"path\":\"f\"}"), "uri"));
	char output[ID_TEXT_SIZE];
	(void)snprintf(output, sizeof(output), "%.34s", strstr(uri, "o-"));

	for (size_t i = 0; i < ARRAY_SIZE(of_session); i++)
		assert_same(&got.b, of_session[i].tool, of_session[i].args, session, nobody_s);
	for (size_t i = 0; i < ARRAY_SIZE(of_job); i++)
		assert_same(&got.b, of_job[i].tool, of_job[i].args, job, nobody_j);
	assert_same(&got.b, "resources/read", "{\"uri\":\"resource://scb/@/f\"}", output, nobody_o);

	/* Now b has a session of its own, and is asked again. */
	assert_says(call(&got.b, "run_code", "{\"code\":\"6*7\"}"), "42", true);
	for (size_t i = 0; i < ARRAY_SIZE(of_session); i++)
		assert_same(&got.b, of_session[i].tool, of_session[i].args, session, nobody_s);
	for (size_t i = 0; i < ARRAY_SIZE(of_job); i++)
		assert_same(&got.b, of_job[i].tool, of_job[i].args, job, nobody_j);
	assert_says(call(&got.b, "session", "{\"action\":\"list\"}"), session, false);
	assert_says(call(&got.b, "job", "{\"action\":\"list\"}"), job, false);
	assert_says(ask(&got.b, "resources/list", json_object()), output, false);
	assert_says(call(&got.b, "session", "{\"action\":\"info\"}"), session, false);
	/* The same key is another principal's: it runs, and is no conflict. */
	assert_says(call(&got.b, "run_command",
			    "{\"command\":\"echo other\",\"idempotency_key\":\"K\"}"),
		"other", true);

	/* What is a's is as it was. */
	assert_says(call(&got.a, "files", "{\"action\":\"read\",\"path\":\"f\"}"), "mine", true);
	_cleanup_free_ char *wait = with("{\"action\":\"wait\",\"job\":\"@\",\"wait_s\":0}", job);
	assert_says(call(&got.a, "job", wait), "running", true);
	assert_says(ask(&got.a, "resources/read", json_pack("{s:s}", "uri", uri)), "mine", true);
	assert_says(ask(&got.a, "resources/list", json_object()), output, true);
}

static void has_no_number(const json_t *answer)
{
	const json_t *content = json_object_get(json_object_get(answer, "result"), "content");
	const char *text = json_string_value(json_object_get(json_array_get(content, 0), "text"));
	assert_non_null(text);
	for (const char *c = text; *c; c++)
		if (isdigit((unsigned char)*c))
			fail_msg("a number that tells of others: %s", text);
}

static void caps_tell_nothing_of_others(void **state)
{
	(void)state;
	static const char open[] = "{\"action\":\"open\"}";
	/* a and b have one each from before */
	assert_says(call(&got.a, "session", open), "isError", false);
	const json_t *r = call(&got.a, "session", open);
	assert_says(r, "2 sessions are open", true); /* one's own may be counted */
	assert_says(call(&got.b, "session", open), "isError", false);
	/* four in all: c has none, and hears of no number */
	r = call(&got.c, "session", open);
	assert_says(r, "limit_reached", true);
	has_no_number(r);
	assert_says(call(&got.c, "session", "{\"action\":\"list\"}"), "\"sessions\":[]", true);
}

static void each_has_its_own_rules(void **state)
{
	(void)state;
	assert_says(call(&got.c, "run_code", "{\"code\":\"1\"}"), "principals.c.tools.allow", true);
	assert_says(ask(&got.c, "resources/list", json_object()), "outputs.allow", true);
	assert_says(call(&got.d, "session", "{\"action\":\"list\"}"), "rule: principals", true);
	assert_says(ask(&got.d, "resources/list", json_object()), "rule: principals", true);

	static const char list[] = "{\"action\":\"list\"}";
	assert_says(call(&got.slow, "session", list), "isError", false);
	assert_says(call(&got.slow, "session", list), "isError", false);
	assert_says(call(&got.slow, "session", list), "Try again in", true);
	for (int i = 0; i < 10; i++) /* nobody else waits for that */
		assert_says(call(&got.a, "session", list), "isError", false);
}

int main(int argc, char **argv)
{
	int status;
	if (live_begin(argc, argv, &status) != 0)
		return status;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_of_anothers_is_there),
		cmocka_unit_test(caps_tell_nothing_of_others),
		cmocka_unit_test(each_has_its_own_rules),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
