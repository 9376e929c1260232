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
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "provider/address.h"
#include "provider/docker_begin.h"
#include "provider/docker_box.h"
#include "provider/docker_doctor.h"
#include "provider/docker_door.h"
#include "provider/docker_engine.h"
#include "provider/docker_facts.h"
#include "provider/docker_spec.h"
#include "provider/hosted.h"
#include "provider/probe.h"
#include "provider/record.h"
#include "wire/frame.h"

/* From the first request to the agent's answer: an engine that is asked for many containers at once
 * makes some of them last. */
#define HELLO_MS (DOCKER_CALL_US / USEC_PER_MSEC)
/* Until it is known why a link ended. */
#define EXPLAIN_MS ((DOCKER_AWAY_US + 2 * DOCKER_LINGER_US) / USEC_PER_MSEC)

static int make_link(struct docker_box *b, struct err *err)
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
static int make_stdio(struct docker_box *b, const struct buf *config, struct err *err)
{
	uint8_t length[4];
	wire_put32(length, (uint32_t)config->len);
	buf_init(&b->boot, config->len + sizeof(length));
	b->boot.wipe = true;
	CHECK(buf_append(&b->boot, length, sizeof(length)) == 0 &&
		buf_append(&b->boot, config->data, config->len) == 0);
	return make_link(b, err);
}

static int make_socket(struct docker_box *b, const struct buf *config, struct err *err)
{
	b->base.explain_ms = EXPLAIN_MS;
	int r = docker_door_new(
		b->loop, b->socket_path, b->workdir, config, &b->door, &b->base.link_fd, err);
	if (r < 0)
		return r;
	r = docker_box_watch(b);
	return r == 0 ? 0
		      : err_set(err, ERR_INTERNAL, -r, "cannot watch the sandbox's link: %s",
				uv_strerror(r));
}

static char *ref(const struct sandbox_spec *spec)
{
	return hosted_ref(&provider_docker, spec);
}

static int write_down(struct docker_box *b, const struct sandbox_spec *spec, struct err *err)
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

static int prepare(struct docker_box *b, const struct sandbox_spec *spec,
	const struct docker_facts *f, struct err *err)
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
	struct docker_box *b = docker_box_new(loop, spec->id, endpoint, events, user);
	docker_box_make_anew(b->name);
	r = prepare(b, spec, f, err);
	if (r < 0) {
		docker_box_forget(b);
		docker_box_free(b);
		return r;
	}
	docker_begin_make(b);
	*ret = &b->base;
	return 0;
}

/* Nothing can have run in it, and nothing will: nobody listens at its socket, which its agent never
 * came to fetch, and cannot any more; or by stdio the engine knows of none, or of one that does not
 * run, which it then removes. Blocking, as a sweep is. */
static bool is_unborn(const struct docker_box *b, int link)
{
	if (b->socket_path)
		return link < 0 && b->workdir && access(b->workdir, F_OK) == 0;
	int r = docker_remove_ended(b->endpoint, b->name, false);
	return r == -ENOENT || r == 0;
}

/* Where nobody listens at its socket any more it has ended: the engine says why, over a link that
 * is over. */
static int find_link(struct docker_box *b, struct err *err)
{
	int r = b->socket_path ? address_connect(b->socket_path, SOCK_STREAM) : 0;
	if (is_unborn(b, r))
		return err_set(err, ERR_SANDBOX_LOST, ESRCH,
			"the sandbox's container never came up, or is gone");
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
		r = docker_box_watch(b);
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
	struct docker_box *b =
		docker_box_new(loop, id, f.endpoint ? f.endpoint : docker_endpoint(), events, user);
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
		docker_box_abandon(b);
		return r;
	}
	docker_begin_attach(b);
	*ret = &b->base;
	return 0;
}

static void leave(struct sandbox *s)
{
	struct docker_box *b = (struct docker_box *)s;
	b->destroying = true;
	docker_box_free(b);
}

static void destroy(struct sandbox *s, void (*done)(void *user, const char *leftovers), void *user)
{
	struct docker_box *b = (struct docker_box *)s;
	b->done = done;
	b->done_user = user;
	if (b->step == DOCKER_STEP_CREATE && b->call) {
		/* on_created() goes on: what the engine has begun, it ends */
		b->destroying = true;
		b->since_us = clock_monotonic_us();
		return;
	}
	docker_box_abandon(b);
}

static void capabilities(const struct sandbox_spec *spec, struct capabilities *ret)
{
	static const struct docker_facts nothing = {0};
	const struct docker_facts *f;
	struct err err;
	(void)spec;
	docker_capabilities(docker_known(&f, &err) < 0 ? &nothing : f, ret);
}

static int probe(struct provider_probe *ret, struct err *err)
{
	const struct docker_facts *f;
	struct err why;
	*ret = (struct provider_probe){0};
	provider_await_now("docker");
	if (docker_known(&f, &why) < 0 || docker_known_image(&why) < 0) {
		str_copy(ret->reason, sizeof(ret->reason), why.text);
		return 0;
	}
	int r = probe_hosted(&provider_docker, ret, err);
	if (r == 0 && ret->usable)
		docker_doctor(f, ret);
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
