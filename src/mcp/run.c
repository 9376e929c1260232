/* run.c: see run.h. */
#include "mcp/run.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "mcp/follow.h"
#include "mcp/idempotency.h"
#include "mcp/render.h"

struct run {
	uint64_t timeout_us, wait_us;
	char *key;   /* recorded by this call; NULL: none */
	bool starts; /* this call started the job, so its end is this call's to record */
};

static void run_free(void *state)
{
	struct run *r = state;
	free(r->key);
	free(r);
}

static struct run *run_new(struct call *c)
{
	struct run *r = xcalloc(1, sizeof(*r));
	c->state = r;
	c->state_free = run_free;
	return r;
}

static struct follow_who who(const struct call *c)
{
	return (struct follow_who){c->session, c->job, c->tool->name};
}

uint64_t run_wait_us(const struct call *c)
{
	const struct policy_limits *l = policy_limits(c->server->config.policy);
	double s = args_number(c->args, "wait_s", l->wait_s);
	return (uint64_t)(MIN(s, (double)l->max_wait_s) * (double)USEC_PER_SEC);
}

/* ---- the answer ---- */

/* What a finished (or still running) job means for the record. 0, or an error that is the answer.
 */
static int record(struct call *c, const struct exec_status *status, struct err *err)
{
	struct run *r = c->state;
	if (!r->starts)
		return 0;
	struct follow_who w = who(c);
	if (status->state == JOB_DONE)
		return follow_record_end(c->server, &w, status, NULL, true, err);
	follow_job(c->server, &w);
	return 0;
}

static void on_status(void *user, struct exec_status *status, const struct err *err)
{
	struct call *c = user;
	struct run *r = c->state;
	struct err failed = {0};

	c->op = NULL;
	if (err) {
		failed = *err;
		if (r->key) /* nothing ran: the key is free again */
			idempotency_remove(c->server->keys, c->principal, r->key);
		struct follow_who w = who(c);
		if (r->starts && follow_record_end(c->server, &w, NULL, err_info(err->code)->name,
					 true, &failed) == 0)
			failed = *err;
		call_fail(c, &failed);
		return;
	}
	if (record(c, status, &failed) < 0) {
		call_fail(c, &failed);
		return;
	}
	const struct render_context ctx = {
		.limits = policy_limits(c->server->config.policy),
		.timeout_us = r->timeout_us,
		.waited_us = r->wait_us,
	};
	render_status(status, &ctx, &c->text, c->structured, c->blocks);
	if (status->state == JOB_DONE) {
		c->has_exit = status->has_exit_code;
		c->exit_code = status->exit_code;
		c->exit_reason = exec_reason_name(status->reason);
	}
	call_finish(c);
}

static void set_job(struct call *c, const char *job)
{
	(void)snprintf(c->job, sizeof(c->job), "%s", job);
	(void)snprintf(c->doing, sizeof(c->doing), "job %s runs in session %s", job, c->handle);
}

void run_wait(struct call *c, const char *job, uint64_t wait_us, uint64_t timeout_us)
{
	struct run *r = run_new(c);
	r->wait_us = wait_us;
	r->timeout_us = timeout_us;
	set_job(c, job);
	c->op = exec_wait(session_exec(c->session), job, wait_us, on_status, c);
}

/* ---- idempotency ---- */

/* What was asked, without what may differ between two tries of the same thing. */
static void arguments_digest(const struct call *c, uint8_t ret[static SHA256_SIZE])
{
	static const char *const volatile_args[] = {"wait_s", "session", "idempotency_key"};
	json_t *args = json_copy(c->args);
	for (size_t i = 0; i < ARRAY_SIZE(volatile_args); i++)
		json_object_del(args, volatile_args[i]);
	json_object_set_new(args, " tool", json_string(c->tool->name));
	char *text = json_dumps(args, JSON_COMPACT | JSON_SORT_KEYS);
	CHECK(text);
	struct sha256 s;
	sha256_init(&s);
	sha256_update(&s, text, strlen(text));
	sha256_final(&s, ret);
	free(text);
	json_decref(args);
}

/* The key is known: the job it stands for is the answer, now or once it is done. */
static void answer_known(struct call *c, const struct idempotency_record *known)
{
	const char *named = args_text(c->args, "session");
	struct idempotency_record k = *known;
	uint8_t digest[SHA256_SIZE];
	arguments_digest(c, digest);
	if (memcmp(digest, k.arguments, sizeof(digest)) != 0 ||
		(named && strcmp(named, k.session) != 0)) {
		call_failf(c, ERR_CONFLICT,
			"this idempotency_key was used with other arguments before; use a new key "
			"for a "
			"new run");
		return;
	}
	struct session *s = NULL;
	if (sessions_find(c->server->config.sessions, c->principal, k.session, &s, NULL) < 0) {
		call_failf(c, ERR_NO_SUCH_JOB,
			"this idempotency_key was used before, and that run's session has ended: "
			"its "
			"output is no longer kept. Use a new key to run it again");
		return;
	}
	call_use_session(c, s);
	run_wait(c, k.job, run_wait_us(c), k.timeout_us);
}

/* ---- start ---- */

static int audit_start(struct call *c, const struct exec_request *req, struct err *err)
{
	char hex[2 * SHA256_SIZE + 1];
	uint8_t digest[SHA256_SIZE];
	arguments_digest(c, digest);
	id_hex(digest, sizeof(digest), hex);
	struct audit_event e = {
		.event = "exec.start",
		.sha256 = hex,
		.detail = req->kind == JOB_KIND_CELL ? req->language : "command",
	};
	return call_audit(c, &e, err);
}

static int check_times(const struct call *c, uint64_t *ret_timeout_us, struct err *err)
{
	const struct policy_limits *l = policy_limits(c->server->config.policy);
	double s = args_number(c->args, "timeout_s", l->timeout_s);
	if (s > l->max_timeout_s)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"argument \"timeout_s\" may be at most %u here", l->max_timeout_s);
	*ret_timeout_us = (uint64_t)(s * (double)USEC_PER_SEC);
	return 0;
}

void run_start(struct call *c, struct exec_request *req)
{
	const char *key = args_text(c->args, "idempotency_key");
	const struct idempotency_record *known =
		key ? idempotency_find(c->server->keys, c->principal, key) : NULL;
	struct err err = {0};
	uint64_t timeout_us = 0;

	if (known) {
		answer_known(c, known);
		return;
	}
	char job[ID_TEXT_SIZE];
	id_new('j', job);
	set_job(c, job);
	if (check_times(c, &timeout_us, &err) < 0 || audit_start(c, req, &err) < 0) {
		call_fail(c, &err);
		return;
	}

	struct run *r = run_new(c);
	r->starts = true;
	r->timeout_us = timeout_us;
	r->wait_us = run_wait_us(c);
	if (key) {
		struct idempotency_record record = {.timeout_us = timeout_us};
		arguments_digest(c, record.arguments);
		(void)snprintf(record.session, sizeof(record.session), "%s", c->handle);
		(void)snprintf(record.job, sizeof(record.job), "%s", job);
		idempotency_put(c->server->keys, c->principal, key, &record);
		r->key = xstrdup(key);
	}
	session_note_job(c->session, job);

	req->job = job;
	req->stdin_data = args_text(c->args, "stdin");
	req->stdin_len = args_text_len(c->args, "stdin");
	req->timeout_us = r->timeout_us;
	req->wait_us = r->wait_us;
	c->op = exec_run(session_exec(c->session), req, on_status, c);
}

bool run_cancel(struct call *c)
{
	struct run *r = c->state;
	exec_abandon(c->op);
	c->op = NULL;
	/* the job ends by the ladder; its end is recorded when it has */
	exec_cancel(session_exec(c->session), c->job, NULL, NULL);
	if (r->starts) {
		struct follow_who w = who(c);
		follow_job(c->server, &w);
	}
	return true;
}
