/* Delivery ids across a broker's death, for every tool and action: what a request does it does
 * once, and its answer is the same, whether it is delivered once, twice, or again to the next
 * broker. Real brokers, killed with SIGKILL; a real sandbox.
 *
 *   test-deliver PROVIDER AGENT KERNELS-DIR */
#include "mortal.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"

/* ---- messages ---- */

static char job[ID_TEXT_SIZE]; /* that an answer named last, and not as done: @J */
static int turn;               /* @N: each row is run twice */

static char *replace(char *text, const char *what, const char *with)
{
	char *at = strstr(text, what);
	if (!at)
		return text;
	char *more = xasprintf("%.*s%s%s", (int)(at - text), text, with, at + strlen(what));
	free(text);
	return replace(more, what, with);
}

static json_t *parse(const char *text)
{
	char n[8];
	(void)snprintf(n, sizeof(n), "%d", turn);
	char *full =
		replace(replace(replace(xstrdup(text), "@S", mortal.session), "@J", job), "@N", n);
	json_error_t error;
	json_t *o = json_loads(full, 0, &error);
	if (!o)
		fail_msg("%s: %s", full, error.text);
	free(full);
	return o;
}

static json_t *request(uint64_t number, const char *tool, const char *args)
{
	return json_pack("{s:s,s:I,s:s,s:{s:s,s:o}}", "jsonrpc", "2.0", "id", (json_int_t)number,
		"method", "tools/call", "params", "name", tool, "arguments", parse(args));
}

static const json_t *structured(const json_t *answer)
{
	return json_object_get(json_object_get(answer, "result"), "structuredContent");
}

static void note_job(const json_t *answer)
{
	const json_t *o = structured(answer);
	const char *j = json_string_value(json_object_get(o, "job"));
	const char *status = json_string_value(json_object_get(o, "status"));
	if (j && !(status && strcmp(status, "done") == 0))
		(void)snprintf(job, sizeof(job), "%s", j);
}

/* Told once, answered once. */
static json_t *call(const char *tool, const char *args)
{
	bool lost;
	json_t *m = request(++mortal.number, tool, args);
	mortal_send(mortal.number, false, MORTAL_TELLS, m);
	json_decref(m);
	json_t *answer = mortal_end(mortal.number, &lost);
	assert_false(lost);
	note_job(answer);
	return answer;
}

static bool says(const json_t *answer, const char *text)
{
	char *all = json_dumps(answer, JSON_COMPACT);
	bool found = strstr(all, text);
	if (!found)
		print_error("not in it: %s\n%s\n", text, all);
	free(all);
	return found;
}

/* ---- the table ---- */

struct row {
	const char *tool, *args;
	const char *answer; /* stands in the answer, both times */
	/* What comes before, and what shows that it was done once: "tool args", and what must stand
	 * in that answer. */
	const char *before[3][2];
	const char *after[4][3];
	bool varies; /* the answer tells of the moment: times, what is in use */
};

static const struct row rows[] = {
	{"run_code", "{\"code\": \"n = globals().get('n', 0) + 1; print('ran'); n\"}",
		"\"text/plain\":\"@N\"", .after = {{"run_code", "{\"code\": \"n\"}", ":\"@N\""}}},
	{"run_code",
		"{\"code\": \"m = globals().get('m', '') + input() + input(); m\","
		" \"stdin\": \"one\\ntwo\\n\", \"idempotency_key\": \"k@N\"}",
		"onetwo",
		.after = {{"run_code", "{\"code\": \"len(m)\"}", ":\"6\""},
			{"run_code",
				"{\"code\": \"m = globals().get('m', '') + input() + input(); m\","
				" \"stdin\": \"one\\ntwo\\n\", \"idempotency_key\": \"k@N\"}",
				"onetwo"},
			{"run_code", "{\"code\": \"k = len(m); m = ''; k\"}", ":\"6\""}}},
	{"run_code", "{\"code\": \"1/0\", \"kernel\": \"other\"}", "ZeroDivisionError",
		.varies = false},
	{"run_command", "{\"command\": \"echo x >> ran@N; echo done; exit 3\"}", "\"exitCode\":3",
		.after = {{"run_command", "{\"command\": \"wc -l < ran@N\"}", "\"stdout\":\"1"}}},
	{"run_command", "{\"command\": \"cat >> fed@N; wc -c < fed@N\", \"stdin\": \"0123456789\"}",
		"10",
		.after = {{"files", "{\"action\": \"stat\", \"path\": \"fed@N\"}",
			"\"bytes\":10,"}}},
	{"run_command", "{\"command\": \"echo begun; sleep 60\", \"wait_s\": 0.2}", "running",
		.after = {{"job", "{\"action\": \"signal\", \"job\": \"@J\"}", "signalled"}},
		.varies = true},
	{"job", "{\"action\": \"wait\", \"job\": \"@J\"}", "waited for",
		.before = {{"run_command",
			"{\"command\": \"sleep 0.3; echo waited for\", \"wait_s\": 0}"}}},
	{"job", "{\"action\": \"read\", \"job\": \"@J\"}", "to be read",
		.before = {{"run_command",
				   "{\"command\": \"echo to be read; sleep 0.2\", \"wait_s\": 0}"},
			{"run_command", "{\"command\": \"sleep 0.5\"}"}}},
	{"job", "{\"action\": \"list\"}", "listed@N",
		.before = {{"run_command", "{\"command\": \"echo listed@N\"}"}}},
	{"job", "{\"action\": \"input\", \"job\": \"@J\", \"input\": \"abc\"}", "3 of 3",
		.before = {{"run_command",
			"{\"command\": \"cat\", \"stdin_open\": true, \"wait_s\": 0}"}},
		.after = {{"job", "{\"action\": \"input\", \"job\": \"@J\", \"close\": true}",
				  "closed"},
			{"job", "{\"action\": \"wait\", \"job\": \"@J\"}", "\"stdout\":\"abc\""}}},
	{"job", "{\"action\": \"signal\", \"job\": \"@J\", \"signal\": \"USR1\"}", "signalled",
		.before = {{"run_command",
				   "{\"command\": \"trap 'echo hit >> hits@N' USR1; touch ready@N;"
				   " until [ -e stop@N ]; do sleep 0.05; done\", \"wait_s\": 0}"},
			{"run_command",
				"{\"command\": \"until [ -e ready@N ]; do sleep 0.02; done\"}"}},
		.after = {{"run_command",
			"{\"command\": \"sleep 0.3; wc -l < hits@N; touch stop@N\"}",
			"\"stdout\":\"1"}}},
	{"job", "{\"action\": \"signal\", \"job\": \"@J\"}", "signalled",
		.before = {{"run_command", "{\"command\": \"sleep 60\", \"wait_s\": 0}"}},
		.after = {{"job", "{\"action\": \"wait\", \"job\": \"@J\"}", "cancelled"}}},
	{"files", "{\"action\": \"write\", \"path\": \"w@N\", \"content\": \"1 1 1\"}", "written",
		.after = {{"files", "{\"action\": \"read\", \"path\": \"w@N\"}", "\"1 1 1\""}}},
	{"files",
		"{\"action\": \"write\", \"path\": \"w@N\", \"content\": \"+\", \"append\": true}",
		"6 bytes now",
		.after = {{"files", "{\"action\": \"read\", \"path\": \"w@N\"}", "\"1 1 1+\""}}},
	{"files", "{\"action\": \"write\", \"path\": \"w@N\", \"content\": \"2\", \"offset\": 2}",
		"6 bytes now",
		.after = {{"files", "{\"action\": \"read\", \"path\": \"w@N\"}", "\"1 2 1+\""}}},
	{"files",
		"{\"action\": \"edit\", \"path\": \"w@N\", \"old_text\": \"2\","
		" \"new_text\": \"22\"}",
		"1 replaced",
		.after = {{"files", "{\"action\": \"read\", \"path\": \"w@N\"}", "\"1 22 1+\""}}},
	{"files",
		"{\"action\": \"edit\", \"path\": \"w@N\", \"old_text\": \"1\","
		" \"new_text\": \"11\", \"all\": true}",
		"2 replaced",
		.after = {{"files", "{\"action\": \"read\", \"path\": \"w@N\"}", "\"11 22 11+\""}}},
	{"files",
		"{\"action\": \"edit\", \"path\": \"w@N\", \"old_text\": \"nowhere\","
		" \"new_text\": \"x\"}",
		"isError", .varies = false},
	{"files", "{\"action\": \"list\"}", "w@N", .varies = false},
	{"files", "{\"action\": \"stat\", \"path\": \"w@N\"}", "file", .varies = false},
	{"files", "{\"action\": \"read\", \"path\": \"w@N\"}", "11 22", .varies = false},
	{"files", "{\"action\": \"search\", \"name\": \"w@N\"}", "w@N", .varies = false},
	{"files", "{\"action\": \"mkdir\", \"path\": \"d@N/e\"}", "made",
		.after = {{"files", "{\"action\": \"stat\", \"path\": \"d@N/e\"}", "directory"}}},
	{"files", "{\"action\": \"move\", \"path\": \"w@N\", \"target\": \"d@N/w\"}", "moved",
		.after = {{"files", "{\"action\": \"read\", \"path\": \"d@N/w\"}", "11 22"}}},
	{"files", "{\"action\": \"delete\", \"path\": \"d@N\", \"recursive\": true}", "deleted",
		.after = {{"files", "{\"action\": \"stat\", \"path\": \"d@N\"}", "isError"}}},
	{"present_output", "{\"path\": \"p.txt\", \"title\": \"A title\"}", "resource://",
		.before = {{"files",
			"{\"action\": \"write\", \"path\": \"p.txt\", \"content\": \"for you\"}"}}},
	{"present_output", "{\"path\": \"missing\"}", "isError", .varies = false},
	{"session", "{\"action\": \"info\"}", "@S", .varies = true},
	{"session", "{\"action\": \"list\"}", "@S", .varies = true},
	{"session", "{\"action\": \"interrupt\"}", "interrupted",
		.before = {{"run_code", "{\"code\": \"kept = 5; import time; time.sleep(60)\","
					" \"wait_s\": 0.5}"}},
		.after = {{"job", "{\"action\": \"wait\", \"job\": \"@J\"}", "KeyboardInterrupt"},
			{"run_code", "{\"code\": \"kept\"}", ":\"5\""}}},
	{"session", "{\"action\": \"restart\"}", "restarted",
		.before = {{"run_code", "{\"code\": \"gone = 1\"}"}},
		.after = {{"run_code", "{\"code\": \"again = 1; 'gone' in globals()\"}", "False"}}},
	{"session", "{\"action\": \"fork\", \"name\": \"twin@N\"}", "twin@N is a copy",
		.before = {{"run_code", "{\"code\": \"t = @N\"}"}},
		.after = {{"run_code", "{\"code\": \"t\", \"kernel\": \"twin@N\"}", ":\"@N\""}}},
	{"session", "{\"action\": \"open\"}", "s-", .varies = true},
	{"job", "{\"action\": \"search\", \"job\": \"@J\", \"pattern\": \"needle\"}", "needle@N",
		.before = {{"run_command",
				   "{\"command\": \"echo hay; echo needle@N\", \"wait_s\": 0}"},
			{"run_command", "{\"command\": \"sleep 0.2\"}"}}},
	{"run_code", "{\"language\": \"shell\", \"code\": \"x=${x}y; echo $x\"}", "y",
		.after = {{"run_code", "{\"language\": \"shell\", \"code\": \"echo ${#x}\"}",
			"\"stdout\":\"@N"}}},
	/* the last: the connection's own session is gone after it */
	{"session", "{\"action\": \"close\", \"session\": \"@S\"}", "is closed",
		.before = {{"run_command", "{\"command\": \"true\"}"}}},
};

/* The same but for what tells of the moment. */
static void same(const json_t *first, const json_t *second, const struct row *row)
{
	char *a = json_dumps(first, JSON_COMPACT | JSON_SORT_KEYS);
	char *b = json_dumps(second, JSON_COMPACT | JSON_SORT_KEYS);
	if (row->varies) {
		const char *s = json_string_value(json_object_get(structured(first), "session"));
		const char *t = json_string_value(json_object_get(structured(second), "session"));
		if (s || t)
			assert_string_equal(s, t);
	} else {
		assert_string_equal(a, b);
	}
	free(a);
	free(b);
}

static void again(const struct row *row, enum mortal_fate fate)
{
	bool lost;
	for (size_t i = 0; i < ARRAY_SIZE(row->before) && row->before[i][0]; i++)
		json_decref(call(row->before[i][0], row->before[i][1]));

	json_t *m = request(++mortal.number, row->tool, row->args);
	mortal_send(mortal.number, false, fate, m);
	json_t *first = mortal_end(mortal.number, &lost);
	assert_true(lost);
	if (fate == MORTAL_DIES) {
		mortal_kill();
		mortal_start();
	}
	mortal_send(mortal.number, true, MORTAL_TELLS, m);
	json_t *second = mortal_end(mortal.number, &lost);
	assert_false(lost);
	json_decref(m);

	char *expected = replace(
		replace(xstrdup(row->answer), "@S", mortal.session), "@N", turn == 1 ? "1" : "2");
	assert_true(says(first, expected) && says(second, expected));
	free(expected);
	same(first, second, row);
	note_job(second);
	json_decref(first);
	json_decref(second);
	for (size_t i = 0; i < ARRAY_SIZE(row->after) && row->after[i][0]; i++) {
		char *text = replace(xstrdup(row->after[i][2]), "@N", turn == 1 ? "1" : "2");
		json_t *answer = call(row->after[i][0], row->after[i][1]);
		assert_true(says(answer, text));
		json_decref(answer);
		free(text);
	}
}

static void a_row(void **state)
{
	const struct row *row = *state;
	for (turn = 1; turn <= 2; turn++)
		again(row, turn == 1 ? MORTAL_KEEPS : MORTAL_DIES);
}

/* ---- in the middle of it ---- */

static void a_run_outlives_its_broker(void **state)
{
	(void)state;
	bool lost;
	json_decref(call("run_code", "{\"code\": \"import time\"}"));
	json_t *m = request(++mortal.number, "run_code",
		"{\"code\": \"for i in range(20): print(i, flush=True); time.sleep(.05)\"}");
	mortal_send(mortal.number, false, MORTAL_TELLS, m);
	for (int i = 0; i < 3; i++) {
		mortal_nothing(150);
		mortal_kill();
		mortal_start();
		mortal_send(mortal.number, true, MORTAL_TELLS, m);
	}
	json_t *answer = mortal_end(mortal.number, &lost);
	assert_true(says(answer, "\"stdout\":\"0\\n1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n10\\n11\\n12"
				 "\\n13\\n14\\n15\\n16\\n17\\n18\\n19\\n\""));
	json_decref(answer);
	json_decref(m);
}

/* So that no broker reaches them any more. */
static void remove_sockets(void)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "%s/run", mortal.dir);
	DIR *d = opendir(path);
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));) {
		const char *dot = strrchr(e->d_name, '.');
		if (dot && strcmp(dot, ".sock") == 0)
			assert_int_equal(unlinkat(dirfd(d), e->d_name, 0), 0);
	}
	(void)closedir(d);
}

/* What was on its way says so once; the next call has a new session. */
static void a_lost_sandbox_is_told(void **state)
{
	(void)state;
	bool lost;
	json_decref(call("run_command", "{\"command\": \"true\"}"));
	char before[ID_TEXT_SIZE];
	(void)snprintf(before, sizeof(before), "%s", mortal.session);
	uint64_t run = ++mortal.number, write = ++mortal.number;
	json_t *m_run = request(run, "run_command", "{\"command\": \"sleep 60\"}");
	json_t *m_write = request(
		write, "files", "{\"action\": \"write\", \"path\": \"x\", \"content\": \"x\"}");
	mortal_send(run, false, MORTAL_TELLS, m_run);
	mortal_nothing(200);
	mortal_send(write, false, MORTAL_DIES, m_write);
	json_decref(mortal_end(write, &lost));
	mortal_kill();
	remove_sockets();
	mortal_start();
	mortal_send(run, true, MORTAL_TELLS, m_run);
	json_t *answer = mortal_end(run, &lost);
	assert_true(says(answer, "\"reason\":\"sandbox_lost\""));
	assert_null(json_object_get(json_object_get(answer, "result"), "isError"));
	json_decref(answer);
	mortal_send(write, true, MORTAL_TELLS, m_write);
	answer = mortal_end(write, &lost);
	assert_true(says(answer, "Error (sandbox_lost)") && says(answer, "isError"));
	json_decref(answer);
	json_decref(m_run);
	json_decref(m_write);
	json_decref(call("files", "{\"action\": \"list\"}"));
	assert_string_not_equal(mortal.session, before);
}

/* ---- cancelled requests ---- */

static json_t *cancellation(uint64_t number)
{
	return json_pack("{s:s,s:s,s:{s:I}}", "jsonrpc", "2.0", "method", "notifications/cancelled",
		"params", "requestId", (json_int_t)number);
}

static void is_done(uint64_t number)
{
	bool lost;
	json_t *answer = mortal_end(number, &lost);
	assert_null(answer);
	assert_false(lost);
}

/* A request and its cancellation, as a front sends them to the next broker: both are there before
 * the first is read. */
static void send_again(uint64_t number, const json_t *m, const json_t *cancel)
{
	assert_int_equal(kill(mortal.pid, SIGSTOP), 0);
	mortal_send(number, true, MORTAL_TELLS, m);
	mortal_send(number + 1, true, MORTAL_TELLS, cancel);
	assert_int_equal(kill(mortal.pid, SIGCONT), 0);
}

static void nothing_runs(void)
{
	json_t *answer = call("job", "{\"action\": \"list\"}");
	const json_t *jobs = json_object_get(structured(answer), "jobs");
	assert_true(json_array_size(jobs) > 0);
	for (size_t i = 0; i < json_array_size(jobs); i++) {
		const json_t *j = json_array_get(jobs, i);
		const char *status = json_string_value(json_object_get(j, "status"));
		if (strcmp(status, "done") != 0)
			fail_msg(
				"%s: %s", status, json_string_value(json_object_get(j, "command")));
	}
	json_decref(answer);
}

/* Both messages are done, in order, and the job has ended by that. */
static void a_cancelled_request_and_its_cancellation_are_done(void **state)
{
	(void)state;
	uint64_t number = ++mortal.number;
	json_t *m =
		request(number, "run_command", "{\"command\": \"sleep 60; touch not-reached\"}");
	json_t *cancel = cancellation(number);
	++mortal.number;
	mortal_send(number, false, MORTAL_TELLS, m);
	mortal_nothing(300);
	mortal_send(mortal.number, false, MORTAL_TELLS, cancel);
	is_done(number);
	is_done(mortal.number);
	json_decref(call("run_command", "{\"command\": \"sleep 0.2\"}"));
	nothing_runs();

	/* delivered again, to this broker and to the next, the two are done again and do no more */
	for (int i = 0; i < 2; i++) {
		send_again(number, m, cancel);
		is_done(number);
		is_done(number + 1);
		mortal_kill();
		mortal_start();
	}
	nothing_runs();
	json_decref(m);
	json_decref(cancel);
}

/* The broker dies once the agent has acknowledged it, and has told nobody. */
static void a_cancellation_is_made_by_the_next_broker(void **state)
{
	(void)state;
	bool lost;
	json_decref(call("run_code", "{\"code\": \"1\"}"));
	uint64_t number = ++mortal.number;
	json_t *m = request(number, "run_code",
		"{\"code\": \"import time\\nlived = 1\\ntime.sleep(60)\\nlived = 2\"}");
	json_t *cancel = cancellation(number);
	++mortal.number;
	mortal_send(number, false, MORTAL_TELLS, m);
	mortal_nothing(500);
	mortal_send(mortal.number, false, MORTAL_DIES, cancel);
	assert_null(mortal_end(number, &lost));
	assert_true(lost);
	mortal_kill();
	mortal_start();
	send_again(number, m, cancel);
	is_done(number);
	is_done(mortal.number);
	json_decref(m);
	json_decref(cancel);
	json_t *answer = call("run_code", "{\"code\": \"lived\"}");
	assert_true(says(answer, ":\"1\""));
	json_decref(answer);
}

/* A cancellation of what is over, or never was, is done. */
static void a_late_cancellation_is_done(void **state)
{
	(void)state;
	json_decref(call("job", "{\"action\": \"list\"}"));
	json_t *m = cancellation(mortal.number);
	mortal_send(++mortal.number, false, MORTAL_TELLS, m);
	is_done(mortal.number);
	mortal_send(mortal.number, true, MORTAL_TELLS, m);
	is_done(mortal.number);
	json_decref(m);
}

/* ---- keys ---- */

#define KEYED "{\"command\": \"echo once >> keyed; cat keyed\", \"idempotency_key\": \"one\"}"

static void a_key_is_one_run(void **state)
{
	(void)state;
	json_t *first = call("run_command", KEYED);
	json_t *second = call("run_command", KEYED);
	assert_true(json_equal(structured(first), structured(second)));
	assert_true(says(second, "\"stdout\":\"once\\n\""));
	mortal_kill();
	mortal_start();
	json_t *third = call("run_command", KEYED);
	assert_true(json_equal(structured(first), structured(third)));
	json_decref(second);
	second = call("run_command", "{\"command\": \"true\", \"idempotency_key\": \"one\"}");
	assert_true(says(second, "other arguments"));
	json_decref(first);
	json_decref(second);
	json_decref(third);
}

/* The front has gone, and with it the call; the run goes on, and its key is answered. */
static void a_key_outlives_its_call(void **state)
{
	(void)state;
	static const char args[] =
		"{\"command\": \"sleep 1; echo kept\", \"idempotency_key\": \"three\"}";
	json_t *m = request(++mortal.number, "run_command", args);
	mortal_send(mortal.number, false, MORTAL_TELLS, m);
	mortal_nothing(200);
	mortal_kill();
	mortal_start();
	json_t *answer = call("run_command", args); /* of another number */
	assert_true(says(answer, "\"stdout\":\"kept\\n\""));
	/* and the first one all the same, should its front be there still */
	bool lost;
	mortal_send(mortal.number - 1, true, MORTAL_TELLS, m);
	json_t *late = mortal_end(mortal.number - 1, &lost);
	assert_true(json_equal(structured(answer), structured(late)));
	json_decref(late);
	json_decref(answer);
	json_decref(m);
}

/* Its sandbox has gone: what is left is how it ended. */
static void a_key_outlives_its_sandbox(void **state)
{
	(void)state;
	static const char args[] =
		"{\"command\": \"echo gone; exit 7\", \"idempotency_key\": \"two\"}";
	json_t *first = call("run_command", args);
	assert_true(says(first, "\"exitCode\":7"));
	json_decref(call("session", "{\"action\": \"close\", \"session\": \"@S\"}"));
	for (int i = 0; i < 2; i++) {
		json_t *again = call("run_command", args);
		assert_true(says(again, "\"exitCode\":7"));
		assert_true(says(again, "no longer kept"));
		assert_null(json_object_get(json_object_get(again, "result"), "isError"));
		json_decref(again);
		mortal_kill();
		mortal_start();
	}
	json_decref(first);
}

/* ---- what is on record ---- */

/* Each event of a delivery and of a job stands there once, and each beginning has its end. */
static void the_record_is_of_one_run(void **state)
{
	(void)state;
	static char line[256 * 1024];
	json_t *seen = json_object();
	FILE *f = fopen(mortal.audit_path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		json_t *o = json_loads(line, 0, NULL);
		assert_non_null(o);
		const char *event = json_string_value(json_object_get(o, "event"));
		const char *subject = json_string_value(
			json_object_get(o, strncmp(event, "exec.", 5) == 0 ? "job" : "delivery"));
		if (subject && strncmp(event, "session.", 8) != 0) {
			char *key = xasprintf("%s %s", event, subject);
			if (json_object_get(seen, key))
				fail_msg("twice: %s", line);
			json_object_set_new(seen, key, json_true());
			free(key);
		}
		json_decref(o);
	}
	fclose(f);
	const char *key;
	json_t *v;
	json_object_foreach (seen, key, v) {
		char *end = replace(
			replace(xstrdup(key), "tool.call", "tool.end"), "exec.start", "exec.end");
		if (!json_object_get(seen, end))
			fail_msg("%s, but not %s", key, end);
		free(end);
	}
	assert_true(json_object_size(seen) > 4 * ARRAY_SIZE(rows));
	json_decref(seen);
}

/* ---- the record of an interrupted run and that of another ---- */

static void told(const char *tool, const char *args, enum mortal_fate fate)
{
	bool lost;
	json_t *m = request(++mortal.number, tool, args);
	mortal_send(mortal.number, false, fate, m);
	json_t *answer = mortal_end(mortal.number, &lost);
	if (fate == MORTAL_DIES) {
		json_decref(answer);
		mortal_kill();
		mortal_start();
		mortal_send(mortal.number, true, MORTAL_TELLS, m);
		answer = mortal_end(mortal.number, &lost);
	}
	note_job(answer);
	json_decref(answer);
	json_decref(m);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct lines {
	char *v[200];
	size_t n;
};

/* Without what is of the moment, and in an order that does not depend on it. */
static void read_lines(struct lines *ret)
{
	static const char *const moment[] = {"ts", "seq", "prev", "run", "durationMs", "sandboxId"};
	static char line[64 * 1024];
	FILE *f = fopen(mortal.audit_path, "re");
	assert_non_null(f);
	ret->n = 0;
	while (fgets(line, sizeof(line), f)) {
		json_t *o = json_loads(line, 0, NULL);
		assert_non_null(o);
		const char *tool = json_string_value(json_object_get(o, "tool"));
		if (strncmp(json_string_value(json_object_get(o, "event")), "audit.", 6) == 0) {
			json_decref(o); /* of the log itself: where a broker died while it wrote */
			continue;
		}
		for (size_t i = 0; i < ARRAY_SIZE(moment); i++)
			json_object_del(o, moment[i]);
		/* an answer tells how long it took, in more digits or fewer */
		if (tool && (strncmp(tool, "run_", 4) == 0 || strcmp(tool, "job") == 0))
			json_object_del(o, "bytesOut");
		assert_true(ret->n < ARRAY_SIZE(ret->v));
		ret->v[ret->n++] = json_dumps(o, JSON_SORT_KEYS | JSON_COMPACT);
		json_decref(o);
	}
	fclose(f);
	qsort(ret->v, ret->n, sizeof(ret->v[0]), by_text);
}

static void record_of(enum mortal_fate fate, struct lines *ret)
{
	(void)mortal_set_up(NULL);
	told("run_code", "{\"code\": \"print(1)\"}", fate);
	told("run_command", "{\"command\": \"exit 3\", \"idempotency_key\": \"k\"}", fate);
	told("run_command", "{\"command\": \"sleep 0.5\", \"wait_s\": 0}", fate);
	told("job", "{\"action\": \"wait\", \"job\": \"@J\"}", fate);
	told("files", "{\"action\": \"write\", \"path\": \"a\", \"content\": \"b\"}", fate);
	told("present_output", "{\"path\": \"a\"}", fate);
	told("present_output", "{\"path\": \"missing\"}", fate);
	told("session", "{\"action\": \"restart\"}", fate);
	told("session", "{\"action\": \"close\", \"session\": \"@S\"}", fate);
	mortal_stop();
	read_lines(ret);
	(void)mortal_tear_down(NULL);
}

static void the_record_is_the_same(void **state)
{
	(void)state;
	struct lines one, other;
	(void)mortal_tear_down(NULL);
	record_of(MORTAL_TELLS, &one);
	record_of(MORTAL_DIES, &other);
	(void)mortal_set_up(NULL);
	for (size_t i = 0; i < one.n && i < other.n; i++)
		assert_string_equal(one.v[i], other.v[i]);
	assert_int_equal(one.n, other.n);
	assert_true(one.n > 20);
	for (size_t i = 0; i < one.n; i++)
		free(one.v[i]);
	for (size_t i = 0; i < other.n; i++)
		free(other.v[i]);
}

int main(int argc, char **argv)
{
	int status;
	if (mortal_begin(argc, argv, &status) < 0)
		return status;
	const struct CMUnitTest more[] = {
		cmocka_unit_test(a_run_outlives_its_broker),
		cmocka_unit_test(a_lost_sandbox_is_told),
		cmocka_unit_test(a_cancelled_request_and_its_cancellation_are_done),
		cmocka_unit_test(a_cancellation_is_made_by_the_next_broker),
		cmocka_unit_test(a_late_cancellation_is_done),
		cmocka_unit_test(a_key_is_one_run),
		cmocka_unit_test(a_key_outlives_its_call),
		cmocka_unit_test(a_key_outlives_its_sandbox),
		cmocka_unit_test(the_record_is_of_one_run), /* of all before */
		cmocka_unit_test(the_record_is_the_same),
	};
	struct CMUnitTest tests[ARRAY_SIZE(rows) + ARRAY_SIZE(more)];
	char names[ARRAY_SIZE(rows)][100];
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)snprintf(names[i], sizeof(names[i]), "%s %.80s", rows[i].tool, rows[i].args);
		tests[i] = (struct CMUnitTest){
			.name = names[i], .test_func = a_row, .initial_state = (void *)&rows[i]};
	}
	memcpy(&tests[ARRAY_SIZE(rows)], more, sizeof(more));
	return cmocka_run_group_tests_name(
		"every tool and action", tests, mortal_set_up, mortal_tear_down);
}
