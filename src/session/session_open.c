/* session_open.c: how a session begins: with a sandbox that was kept ready, or a new one; see
 * session.h. What becomes of it is in session_life.c. */
#include "session/session.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "session/session_internal.h"

struct session *session_new(
	struct sessions *m, const struct session_profile *profile, const struct policy_limits *l)
{
	struct session *s = xcalloc(1, sizeof(*s));
	s->all = m;
	s->limits = *l;
	session_profile_copy(profile, &s->profile);
	id_new('x', s->sandbox_id);
	id_random(s->key, sizeof(s->key));
	s->created_us = clock_realtime_us();
	s->born_us = s->asked_us = clock_boottime_us();
	list_init(&s->sessions);
	list_init(&s->waiters);
	return s;
}

static void fill_spec(const struct sessions *m, const struct policy_limits *l,
	const struct session_profile *profile, const char *sandbox_id, struct sandbox_spec *ret)
{
	const struct sessions_config *c = &m->config;
	*ret = (struct sandbox_spec){
		.id = sandbox_id,
		.runtime_dir = c->runtime_dir,
		.agent_path = c->agent_path,
		.kernels_dir = c->kernels_dir,
		.memory_max = l->memory,
		.workspace_size = l->workspace,
		.tmp_size = l->tmp,
		.shm_size = l->shm,
		.cpus = l->cpus,
		.pids_max = l->pids,
		.mounts = profile->mounts,
		.n_mounts = profile->n_mounts,
		.root = profile->root,
		.lease_ms = SESSION_LEASE_MS,
		.orphan_ms = c->outlive ? (uint32_t)MIN(l->idle_ttl_s * 1000ULL, UINT32_MAX) : 0,
	};
}

/* Once create() has succeeded. */
static int attach_new(struct session *s, struct err *err)
{
	struct sandbox *sandbox = s->sandbox;
	s->caps = sandbox->caps;
	int r = session_attach(
		s, TAKE_FD(sandbox->link_fd), false, sandbox->kernels_dir, sandbox->workspace, err);
	if (r == 0)
		session_secrets_send(s);
	return r;
}

int session_make(struct session *s, struct err *err)
{
	struct sandbox_spec spec;
	struct sessions *m = s->all;
	const struct provider *p = s->profile.provider;
	fill_spec(m, &s->limits, &s->profile, s->sandbox_id, &spec);
	spec.key = s->key;
	free(s->ref);
	s->ref = p->ref(&spec);
	int r = session_record_put(s, err);
	if (r == 0)
		r = p->create(m->config.loop, &spec, &session_sandbox_events, s, &s->sandbox, err);
	if (r < 0) {
		if (s->handle[0])
			session_audit_after(s, "session.close", "no sandbox could be made");
		session_record_end(s);
		session_free(s);
		return r;
	}
	list_append(&m->sessions, &s->sessions);
	r = attach_new(s, err);
	if (r < 0) { /* it lives in the list until the sandbox is gone */
		s->state = SESSION_CLOSING;
		s->why_closed = xstrdup("it could not be reached");
		s->link_over = true;
		session_destroy(s);
		return r;
	}
	session_due_in(m, MIN(SESSION_RENEW_US, session_left_us(s, s->born_us)));
	return 0;
}

void sessions_capabilities(
	struct sessions *m, const struct session_profile *profile, struct capabilities *ret)
{
	struct sandbox_spec spec;
	fill_spec(m, policy_limits(m->config.policy, NULL), profile, "", &spec);
	profile->provider->capabilities(&spec, ret);
}

/* It becomes somebody's session. */
static void begin(
	struct session *s, const struct session_wish *wish, const char handle[static ID_TEXT_SIZE])
{
	s->state = SESSION_LIVE;
	s->principal = xstrdup(wish->principal);
	s->implicit = wish->implicit;
	s->once = wish->delivery && wish->delivery->replayed;
	memcpy(s->handle, handle, ID_TEXT_SIZE);
	s->created_us = clock_realtime_us();
	s->born_us = s->asked_us = clock_boottime_us();
}

static int open_new(struct sessions *m, const struct session_wish *wish,
	const char handle[static ID_TEXT_SIZE], struct session **ret, struct err *err)
{
	struct sandbox_spec spec;
	struct session *s =
		session_new(m, wish->profile, policy_limits(m->config.policy, wish->principal));
	begin(s, wish, handle);
	if (wish->delivery) /* what is on record of it stays true */
		delivery_id(wish->delivery, 'x', s->sandbox_id);
	fill_spec(m, &s->limits, &s->profile, s->sandbox_id, &spec);
	s->profile.provider->capabilities(&spec, &s->caps);
	int r = session_audit_open(s, err);
	if (r == 0)
		r = session_secrets_grant(s, err);
	if (r < 0) {
		session_free(s);
		return r;
	}
	*ret = s;
	return session_make(s, err);
}

/* As open_new(), with a sandbox that was kept ready. */
static int open_pooled(struct session *s, const struct session_wish *wish,
	const char handle[static ID_TEXT_SIZE], struct err *err)
{
	begin(s, wish, handle);
	int r = session_audit_open(s, err);
	if (r == 0)
		r = session_secrets_grant(s, err);
	if (r == 0) {
		r = session_record_put(s, err);
		if (r < 0)
			session_audit_after(s, "session.close", "it could not be recorded");
	}
	if (r < 0) {
		s->handle[0] = '\0';
		session_begin_close(s, "it could not be given away");
		return r;
	}
	session_record_remove_pooled(s);
	session_secrets_send(s);
	session_due_in(s->all, MIN(SESSION_RENEW_US, session_left_us(s, s->born_us)));
	return 0;
}

int session_make_pooled(struct sessions *m, const struct session_profile *profile,
	const struct policy_limits *l, struct session **ret, struct err *err)
{
	struct session *s = session_new(m, profile, l);
	s->state = SESSION_POOLED;
	*ret = s;
	return session_make(s, err);
}

/* One that its delivery has made already. */
static struct session *made_before(
	struct sessions *m, const struct session_wish *wish, const char handle[static ID_TEXT_SIZE])
{
	list_for_each (s, next, &m->sessions, struct session, sessions) {
		if ((s->state == SESSION_LIVE || s->state == SESSION_LOST) &&
			strcmp(s->handle, handle) == 0 &&
			strcmp(s->principal, wish->principal) == 0)
			return s;
	}
	return NULL;
}

/* Refused by the policy: on record, and an error. */
static int permit(struct sessions *m, const struct session_wish *wish, struct err *err)
{
	struct policy_decision d;
	struct capabilities caps;
	sessions_capabilities(m, wish->profile, &caps);
	if (session_permit(m->config.policy, wish->principal, wish->profile, &caps, &d))
		return 0;
	const struct audit_event e = {
		.event = "policy.decision",
		.principal = wish->principal,
		.provider = wish->profile->provider->name,
		.isolation_level = caps.isolation_level,
		.policy_rule = d.rule,
		.policy_denied = true,
		.detail = d.reason,
	};
	int r = audit_event(m->config.audit, &e, err);
	return r < 0 ? r : err_set(err, ERR_POLICY_DENIED, EPERM, "%s", d.reason);
}

int sessions_open(
	struct sessions *m, const struct session_wish *wish, struct session **ret, struct err *err)
{
	char handle[ID_TEXT_SIZE];
	if (m->closing)
		return err_set(err, ERR_CANCELLED, ECANCELED, "the broker is ending");
	delivery_id(wish->delivery ? wish->delivery : &(struct delivery){0}, 's', handle);
	*ret = made_before(m, wish, handle);
	if (*ret)
		return 0;
	int r = permit(m, wish, err);
	if (r == 0)
		r = sessions_make_room(m, wish->principal,
			policy_limits(m->config.policy, wish->principal)->sessions_principal, err);
	if (r == 0)
		r = sessions_make_room(
			m, NULL, policy_limits(m->config.policy, NULL)->sessions, err);
	if (r < 0)
		return r;
	struct session *s = pool_take(m->pool, wish->profile, wish->principal);
	r = s ? open_pooled(s, wish, handle, err) : open_new(m, wish, handle, &s, err);
	if (r < 0)
		return r;
	pool_used(m->pool, wish->profile, wish->principal);
	*ret = s;
	return 0;
}
