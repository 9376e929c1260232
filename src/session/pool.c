/* pool.c: what is kept ready, so that a new session does not wait: the kernel template, and a few
 * complete sandboxes with a kernel that has been forked and warmed up.
 *
 * Both begin a little after the first session was asked for, in the background, and serve one
 * profile and principal: those used last, with the limits of now. What is ready belongs to nobody,
 * counts against no cap, and has run no code. */
#include "session/session.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "exec/exec.h"
#include "session/session_internal.h"

/* The first call is not to be slowed down by what makes the second one fast. */
#define BEGIN_MS 500
/* A refill follows a session that has just been given away, and perhaps others that find nothing
 * ready: let them go first. */
#define REFILL_MS 200
/* After something has failed. */
#define RETRY_MS 10000

struct pool {
	struct sessions *all;
	uv_timer_t timer;
	bool used; /* profile and limits are set */
	struct session_profile profile;
	struct provider_wait provider;
	char *principal;
	struct policy_limits limits; /* those that its sandboxes were made with */
	struct template *template;
	bool no_template; /* this host has none */
	void (*closed)(void *user);
	void *closed_user;
};

static void on_timer(uv_timer_t *t);

static void due_in(struct pool *p, uint64_t ms)
{
	uv_timer_t *t = &p->timer;
	if (p->all->closing || !p->used)
		return;
	if (!uv_is_active((uv_handle_t *)t) || uv_timer_get_due_in(t) > ms)
		(void)uv_timer_start(t, on_timer, ms, 0);
}

/* ---- the template ---- */

static void on_template(void *user)
{
	struct pool *p = user;
	enum template_state state = template_state(p->template);
	p->no_template |= state == TEMPLATE_REFUSED;
	due_in(p, state == TEMPLATE_FORKS ? 0 : REFILL_MS);
}

/* True once nothing better will come soon than what there is. */
static bool template_settled(struct pool *p)
{
	struct sessions *m = p->all;
	/* A kernel of this host's Python would find another system's libraries around it, and an
	 * image's own must not run outside sandboxes with what entering them takes (SPEC.md,
	 * "Images"). */
	if (p->profile.root)
		return true;
	if (p->template && template_state(p->template) >= TEMPLATE_OVER) {
		template_close(TAKE_PTR(p->template), true, NULL, NULL);
		due_in(p, RETRY_MS);
		return true;
	}
	if (p->template)
		return template_state(p->template) == TEMPLATE_FORKS;
	if (p->no_template || !p->profile.provider->fork_kernel)
		return true;
	const struct template_spec spec = {m->config.runtime_dir, m->config.kernels_dir};
	struct err err;
	if (template_start(m->config.loop, &spec, on_template, p, &p->template, &err) == 0)
		return false;
	log_info("no kernel template: %s", err.text);
	p->no_template = true;
	return true;
}

struct template *pool_template(struct pool *p)
{
	bool can = p->template && template_state(p->template) == TEMPLATE_FORKS;
	return can ? p->template : NULL;
}

/* ---- sandboxes ---- */

static bool same_profile(const struct session_profile *a, const struct session_profile *b)
{
	bool same = a->provider == b->provider && a->n_mounts == b->n_mounts &&
		    strcmp(a->root ? a->root : "", b->root ? b->root : "") == 0;
	for (size_t i = 0; same && i < a->n_mounts; i++)
		same = strcmp(a->mounts[i].name, b->mounts[i].name) == 0 &&
		       strcmp(a->mounts[i].source, b->mounts[i].source) == 0;
	return same;
}

/* Of what a sandbox is made with. */
static bool same_limits(const struct policy_limits *a, const struct policy_limits *b)
{
	return a->memory == b->memory && a->workspace == b->workspace && a->tmp == b->tmp &&
	       a->shm == b->shm && a->cpus == b->cpus && a->pids == b->pids;
}

/* Those that one principal's sandboxes have. */
static const struct policy_limits *limits_of(const struct pool *p, const char *principal)
{
	return policy_limits(p->all->config.policy, principal);
}

static uint32_t wanted(const struct pool *p)
{
	return limits_of(p, NULL)->pool;
}

/* Drops all that would not be given away; how many are left. */
static uint32_t keep_fitting(struct pool *p)
{
	uint32_t n = 0;
	list_for_each (s, next, &p->all->sessions, struct session, sessions) {
		if (s->state != SESSION_POOLED)
			continue;
		if (n < wanted(p))
			n++;
		else
			session_begin_close(s, "no longer kept ready");
	}
	return n;
}

static void drop_all(struct pool *p)
{
	list_for_each (s, next, &p->all->sessions, struct session, sessions) {
		if (s->state == SESSION_POOLED)
			session_begin_close(s, "others are kept ready now");
	}
}

/* Would one of them be given away? */
static bool permitted(struct pool *p)
{
	struct policy_decision d;
	struct capabilities caps;
	sessions_capabilities(p->all, &p->profile, &caps);
	return session_permit(p->all->config.policy, p->principal, &p->profile, &caps, &d);
}

static void on_timer(uv_timer_t *t)
{
	struct pool *p = t->data;
	const struct policy_limits *l = limits_of(p, p->principal);
	if (p->all->closing) /* it was due already: one made now would be closed by nobody */
		return;
	if (p->provider.waits ||
		provider_await(p->all->config.loop, p->profile.provider->name, &p->provider))
		return;
	bool may = permitted(p);
	if (!may || !same_limits(&p->limits, l))
		drop_all(p);
	p->limits = *l;
	if (!may || (wanted(p) && !template_settled(p)))
		return;
	if (keep_fitting(p) >= wanted(p))
		return;
	struct session *s;
	struct err err;
	if (session_make_pooled(p->all, &p->profile, &p->limits, &s, &err) < 0) {
		log_info("no sandbox is kept ready: %s", err.text);
		due_in(p, RETRY_MS);
		return;
	}
	exec_kernel_prepare(s->exec);
	due_in(p, REFILL_MS);
}

struct session *pool_take(
	struct pool *p, const struct session_profile *profile, const char *principal)
{
	const struct policy_limits *l = limits_of(p, principal);
	if (!p->used || !same_profile(&p->profile, profile) || !same_limits(&p->limits, l))
		return NULL;
	/* The oldest is the readiest. */
	list_for_each (s, next, &p->all->sessions, struct session, sessions) {
		if (s->state == SESSION_POOLED)
			return s;
	}
	return NULL;
}

void pool_policy_changed(struct pool *p)
{
	due_in(p, 0);
}

void pool_lost(struct pool *p)
{
	due_in(p, RETRY_MS);
}

void pool_used(struct pool *p, const struct session_profile *profile, const char *principal)
{
	const struct policy_limits *l = limits_of(p, principal);
	if (!p->used || !same_profile(&p->profile, profile) || !same_limits(&p->limits, l)) {
		if (p->used) {
			drop_all(p);
			session_profile_done(&p->profile);
		}
		session_profile_copy(profile, &p->profile);
		p->limits = *l;
		p->used = true;
	}
	if (!p->principal || strcmp(p->principal, principal) != 0) {
		free(p->principal);
		p->principal = xstrdup(principal);
	}
	due_in(p, p->template || p->no_template ? REFILL_MS : BEGIN_MS);
}

/* ---- the beginning and the end ---- */

static void on_provider_known(void *user)
{
	due_in(user, 0);
}

struct pool *pool_new(struct sessions *m)
{
	struct pool *p = xcalloc(1, sizeof(*p));
	p->provider = (struct provider_wait){.done = on_provider_known, .user = p};
	p->all = m;
	(void)uv_timer_init(m->config.loop, &p->timer);
	p->timer.data = p;
	return p;
}

static void on_timer_closed(uv_handle_t *h)
{
	struct pool *p = h->data;
	void (*closed)(void *user) = p->closed;
	void *user = p->closed_user;
	if (p->used)
		session_profile_done(&p->profile);
	free(p->principal);
	free(p);
	closed(user);
}

static void on_template_closed(void *user)
{
	struct pool *p = user;
	uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

void pool_close(struct pool *p, bool in_use, void (*done)(void *user), void *user)
{
	p->closed = done;
	p->closed_user = user;
	provider_wait_cancel(&p->provider);
	if (p->template)
		template_close(TAKE_PTR(p->template), in_use, on_template_closed, p);
	else
		on_template_closed(p);
}
