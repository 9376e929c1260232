/* job.c: jobs that were started by run_code and run_command: wait, read, search, input, signal,
 * list. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "exec/masked.h"
#include "mcp/render.h"
#include "mcp/run.h"
#include "mcp/tools/job_read.h"
#include "mcp/tools/job_search.h"

static const char *const streams[] = {"stdout", "stderr", "both", NULL};
static const char *const encodings[] = {"text", "base64", NULL};

static const struct arg args[] = {
	{"action", ARG_TEXT, .required = true, .max = 20},
	{"job", ARG_TEXT, .max = 64 * KIB, .description = "j-… handle; for all but list"},
	{"session", ARG_TEXT, .max = 64 * KIB},
	{"wait_s", ARG_NUMBER, .min = 0, .max = LIMIT_WAIT_S, .description = "wait: default 25"},
	{"stream", ARG_TEXT, .max = 10, .choices = streams,
		.description =
			"read: default stdout; both: in order of arrival. search: default both"},
	{"offset", ARG_INTEGER, .max = 9e15, .description = "read, search: first byte"},
	{"length", ARG_INTEGER, .min = 1, .max = LIMIT_READ_TEXT, .description = "read: bytes"},
	{"encoding", ARG_TEXT, .max = 10, .choices = encodings,
		.description = "read: base64 for exact bytes, up to 65536"},
	{"pattern", ARG_TEXT, .min = 1, .max = LIMIT_PATTERN,
		.description = "search: literal text, within a line"},
	{"limit", ARG_INTEGER, .min = 1, .max = LIMIT_SEARCH_HITS,
		.description = "search: lines; default 20"},
	{"input", ARG_TEXT, .binary = true, .max = LIMIT_STDIN,
		.description = "input: text for stdin"},
	{"close", ARG_BOOLEAN, .description = "input: then end of file"},
	{"signal", ARG_TEXT, .min = 1, .max = 20,
		.description = "signal: e.g. INT, KILL; left out: stop the job and all it started"},
};

static const struct arg_action actions[] = {
	{"wait", {"job"}},
	{"read", {"job"}},
	{"search", {"job", "pattern"}},
	{"input", {"job"}},
	{"signal", {"job"}},
	{"list", {NULL}},
};

static const struct field result_fields[] = {
	{"session", "string", true, NULL},
	{"job", "string", false, NULL},
	{"status", "string", false, NULL},
	{"exitCode", "integer", false, NULL},
	{"exit", "object", false, NULL},
	{"stdout", "string", false, NULL},
	{"stderr", "string", false, NULL},
	{"results", "[object]", false, NULL},
	{"error", "object", false, NULL},
	{"text", "string", false, NULL},
	{"data", "string", false, NULL},
	{"encoding", "string", false, NULL},
	{"offset", "integer", false, NULL},
	{"bytes", "integer", false, NULL},
	{"totalBytes", "integer", false, NULL},
	{"ended", "boolean", false, NULL},
	{"pieces", "[object]", false, job_piece_fields},
	{"hits", "[object]", false, job_hit_fields},
	{"more", "boolean", false, NULL},
	{"nextStream", "string", false, NULL},
	{"nextOffset", "integer", false, NULL},
	{"jobs", "[object]", false, NULL},
	{0},
};

struct job_state {
	uint64_t asked; /* bytes of input */
};

static struct job_state *state_new(struct call *c)
{
	struct job_state *st = xcalloc(1, sizeof(*st));
	c->state = st;
	c->state_free = free;
	return st;
}

/* ---- input ---- */

static void on_input(void *user, uint64_t accepted, const struct err *err)
{
	struct call *c = user;
	struct job_state *st = c->state;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	call_set_text(c, "job", c->job);
	call_set_u64(c, "bytes", accepted);
	call_print(c, "%llu of %llu byte%s given to stdin of %s%s\n", (unsigned long long)accepted,
		(unsigned long long)st->asked, str_plural(st->asked), c->job,
		args_bool(c->args, "close") ? ", which is closed now" : "");
	call_finish(c);
}

static void do_input(struct call *c)
{
	const char *input = args_text(c->args, "input");
	bool close_after = args_bool(c->args, "close");
	if (!input && !close_after) {
		call_failf(c, ERR_INVALID_ARGUMENT,
			"action input needs \"input\" (text for stdin), or \"close\": true");
		return;
	}
	struct job_state *st = state_new(c);
	st->asked = args_text_len(c->args, "input");
	uint8_t room[DELIVERY_TAG];
	c->op = exec_input(session_exec(c->session), c->job, input ? input : "", st->asked,
		close_after, call_tag(c, STEP_CHANGE, room), on_input, c);
}

/* ---- signal ---- */

static int signal_number(const char *name)
{
	if (str_starts(name, "SIG"))
		name += 3;
	for (int i = 1; i < NSIG; i++) {
		const char *abbrev = sigabbrev_np(i);
		if (abbrev && strcmp(abbrev, name) == 0)
			return i;
	}
	uint64_t n;
	return str_to_u64(name, 64, &n) == 0 && n >= 1 ? (int)n : -1;
}

static void on_signalled(void *user, const struct err *err)
{
	struct call *c = user;
	if (err) {
		call_fail(c, err);
		return;
	}
	call_set_text(c, "job", c->job);
	call_print(c, "signalled %s; job action=wait tells how it ended\n", c->job);
	call_finish(c);
}

static void do_signal(struct call *c)
{
	const char *name = args_text(c->args, "signal");
	int number = name ? signal_number(name) : 0;
	uint8_t room[DELIVERY_TAG];
	const uint8_t *tag = call_tag(c, STEP_CHANGE, room);
	if (number < 0)
		call_failf(c, ERR_INVALID_ARGUMENT,
			"argument \"signal\" must be a name like INT, TERM or KILL, or a number "
			"from 1 "
			"to 64");
	else if (number == 0)
		exec_cancel(session_exec(c->session), c->job, tag, on_signalled, c);
	else
		exec_signal(session_exec(c->session), c->job, number, tag, on_signalled, c);
}

/* ---- list ---- */

static void on_list(void *user, struct exec_status *jobs, size_t n, const struct err *err)
{
	struct call *c = user;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	struct redacting redacting = call_redacting(c);
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++) {
		exec_status_mask(&jobs[i], &redacting);
		render_job_line(&jobs[i], &c->text);
		json_array_append_new(list, render_job_json(&jobs[i]));
	}
	if (n == 0)
		call_print(c, "no jobs yet\n");
	call_set(c, "jobs", list);
	call_finish(c);
}

/* ---- the tool ---- */

/* A job is found by its handle alone; `session` may be left out. */
static int find_session_of_job(struct call *c, struct err *err)
{
	const char *job = args_text(c->args, "job");
	struct session *s = NULL;
	if (!job || args_text(c->args, "session") || !c->server->config.sessions)
		return call_find_session(c, false, err);
	int r = sessions_find_job(c->server->config.sessions, c->principal, job, &s, err);
	if (r == 0)
		r = call_permit_session(c, s, err);
	if (r == 0)
		call_use_session(c, s);
	return r;
}

/* With the session known. */
static void act(struct call *c)
{
	if (strcmp(c->action, "wait") == 0)
		run_wait(c, args_text(c->args, "job"), run_wait_us(c), 0);
	else if (strcmp(c->action, "read") == 0)
		job_read(c);
	else if (strcmp(c->action, "search") == 0)
		job_search(c);
	else if (strcmp(c->action, "input") == 0)
		do_input(c);
	else if (strcmp(c->action, "signal") == 0)
		do_signal(c);
	else
		c->op = exec_list(session_exec(c->session), on_list, c);
}

/* ---- a job that this broker has not started: which sandbox knows it? ---- */

struct search {
	struct session *sessions[LIMIT_SESSIONS]; /* held */
	size_t n, next;
	struct err err; /* that of a job nobody knows */
};

static void search_free(void *state)
{
	struct search *s = state;
	for (size_t i = 0; i < s->n; i++)
		session_release(s->sessions[i]);
	free(s);
}

static int search_add(void *user, struct session *session)
{
	struct search *s = user;
	if (session_lost(session) || s->n == ARRAY_SIZE(s->sessions))
		return 0;
	session_hold(session);
	s->sessions[s->n++] = session;
	return 0;
}

static void search_next(struct call *c);

static void on_searched(void *user, struct exec_status *jobs, size_t n, const struct err *err)
{
	struct call *c = user;
	struct search *s = c->state;
	struct session *session = s->sessions[s->next - 1];
	const char *job = args_text(c->args, "job");
	bool found = false;
	c->op = NULL;
	(void)err; /* a sandbox that cannot be asked */
	for (size_t i = 0; i < n; i++) {
		session_note_job(session, jobs[i].job);
		found |= strcmp(jobs[i].job, job) == 0;
	}
	if (!found) {
		search_next(c);
		return;
	}
	struct err refused;
	if (call_permit_session(c, session, &refused) < 0) {
		call_fail(c, &refused);
		return;
	}
	call_use_session(c, session);
	c->state = NULL;
	c->state_free = NULL;
	search_free(s);
	act(c);
}

static void search_next(struct call *c)
{
	struct search *s = c->state;
	if (s->next == s->n) {
		struct err err = s->err;
		call_fail(c, &err);
		return;
	}
	c->op = exec_list(session_exec(s->sessions[s->next++]), on_searched, c);
}

static void search(struct call *c, const struct err *err)
{
	struct search *s = xcalloc(1, sizeof(*s));
	s->err = *err;
	c->state = s;
	c->state_free = search_free;
	(void)sessions_each(c->server->config.sessions, c->principal, search_add, s);
	search_next(c);
}

static void run(struct call *c)
{
	struct err err = {0};
	const char *job = args_text(c->args, "job");
	bool of_job = job && strcmp(c->action, "list") != 0;
	if (of_job && id_valid('j', job))
		str_copy(c->job, sizeof(c->job), job);
	int r = find_session_of_job(c, &err);
	if (r < 0 && err.code == ERR_NO_SUCH_JOB && c->job[0])
		search(c, &err);
	else if (r < 0)
		call_fail(c, &err);
	else if (of_job && !c->job[0])
		call_failf(c, ERR_NO_SUCH_JOB,
			"no such job; job action=list names those of a session");
	else
		act(c);
}

/* A cancelled wait leaves the job alone: it is not what this call started. */
static bool cancel(struct call *c)
{
	if (!c->op)
		return false; /* a signal is under way */
	exec_abandon(c->op);
	c->op = NULL;
	return true;
}

const struct tool tool_job = {
	.name = "job",
	.title = "Jobs",
	.description = "What runs or ran: wait for a job's result, read its output by offset, "
		       "search it, give it input, signal or stop it, list the session's jobs.",
	.args = {args, ARRAY_SIZE(args), actions, ARRAY_SIZE(actions)},
	.result = result_fields,
	.session = TOOL_SESSION_SELF,
	.run = run,
	.cancel = cancel,
};
