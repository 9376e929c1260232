/* parts.c: see parts.h. */
#include "cli/parts.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "cli/paths.h"
#include "files/outputs.h"
#include "mcp/build.h"
#include "mcp/server.h"
#include "policy/watch.h"
#include "provider/provider.h"
#include "secret/vault.h"
#include "session/session.h"
#include "store/store.h"

/* Sandboxes that are being taken down get so long. */
#define END_MAX_MS 5000

#define SOLO_CHAINS_MAX 64

static void sweep_one(const char *dir)
{
	int n = provider_sweep(dir);
	if (n > 0)
		log_info("removed what %d sandboxes of an scb that is gone had left", n);
}

static int open_places(struct parts *p, struct err *err)
{
	const struct settings *s = p->settings;
	int r = paths_state(s->state, &p->state, err);
	if (r == 0)
		r = paths_outputs(s->outputs, &p->outputs_dir, err);
	if (r == 0)
		r = p->solo ? paths_runtime(&p->runtime, &p->runtime_lock, err)
			    : paths_runtime_of_state(p->state, &p->runtime, &p->runtime_lock, err);
	if (r < 0)
		return r;
	paths_sweep(p->runtime, sweep_one);
	/* what has no directory any more is found from anywhere */
	sweep_one(p->runtime);
	p->agent = provider_agent_path();
	p->kernels = provider_kernels_dir();
	return 0;
}

static int open_store(struct parts *p, struct err *err)
{
	if (p->solo) { /* a sandbox lives no longer than this process */
		int r = store_memory_open(&p->store);
		return r < 0 ? err_set(err, ERR_INTERNAL, -r, "no store") : 0;
	}
	_cleanup_free_ char *dir = xasprintf("%s/store", p->state);
	return store_file_open(dir, &p->store, err);
}

/* Which policy is in force. */
static int audit_policy(
	const struct parts *p, const char *event, const char *detail, struct err *err)
{
	const char *path = policy_path(p->policy);
	_cleanup_free_ char *text = xasprintf(
		"generation %llu: %s", (unsigned long long)policy_generation(p->policy), detail);
	const struct audit_event e = {
		.event = event,
		.path = path ? path : "built-in",
		.sha256 = path ? policy_sha256(p->policy) : NULL,
		.detail = text,
	};
	return audit_event(p->audit, &e, err);
}

/* A chain of its own for each solo process that runs at a time: the first that nobody writes. */
static int open_solo_chain(struct parts *p, const char *key, struct err *err)
{
	_cleanup_free_ char *all = xasprintf("%s/solo", p->state);
	int r = -EBUSY;
	if (mkdir(all, 0700) < 0 && errno != EEXIST)
		return err_set(err, ERR_AUDIT_UNAVAILABLE, errno, "%.200s cannot be made: %s", all,
			strerror(errno));
	for (int i = 1; r == -EBUSY && i <= SOLO_CHAINS_MAX; i++) {
		_cleanup_free_ char *dir = xasprintf("%s/%d", all, i);
		_cleanup_free_ char *path = xasprintf("%s/audit.jsonl", dir);
		(void)!mkdir(dir, 0700); /* else audit_open() says why */
		r = audit_open(path, key, policy_audit(p->policy), &p->audit, err);
	}
	return r;
}

/* A broker that was killed a moment ago may not be quite gone. */
static int open_broker_chain(struct parts *p, const char *key, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/audit.jsonl", p->state);
	int r = audit_open(path, key, policy_audit(p->policy), &p->audit, err);
	for (int i = 0; r == -EBUSY && i < 200; i++) {
		clock_wait_us(5 * USEC_PER_MSEC);
		r = audit_open(path, key, policy_audit(p->policy), &p->audit, err);
	}
	return r;
}

static int open_audit(struct parts *p, struct err *err)
{
	_cleanup_free_ char *key = NULL;
	int r = paths_audit_key(&key, err);
	if (r == 0)
		r = p->solo ? open_solo_chain(p, key, err) : open_broker_chain(p, key, err);
	if (r < 0)
		return r;
	const struct audit_event e = {.event = "broker.start", .detail = build.version};
	r = audit_event(p->audit, &e, err);
	return r < 0 ? r : audit_policy(p, "policy.load", "in force", err);
}

static void on_policy_changed(void *user)
{
	parts_reload_policy(user);
}

void parts_reload_policy(struct parts *p)
{
	struct err why, err;
	int r = policy_reload(p->policy, &why);
	if (r == 0)
		return;
	if (r < 0) {
		_cleanup_free_ char *detail = xasprintf("failed, the rules stay: %s", why.text);
		log_error("the policy stays as it was: %s", why.text);
		r = audit_policy(p, "policy.reload", detail, &err);
	} else {
		log_info("policy generation %llu is in force",
			(unsigned long long)policy_generation(p->policy));
		r = audit_configure(p->audit, policy_audit(p->policy), &err);
		if (r == 0)
			r = audit_policy(p, "policy.reload", "in force", &err);
		if (p->sessions)
			sessions_policy_changed(p->sessions);
		if (p->policy_changed)
			p->policy_changed(p->policy_user);
	}
	if (r < 0) /* then no call is answered either */
		log_error("%s", err.text);
}

struct restoring {
	uv_loop_t *loop;
	bool done;
};

static void on_restored(void *user)
{
	struct restoring *r = user;
	r->done = true;
	uv_stop(r->loop); /* it would first wait for what comes next */
}

static void open_sessions(struct parts *p)
{
	struct restoring restoring = {&p->loop, p->solo};
	const struct sessions_config config = {
		.loop = &p->loop,
		.policy = p->policy,
		.audit = p->audit,
		.store = p->store,
		.vault = p->vault,
		.runtime_dir = p->runtime,
		.agent_path = p->agent,
		.kernels_dir = p->kernels,
		.outlive = !p->solo,
	};
	p->sessions = sessions_new(&config);
	if (!p->solo)
		sessions_restore(p->sessions, on_restored, &restoring);
	/* Before anybody asks: then all that there is is known. */
	while (!restoring.done)
		(void)uv_run(&p->loop, UV_RUN_ONCE);
}

static void mask_log(void *user, char *line, size_t n)
{
	vault_mask(user, line, n);
}

static void open_outputs(struct parts *p)
{
	if (outputs_open(p->outputs_dir, &p->outputs, &p->no_outputs) < 0)
		log_warning("present_output will not work: %s", p->no_outputs.text);
	else
		(void)outputs_expire(p->outputs);
}

static void open_server(struct parts *p)
{
	const struct mcp_config config = {
		.loop = &p->loop,
		.policy = p->policy,
		.audit = p->audit,
		.store = p->store,
		.vault = p->vault,
		.sessions = p->sessions,
		.outputs = p->outputs,
		.no_outputs = p->outputs ? NULL : &p->no_outputs,
	};
	p->server = mcp_server_new(&config);
}

int parts_open(struct parts *p, const struct settings *settings, bool solo, struct err *err)
{
	*p = (struct parts){.settings = settings, .solo = solo, .runtime_lock = -1};
	CHECK(uv_loop_init(&p->loop) == 0);
	int r = open_places(p, err);
	if (r == 0)
		r = settings_policy(settings, &p->policy, NULL, err);
	if (r == 0)
		r = open_audit(p, err);
	if (r == 0)
		r = open_store(p, err);
	if (r < 0)
		return r;
	p->vault = vault_new();
	log_set_mask(mask_log, p->vault);
	open_sessions(p);
	open_outputs(p);
	open_server(p);
	(void)uv_timer_init(&p->loop, &p->deadline);
	p->watch = policy_watch_new(&p->loop, policy_source_path(p->policy), on_policy_changed, p);
	return 0;
}

static void on_deadline(uv_timer_t *t)
{
	(void)t;
	log_error("sandboxes did not go away within %d s; the next start of scb removes them",
		END_MAX_MS / 1000);
	_exit(1);
}

void parts_must_end(struct parts *p)
{
	(void)uv_timer_start(&p->deadline, on_deadline, END_MAX_MS, 0);
}

static void on_sessions_closed(void *user)
{
	struct parts *p = user;
	mcp_server_close(p->server);
	uv_close((uv_handle_t *)&p->deadline, NULL);
	if (p->ended)
		p->ended(p->ended_user);
}

void parts_end(struct parts *p, void (*done)(void *user), void *user)
{
	struct sessions *all = TAKE_PTR(p->sessions);
	CHECK(all);
	p->ended = done;
	p->ended_user = user;
	policy_watch_close(TAKE_PTR(p->watch));
	sessions_close(all, on_sessions_closed, p);
}

void parts_abandon(struct parts *p)
{
	parts_end(p, NULL, NULL);
	(void)uv_run(&p->loop, UV_RUN_DEFAULT);
}

void parts_close(struct parts *p)
{
	outputs_close(p->outputs);
	if (p->store)
		p->store->ops->close(p->store);
	log_set_mask(NULL, NULL);
	vault_free(p->vault);
	audit_close(p->audit);
	policy_free(p->policy);
	if (p->runtime) {
		/* what was still dying at the start */
		sweep_one(p->runtime);
		paths_sweep(p->runtime, sweep_one);
		paths_runtime_remove(p->runtime);
	}
	fd_closep(&p->runtime_lock);
	free(p->state);
	free(p->outputs_dir);
	free(p->runtime);
	free(p->agent);
	free(p->kernels);
	(void)uv_loop_close(&p->loop);
}
