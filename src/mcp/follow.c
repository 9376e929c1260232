/* follow.c: see follow.h. */
#include "mcp/follow.h"

#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "mcp/idempotency.h"
#include "mcp/redaction.h"

/* A broker may die between exec.start and the start itself: the job then comes with its request,
 * which is delivered again, or never. */
#define COME_AGAIN_US (60 * USEC_PER_SEC)
#define ASK_AGAIN_MS  500

struct follow {
	struct list link;
	struct mcp_server *server;
	struct session *session;
	uv_timer_t timer; /* to ask again */
	char *job, *tool;
	bool once;
	uint64_t since_us; /* CLOCK_MONOTONIC */
};

int follow_record_end(struct mcp_server *s, const struct follow_who *who,
	const struct exec_status *status, const char *why, bool with_next, struct err *err)
{
	struct audit_event e = {
		.event = "exec.end",
		.tool = who->tool,
		.principal = session_principal(who->session),
		.session = session_handle(who->session),
		.job = who->job,
		.provider = session_provider(who->session)->name,
		.isolation_level = session_capabilities(who->session)->isolation_level,
		.sandbox_id = session_sandbox_id(who->session),
		.detail = why,
		.redactor = redaction_of(s, session_principal(who->session)),
		.with_next = with_next,
	};
	if (status) {
		e.has_exit = status->has_exit_code;
		e.exit_code = status->exit_code;
		e.exit_reason = exec_reason_name(status->reason);
		e.duration_us = status->duration_us;
		e.bytes_out = status->out.total + status->err.total;
		idempotency_ended(s->keys, who->job, status);
	}
	return who->once ? audit_event_once(s->config.audit, &e, err)
			 : audit_event(s->config.audit, &e, err);
}

static void on_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

static void follow_free(struct follow *f)
{
	list_remove(&f->link);
	session_release(f->session);
	free(f->job);
	free(f->tool);
	uv_close((uv_handle_t *)&f->timer, on_timer_closed);
}

static void on_status(void *user, struct exec_status *status, const struct err *err);

static void wait_on(struct follow *f)
{
	(void)exec_wait(
		session_exec(f->session), f->job, LIMIT_TIMEOUT_S * USEC_PER_SEC, on_status, f);
}

static void on_timer(uv_timer_t *t)
{
	wait_on(t->data);
}

static bool may_still_come(const struct follow *f, const struct err *err)
{
	return f->once && err && err->code == ERR_NO_SUCH_JOB &&
	       clock_monotonic_us() - f->since_us < COME_AGAIN_US;
}

static void on_status(void *user, struct exec_status *status, const struct err *err)
{
	struct follow *f = user;
	if (!err && status->state != JOB_DONE) {
		wait_on(f);
		return;
	}
	if (may_still_come(f, err)) {
		(void)uv_timer_start(&f->timer, on_timer, ASK_AGAIN_MS, 0);
		return;
	}
	struct follow_who who = {f->session, f->job, f->tool, f->once};
	struct err failed = {0};
	struct exec_status lost = {0};
	if (err && err->code == ERR_SANDBOX_LOST) {
		exec_status_lost(&lost, f->job, 0, err->text);
		status = &lost;
	}
	if (follow_record_end(f->server, &who, status, status ? NULL : err->text, false, &failed) <
		0)
		log_error("%s", failed.text);
	exec_status_done(&lost);
	follow_free(f);
}

void follow_job(struct mcp_server *s, const struct follow_who *who)
{
	list_for_each (have, next, &s->follows, struct follow, link) {
		if (strcmp(have->job, who->job) != 0)
			continue;
		if (uv_is_active((uv_handle_t *)&have->timer)) { /* it has come */
			(void)uv_timer_stop(&have->timer);
			wait_on(have);
		}
		return;
	}
	struct follow *f = xcalloc(1, sizeof(*f));
	f->server = s;
	f->session = who->session;
	f->job = xstrdup(who->job);
	f->tool = xstrdup(who->tool);
	f->once = who->once;
	f->since_us = clock_monotonic_us();
	(void)uv_timer_init(s->config.loop, &f->timer);
	f->timer.data = f;
	list_append(&s->follows, &f->link);
	session_hold(f->session);
	wait_on(f);
}

static int is_there(void *user, struct session *s)
{
	(void)user;
	(void)s;
	return 1;
}

struct wanted {
	const struct audit_job *job;
	struct session *session;
};

static int is_wanted(void *user, struct session *s)
{
	struct wanted *w = user;
	if (strcmp(session_handle(s), w->job->session) != 0)
		return 0;
	w->session = s;
	return 1;
}

static void on_open_job(void *user, const struct audit_job *j)
{
	struct mcp_server *s = user;
	struct wanted w = {j, NULL};
	if (!id_valid('j', j->job) || !sessions_each(s->config.sessions, NULL, is_wanted, &w))
		return;
	session_note_job(w.session, j->job);
	follow_job(s, &(struct follow_who){w.session, j->job, j->tool, true});
}

void follow_restored(struct mcp_server *s)
{
	if (s->config.sessions && sessions_each(s->config.sessions, NULL, is_there, NULL))
		audit_each_open_job(s->config.audit, on_open_job, s);
}

void follow_drop_all(struct mcp_server *s)
{
	list_for_each (f, next, &s->follows, struct follow, link)
		follow_free(f);
}
