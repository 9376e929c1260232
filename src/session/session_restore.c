/* session_restore.c: sessions that an earlier broker has left; see session.h.
 *
 * The store says what there was, the provider whether it still is, the agent what has become of it.
 * What is gone gets a link that is lost already: so it is told like any other loss. */
#include "session/session.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "exec/exec.h"
#include "files/files.h"
#include "session/session_internal.h"
#include "store/store.h"

static struct session *from_record(struct sessions *m, struct session_record *r)
{
	struct policy_limits l = *policy_limits(m->config.policy, r->principal);
	session_record_limits(r, &l);
	struct session *s = session_new(m, &r->profile, &l);
	memcpy(s->handle, r->handle, sizeof(s->handle));
	memcpy(s->sandbox_id, r->sandbox_id, sizeof(s->sandbox_id));
	memcpy(s->closed_by, r->closed_by, sizeof(s->closed_by));
	memcpy(s->key, r->key, sizeof(s->key));
	s->principal = TAKE_PTR(r->principal);
	s->ref = TAKE_PTR(r->ref);
	s->implicit = r->implicit;
	s->made = r->made;
	s->state = SESSION_LIVE;
	s->found = s->once = true;
	/* The longest life counts from its beginning, by the only clock that is older than this
	 * boot; the idle TTL from now. */
	uint64_t now = clock_realtime_us();
	uint64_t age = now - MIN(now, r->created_us);
	s->created_us = r->created_us;
	s->born_us -= MIN(s->born_us, age);
	if (s->handle[0])
		session_secrets_restore(s, r->secrets);
	return s;
}

/* Its sandbox, if it is still there. */
static int find_sandbox(struct session *s, struct err *why)
{
	const struct provider *p = s->profile.provider;
	int r = p->connect(
		s->all->config.loop, s->ref, &session_sandbox_events, s, &s->sandbox, why);
	if (r == 0)
		s->caps = s->sandbox->caps;
	else /* what it will have been */
		p->capabilities(&(struct sandbox_spec){0}, &s->caps);
	return r;
}

/* Everything that is asked of it answers why. */
static void attach_lost(struct session *s, const struct err *why)
{
	int ends[2];
	struct err err;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	(void)close(ends[1]);
	CHECK(session_attach(s, ends[0], true, "/", "/workspace", &err) == 0);
	s->destroyed = true;
	link_fail(s->link, why);
}

/* A session that was live: it is again, or it is lost. */
static void go_on(struct session *s)
{
	struct err why;
	list_append(&s->all->sessions, &s->sessions);
	s->asking = 1; /* until its link is ready, or lost */
	if (!s->sandbox && find_sandbox(s, &why) < 0) {
		log_info("sandbox %s was not found again: %s", s->sandbox_id, why.text);
		(void)err_wrap(&why, "it was not found again when the broker started");
		attach_lost(s, &why);
		return;
	}
	/* As many are open as were in the broker before. */
	CHECK(session_attach(s, TAKE_FD(s->sandbox->link_fd), true, s->sandbox->kernels_dir,
		      s->sandbox->workspace, &why) == 0);
	session_secrets_send(s);
}

/* One in whose sandbox nothing can have run: it is found, or made now. */
static void open_again(struct session *s)
{
	struct err err;
	if (find_sandbox(s, &err) < 0) {
		s->found = false;
		provider_await_now(s->profile.provider->name); /* nobody is served yet */
		if (session_make(s, &err) < 0)
			log_warning("a session of an earlier broker was not opened: %s", err.text);
		return;
	}
	go_on(s);
}

bool session_unborn(const struct session *s)
{
	return s->found && s->asking && !s->made && s->state == SESSION_LIVE && s->sandbox &&
	       s->sandbox->link_tears;
}

/* Nobody has been served yet, so that nothing stands on what is freed here. */
static void make_anew(struct session *s)
{
	struct err err;
	struct sandbox *old = TAKE_PTR(s->sandbox);
	log_info("sandbox %s is made anew: its agent never answered", s->sandbox_id);
	exec_free(TAKE_PTR(s->exec));
	files_free(TAKE_PTR(s->files));
	link_close(TAKE_PTR(s->link));
	list_remove(&s->sessions);
	s->found = s->link_over = s->secrets_sent = false;
	s->asking = 0;
	old->provider->destroy(old, NULL, NULL); /* as far as the new one leaves anything of it */
	provider_await_now(s->profile.provider->name);
	if (session_make(s, &err) < 0)
		log_warning("a session of an earlier broker was not opened: %s", err.text);
}

/* One that was being closed: the end of that. */
static void close_again(struct session *s, const char *reason)
{
	struct err why;
	list_append(&s->all->sessions, &s->sessions);
	s->link_over = true;
	s->destroyed = find_sandbox(s, &why) < 0;
	s->state = SESSION_LIVE;
	session_begin_close(s, reason ? reason : "closed by an earlier broker");
}

static void stay_lost(struct session *s, const char *reason)
{
	struct err why;
	list_append(&s->all->sessions, &s->sessions);
	s->asking = 1;
	if (find_sandbox(s, &why) == 0) /* it was about to be destroyed */
		s->sandbox->provider->destroy(TAKE_PTR(s->sandbox), NULL, NULL);
	(void)err_set(&why, ERR_SANDBOX_LOST, 0, "%s", reason ? reason : "its sandbox was lost");
	attach_lost(s, &why);
}

static int restore_one(void *user, const char *key)
{
	struct sessions *m = user;
	struct session_record r;
	struct err err;
	if (session_record_get(m->config.store, key, &r) < 0) {
		log_warning("%s in the store is no session of this version of scb", key);
		(void)m->config.store->ops->remove(m->config.store, key, &err);
		return 0;
	}
	struct session *s = from_record(m, &r);
	if (r.state == SESSION_CLOSING)
		close_again(s, r.why);
	else if (r.state == SESSION_LOST)
		stay_lost(s, r.why);
	else if (r.made)
		go_on(s);
	else
		open_again(s);
	session_record_done(&r);
	return 0;
}

static bool has_sandbox(struct sessions *m, const char *id)
{
	list_for_each (s, next, &m->sessions, struct session, sessions) {
		if (strcmp(s->sandbox_id, id) == 0)
			return true;
	}
	return false;
}

/* One that was kept ready: others are made when they are wanted. Where it had just been given away,
 * it is found already. */
static int drop_pooled(void *user, const char *key)
{
	struct sessions *m = user;
	struct session_record r;
	struct err err;
	if (session_record_get(m->config.store, key, &r) < 0 || has_sandbox(m, r.sandbox_id))
		(void)m->config.store->ops->remove(m->config.store, key, &err);
	else
		close_again(from_record(m, &r), "no longer kept ready");
	session_record_done(&r);
	return 0;
}

/* ---- what the agent knows ---- */

static void answered(struct session *s)
{
	if (s->asking > 0 && --s->asking == 0)
		session_due_in(s->all, 0);
}

static void on_jobs(void *user, struct exec_status *jobs, size_t n, const struct err *err)
{
	struct session *s = user;
	(void)err; /* it is lost then, and says so */
	for (size_t i = 0; i < n; i++)
		session_note_job(s, jobs[i].job);
	answered(s);
}

static void on_kernels(
	void *user, const struct exec_kernel *kernels, size_t n, const struct err *err)
{
	struct session *s = user;
	(void)err;
	for (size_t i = 0; i < n; i++)
		exec_kernel_found(s->exec, &kernels[i]);
	answered(s);
}

void session_learn(struct session *s)
{
	s->asking++;
	(void)exec_kernels(s->exec, on_kernels, s);
	(void)exec_list(s->exec, on_jobs, s); /* for the one that waited for the link */
}

bool sessions_all_restored(struct sessions *m, uint64_t now_us)
{
	static const struct err late = {.code = ERR_SANDBOX_LOST,
		.errnum = ETIMEDOUT,
		.text = "its agent did not answer when the broker started"};
	unsigned waiting = 0;
	if (!m->restore_us)
		return true;
	list_for_each (s, next, &m->sessions, struct session, sessions) {
		if (!s->asking || s->state != SESSION_LIVE)
			continue;
		if (session_unborn(s) && (s->link_over || now_us >= m->restore_us))
			make_anew(s);
		else if (now_us >= m->restore_us)
			link_fail(s->link, &late);
		else
			waiting++;
	}
	if (waiting)
		return false;
	m->restore_us = 0;
	if (m->restored)
		m->restored(m->restored_user);
	return true;
}

void sessions_restore(struct sessions *m, void (*done)(void *user), void *user)
{
	struct err err;
	m->restored = done;
	m->restored_user = user;
	m->restore_us = clock_boottime_us() + SESSION_RESTORE_US;
	m->tombs = true;
	struct store *store = m->config.store;
	if (store->ops->each(store, "session/", restore_one, m, &err) < 0 ||
		store->ops->each(store, "pool/", drop_pooled, m, &err) < 0)
		log_error("sessions of an earlier broker cannot be found: %s", err.text);
	session_due_in(m, 0);
}
