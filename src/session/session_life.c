/* session_life.c: how a session is kept and ends (session_open.c: how it begins); see
 * session.h.
 *
 *   live ── sandbox gone ──▶ lost ── 2 minutes ──┐
 *     └───── close, TTL, eviction ───────────────┴▶ closing ── nothing left ──▶ closed ▶ freed
 *
 * In each of them the link is told first (every operation on its way ends with a reason), then the
 * provider destroys the sandbox. exec, files and link stay until the session is freed, so that
 * whoever holds it can go on asking and is told why not. */
#include "session/session.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "exec/exec.h"
#include "files/files.h"
#include "secret/vault.h"
#include "session/session_internal.h"
#include "store/store.h"

static void on_timer(uv_timer_t *t);

/* ---- time ---- */

/* Makes the timer due in at most so long. */
void session_due_in(struct sessions *m, uint64_t us)
{
	uint64_t ms = us / USEC_PER_MSEC + (us % USEC_PER_MSEC != 0);
	if (!uv_is_active((uv_handle_t *)&m->timer) || uv_timer_get_due_in(&m->timer) > ms)
		(void)uv_timer_start(&m->timer, on_timer, ms, 0);
}

static uint64_t left(uint64_t from_us, uint64_t length_us, uint64_t now_us)
{
	uint64_t end = from_us + length_us;
	return end > now_us ? end - now_us : 0;
}

static uint64_t idle_left(const struct session *s, uint64_t now_us)
{
	uint64_t idle = left(s->asked_us,
		policy_limits(s->all->config.policy, s->principal)->idle_ttl_s * USEC_PER_SEC,
		now_us);
	return MAX(idle, left(s->check_us, 0, now_us));
}

static uint64_t absolute_left(const struct session *s, uint64_t now_us)
{
	return left(s->born_us,
		policy_limits(s->all->config.policy, s->principal)->absolute_ttl_s * USEC_PER_SEC,
		now_us);
}

uint64_t session_left_us(const struct session *s, uint64_t now_us)
{
	if (!s->all)
		return 0;
	if (s->state == SESSION_POOLED)
		return absolute_left(s, now_us);
	if (s->state == SESSION_LOST)
		return left(s->lost_us, SESSION_GRACE_US, now_us);
	return MIN(idle_left(s, now_us), absolute_left(s, now_us));
}

void session_asked(struct session *s)
{
	s->asked_us = clock_boottime_us();
}

void session_hold(struct session *s)
{
	s->holds++;
}

/* ---- the end ---- */

void session_free(struct session *s)
{
	if (s->all && s->all->latest == s)
		s->all->latest = NULL;
	list_remove(&s->sessions);
	exec_free(s->exec);
	files_free(s->files);
	link_close(s->link);
	vault_grant_free(s->grant);
	session_profile_done(&s->profile);
	free(s->principal);
	free(s->ref);
	free(s->leftovers);
	free(s->why_closed);
	free(s->why_lost);
	explicit_bzero(s->key, sizeof(s->key));
	free(s->jobs);
	free(s);
}

void session_release(struct session *s)
{
	CHECK(s->holds > 0);
	s->holds--;
	session_asked(s);
	if (s->holds > 0)
		return;
	if (!s->all)
		session_free(s);
	else /* at once where it only waited for this; else to see when it will have been idle */
		session_due_in(
			s->all, s->state >= SESSION_CLOSING ? 0 : session_left_us(s, s->asked_us));
}

static void on_destroyed(void *user, const char *leftovers)
{
	struct session *s = user;
	s->destroyed = true;
	if (leftovers) {
		log_warning("sandbox %s left something behind: %s", s->sandbox_id, leftovers);
		s->leftovers = xstrdup(leftovers);
	}
	session_due_in(s->all, 0);
}

void session_destroy(struct session *s)
{
	struct sandbox *sandbox = TAKE_PTR(s->sandbox);
	if (sandbox)
		s->profile.provider->destroy(sandbox, on_destroyed, s);
}

/* What will be done all the same. */
static void record_after(struct session *s)
{
	struct err err;
	if (session_record_put(s, &err) < 0)
		log_warning("the record of %s is not what it is: %s", s->sandbox_id, err.text);
}

void session_begin_close(struct session *s, const char *why)
{
	struct err gone;
	if (s->state >= SESSION_CLOSING)
		return;
	s->state = SESSION_CLOSING;
	s->why_closed = xstrdup(why);
	record_after(s);
	(void)err_set(&gone, ERR_CANCELLED, 0, "the session was closed (%s)", why);
	if (s->link)
		link_fail(s->link, &gone);
	session_destroy(s);
	session_due_in(s->all, 0);
}

/* The sandbox ended by itself. */
static void become_lost(struct session *s, const struct err *why)
{
	if (s->state == SESSION_POOLED) {
		log_info("a sandbox that was kept ready is lost: %s", why->text);
		session_begin_close(s, "it was lost");
		pool_lost(s->all->pool);
	}
	if (s->state != SESSION_LIVE)
		return;
	s->state = SESSION_LOST;
	s->lost_us = clock_boottime_us();
	s->why_lost = xstrdup(why->text);
	record_after(s);
	session_audit_after(s, "session.lost", why->text);
	session_due_in(s->all, SESSION_GRACE_US);
}

/* Everything of it is gone: says so. (In this order: a broker that dies in between says it again,
 * which is known from the log; the other way round nobody would.) */
static void end_close(struct session *s)
{
	s->state = SESSION_CLOSED;
	if (!s->why_closed) /* handed over */
		return;
	if (s->handle[0])
		session_audit_after(s, "session.close", s->why_closed);
	session_record_end(s);
}

static void tell_waiters(struct session *s)
{
	while (!list_empty(&s->waiters)) {
		struct session_waiter *w =
			container_of(s->waiters.next, struct session_waiter, waiters);
		list_remove(&w->waiters);
		w->done(w->user, s->leftovers);
		free(w);
	}
}

void session_close(struct session *s, const char *why,
	void (*done)(void *user, const char *leftovers), void *user)
{
	if (done) {
		struct session_waiter *w = xcalloc(1, sizeof(*w));
		w->done = done;
		w->user = user;
		list_append(&s->waiters, &w->waiters);
	}
	session_begin_close(s, why);
	session_due_in(s->all, 0);
}

/* ---- what the sandbox and its link say ---- */

static void on_exited(void *user, const struct err *why)
{
	struct session *s = user;
	/* The link may not exist yet; it is made right after create(). */
	link_fail(s->link, why);
}

/* Once code may run in it no other sandbox can take its place: on record before it is asked for
 * anything. */
static void note_made(struct session *s)
{
	struct err err;
	if (s->made)
		return;
	s->made = true;
	if (session_record_put(s, &err) < 0)
		link_fail(s->link, &err);
}

static void on_ready(void *user, const struct link_hello *hello)
{
	struct session *s = user;
	s->ready = true;
	note_made(s);
	session_due_in(s->all, 0); /* its lease is renewed */
	if (s->found)
		session_learn(s);
	log_debug("sandbox %s is up: scb-agent %s (%s)", s->sandbox_id, hello->build,
		hello->features);
	session_kernel_ready(s);
}

static void on_link_lost(void *user, const struct err *why)
{
	struct session *s = user;
	s->link_over = true;
	if (!s->ready && why->code == ERR_PROTOCOL)
		session_audit_after(s, "link.auth_failed", why->text);
	if (session_unborn(s)) {
		session_due_in(s->all, 0);
		return;
	}
	s->asking = 0;
	become_lost(s, why);
	session_destroy(s);
	session_kernel_lost(s);
	session_due_in(s->all, 0);
}

/* An agent could say it without end, and a count loses nothing by being told late. */
#define AUTH_EVENT_US (10 * USEC_PER_SEC)

static void on_agent_event(void *user, uint16_t event, struct tlv_reader msg)
{
	struct session *s = user;
	uint64_t count = 0, now = clock_boottime_us();
	if (event != EVENT_AUTH_FAILED ||
		(s->auth_event_us && now - s->auth_event_us < AUTH_EVENT_US))
		return;
	for (struct tlv t; tlv_next(&msg, &t);)
		if (t.tag == TAG_COUNT && tlv_get_u64(&t, &count) < 0)
			return;
	s->auth_event_us = now;
	_cleanup_free_ char *detail = xasprintf(
		"agent-reported: %llu peers could not show the key", (unsigned long long)count);
	session_audit_after(s, "link.auth_failed", detail);
}

static const struct link_events link_events = {
	.ready = on_ready, .lost = on_link_lost, .event = on_agent_event};
const struct sandbox_events session_sandbox_events = {.exited = on_exited};

int session_attach(struct session *s, int fd, bool found, const char *kernels_dir,
	const char *workspace, struct err *err)
{
	int r = link_new(s->all->config.loop, fd, s->key, &link_events, s, &s->link);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot watch the sandbox's link: %s",
			uv_strerror(r));
	if (s->sandbox && s->sandbox->link_tears)
		link_tears(s->link);
	if (s->sandbox && s->sandbox->explain_ms)
		link_explained_within(s->link, s->sandbox->explain_ms);
	if (s->sandbox && s->sandbox->hello_ms)
		link_answers_within(s->link, s->sandbox->hello_ms);
	if (found)
		link_found(s->link);
	s->found = found;
	s->exec = exec_new(s->link, kernels_dir, workspace);
	session_kernel_init(s);
	s->files = files_new(s->link);
	files_set_workspace(s->files, workspace);
	files_set_mounts(s->files, s->profile.mounts, s->profile.n_mounts);
	return 0;
}

/* ---- keeping and reaping ---- */

static void on_jobs(void *user, struct exec_status *jobs, size_t n, const struct err *err)
{
	struct session *s = user;
	bool busy = false;
	(void)err; /* the link is lost: that ends it elsewhere */
	s->checking = false;
	for (size_t i = 0; i < n; i++)
		busy |= jobs[i].state != JOB_DONE;
	if (busy)
		s->check_us = clock_boottime_us() + SESSION_BUSY_US;
	else if (!s->holds && idle_left(s, clock_boottime_us()) == 0)
		session_begin_close(s, "idle for too long");
	session_due_in(s->all, 0);
}

/* A job that runs keeps its session, asked for or not. */
static void check_idle(struct session *s, uint64_t now)
{
	if (s->holds || s->checking || idle_left(s, now))
		return;
	s->checking = true;
	(void)exec_list(s->exec, on_jobs, s);
}

static void renew_lease(struct session *s, uint64_t now)
{
	static const struct link_stream_events nobody_waits = {0};
	struct link_stream *stream;
	uint64_t lease_ms = SESSION_LEASE_MS;
	if (!link_ready(s->link) || (s->renewed_us && left(s->renewed_us, SESSION_RENEW_US, now)))
		return;
	s->renewed_us = now;
	if (s->all->config.outlive &&
		s->state == SESSION_LIVE) /* should this broker die, the agent keeps the TTLs */
		lease_ms = MAX(
			lease_ms, MIN(idle_left(s, now), absolute_left(s, now)) / USEC_PER_MSEC);
	_cleanup_buf_ struct buf b = BUF_INIT(64);
	if (tlv_u64(&b, TAG_LEASE_MS, MIN(lease_ms, UINT32_MAX)) == 0 &&
		link_open(s->link, OP_LEASE, &b, &nobody_waits, NULL, &stream) < 0)
		log_debug("the lease of sandbox %s was not renewed this time", s->sandbox_id);
}

/* How long until something is to be done about a live or lost session. */
static uint64_t next_deadline(const struct session *s, uint64_t now)
{
	uint64_t us = session_left_us(s, now);
	if (s->state <= SESSION_LIVE) {
		if (s->holds || s->checking)
			us = absolute_left(s, now);
		us = MIN(us, s->renewed_us ? left(s->renewed_us, SESSION_RENEW_US, now)
					   : SESSION_RENEW_US);
	}
	return MAX(us, USEC_PER_MSEC);
}

static void tend(struct session *s, uint64_t now)
{
	if (s->state <= SESSION_LIVE) {
		renew_lease(s, now);
		if (absolute_left(s, now) == 0)
			session_begin_close(s, "its longest life is over");
		else if (s->state == SESSION_LIVE)
			check_idle(s, now);
	} else if (s->state == SESSION_LOST && session_left_us(s, now) == 0) {
		session_begin_close(s, "its sandbox was lost");
	}
}

static void on_timer_closed(uv_handle_t *h)
{
	struct sessions *m = container_of((uv_timer_t *)h, struct sessions, timer);
	if (m->closed)
		m->closed(m->closed_user);
	free(m);
}

static void on_pool_closed(void *user)
{
	struct sessions *m = user;
	uv_close((uv_handle_t *)&m->timer, on_timer_closed);
}

/* Every sandbox is destroyed: what is still held is left to its holders. */
static void end_sessions(struct sessions *m)
{
	m->ended = true;
	m->latest = NULL;
	list_for_each (s, next, &m->sessions, struct session, sessions) {
		s->all = NULL;
		list_remove(&s->sessions);
		if (!s->holds)
			session_free(s);
	}
	pool_close(m->pool, m->detaching, on_pool_closed, m);
}

/* How long until they are looked through again. */
static uint64_t sweep_tombs(struct sessions *m, uint64_t now)
{
	if (!m->tombs || m->closing)
		return UINT64_MAX;
	if (now >= m->tombs_us) {
		m->tombs = session_record_sweep(m->config.store);
		m->tombs_us = now + SESSION_TOMB_US / 10;
	}
	return m->tombs ? m->tombs_us - now : UINT64_MAX;
}

static void on_timer(uv_timer_t *t)
{
	struct sessions *m = container_of(t, struct sessions, timer);
	uint64_t now = clock_boottime_us(), next_us = UINT64_MAX;
	unsigned open = 0;
	if (!sessions_all_restored(m, now))
		next_us = m->restore_us - now;
	next_us = MIN(next_us, sweep_tombs(m, now));
	list_for_each (s, next, &m->sessions, struct session, sessions) {
		tend(s, now);
		if (s->state == SESSION_CLOSING && s->destroyed && s->link_over)
			end_close(s);
		if (s->state == SESSION_CLOSED)
			tell_waiters(s);
		open += s->state != SESSION_CLOSED;
		if (s->state == SESSION_CLOSED && !s->holds)
			session_free(s);
		else if (s->state < SESSION_CLOSING)
			next_us = MIN(next_us, next_deadline(s, now));
	}
	if (m->closing && open == 0 && !m->ended)
		end_sessions(m);
	else if (next_us != UINT64_MAX)
		session_due_in(m, next_us);
}

/* ---- all of them ---- */

void sessions_policy_changed(struct sessions *m)
{
	pool_policy_changed(m->pool);
	session_due_in(m, 0);
}

struct sessions *sessions_new(const struct sessions_config *c)
{
	struct sessions *m = xcalloc(1, sizeof(*m));
	m->config = *c;
	list_init(&m->sessions);
	(void)uv_timer_init(c->loop, &m->timer);
	m->pool = pool_new(m);
	return m;
}

void sessions_close(struct sessions *m, void (*done)(void *user), void *user)
{
	m->closing = true;
	m->closed = done;
	m->closed_user = user;
	list_for_each (s, next, &m->sessions, struct session, sessions) {
		session_begin_close(s, "the broker ended");
	}
	session_due_in(m, 0);
}

void sessions_detach(struct sessions *m, void (*done)(void *user), void *user)
{
	struct err gone;
	(void)err_set(&gone, ERR_CANCELLED, 0, "the broker hands its sandboxes over");
	m->closing = m->detaching = true;
	m->closed = done;
	m->closed_user = user;
	list_for_each (s, next, &m->sessions, struct session, sessions) {
		if (s->state >= SESSION_CLOSING)
			continue;           /* that goes on */
		s->state = SESSION_CLOSING; /* but not on record */
		s->destroyed |= s->sandbox != NULL;
		if (s->sandbox)
			s->profile.provider->leave(TAKE_PTR(s->sandbox));
		link_fail(s->link, &gone);
	}
	session_due_in(m, 0);
}
