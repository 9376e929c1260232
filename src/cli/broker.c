/* broker.c: `scb broker`: what all fronts of a state directory share. Started by start.c, not by
 * hand: with the state directory's lock and a pipe for its readiness.
 *
 * It ends in one of two ways. Where nobody uses it (no front, no session): orderly, with its pool.
 * Where it is told to all the same, by a signal, or because a newer build takes over: it lets go of
 * everything where it stands, as after a kill -9, and its sandboxes live on for the next broker. In
 * both the socket goes first, under the lock. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "cli/address.h"
#include "cli/cli.h"
#include "cli/parts.h"
#include "cli/paths.h"
#include "cli/reach.h"
#include "cli/serve.h"
#include "cli/start.h"
#include "cli/web.h"
#include "mcp/fronts.h"
#include "mcp/server.h"
#include "session/session.h"

/* A host that restarts its server finds the broker still there. */
#define GRACE_MS 3000

struct broker {
	struct parts parts;
	char *socket, *log;
	struct fronts *fronts;
	uv_signal_t signals[3];
	uv_timer_t idle, shutdown;
	bool ending;
	struct web *web;    /* NULL: no HTTP */
	bool in_foreground; /* started by hand, for HTTP: it ends by a signal alone */
};

/* ---- the end ---- */

static int some_session(void *user, struct session *s)
{
	(void)user;
	(void)s;
	return 1;
}

static bool in_use(const struct broker *b)
{
	return fronts_count(b->fronts) > 0 ||
	       sessions_each(b->parts.sessions, NULL, some_session, NULL) != 0;
}

/* Nobody uses it any more: the next one is started as whoever needs it says. */
static void withdraw(struct broker *b)
{
	address_remove(b->parts.state);
	(void)unlink(b->socket);
}

static void on_web_closed(void *user)
{
	struct broker *b = user;
	fronts_close(b->fronts);
	parts_end(&b->parts, NULL, NULL);
}

/* From the loop, not from inside whatever noticed that nobody is there. */
static void on_shutdown(uv_timer_t *t)
{
	struct broker *b = t->data;
	uv_close((uv_handle_t *)&b->shutdown, NULL);
	uv_close((uv_handle_t *)&b->idle, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(b->signals); i++)
		uv_close((uv_handle_t *)&b->signals[i], NULL);
	parts_must_end(&b->parts);
	web_close(TAKE_PTR(b->web), on_web_closed, b);
}

static void end_unused(void *user)
{
	struct broker *b = user;
	if (b->ending)
		return;
	b->ending = true;
	withdraw(b);
	fronts_leave(b->fronts);
	(void)uv_timer_start(&b->shutdown, on_shutdown, 0, 0);
}

static void on_idle(uv_timer_t *t)
{
	struct broker *b = t->data;
	if (fronts_count(b->fronts) > 0) /* the next change starts it again */
		(void)uv_timer_stop(&b->idle);
	else if (!in_use(b) && !b->in_foreground)
		end_unused(b);
}

static void on_fronts_changed(void *user)
{
	struct broker *b = user;
	if (fronts_count(b->fronts) > 0)
		(void)uv_timer_stop(&b->idle);
	else if (!uv_is_active((uv_handle_t *)&b->idle))
		(void)uv_timer_start(&b->idle, on_idle, GRACE_MS, GRACE_MS);
}

/* Everything that a later broker needs is written down already. */
static void let_go(struct broker *b, const char *why)
{
	struct err err;
	b->ending = true;
	if (fronts_count(b->fronts) == 0 &&
		!sessions_each(b->parts.sessions, NULL, some_session, NULL))
		address_remove(b->parts.state);
	(void)unlink(b->socket); /* the rest of the address says how to start its successor */
	fronts_leave(b->fronts);
	const struct audit_event e = {.event = "broker.leave", .detail = why};
	if (audit_event(b->parts.audit, &e, &err) < 0)
		log_warning("%s", err.text);
	audit_close(b->parts.audit);
	paths_runtime_remove(b->parts.runtime); /* where no sandbox is left in it */
}

static void on_signal(uv_signal_t *h, int number)
{
	struct broker *b = h->data;
	if (b->ending)
		return;
	if (number == SIGHUP) {
		parts_reload_policy(&b->parts);
		if (b->web)
			web_reload(b->web);
		return;
	}
	if (in_use(b)) {
		let_go(b, "by a signal");
		_exit(0);
	}
	end_unused(b);
}

static void hand_over(void *user, int fd)
{
	struct broker *b = user;
	let_go(b, "a newer scb takes over");
	int r = fronts_pass_lock(fd, START_LOCK_FD);
	if (r < 0) /* the lock then goes with this process */
		log_warning("the lock could not be handed over: %s", strerror(-r));
	_exit(0);
}

/* ---- the start ---- */

/* Under the lock: what has the name is of a broker that is gone. */
static int listen_at(const char *path, struct err *err)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address.sun_path))
		return err_set(err, ERR_INVALID_ARGUMENT, ENAMETOOLONG,
			"the path of the runtime directory is too long for a socket: %.200s; set "
			"XDG_RUNTIME_DIR to a shorter one",
			path);
	memcpy(address.sun_path, path, strlen(path) + 1);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(fd, 128) < 0)
		return err_set(err, ERR_IO, errno, "the socket %s: %s", path, strerror(errno));
	return TAKE_FD(fd);
}

static void on_policy_changed(void *user)
{
	struct broker *b = user;
	if (b->ending)
		return;
	fronts_secrets_reload(b->fronts);
	if (b->web)
		web_secrets_reload(b->web);
}

static int open_door(struct broker *b, struct err *err)
{
	b->socket = xasprintf("%s/broker", b->parts.runtime);
	int fd = listen_at(b->socket, err);
	if (fd < 0)
		return fd;
	const struct fronts_config config = {
		.loop = &b->parts.loop,
		.server = b->parts.server,
		.sessions = b->parts.sessions,
		.policy = b->parts.policy,
		.vault = b->parts.vault,
		.outputs = b->parts.outputs_dir,
		.state = b->parts.state,
		.stays = b->in_foreground,
		.changed = on_fronts_changed,
		.unused = end_unused,
		.hand_over = hand_over,
		.user = b,
	};
	b->fronts = fronts_new(&config, fd);
	b->parts.policy_changed = on_policy_changed;
	b->parts.policy_user = b;
	return address_write(b->parts.state, b->socket, b->parts.settings, err);
}

static void prepare(struct broker *b)
{
	b->log = xasprintf("%s/broker.log", b->parts.state);
	log_bound_file(b->log, LIMIT_BROKER_LOG);
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
	uv_loop_t *loop = &b->parts.loop;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		(void)uv_signal_init(loop, &b->signals[i]);
		b->signals[i].data = b;
		(void)uv_signal_start(&b->signals[i], on_signal, numbers[i]);
	}
	(void)uv_timer_init(loop, &b->idle);
	(void)uv_timer_init(loop, &b->shutdown);
	b->idle.data = b->shutdown.data = b;
}

static int run(const struct settings *settings, const struct web_settings *web, struct err *err)
{
	struct broker b = {.in_foreground = web};
	int r = parts_open(&b.parts, settings, false, err);
	if (r == 0) {
		prepare(&b);
		r = open_door(&b, err);
	}
	if (r == 0 && web)
		r = web_open(&b.parts, web, &b.web, err);
	if (r < 0) {
		if (b.socket)
			withdraw(&b);
		if (!web)
			start_failed(err);
		return r;
	}
	on_fronts_changed(&b); /* whoever started it may have gone */
	if (!web)
		start_ready();
	(void)uv_run(&b.parts.loop, UV_RUN_DEFAULT);
	parts_close(&b.parts);
	free(b.socket);
	log_bound_file(NULL, 0);
	free(b.log);
	return 0;
}

/* Its descriptors are those that start.c gives. */
static int take_descriptors(const char *state, struct err *err)
{
	_cleanup_free_ char *dir = NULL;
	int r = paths_state(state, &dir, err);
	if (r < 0)
		return r;
	if (!state || !address_is_lock(dir, START_LOCK_FD))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"`scb broker` is started by `scb serve` and other commands, not by hand");
	if (fd_set_cloexec(START_LOCK_FD, true) < 0 || fd_set_cloexec(START_READY_FD, true) < 0)
		return err_set(err, ERR_INTERNAL, errno, "descriptors: %s", strerror(errno));
	address_lock_sign(START_LOCK_FD);
	return 0;
}

int cli_broker(int argc, char **argv)
{
	struct settings settings;
	struct err err = {0};
	const struct option_table tables[] = {{settings_options, &settings}, {0}};
	settings_init(&settings);
	int r = serve_harden(START_READY_FD + 1);
	if (r < 0)
		(void)err_set(&err, ERR_INTERNAL, -r, "cannot start: %s", strerror(-r));
	if (r == 0)
		r = options_parse(argc, argv, tables, NULL, &err);
	if (r == 0)
		r = take_descriptors(settings.state, &err);
	if (r == 0) {
		r = settings_check(&settings, &err);
		if (r < 0)
			start_failed(&err);
		else
			r = run(&settings, NULL, &err);
	}
	settings_done(&settings);
	return r < 0 ? cli_failed(&err) : 0;
}

/* The lock at the place where a hand-over looks for it. */
static int place_lock(int lock, struct err *err)
{
	int r = lock == START_LOCK_FD ? 0 : dup3(lock, START_LOCK_FD, O_CLOEXEC);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, errno, "descriptors: %s", strerror(errno));
	if (lock != START_LOCK_FD)
		(void)close(lock);
	address_lock_sign(START_LOCK_FD);
	return 0;
}

int broker_serve_http(
	const struct settings *settings, const struct web_settings *web, struct err *err)
{
	_cleanup_free_ char *state = NULL;
	int r = paths_state(settings->state, &state, err);
	int lock = r < 0 ? r : reach_lock(state, err);
	r = lock < 0 ? lock : place_lock(lock, err);
	return r < 0 ? r : run(settings, web, err);
}
