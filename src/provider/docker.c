/* docker.c: a container of an engine that speaks Docker's API: Docker with runc or gVisor's runsc,
 * Podman.
 *
 * The agent is PID 1; nothing is ever run by `exec` or copied by the engine. create, attach, start
 * follow one another on the loop.
 *
 * Where the engine is on this host the link is a unix socket that the agent is given through a door
 * (docker_door.h), and what is attached is only read for what the agent prints. The engine has then
 * no part in the link, and may be away. Else the link is the container's stdio, as the engine
 * attaches it, and the agent's configuration, with its key, goes into it before the container
 * starts.
 *
 * The engine is asked why a container ended once the link, or the attached stream, has ended.
 *
 * Without a terminal: a terminal's other end is a device in the container (/dev/console) that code
 * of the same uid could open, and so speak in the agent's place. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "provider/address.h"
#include "provider/docker_door.h"
#include "provider/docker_engine.h"
#include "provider/docker_facts.h"
#include "provider/docker_pipe.h"
#include "provider/docker_spec.h"
#include "provider/hosted.h"
#include "provider/probe.h"
#include "provider/record.h"
#include "wire/frame.h"

/* A busy engine takes seconds to make or end a container; a minute means that it hangs. */
#define CALL_US  (60 * USEC_PER_SEC)
#define RETRY_MS 200
/* An engine that is away while the link goes on. */
#define AWAY_RETRY_MS 1000
/* An engine that is restarted is back within seconds. */
#define AWAY_US (15 * USEC_PER_SEC)
/* Its stream has ended, and the engine still calls it running: so long until that is believed. */
#define LINGER_US (2 * USEC_PER_SEC)
/* So long removing is tried of an engine that is away, and of one that is busy. */
#define REMOVE_US      (30 * USEC_PER_SEC)
#define REMOVE_BUSY_US (5 * CALL_US)
/* An engine that was asked for a container and did not answer may make it so much later. */
#define UNANSWERED_US (20 * USEC_PER_SEC)
/* From the first request to the agent's answer: an engine that is asked for many containers at once
 * makes some of them last. */
#define HELLO_MS (CALL_US / USEC_PER_MSEC)
/* Until it is known why a link ended. */
#define EXPLAIN_MS ((AWAY_US + 2 * LINGER_US) / USEC_PER_MSEC)

enum step { STEP_CREATE, STEP_ATTACH, STEP_START, STEP_RUN, STEP_ENDED };

struct box {
	struct sandbox base;
	uv_loop_t *loop;
	struct sandbox_events events;
	void *user;
	char *name, *endpoint;
	struct record record;
	enum step step;
	struct http_client *call; /* on its way */
	json_t *wish;             /* body of create */
	struct buf boot;          /* by stdio: what the agent reads first */
	/* The link's socket; NULL: it is stdio. door: until the agent has come. */
	char *socket_path, *workdir;
	struct docker_door *door;
	struct watch *watch;
	int pipe_fd; /* the other end of base.link_fd, until there is a pipe */
	struct docker_pipe *pipe;
	struct buf said; /* the beginning of its stderr */
	uv_timer_t timer;
	bool inherited;  /* an earlier broker asked for it */
	bool unanswered; /* the engine has not said whether it made it */
	bool found, replaced, told, engine_was_away;
	bool link_over, stream_over; /* of the socket; of what is attached */
	uint64_t since_us;           /* its stream or link has ended, or it is being removed */
	bool destroying;
	void (*done)(void *user, const char *leftovers);
	void *done_user;
	char *leftovers;
};

/* ---- the end of a link that is a socket ---- */

struct watch {
	uv_poll_t poll;
	int fd; /* the link's, once more */
	struct box *box;
};

static void on_watch_closed(uv_handle_t *h)
{
	struct watch *w = container_of((uv_poll_t *)h, struct watch, poll);
	fd_closep(&w->fd);
	free(w);
}

static void watch_end(struct watch *w)
{
	if (w)
		uv_close((uv_handle_t *)&w->poll, on_watch_closed);
}

static void link_over(struct box *b);

static void on_hang_up(uv_poll_t *poll, int status, int events)
{
	struct watch *w = container_of(poll, struct watch, poll);
	if (status == 0 && !(events & UV_DISCONNECT))
		return;
	(void)uv_poll_stop(poll);
	link_over(w->box);
}

static int watch_link(struct box *b)
{
	struct watch *w = xcalloc(1, sizeof(*w));
	w->box = b;
	w->fd = fcntl(b->base.link_fd, F_DUPFD_CLOEXEC, 3);
	int r = w->fd < 0 ? -errno : uv_poll_init(b->loop, &w->poll, w->fd);
	if (r < 0) {
		fd_closep(&w->fd);
		free(w);
		return r;
	}
	b->watch = w;
	return uv_poll_start(&w->poll, UV_DISCONNECT, on_hang_up);
}

/* ---- the end ---- */

static void on_timer_closed(uv_handle_t *h)
{
	struct box *b = container_of((uv_timer_t *)h, struct box, timer);
	void (*done)(void *user, const char *leftovers) = b->done;
	void *user = b->done_user;
	_cleanup_free_ char *leftovers = TAKE_PTR(b->leftovers);
	free(b->base.ref);
	free(b->base.kernels_dir);
	free(b->base.workspace);
	explicit_bzero(b->base.key, sizeof(b->base.key));
	free(b->name);
	free(b->socket_path);
	free(b->workdir);
	free(b->endpoint);
	json_decref(b->wish);
	buf_done(&b->boot);
	buf_done(&b->said);
	free(b);
	if (done)
		done(user, leftovers);
}

/* Nothing goes on any more. */
static void let_go(struct box *b)
{
	http_client_cancel(TAKE_PTR(b->call));
	docker_pipe_close(TAKE_PTR(b->pipe));
	docker_door_close(TAKE_PTR(b->door));
	watch_end(TAKE_PTR(b->watch));
	fd_closep(&b->base.link_fd);
	fd_closep(&b->pipe_fd);
	(void)uv_timer_stop(&b->timer);
}

static void free_box(struct box *b)
{
	let_go(b);
	fd_closep(&b->record.guard_fd);
	fd_closep(&b->record.shared_fd);
	free(b->record.path);
	uv_close((uv_handle_t *)&b->timer, on_timer_closed);
}

/* All that is left of it on this host. */
static void forget(struct box *b)
{
	if (b->socket_path)
		(void)unlink(b->socket_path);
	if (b->workdir)
		(void)record_remove_tree(b->workdir);
	record_remove(&b->record);
}

static void tell(struct box *b, const struct err *why)
{
	b->step = STEP_ENDED;
	docker_pipe_close(TAKE_PTR(b->pipe));
	if (b->told || b->destroying)
		return;
	b->told = true;
	b->events.exited(b->user, why);
}

/* ---- asking the engine ---- */

static void ask(struct box *b, const char *method, const char *path, json_t *body,
	uint64_t timeout_us, http_client_fn done)
{
	const struct docker_request req = {.method = method,
		.path = path,
		.body = body,
		.upgrade = strstr(path, "/attach?") != NULL,
		.timeout_us = timeout_us};
	struct err err;
	b->call = docker_send(b->loop, b->endpoint, &req, done, b, &err);
	CHECK(b->call); /* the endpoint made sense before */
}

static void later(struct box *b, uv_timer_cb what, unsigned ms)
{
	(void)uv_timer_start(&b->timer, what, ms, 0);
}

static void on_removed(void *user, struct http_client_answer *a, const struct err *err);

static void remove_container(struct box *b)
{
	_cleanup_free_ char *path = xasprintf("/containers/%s?force=1&v=1", b->name);
	ask(b, "DELETE", path, NULL, REMOVE_US, on_removed);
}

static void on_remove_again(uv_timer_t *t)
{
	remove_container(container_of(t, struct box, timer));
}

/* The engine knows of none; one that it was asked for may still come. */
static bool may_come(const struct box *b, uint64_t waited)
{
	return (b->inherited && record_is_fresh(&b->record)) ||
	       (b->unanswered && waited < UNANSWERED_US);
}

static void on_removed(void *user, struct http_client_answer *a, const struct err *err)
{
	struct box *b = user;
	uint64_t waited = clock_monotonic_us() - b->since_us;
	bool unborn = a && a->status == 404 && may_come(b, waited);
	b->call = NULL;
	if (a && (a->status == 204 || a->status == 404) && !unborn) {
		forget(b);
		free_box(b);
		return;
	}
	/* Being removed already, or the engine is busy, or away just now. */
	bool away = !a && err->errnum != ETIMEDOUT;
	if (waited < (away ? REMOVE_US : REMOVE_BUSY_US)) {
		later(b, on_remove_again, RETRY_MS);
		return;
	}
	/* Its record stays: the next sweep tries again. */
	b->leftovers = xasprintf(
		"container %s (%s)", b->name, err ? err->text : "the engine does not remove it");
	free_box(b);
}

/* ---- why it ended ---- */

static void on_inspected(void *user, struct http_client_answer *a, const struct err *err);

static void inspect(struct box *b)
{
	_cleanup_free_ char *path = xasprintf("/containers/%s/json", b->name);
	ask(b, "GET", path, NULL, AWAY_US, on_inspected);
}

static void on_inspect_again(uv_timer_t *t)
{
	inspect(container_of(t, struct box, timer));
}

static void explain(struct box *b, json_t *state, struct err *why)
{
	json_int_t code = json_integer_value(json_object_get(state, "ExitCode"));
	const char *error = json_string_value(json_object_get(state, "Error"));
	char text[201];
	(void)snprintf(text, sizeof(text), "%s", error && *error ? error : "");
	if (!text[0] && b->said.len)
		(void)snprintf(text, sizeof(text), "%.*s", (int)MIN(b->said.len, 200U),
			(const char *)b->said.data);
	str_make_printable(text);
	if (json_is_true(json_object_get(state, "OOMKilled")))
		(void)err_set(why, ERR_SANDBOX_LOST, ENOMEM,
			"the sandbox ran out of memory and was ended as a whole (the engine says "
			"OOMKilled, exit status %d)",
			(int)code);
	else if (code == 128 + SIGKILL && !text[0] && !b->engine_was_away)
		(void)err_set(why, ERR_SANDBOX_LOST, ECHILD,
			"the sandbox's container was killed (status %d), and the engine does not "
			"say by whom; so it ends%s when the memory does not suffice",
			(int)code,
			strcmp(b->base.caps.isolation_level, "container+gvisor") == 0
				? " with gVisor, as a whole,"
				: "");
	else
		(void)err_set(why, ERR_SANDBOX_LOST, ECHILD,
			"the sandbox's container ended with status %d%s%s%s", (int)code,
			b->engine_was_away ? " while the Docker Engine was restarted (only with "
					     "live-restore containers go on)"
					   : "",
			text[0] ? ": " : "", text);
}

static void attach(struct box *b);

static void on_attach_again(uv_timer_t *t)
{
	attach(container_of(t, struct box, timer));
}

/* The engine does not answer. */
static void engine_away(struct box *b, const struct err *err, uint64_t waited)
{
	struct err why = {0};
	b->engine_was_away = true;
	if (b->socket_path && !b->link_over) {
		later(b, on_inspect_again, AWAY_RETRY_MS);
	} else if (waited < AWAY_US) {
		later(b, on_inspect_again, RETRY_MS);
	} else {
		(void)docker_unreachable(b->endpoint, err, &why);
		why.code = ERR_SANDBOX_LOST;
		tell(b, &why);
	}
}

/* Its container goes on although a stream has ended. */
static void goes_on(struct box *b, uint64_t waited)
{
	struct err why = {0};
	if (b->socket_path && !b->link_over) {
		/* The engine was restarted, and has nobody attached now. */
		later(b, on_attach_again, AWAY_RETRY_MS);
		return;
	}
	if (waited < LINGER_US) {
		later(b, on_inspect_again, RETRY_MS);
		return;
	}
	if (b->socket_path)
		(void)err_set(&why, ERR_SANDBOX_LOST, EPIPE,
			"the sandbox's agent has given up its link: another broker has it now, or "
			"the agent found it broken");
	else /* Seen with Docker 20.10: its shim closes stdin for good with the engine's end. */
		(void)err_set(&why, ERR_SANDBOX_LOST, EPIPE,
			"the Docker Engine was restarted: the sandbox's container goes on, but the "
			"engine cannot reach its input again");
	tell(b, &why);
}

static void on_inspected(void *user, struct http_client_answer *a, const struct err *err)
{
	struct box *b = user;
	struct err why = {0};
	uint64_t waited = clock_monotonic_us() - b->since_us;
	b->call = NULL;
	if (!a) {
		engine_away(b, err, waited);
		return;
	}
	json_t *o = json_loadb(a->body, a->n, JSON_REJECT_DUPLICATES, NULL);
	json_t *state = json_object_get(o, "State");
	if (a->status == 404) {
		(void)err_set(&why, ERR_SANDBOX_LOST, ENOENT,
			"the sandbox's container was removed by somebody else");
		tell(b, &why);
	} else if (!json_is_false(json_object_get(state, "Running"))) {
		goes_on(b, waited);
	} else {
		explain(b, state, &why);
		tell(b, &why);
	}
	json_decref(o);
}

/* Asks why, if nobody does yet. */
static void ask_why(struct box *b)
{
	if (b->told || b->destroying)
		return;
	if (b->step == STEP_ENDED && b->call) /* asked already; since when is another matter now */
		return;
	b->step = STEP_ENDED;
	http_client_cancel(TAKE_PTR(b->call));
	(void)uv_timer_stop(&b->timer);
	inspect(b);
}

static void stream_over(void *user)
{
	struct box *b = user;
	b->stream_over = true;
	/* By stdio the link's end waits for its reason. */
	if (b->socket_path)
		docker_pipe_close(TAKE_PTR(b->pipe));
	/* Of what starts on_started() says why, and of a socket's end link_over(). */
	if (b->step == STEP_START || b->step == STEP_ENDED)
		return;
	b->since_us = clock_monotonic_us();
	ask_why(b);
}

static void link_over(struct box *b)
{
	b->link_over = true;
	b->since_us = clock_monotonic_us();
	/* Before it runs the engine's answers say what is wrong. */
	if (b->step == STEP_RUN || b->step == STEP_ENDED || b->found)
		ask_why(b);
}

static void said(void *user, const void *p, size_t n)
{
	struct box *b = user;
	size_t room = b->said.max - b->said.len;
	CHECK(buf_append(&b->said, p, MIN(n, room)) == 0);
}

/* ---- create, attach, start ---- */

static const struct docker_pipe_events pipe_events = {.said = said, .over = stream_over};

static void failed(
	struct box *b, const struct http_client_answer *a, const struct err *err, const char *what)
{
	struct err why = {0};
	if (b->found && b->socket_path) { /* it has ended, or the engine is away again */
		ask_why(b);
		return;
	}
	docker_doubt();
	if (a)
		(void)docker_refused(a, what, &why);
	else
		(void)docker_unreachable(b->endpoint, err, &why);
	tell(b, &why);
}

static void on_started(void *user, struct http_client_answer *a, const struct err *err)
{
	struct box *b = user;
	b->call = NULL;
	if (!a || (a->status != 204 && a->status != 304)) {
		failed(b, a, err, "start the sandbox's container");
		return;
	}
	b->step = STEP_RUN;
	b->found = true;
	if (b->link_over || b->stream_over) {
		b->since_us = clock_monotonic_us();
		ask_why(b);
	}
}

static void on_attached(void *user, struct http_client_answer *a, const struct err *err)
{
	struct box *b = user;
	b->call = NULL;
	if (!a || a->status != 101) {
		failed(b, a, err, "attach to the sandbox's container");
		return;
	}
	int r = docker_pipe_new(b->loop, TAKE_FD(a->stream_fd), TAKE_FD(b->pipe_fd), a->body, a->n,
		&b->boot, &pipe_events, b, &b->pipe);
	if (r < 0) {
		struct err why;
		(void)err_set(&why, ERR_INTERNAL, -r, "cannot watch the sandbox's stream: %s",
			uv_strerror(r));
		tell(b, &why);
		return;
	}
	if (b->found) {
		b->step = STEP_RUN;
		return;
	}
	b->step = STEP_START;
	_cleanup_free_ char *path = xasprintf("/containers/%s/start", b->name);
	ask(b, "POST", path, NULL, CALL_US, on_started);
}

static void attach(struct box *b)
{
	_cleanup_free_ char *path = xasprintf("/containers/%s/attach?stream=1%s&stdout=1&stderr=1",
		b->name, b->socket_path ? "" : "&stdin=1");
	b->step = STEP_ATTACH;
	b->stream_over = false;
	ask(b, "POST", path, NULL, CALL_US, on_attached);
}

static void make(struct box *b);

/* What an earlier broker asked for, died, and asks for again through this one. */
static void on_replaced(void *user, struct http_client_answer *a, const struct err *err)
{
	struct box *b = user;
	b->call = NULL;
	if (b->destroying)
		remove_container(b);
	else if (!a || a->status >= 400)
		failed(b, a, err, "remove the container of an earlier broker");
	else
		make(b);
}

static void on_created(void *user, struct http_client_answer *a, const struct err *err)
{
	struct box *b = user;
	b->call = NULL;
	b->unanswered = !a && err->errnum != ENOENT && err->errnum != ECONNREFUSED;
	if (b->destroying) {
		b->since_us = clock_monotonic_us(); /* of removing it, not of waiting for this */
		remove_container(b);
	} else if (a && a->status == 409 && !b->replaced) {
		_cleanup_free_ char *path = xasprintf("/containers/%s?force=1&v=1", b->name);
		b->replaced = true;
		ask(b, "DELETE", path, NULL, CALL_US, on_replaced);
	} else if (!a || a->status != 201) {
		struct err why = {0};
		if (!a || a->status != 404)
			failed(b, a, err, "make the sandbox's container");
		else /* the image was there a minute ago, perhaps */
			(void)docker_no_image(&why);
		if (why.code)
			tell(b, &why);
	} else {
		attach(b);
	}
}

static void make(struct box *b)
{
	_cleanup_free_ char *path = xasprintf("/containers/create?name=%s", b->name);
	b->step = STEP_CREATE;
	ask(b, "POST", path, b->wish, CALL_US, on_created);
}

static struct box *allocate(uv_loop_t *loop, const char *id, const char *endpoint,
	const struct sandbox_events *events, void *user)
{
	struct box *b = xcalloc(1, sizeof(*b));
	b->base.provider = &provider_docker;
	b->base.link_fd = b->pipe_fd = -1;
	b->loop = loop;
	b->events = *events;
	b->user = user;
	b->name = docker_name(id);
	b->endpoint = xstrdup(endpoint);
	b->record = RECORD_NONE;
	b->said = BUF_INIT(SAID_MAX);
	(void)uv_timer_init(loop, &b->timer);
	return b;
}

static int make_link(struct box *b, struct err *err)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return err_set(err, ERR_INTERNAL, errno, "socketpair: %s", strerror(errno));
	b->base.link_fd = ends[0];
	b->pipe_fd = ends[1];
	b->base.link_tears = true;
	return 0;
}

/* What goes into the stream before the link's bytes: its length comes first. */
static int make_stdio(struct box *b, const struct buf *config, struct err *err)
{
	uint8_t length[4];
	wire_put32(length, (uint32_t)config->len);
	buf_init(&b->boot, config->len + sizeof(length));
	b->boot.wipe = true;
	CHECK(buf_append(&b->boot, length, sizeof(length)) == 0 &&
		buf_append(&b->boot, config->data, config->len) == 0);
	return make_link(b, err);
}

static int make_socket(struct box *b, const struct buf *config, struct err *err)
{
	b->base.explain_ms = EXPLAIN_MS;
	int r = docker_door_new(
		b->loop, b->socket_path, b->workdir, config, &b->door, &b->base.link_fd, err);
	if (r < 0)
		return r;
	r = watch_link(b);
	return r == 0 ? 0
		      : err_set(err, ERR_INTERNAL, -r, "cannot watch the sandbox's link: %s",
				uv_strerror(r));
}

static char *ref(const struct sandbox_spec *spec)
{
	return hosted_ref(&provider_docker, spec);
}

static int write_down(struct box *b, const struct sandbox_spec *spec, struct err *err)
{
	const struct record_facts f = {.endpoint = b->endpoint,
		.container = b->name,
		.socket = b->socket_path,
		.workdir = b->workdir};
	int r = record_create(spec->runtime_dir, spec->id, &f, &b->record, err);
	if (r < 0)
		return r;
	fd_closep(&b->record.shared_fd);
	r = record_add_inside(&b->record, b->base.kernels_dir, b->base.workspace, &b->base.caps);
	return r == 0 ? 0
		      : err_set(err, ERR_PROVIDER_UNUSABLE, -r,
				"cannot write the sandbox's record: %s", strerror(-r));
}

static int prepare(struct box *b, const struct sandbox_spec *spec, const struct docker_facts *f,
	struct err *err)
{
	b->base.ref = ref(spec);
	b->base.hello_ms = HELLO_MS;
	b->base.kernels_dir = xstrdup(DOCKER_KERNELS);
	b->base.workspace = xstrdup(DOCKER_WORKSPACE);
	docker_capabilities(f, &b->base.caps);
	if (spec->key)
		memcpy(b->base.key, spec->key, sizeof(b->base.key));
	else
		id_random(b->base.key, sizeof(b->base.key));
	_cleanup_buf_ struct buf config = {0};
	_cleanup_free_ char *door = NULL;
	if (docker_has_door(f, b->endpoint)) {
		b->socket_path = xasprintf("%s/%s.sock", spec->runtime_dir, spec->id);
		b->workdir = xasprintf("%s/%s.d", spec->runtime_dir, spec->id);
		door = docker_door_path(b->workdir);
	}
	int r = docker_boot(spec, f, b->base.key, &config);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "the agent's configuration is too large");
	b->wish = docker_container(spec, f, door);
	r = write_down(b, spec, err);
	if (r < 0)
		return r;
	return door ? make_socket(b, &config, err) : make_stdio(b, &config, err);
}

static int create(uv_loop_t *loop, const struct sandbox_spec *spec,
	const struct sandbox_events *events, void *user, struct sandbox **ret, struct err *err)
{
	const char *endpoint = docker_endpoint();
	const struct docker_facts *f;
	int r = hosted_check_spec(spec, err);
	for (size_t i = 0; r == 0 && geteuid() == 0 && i < spec->n_mounts; i++)
		r = hosted_check_readable(&spec->mounts[i], err);
	if (r == 0)
		r = docker_known(&f, err);
	if (r == 0)
		r = docker_known_image(err);
	if (r < 0)
		return r;
	struct box *b = allocate(loop, spec->id, endpoint, events, user);
	r = prepare(b, spec, f, err);
	if (r < 0) {
		forget(b);
		free_box(b);
		return r;
	}
	make(b);
	*ret = &b->base;
	return 0;
}

/* ---- the interface ---- */

/* Where nobody listens at its socket it has ended: the engine says why, over a link that is over.
 */
static int find_link(struct box *b, struct err *err)
{
	int r = b->socket_path ? address_connect(b->socket_path, SOCK_STREAM) : 0;
	if (!b->socket_path || r < 0) {
		b->link_over = r < 0;
		r = make_link(b, err);
		if (b->link_over) {
			b->base.link_tears = false;
			fd_closep(&b->pipe_fd);
		}
	} else {
		b->base.link_fd = r;
		r = 0;
	}
	if (r == 0 && b->socket_path) {
		b->base.explain_ms = EXPLAIN_MS;
		r = watch_link(b);
	}
	return r;
}

static int connect_to(uv_loop_t *loop, const char *to, const struct sandbox_events *events,
	void *user, struct sandbox **ret, struct err *err)
{
	char id[ID_TEXT_SIZE];
	_cleanup_free_ char *dir = NULL;
	CLEANUP(record_facts_done) struct record_facts f = {0};
	struct record record = RECORD_NONE;
	int boot = hosted_parse_ref(&provider_docker, to, id, &dir);
	if (!dir)
		return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"\"%.100s\" names no sandbox of docker", to);
	/* Removes what has ended, and all of another boot. */
	int r = record_open(dir, id, &record, &f, err);
	if (r < 0)
		return r;
	struct box *b =
		allocate(loop, id, f.endpoint ? f.endpoint : docker_endpoint(), events, user);
	b->record = record;
	b->inherited = b->found = true;
	b->base.ref = xstrdup(to);
	b->base.caps = f.caps;
	b->base.kernels_dir = xstrdup(f.kernels_dir ? f.kernels_dir : DOCKER_KERNELS);
	b->base.workspace = xstrdup(f.workspace ? f.workspace : DOCKER_WORKSPACE);
	b->socket_path = TAKE_PTR(f.socket);
	b->workdir = TAKE_PTR(f.workdir);
	r = boot < 0 ? err_set(err, ERR_SANDBOX_LOST, ESTALE, "the machine was started anew")
		     : find_link(b, err);
	if (r < 0) {
		b->destroying = true;
		b->since_us = clock_monotonic_us();
		remove_container(b);
		return r;
	}
	attach(b);
	*ret = &b->base;
	return 0;
}

static void leave(struct sandbox *s)
{
	struct box *b = (struct box *)s;
	b->destroying = true;
	free_box(b);
}

static void destroy(struct sandbox *s, void (*done)(void *user, const char *leftovers), void *user)
{
	struct box *b = (struct box *)s;
	bool being_made = b->step == STEP_CREATE && b->call;
	b->destroying = true;
	b->done = done;
	b->done_user = user;
	b->since_us = clock_monotonic_us();
	if (being_made) /* on_created() goes on: what the engine has begun, it ends */
		return;
	let_go(b);
	remove_container(b);
}

static void capabilities(const struct sandbox_spec *spec, struct capabilities *ret)
{
	static const struct docker_facts nothing = {0};
	const struct docker_facts *f;
	struct err err;
	(void)spec;
	docker_capabilities(docker_known(&f, &err) < 0 ? &nothing : f, ret);
}

#define RUNSC_LINE                                                                                 \
	"\"runtimes\": {\"runsc\": {\"path\": \"/usr/bin/runsc\", \"runtimeArgs\": "               \
	"[\"--network=none\"]}}"

/* What becomes of sessions when the engine is restarted. */
static const char *restarts(const struct docker_facts *f)
{
	if (f->podman)
		return "What a restart of Podman's service does to sandboxes has not been tried.";
	if (!docker_has_door(f, docker_endpoint()))
		return "A restart of the engine ends its sandboxes, with live-restore too: their "
		       "link goes through it.";
	return f->live_restore ? "Sandboxes go on while the engine is restarted (live-restore)."
			       : "A restart of the engine ends its sandboxes. With "
				 "\"live-restore\": true in "
				 "/etc/docker/daemon.json they go on.";
}

/* What `scb doctor` says of a usable engine. */
static void describe(const struct docker_facts *f, struct provider_probe *ret)
{
	const char *gvisor = "";
	if (!f->runsc && !f->podman)
		gvisor = " Stronger with gVisor: install runsc, put " RUNSC_LINE
			 " into /etc/docker/daemon.json and restart the engine.";
	else if (f->runsc && !f->runsc_no_net)
		gvisor = " In /etc/docker/daemon.json runsc needs its own "
			 "--network=none: " RUNSC_LINE;
	(void)snprintf(ret->reason, sizeof(ret->reason), "%s (API %s), image %.80s, %s. %s%s",
		f->version, f->api, docker_image(), docker_gvisor(f) ? "gVisor" : "no gVisor",
		restarts(f), gvisor);
}

static int probe(struct provider_probe *ret, struct err *err)
{
	const struct docker_facts *f;
	struct err why;
	*ret = (struct provider_probe){0};
	provider_await_now("docker");
	if (docker_known(&f, &why) < 0 || docker_known_image(&why) < 0) {
		(void)snprintf(ret->reason, sizeof(ret->reason), "%s", why.text);
		return 0;
	}
	int r = probe_hosted(&provider_docker, ret, err);
	if (r == 0 && ret->usable)
		describe(f, ret);
	return r;
}

const struct provider provider_docker = {
	.name = "docker",
	.own_image = true,
	.await = docker_await,
	.probe = probe,
	.create = create,
	.ref = ref,
	.connect = connect_to,
	.leave = leave,
	.destroy = destroy,
	.capabilities = capabilities,
};
