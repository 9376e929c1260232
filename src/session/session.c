/* session.c: who may have which session: handles, jobs, caps; see session.h. How a session begins
 * is in session_open.c, how it ends in session_life.c. */
#include "session/session.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "exec/exec.h"
#include "session/session_internal.h"

/* One that is kept ready is nobody's. */
static bool is_of(const struct session *s, const char *principal)
{
	return s->principal && strcmp(s->principal, principal) == 0;
}

static bool findable(const struct session *s)
{
	return s->state == SESSION_LIVE || s->state == SESSION_LOST;
}

/* ---- finding ---- */

int sessions_find(struct sessions *m, const char *principal, const char *handle,
	struct session **ret, struct err *err)
{
	char wanted[ID_TEXT_SIZE] = "";
	struct session *found = NULL;
	if (id_valid('s', handle))
		memcpy(wanted, handle, sizeof(wanted));
	/* Every handle is compared to its end, so that time tells nothing about any of them. */
	list_for_each (s, next, &m->sessions, struct session, sessions) {
		bool same = id_equal(s->handle, wanted, sizeof(wanted));
		if (same && findable(s) && is_of(s, principal))
			found = s;
	}
	if (!found)
		return err_set(err, ERR_NO_SUCH_SESSION, ENOENT,
			"No such session: it is unknown, closed or expired. Leave out `session` or "
			"call the session tool with action \"open\" to get a new one.");
	session_asked(found);
	m->latest = found;
	*ret = found;
	return 0;
}

void sessions_expect(struct sessions *m, const char *handle)
{
	struct session *s = m->latest;
	if (s && s->state == SESSION_LIVE && s->link && strlen(handle) == strlen(s->handle) &&
		id_equal(s->handle, handle, strlen(handle)))
		link_expect(s->link);
}

int sessions_each(struct sessions *m, const char *principal,
	int (*fn)(void *user, struct session *s), void *user)
{
	list_for_each (s, next, &m->sessions, struct session, sessions) {
		if (!findable(s) || (principal && !is_of(s, principal)))
			continue;
		int r = fn(user, s);
		if (r != 0)
			return r;
	}
	return 0;
}

static enum sandbox_use use_of(const struct session *s)
{
	return s->state == SESSION_POOLED ? SANDBOX_READY
	       : s->state == SESSION_LIVE ? SANDBOX_LIVE
	       : s->state == SESSION_LOST ? SANDBOX_LOST
					  : SANDBOX_ENDING;
}

void sessions_sandboxes(struct sessions *m,
	void (*fn)(void *user, const char *provider, enum sandbox_use use, size_t kernels),
	void *user)
{
	list_for_each (s, next, &m->sessions, struct session, sessions)
		if (s->state != SESSION_CLOSED)
			fn(user, s->profile.provider->name, use_of(s),
				s->exec ? exec_kernels_known(s->exec) : 0);
}

static bool has_job(const struct session *s, const uint8_t id[static ID_BYTES])
{
	bool has = false;
	for (size_t i = 0; i < s->n_jobs; i++)
		has |= id_equal(s->jobs[i], id, ID_BYTES);
	return has;
}

int sessions_find_job(struct sessions *m, const char *principal, const char *job,
	struct session **ret, struct err *err)
{
	uint8_t id[ID_BYTES];
	struct session *found = NULL;
	if (id_valid('j', job) && id_unhex(job + 2, id, sizeof(id)) == 0) {
		list_for_each (s, next, &m->sessions, struct session, sessions) {
			bool has = has_job(s, id);
			if (has && findable(s) && is_of(s, principal))
				found = s;
		}
	}
	if (!found)
		return err_set(err, ERR_NO_SUCH_JOB, ENOENT,
			"No such job: it is unknown, or its session was closed or expired. Call "
			"the "
			"job tool with action \"list\" and a session to see its jobs.");
	session_asked(found);
	m->latest = found;
	*ret = found;
	return 0;
}

void session_note_job(struct session *s, const char *job)
{
	uint8_t id[ID_BYTES];
	if (!id_valid('j', job) || id_unhex(job + 2, id, sizeof(id)) < 0)
		return;
	/* One's own list: nothing is learned from how long this takes. */
	for (size_t i = 0; i < s->n_jobs; i++)
		if (s->job_marks[i] == id[0] && memcmp(s->jobs[i], id, ID_BYTES) == 0)
			return;
	if (s->n_jobs < LIMIT_JOBS) {
		s->jobs = xrealloc(s->jobs, (s->n_jobs + 1) * sizeof(*s->jobs));
		s->n_jobs++;
	}
	memcpy(s->jobs[s->next_job], id, sizeof(id));
	s->job_marks[s->next_job] = id[0];
	s->next_job = (s->next_job + 1) % LIMIT_JOBS;
}

/* ---- what it is ---- */

void session_profile_copy(const struct session_profile *from, struct session_profile *ret)
{
	struct sandbox_mount *mounts = xcalloc(MAX(from->n_mounts, 1U), sizeof(*mounts));
	for (size_t i = 0; i < from->n_mounts; i++)
		mounts[i] = (struct sandbox_mount){
			xstrdup(from->mounts[i].name), xstrdup(from->mounts[i].source)};
	*ret = (struct session_profile){
		from->provider, mounts, from->n_mounts, from->root ? xstrdup(from->root) : NULL};
}

void session_profile_done(struct session_profile *p)
{
	for (size_t i = 0; i < p->n_mounts; i++) {
		free((char *)p->mounts[i].name);
		free((char *)p->mounts[i].source);
	}
	free((struct sandbox_mount *)p->mounts);
	free((char *)p->root);
	*p = (struct session_profile){0};
}

bool session_lost(const struct session *s)
{
	return s->state != SESSION_LIVE;
}

const char *session_handle(const struct session *s)
{
	return s->handle;
}

const char *session_principal(const struct session *s)
{
	return s->principal;
}

const struct provider *session_provider(const struct session *s)
{
	return s->profile.provider;
}

const struct capabilities *session_capabilities(const struct session *s)
{
	return &s->caps;
}

const struct session_profile *session_profile(const struct session *s)
{
	return &s->profile;
}

const struct policy_limits *session_limits(const struct session *s)
{
	return &s->limits;
}

const char *session_sandbox_id(const struct session *s)
{
	return s->sandbox_id;
}

struct exec *session_exec(struct session *s)
{
	return s->exec;
}

struct files *session_files(struct session *s)
{
	return s->files;
}

uint64_t session_created_us(const struct session *s)
{
	return s->created_us;
}

uint64_t session_expires_us(const struct session *s)
{
	return clock_realtime_us() + session_left_us(s, clock_boottime_us());
}

/* ---- caps ---- */

/* The one that had to go before its time, for a new one: lost ones first, then implicit ones that
 * nobody has named for two minutes, the longest forgotten first. */
static struct session *evictable(struct sessions *m, const char *principal)
{
	struct session *best = NULL;
	uint64_t now = clock_boottime_us();
	list_for_each (s, next, &m->sessions, struct session, sessions) {
		if (principal && !is_of(s, principal))
			continue;
		if (s->state == SESSION_LOST)
			return s;
		if (s->state != SESSION_LIVE || !s->implicit || s->holds ||
			now < s->asked_us + SESSION_GRACE_US)
			continue;
		if (!best || s->asked_us < best->asked_us)
			best = s;
	}
	return best;
}

/* Sessions of one principal (NULL: of all) that count against the caps. */
static uint32_t count(struct sessions *m, const char *principal)
{
	uint32_t n = 0;
	list_for_each (s, next, &m->sessions, struct session, sessions) {
		if (s->state != SESSION_POOLED && s->state < SESSION_CLOSING &&
			(!principal || is_of(s, principal)))
			n++;
	}
	return n;
}

int sessions_make_room(struct sessions *m, const char *principal, uint32_t max, struct err *err)
{
	while (count(m, principal) >= max) {
		struct session *s = evictable(m, principal);
		if (!s && principal)
			return err_set(err, ERR_LIMIT_REACHED, EMFILE,
				"%u sessions are open, as many as one caller may have: pass the "
				"`session` of one of them, or close one (session tool, actions "
				"\"list\" and \"close\")",
				max);
		if (!s)
			return err_set(err, ERR_LIMIT_REACHED, EMFILE,
				"no more sessions can be opened at the moment: close one (session "
				"tool, action \"close\"; or `scb sessions list` and `scb sessions "
				"close`), or try again later");
		session_close(s, "evicted for a new one", NULL, NULL);
	}
	return 0;
}

/* ---- deliveries ---- */

void session_set_closer(struct session *s, const struct delivery *d)
{
	if (s->state < SESSION_CLOSING)
		delivery_text(d, s->closed_by);
}

bool sessions_closed_by(struct sessions *m, const char *principal, const struct delivery *d,
	struct session_closed *ret)
{
	char text[DELIVERY_TEXT];
	delivery_text(d, text);
	if (!text[0])
		return false;
	list_for_each (s, next, &m->sessions, struct session, sessions) { /* being closed still */
		if (s->state >= SESSION_CLOSING && is_of(s, principal) &&
			strcmp(s->closed_by, text) == 0) {
			ret->ending = s;
			memcpy(ret->handle, s->handle, ID_TEXT_SIZE);
			memcpy(ret->sandbox_id, s->sandbox_id, ID_TEXT_SIZE);
			return true;
		}
	}
	ret->ending = NULL;
	return session_record_closed_by(m->config.store, principal, text, ret);
}
