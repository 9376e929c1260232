/* solo.c: `scb serve --solo`: one host on stdin and stdout, everything in one process, and nothing
 * that outlives it but the audit log and presented files. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/limits.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/gather.h"
#include "cli/parts.h"
#include "cli/serve.h"
#include "mcp/frontsecret.h"
#include "mcp/server.h"
#include "mcp/stdio.h"
#include "session/session.h"

struct solo {
	struct parts parts;
	struct err no_provider;
	struct session_profile profile;
	struct mcp_conn *conn;
	struct stdio *stdio;
	uv_signal_t signals[3];
	uv_timer_t shutdown;
	char principal[32];
	struct gather *gather; /* secrets from variables and programs */
	struct vault_giver *giver;
	uv_timer_t gathering;
	bool ending;
};

/* ---- the end ---- */

static void on_ended(void *user)
{
	struct solo *s = user;
	stdio_close(s->stdio);
}

/* From the loop, not from inside whatever noticed the end. */
static void on_shutdown(uv_timer_t *t)
{
	struct solo *s = t->data;
	uv_close((uv_handle_t *)&s->shutdown, NULL);
	uv_close((uv_handle_t *)&s->gathering, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(s->signals); i++)
		uv_close((uv_handle_t *)&s->signals[i], NULL);
	parts_must_end(&s->parts);
	stdio_stop(s->stdio);
	mcp_conn_close(s->conn);
	parts_end(&s->parts, on_ended, s);
}

static void begin_end(struct solo *s)
{
	if (s->ending)
		return;
	s->ending = true;
	(void)uv_timer_start(&s->shutdown, on_shutdown, 0, 0);
}

static void on_signal(uv_signal_t *h, int number)
{
	struct solo *s = h->data;
	if (number == SIGHUP)
		parts_reload_policy(&s->parts);
	else
		begin_end(s);
}

static void on_line(void *user, const char *line, size_t n)
{
	struct solo *s = user;
	mcp_conn_message(s->conn, &(struct mcp_message){.p = line, .n = n});
}

static void on_closed(void *user)
{
	begin_end(user);
}

static const struct stdio_events stdio_events = {on_line, on_closed};

/* ---- secrets ---- */

/* Between two looks at programs that print them. */
#define GATHER_MS 20

static void on_gather(uv_timer_t *t)
{
	struct solo *s = t->data;
	struct gather_answer a;
	bool some = false;
	gather_work(s->gather);
	for (; gather_answer(s->gather, &a); gather_given(s->gather)) {
		some = true;
		if (a.value)
			vault_give(s->giver, a.value);
		else
			vault_give_nothing(s->giver, a.name, a.why);
	}
	if (gather_done(s->gather))
		(void)uv_timer_stop(t);
	if (some)
		mcp_server_secrets(s->parts.server);
}

/* As a broker asks its front. */
static void ask_for_secrets(struct solo *s)
{
	json_t *wanted = frontsecret_wanted(s->parts.vault, s->principal);
	char *text = json_dumps(wanted, JSON_COMPACT);
	struct err err;
	CHECK(text);
	vault_giver_ask(s->giver);
	if (gather_ask(s->gather, text, strlen(text), &err) < 0)
		log_error("%s", err.text);
	free(text);
	json_decref(wanted);
	(void)uv_timer_start(&s->gathering, on_gather, GATHER_MS, GATHER_MS);
	on_gather(&s->gathering);
}

static void on_policy_changed(void *user)
{
	struct solo *s = user;
	if (s->ending)
		return;
	sessions_secrets_reload(s->parts.sessions);
	ask_for_secrets(s);
}

static void begin_secrets(struct solo *s)
{
	(void)uv_timer_init(&s->parts.loop, &s->gathering);
	s->gathering.data = s;
	s->gather = gather_new();
	sessions_secrets_know(s->parts.sessions, s->principal);
	s->giver = vault_giver_new(s->parts.vault, s->principal);
	s->parts.policy_changed = on_policy_changed;
	s->parts.policy_user = s;
	ask_for_secrets(s);
}

/* ---- the start ---- */

static int choose_provider(struct solo *s, const struct settings *settings, struct err *err)
{
	const char *name = settings->provider ? settings->provider : getenv("BROKER_PROVIDER");
	s->profile.mounts = settings->mounts;
	s->profile.n_mounts = settings->n_mounts;
	s->profile.root = settings->root;
	provider_await_now(name);
	if (provider_select(name, &s->profile.provider, &s->no_provider) == 0)
		return 0;
	if (s->no_provider.code == ERR_INVALID_ARGUMENT) {
		*err = s->no_provider;
		return -EINVAL;
	}
	/* The server starts all the same, and its tools say why. */
	log_warning("%s", s->no_provider.text);
	return 0;
}

/* What no sandbox can be held to here is told at the start. */
static int check_provider(struct solo *s, struct err *err)
{
	struct policy_decision d;
	struct capabilities caps;
	if (!s->profile.provider)
		return 0;
	sessions_capabilities(s->parts.sessions, &s->profile, &caps);
	if (session_permit_held(s->parts.policy, s->profile.provider, &caps, &d))
		return 0;
	return err_set(err, ERR_POLICY_DENIED, EPERM, "%s", d.reason);
}

static void start(struct solo *s, const struct settings *settings, int fd_out)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
	uv_loop_t *loop = &s->parts.loop;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		(void)uv_signal_init(loop, &s->signals[i]);
		s->signals[i].data = s;
		(void)uv_signal_start(&s->signals[i], on_signal, numbers[i]);
	}
	(void)uv_timer_init(loop, &s->shutdown);
	s->shutdown.data = s;

	(void)snprintf(s->principal, sizeof(s->principal), "uid:%u", getuid());
	begin_secrets(s);
	CHECK(stdio_new(loop, STDIN_FILENO, fd_out, &stdio_events, s, &s->stdio) == 0);
	const struct mcp_conn_config conn = {
		.principal = s->principal,
		.host = settings->name,
		.profile = &s->profile,
		.no_provider = s->profile.provider ? NULL : &s->no_provider,
	};
	s->conn = mcp_conn_new(s->parts.server, stdio_transport(s->stdio), &conn);
}

int solo_serve(const struct settings *settings, int fd_out)
{
	struct solo s = {0};
	struct err err = {0};
	int r = choose_provider(&s, settings, &err);
	if (r < 0)
		return cli_failed(&err);
	r = parts_open(&s.parts, settings, true, &err);
	if (r == 0) {
		r = check_provider(&s, &err);
		if (r < 0)
			parts_abandon(&s.parts);
	}
	if (r == 0) {
		start(&s, settings, fd_out);
		(void)uv_run(&s.parts.loop, UV_RUN_DEFAULT);
	}
	gather_free(s.gather);
	vault_giver_free(s.giver);
	parts_close(&s.parts);
	return r < 0 ? cli_failed(&err) : 0;
}
