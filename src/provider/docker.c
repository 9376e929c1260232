/* docker.c: a container of an engine that speaks Docker's API: Docker with runc or gVisor's runsc,
 * Podman.
 *
 * The agent is PID 1, and the link its stdio, as the engine attaches it; nothing is ever run by
 * `exec` or copied by the engine. create, attach, start follow one another on the loop; the agent's
 * configuration, with its key, goes into the attached stream before the container starts. The
 * engine is asked why a container ended once its stream has ended.
 *
 * Without a terminal: a terminal's other end is a device in the container (/dev/console) that code
 * of the same uid could open, and so speak in the agent's place. */
#include <errno.h>
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
#include "provider/docker_engine.h"
#include "provider/docker_facts.h"
#include "provider/docker_pipe.h"
#include "provider/docker_spec.h"
#include "provider/hosted.h"
#include "provider/probe.h"
#include "provider/record.h"

/* A busy engine takes seconds to make or end a container; a minute means that it hangs. */
#define CALL_US  (60 * USEC_PER_SEC)
#define RETRY_MS 200
/* An engine that is restarted is back within seconds. */
#define AWAY_US (15 * USEC_PER_SEC)
/* Its stream has ended, and the engine still calls it running: so long until that is believed. */
#define LINGER_US (2 * USEC_PER_SEC)
#define REMOVE_US (30 * USEC_PER_SEC)

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
	struct buf boot;          /* what the agent reads first */
	int pipe_fd;              /* the other end of base.link_fd, until there is a pipe */
	struct docker_pipe *pipe;
	struct buf said; /* the beginning of its stderr */
	uv_timer_t timer;
	bool found, replaced, told, engine_was_away;
	uint64_t since_us; /* its stream has ended, or it is being removed */
	bool destroying;
	void (*done)(void *user, const char *leftovers);
	void *done_user;
	char *leftovers;
};

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

static void later(struct box *b, uv_timer_cb what)
{
	(void)uv_timer_start(&b->timer, what, RETRY_MS, 0);
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

static void on_removed(void *user, struct http_client_answer *a, const struct err *err)
{
	struct box *b = user;
	b->call = NULL;
	if (a && (a->status == 204 || a->status == 404)) {
		record_remove(&b->record);
		free_box(b);
		return;
	}
	/* Being removed already, or the engine is away just now. */
	if (clock_monotonic_us() - b->since_us < REMOVE_US) {
		later(b, on_remove_again);
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
	else
		(void)err_set(why, ERR_SANDBOX_LOST, ECHILD,
			"the sandbox's container ended with status %d%s%s%s", (int)code,
			b->engine_was_away ? " while the Docker Engine was restarted (only with "
					     "live-restore containers go on)"
					   : "",
			text[0] ? ": " : "", text);
}

static void on_inspected(void *user, struct http_client_answer *a, const struct err *err)
{
	struct box *b = user;
	struct err why = {0};
	uint64_t waited = clock_monotonic_us() - b->since_us;
	b->call = NULL;
	if (!a) {
		b->engine_was_away = true;
		if (waited < AWAY_US) {
			later(b, on_inspect_again);
			return;
		}
		(void)docker_unreachable(b->endpoint, err, &why);
		why.code = ERR_SANDBOX_LOST;
		tell(b, &why);
		return;
	}
	json_t *o = json_loadb(a->body, a->n, JSON_REJECT_DUPLICATES, NULL);
	json_t *state = json_object_get(o, "State");
	if (a->status == 404) {
		(void)err_set(&why, ERR_SANDBOX_LOST, ENOENT,
			"the sandbox's container was removed by somebody else");
	} else if (!json_is_false(json_object_get(state, "Running"))) {
		if (waited < LINGER_US) {
			json_decref(o);
			later(b, on_inspect_again);
			return;
		}
		/* Seen with Docker 20.10: its shim closes stdin for good with the engine's end. */
		(void)err_set(&why, ERR_SANDBOX_LOST, EPIPE,
			"the Docker Engine was restarted: the sandbox's container goes on, but the "
			"engine cannot reach its input again");
	} else {
		explain(b, state, &why);
	}
	json_decref(o);
	tell(b, &why);
}

static void stream_over(void *user)
{
	struct box *b = user;
	if (b->step == STEP_ENDED || b->destroying)
		return;
	if (b->step == STEP_START) /* on_started() says why */
		return;
	b->step = STEP_ENDED;
	b->since_us = clock_monotonic_us();
	inspect(b);
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
	_cleanup_free_ char *path =
		xasprintf("/containers/%s/attach?stream=1&stdin=1&stdout=1&stderr=1", b->name);
	b->step = STEP_ATTACH;
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
	if (b->destroying) {
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
	b->base.link_tears = true;
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
	return 0;
}

static char *ref(const struct sandbox_spec *spec)
{
	return hosted_ref(&provider_docker, spec);
}

static int write_down(struct box *b, const struct sandbox_spec *spec, struct err *err)
{
	const struct record_facts f = {.endpoint = b->endpoint, .container = b->name};
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
	b->base.kernels_dir = xstrdup(DOCKER_KERNELS);
	b->base.workspace = xstrdup(DOCKER_WORKSPACE);
	docker_capabilities(f, &b->base.caps);
	if (spec->key)
		memcpy(b->base.key, spec->key, sizeof(b->base.key));
	else
		id_random(b->base.key, sizeof(b->base.key));
	int r = docker_boot(spec, f, b->base.key, &b->boot);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "the agent's configuration is too large");
	b->wish = docker_container(spec, f);
	r = make_link(b, err);
	return r == 0 ? write_down(b, spec, err) : r;
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
		record_remove(&b->record);
		free_box(b);
		return r;
	}
	make(b);
	*ret = &b->base;
	return 0;
}

/* ---- the interface ---- */

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
	b->found = true;
	b->base.ref = xstrdup(to);
	b->base.caps = f.caps;
	b->base.kernels_dir = xstrdup(f.kernels_dir ? f.kernels_dir : DOCKER_KERNELS);
	b->base.workspace = xstrdup(f.workspace ? f.workspace : DOCKER_WORKSPACE);
	r = boot < 0 ? err_set(err, ERR_SANDBOX_LOST, ESTALE, "the machine was started anew")
		     : make_link(b, err);
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
	(void)snprintf(ret->reason, sizeof(ret->reason),
		"%s (API %s), image %.80s, %s. A restart of the engine ends its sandboxes%s.%s",
		f->version, f->api, docker_image(), docker_gvisor(f) ? "gVisor" : "no gVisor",
		f->live_restore ? ", live-restore or not" : "", gvisor);
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
