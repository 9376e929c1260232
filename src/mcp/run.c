/* run.c: see run.h. */
#include "mcp/run.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "exec/masked.h"
#include "mcp/follow.h"
#include "mcp/idempotency.h"
#include "mcp/render.h"

/* What is left of wait_s at least, when a call is taken up again: time for an answer. */
#define WAIT_AGAIN_US (USEC_PER_SEC / 2)

struct run {
	enum wire_job_kind kind; /* 0: not known */
	uint64_t timeout_us, wait_us;
	bool waits;  /* asked for by exec_wait() */
	bool starts; /* this call started the job, so its end is this call's to record */
	bool keyed;  /* … and a key stands for it, under this name */
	struct idempotency_name name;
};

static struct run *run_new(struct call *c)
{
	struct run *r = xcalloc(1, sizeof(*r));
	c->state = r;
	c->state_free = free;
	return r;
}

static struct follow_who who(const struct call *c)
{
	return (struct follow_who){c->session, c->job, c->tool->name, c->delivery.replayed};
}

/* A client counts its time-out from when it asked, whatever became of the broker meanwhile. */
uint64_t run_wait_us(const struct call *c)
{
	const struct policy_limits *l = policy_limits(c->policy, c->principal);
	double s = args_number(c->args, "wait_s", l->wait_s);
	uint64_t us = (uint64_t)(MIN(s, (double)l->max_wait_s) * (double)USEC_PER_SEC);
	if (!c->again)
		return us;
	uint64_t gone_us = clock_monotonic_us() - c->started_us;
	return MIN(us, MAX(us - MIN(us, gone_us), WAIT_AGAIN_US));
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

static void answer_status(struct call *c, struct exec_status *status)
{
	const struct run *r = c->state;
	struct redacting redacting = call_redacting(c);
	exec_status_mask(status, &redacting);
	const struct render_context ctx = {
		.limits = c->session ? session_limits(c->session)
				     : policy_limits(c->policy, c->principal),
		.timeout_us = r->timeout_us,
		.waited_us = r->wait_us,
		.image = c->session && (session_profile(c->session)->root ||
					       session_provider(c->session)->own_image),
		.redacting = &redacting,
	};
	render_status(status, &ctx, &c->text, c->structured, c->blocks);
	if (status->state == JOB_DONE) {
		c->has_exit = status->has_exit_code;
		c->exit_code = status->exit_code;
		c->exit_reason = exec_reason_name(status->reason);
	}
	call_finish(c);
}

/* Of what could not even be started; of others nobody knows. */
static bool nothing_ran(const struct err *err)
{
	return err->code != ERR_SANDBOX_LOST && err->code != ERR_TIMEOUT &&
	       err->code != ERR_PROTOCOL && err->code != ERR_CANCELLED;
}

static void fail(struct call *c, const struct err *err)
{
	struct run *r = c->state;
	struct err failed = *err;
	if (r->keyed && nothing_ran(err)) /* the key is free again */
		idempotency_remove(c->server->keys, &r->name);
	struct follow_who w = who(c);
	if (r->starts && follow_record_end(c->server, &w, NULL, err_info(err->code)->name, true,
				 &failed) == 0)
		failed = *err;
	call_fail(c, &failed);
}

static void on_status(void *user, struct exec_status *status, const struct err *err)
{
	struct call *c = user;
	struct run *r = c->state;
	struct err failed = {0};
	_cleanup_status_ struct exec_status lost = {0};

	c->op = NULL;
	if (err && c->again && !r->waits && err->code == ERR_CONFLICT) {
		/* It runs, begun by a broker with other limits. */
		r->waits = true;
		r->wait_us = run_wait_us(c);
		c->op = exec_wait(session_exec(c->session), c->job, r->wait_us, on_status, c);
		return;
	}
	if (err && c->again && r->starts && err->code == ERR_SANDBOX_LOST) {
		exec_status_lost(&lost, c->job, r->kind, err->text);
		status = &lost;
	} else if (err) {
		fail(c, err);
		return;
	}
	if (record(c, status, &failed) < 0)
		call_fail(c, &failed);
	else
		answer_status(c, status);
}

static void set_job(struct call *c, const char *job)
{
	str_copy(c->job, sizeof(c->job), job);
	c->doing[0] = '\0'; /* the job is what is told */
}

void run_wait(struct call *c, const char *job, uint64_t wait_us, uint64_t timeout_us)
{
	struct run *r = run_new(c);
	r->waits = true;
	r->wait_us = wait_us;
	r->timeout_us = timeout_us;
	set_job(c, job);
	c->op = exec_wait(session_exec(c->session), job, wait_us, on_status, c);
}

/* ---- idempotency ---- */

static void digest_of(const json_t *request, uint8_t ret[static SHA256_SIZE])
{
	_cleanup_free_ char *text = json_dumps(request, JSON_COMPACT | JSON_SORT_KEYS);
	CHECK(text); /* it has been read from JSON */
	struct sha256 s;
	sha256_init(&s);
	sha256_update(&s, text, strlen(text));
	sha256_final(&s, ret);
}

/* What was asked, without what may differ between two tries of the same thing. */
static void arguments_digest(const struct call *c, uint8_t ret[static SHA256_SIZE])
{
	static const char *const volatile_args[] = {"wait_s", "session", "idempotency_key"};
	json_t *args = json_copy(c->args);
	for (size_t i = 0; i < ARRAY_SIZE(volatile_args); i++)
		json_object_del(args, volatile_args[i]);
	json_object_set_new(args, " tool", json_string(c->tool->name));
	digest_of(args, ret);
	json_decref(args);
}

static bool same_request(const struct call *c, const struct idempotency_record *known)
{
	const char *named = args_text(c->args, "session");
	uint8_t digest[SHA256_SIZE];
	arguments_digest(c, digest);
	return memcmp(digest, known->arguments, sizeof(digest)) == 0 &&
	       (!named || strcmp(named, known->session) == 0);
}

/* What is left when neither sandbox nor output are: how it ended. Never run again. */
static void answer_record(struct call *c, const struct idempotency_record *known)
{
	struct run *r = run_new(c);
	struct exec_status status = {
		.kind = known->kind,
		.state = JOB_DONE,
		.reason = known->reason,
		.evidence = known->evidence,
		.has_exit_code = known->has_exit,
		.exit_code = known->exit_code,
		.signal = known->signal,
		.out = {.total = known->bytes_out, .lost = known->bytes_out},
		.err = {.total = known->bytes_err, .lost = known->bytes_err},
		.duration_us = known->duration_us,
	};
	_cleanup_status_ struct exec_status lost = {0};
	r->timeout_us = known->timeout_us;
	set_job(c, known->job);
	str_copy(c->handle, sizeof(c->handle), known->session);
	c->session_over = true;
	call_print(c,
		"session %s has ended, and its output is no longer kept; this "
		"idempotency_key was used there before, and is not run again. Use a new key "
		"to run it again.\n",
		known->session);
	if (!known->ended)
		exec_status_lost(&lost, known->job, known->kind,
			"its sandbox was gone before its end was seen");
	answer_status(c, known->ended ? &status : &lost);
}

/* The session of a record, while it has its sandbox. */
static struct session *session_of(const struct call *c, const struct idempotency_record *known)
{
	struct sessions *all = c->server->config.sessions;
	struct session *s = NULL;
	if (!all || sessions_find(all, c->principal, known->session, &s, NULL) < 0 ||
		session_lost(s))
		return NULL;
	return s;
}

/* The key is known, and another call's: the job it stands for is the answer, now or once it is
 * done. */
static void answer_known(struct call *c, const struct idempotency_record *known)
{
	struct session *s = session_of(c, known);
	struct err err;
	if (!same_request(c, known)) {
		call_failf(c, ERR_CONFLICT,
			"this idempotency_key was used with other arguments before; use a new key "
			"for a new run");
	} else if (!s) {
		answer_record(c, known);
	} else if (call_permit_session(c, s, &err) < 0) {
		call_fail(c, &err);
	} else {
		struct idempotency_record k = *known;
		call_use_session(c, s);
		run_wait(c, k.job, run_wait_us(c), k.timeout_us);
	}
}

/* ---- start ---- */

static int audit_digest(struct call *c, const uint8_t digest[static SHA256_SIZE],
	const char *detail, struct err *err)
{
	char hex[2 * SHA256_SIZE + 1];
	id_hex(digest, SHA256_SIZE, hex);
	struct audit_event e = {.event = "exec.start", .sha256 = hex, .detail = detail};
	return call_audit(c, &e, err);
}

int run_audit_start(struct call *c, const json_t *request, const char *detail, struct err *err)
{
	uint8_t digest[SHA256_SIZE];
	digest_of(request, digest);
	return audit_digest(c, digest, detail, err);
}

static int audit_start(struct call *c, const struct exec_request *req, struct err *err)
{
	uint8_t digest[SHA256_SIZE];
	arguments_digest(c, digest);
	return audit_digest(c, digest, req->kind == JOB_KIND_CELL ? req->language : "command", err);
}

int run_timeout_us(const struct call *c, uint64_t *ret_timeout_us, struct err *err)
{
	const struct policy_limits *l = policy_limits(c->policy, c->principal);
	double s = args_number(c->args, "timeout_s", l->timeout_s);
	if (s > l->max_timeout_s)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"argument \"timeout_s\" may be at most %u here", l->max_timeout_s);
	*ret_timeout_us = (uint64_t)(s * (double)USEC_PER_SEC);
	return 0;
}

/* Before anything runs. */
static int record_key(struct call *c, const struct exec_request *req, struct err *err)
{
	struct run *r = c->state;
	struct idempotency_record record = {.kind = req->kind, .timeout_us = r->timeout_us};
	arguments_digest(c, record.arguments);
	str_copy(record.session, sizeof(record.session), c->handle);
	str_copy(record.job, sizeof(record.job), c->job);
	return idempotency_put(c->server->keys, &r->name, &record, err);
}

/* The input of a job is one change, whoever starts it a second time. */
static void input_tag(const char *job, uint8_t ret[static DELIVERY_TAG])
{
	static const char label[] = "scb input";
	uint8_t digest[SHA256_SIZE];
	struct sha256 s;
	sha256_init(&s);
	sha256_update(&s, label, sizeof(label));
	sha256_update(&s, job, strlen(job));
	sha256_final(&s, digest);
	memcpy(ret, digest, DELIVERY_TAG);
}

/* known: what this same call has recorded when it was delivered to a broker that died. */
static int prepare(struct call *c, const struct exec_request *req, bool known, struct err *err)
{
	struct run *r = c->state;
	int e = run_timeout_us(c, &r->timeout_us, err);
	e = e < 0 ? e : audit_start(c, req, err);
	if (e == 0 && r->keyed && !known)
		e = record_key(c, req, err);
	return e;
}

/* The session in which a broker that died has begun this job, lost or not: a job that was lost with
 * its sandbox is a result. NULL: it was not begun, or the session has gone. */
static struct session *began_in(const struct call *c, const char *job)
{
	struct sessions *all = c->server->config.sessions;
	const char *named = args_text(c->args, "session");
	struct session *s = NULL;
	if (!c->again || !all || !audit_recorded(c->server->config.audit, "exec.start", job) ||
		sessions_find(
			all, c->principal, named ? named : c->conn->default_session, &s, NULL) < 0)
		return NULL;
	return s;
}

void run_start(struct call *c, struct exec_request *req)
{
	const char *key = args_text(c->args, "idempotency_key");
	const struct idempotency_record *known = NULL;
	struct idempotency_name name = {0};
	struct err err = {0};
	char job[ID_TEXT_SIZE];
	uint8_t tag[DELIVERY_TAG];

	delivery_id(&c->delivery, 'j', job);
	if (key) {
		idempotency_name(c->principal, c->conn->host, key, &name);
		known = idempotency_find(c->server->keys, &name);
	}
	if (known && strcmp(known->job, job) != 0) {
		answer_known(c, known);
		return;
	}
	struct session *s = known ? session_of(c, known) : began_in(c, job);
	if (known && !s) {
		answer_record(c, known);
		return;
	}
	if (s)
		call_use_session(c, s);
	else if (call_find_session(c, true, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	if (req->kind == JOB_KIND_CELL && !req->language)
		req->language = exec_language_of(session_exec(c->session), req->kernel);
	if (req->kind == JOB_KIND_CELL && call_permit_language(c, req->language, &err) < 0) {
		call_fail(c, &err);
		return;
	}

	struct run *r = run_new(c);
	r->kind = req->kind;
	r->wait_us = run_wait_us(c);
	r->keyed = key;
	r->name = name;
	set_job(c, job);
	if (prepare(c, req, known, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	r->starts = true;
	c->keyed = key;
	session_note_job(c->session, job);

	req->job = job;
	req->stdin_data = args_text(c->args, "stdin");
	req->stdin_len = args_text_len(c->args, "stdin");
	if (req->stdin_len && (c->delivery.given || key)) {
		input_tag(job, tag);
		req->stdin_tag = tag;
	}
	req->timeout_us = r->timeout_us;
	req->wait_us = r->wait_us;
	c->op = exec_run(session_exec(c->session), req, on_status, c);
}

/* ---- the end before the end ---- */

static void on_cancelled(void *user, const struct err *err)
{
	(void)err; /* then it runs no more, or nothing can be asked of its sandbox */
	call_end_cancelled(user);
}

bool run_cancel(struct call *c)
{
	struct run *r = c->state;
	uint8_t room[DELIVERY_TAG];
	if (c->op)
		exec_abandon(c->op);
	c->op = NULL;
	if (!r->starts)
		return true;
	/* the job ends by the ladder; its end is recorded when it has */
	struct follow_who w = who(c);
	follow_job(c->server, &w);
	exec_cancel(
		session_exec(c->session), c->job, call_tag(c, STEP_CANCEL, room), on_cancelled, c);
	return false;
}
