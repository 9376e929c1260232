/* session_kernel.c: the default kernel of a session: forked from the template where there is one
 * that can, started plainly where not; what comes of it does not differ. */
#include "exec/exec.h"
#include "session/session_internal.h"

#include "base/log.h"

static void give(struct session *s, int ends[4])
{
	s->kernel_asked = false;
	exec_kernel_spawned(s->exec, ends);
}

static void on_forked(void *user, int ends[4], const struct err *err)
{
	struct session *s = user;
	if (err)
		log_info("sandbox %s: its kernel is started plainly: %s", s->sandbox_id, err->text);
	give(s, ends);
}

/* False: on_forked() will not be called. */
static bool begin_fork(struct session *s)
{
	struct err err;
	struct template *t = pool_template(s->all->pool);
	if (!t)
		return false;
	bool touch = s->state == SESSION_POOLED; /* nobody waits for it */
	int r = s->profile.provider->fork_kernel(s->sandbox, t, touch, on_forked, s, &err);
	if (r < 0)
		log_info("sandbox %s: its kernel is started plainly: %s", s->sandbox_id, err.text);
	return r == 0;
}

void session_kernel_ready(struct session *s)
{
	if (s->kernel_asked && !begin_fork(s))
		give(s, NULL);
}

void session_kernel_lost(struct session *s)
{
	/* The provider calls nobody back once the sandbox is destroyed. */
	if (s->kernel_asked)
		give(s, NULL);
}

/* exec_spawner.spawn */
static int spawn(void *user)
{
	struct session *s = user;
	if (s->state > SESSION_LIVE || !s->all || !s->profile.provider->fork_kernel ||
		s->profile.root || /* see pool.c, template_settled() */
		!pool_template(s->all->pool))
		return -1;
	s->kernel_asked = !link_ready(s->link) || begin_fork(s);
	return s->kernel_asked ? 0 : -1;
}

void session_kernel_init(struct session *s)
{
	const struct exec_spawner spawner = {.spawn = spawn, .user = s};
	exec_set_spawner(s->exec, &spawner);
}
