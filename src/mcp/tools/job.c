/* job.c: jobs that were started by run_code and run_command: wait, read, search, input, signal,
 * list. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "exec/masked.h"
#include "mcp/base64.h"
#include "mcp/render.h"
#include "mcp/run.h"
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

static const struct field piece_fields[] = {
	{"stream", "string", true, NULL},
	{"offset", "integer", true, NULL},
	{"timeMs", "number", true, NULL},
	{"text", "string", true, NULL},
	{0},
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
	{"pieces", "[object]", false, piece_fields},
	{"hits", "[object]", false, job_hit_fields},
	{"more", "boolean", false, NULL},
	{"nextStream", "string", false, NULL},
	{"nextOffset", "integer", false, NULL},
	{"jobs", "[object]", false, NULL},
	{0},
};

struct job_state {
	enum wire_channel channel;
	bool base64;
	uint64_t asked; /* bytes of input */
};

static struct job_state *state_new(struct call *c)
{
	struct job_state *st = xcalloc(1, sizeof(*st));
	c->state = st;
	c->state_free = free;
	return st;
}

/* ---- read ---- */

static void set_hole(struct call *c, const struct exec_read *r)
{
	if (r->lost_len == 0)
		return;
	call_print(c, "(bytes %llu to %llu are no longer kept)\n",
		(unsigned long long)r->lost_offset,
		(unsigned long long)(r->lost_offset + r->lost_len - 1));
}

/* The line under what was read: where it stood, and how to go on. */
static void print_place(struct call *c, const struct exec_read *r, uint64_t n)
{
	uint64_t end = r->offset + n;
	call_set_u64(c, "offset", r->offset);
	call_set_u64(c, "bytes", n);
	call_set_u64(c, "totalBytes", r->total);
	call_set(c, "ended", json_boolean(r->ended));
	if (end < r->total)
		call_print(c, "[bytes %llu to %llu of %llu; next: offset=%llu]\n",
			(unsigned long long)r->offset, (unsigned long long)end,
			(unsigned long long)r->total, (unsigned long long)end);
	else
		call_print(c, "[bytes %llu to %llu of %llu%s]\n", (unsigned long long)r->offset,
			(unsigned long long)end, (unsigned long long)r->total,
			r->ended ? ", the end" : "; the job still runs");
}

static void answer_pieces(struct call *c, const struct exec_read *r)
{
	json_t *list = json_array();
	uint64_t n = 0;
	for (size_t i = 0; i < r->n_pieces; i++) {
		const struct exec_piece *p = &r->pieces[i];
		const char *stream = job_channel_name(p->channel);
		json_t *text = jsonrpc_text_n(p->p, p->n);
		call_print(c, "[%s %.3f s] %s%s", stream, (double)p->time_us / (double)USEC_PER_SEC,
			json_string_value(text), p->n > 0 && p->p[p->n - 1] == '\n' ? "" : "\n");
		json_array_append_new(list, json_pack("{s:s,s:I,s:f,s:o}", "stream", stream,
						    "offset", (json_int_t)p->offset, "timeMs",
						    (double)p->time_us / 1000.0, "text", text));
		n += p->n;
	}
	call_set(c, "pieces", list);
	print_place(c, r, n);
}

static void answer_bytes(struct call *c, const struct exec_read *r, bool base64)
{
	size_t n = r->bytes.len;
	if (base64) {
		json_t *data = base64_json(r->bytes.data, n);
		call_print(c, "base64: %s\n", json_string_value(data));
		call_set(c, "data", data);
		call_set_text(c, "encoding", "base64");
		print_place(c, r, n);
		return;
	}
	if (!r->ended || r->offset + n < r->total)
		n = str_utf8_trim(
			r->bytes.data, n); /* a character is not cut: the next read has it */
	json_t *text = jsonrpc_text_n(r->bytes.data, n);
	call_print_n(c, json_string_value(text), json_string_length(text));
	if (n > 0 && r->bytes.data[n - 1] != '\n')
		call_print(c, "\n");
	if (!str_utf8_valid(r->bytes.data, n))
		call_print(c, "(some bytes are not text; encoding=base64 gives them exactly)\n");
	call_set(c, "text", text);
	print_place(c, r, n);
}

static void on_read(void *user, struct exec_read *r, const struct err *err)
{
	struct call *c = user;
	struct job_state *st = c->state;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	call_set_text(c, "job", c->job);
	set_hole(c, r);
	if (st->channel == CHANNEL_BOTH)
		answer_pieces(c, r);
	else
		answer_bytes(c, r, st->base64);
	call_finish(c);
}

static void do_read(struct call *c)
{
	const char *encoding = args_text(c->args, "encoding");
	struct job_state *st = state_new(c);
	st->channel = job_channel(c, CHANNEL_STDOUT);
	st->base64 = encoding && strcmp(encoding, "base64") == 0;
	if (st->base64 && st->channel == CHANNEL_BOTH) {
		call_failf(c, ERR_INVALID_ARGUMENT,
			"argument \"encoding\" base64 reads one stream: stdout or stderr");
		return;
	}
	uint64_t max = st->base64 ? LIMIT_READ_BASE64 : LIMIT_READ_TEXT;
	uint64_t fallback = st->base64 ? LIMIT_READ_BASE64 : LIMIT_ANSWER_TEXT;
	uint64_t length = MIN(args_u64(c->args, "length", fallback), max);
	c->op = exec_read(session_exec(c->session), c->job, st->channel,
		args_u64(c->args, "offset", 0), length, on_read, c);
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
		call_use_session(c, s);
	return r;
}

/* With the session known. */
static void act(struct call *c)
{
	if (strcmp(c->action, "wait") == 0)
		run_wait(c, args_text(c->args, "job"), run_wait_us(c), 0);
	else if (strcmp(c->action, "read") == 0)
		do_read(c);
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
		(void)snprintf(c->job, sizeof(c->job), "%s", job);
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
