/* docker_box.c: see docker_box.h. */
#include "provider/docker_box.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "provider/docker_door.h"
#include "provider/docker_engine.h"
#include "provider/docker_pipe.h"
#include "provider/docker_spec.h"
#include "provider/docker_why.h"
#include "provider/hosted.h"

/* So long removing is tried of an engine that is away, and of one that is busy. */
#define REMOVE_US      (30 * USEC_PER_SEC)
#define REMOVE_BUSY_US (5 * DOCKER_CALL_US)
/* An engine that was asked for a container and did not answer may make it so much later. */
#define UNANSWERED_US (20 * USEC_PER_SEC)

/* ---- the end of a link that is a socket ---- */

struct docker_watch {
	uv_poll_t poll;
	int fd; /* the link's, once more */
	struct docker_box *box;
};

static void on_watch_closed(uv_handle_t *h)
{
	struct docker_watch *w = container_of((uv_poll_t *)h, struct docker_watch, poll);
	fd_closep(&w->fd);
	free(w);
}

static void watch_end(struct docker_watch *w)
{
	if (w)
		uv_close((uv_handle_t *)&w->poll, on_watch_closed);
}

static void on_hang_up(uv_poll_t *poll, int status, int events)
{
	struct docker_watch *w = container_of(poll, struct docker_watch, poll);
	if (status == 0 && !(events & UV_DISCONNECT))
		return;
	(void)uv_poll_stop(poll);
	docker_why_link_over(w->box);
}

int docker_box_watch(struct docker_box *b)
{
	struct docker_watch *w = xcalloc(1, sizeof(*w));
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
	struct docker_box *b = container_of((uv_timer_t *)h, struct docker_box, timer);
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
void docker_box_let_go(struct docker_box *b)
{
	http_client_cancel(TAKE_PTR(b->call));
	docker_pipe_close(TAKE_PTR(b->pipe));
	docker_door_close(TAKE_PTR(b->door));
	watch_end(TAKE_PTR(b->watch));
	fd_closep(&b->base.link_fd);
	fd_closep(&b->pipe_fd);
	(void)uv_timer_stop(&b->timer);
}

void docker_box_free(struct docker_box *b)
{
	docker_box_let_go(b);
	list_remove(&b->abandoned);
	fd_closep(&b->record.guard_fd);
	fd_closep(&b->record.shared_fd);
	free(b->record.path);
	uv_close((uv_handle_t *)&b->timer, on_timer_closed);
}

/* All that is left of it on this host. */
void docker_box_forget(struct docker_box *b)
{
	if (b->socket_path)
		(void)unlink(b->socket_path);
	if (b->workdir)
		(void)record_remove_tree(b->workdir);
	record_remove(&b->record);
}

void docker_box_tell(struct docker_box *b, const struct err *why)
{
	b->step = DOCKER_STEP_ENDED;
	docker_pipe_close(TAKE_PTR(b->pipe));
	if (b->told || b->destroying)
		return;
	b->told = true;
	b->events.exited(b->user, why);
}

struct docker_box *docker_box_new(uv_loop_t *loop, const char *id, const char *endpoint,
	const struct sandbox_events *events, void *user)
{
	struct docker_box *b = xcalloc(1, sizeof(*b));
	b->base.provider = &provider_docker;
	b->base.link_fd = b->pipe_fd = -1;
	b->loop = loop;
	b->events = *events;
	b->user = user;
	b->name = docker_name(id);
	b->endpoint = xstrdup(endpoint);
	b->record = RECORD_NONE;
	list_init(&b->abandoned);
	b->said = BUF_INIT(SAID_MAX);
	(void)uv_timer_init(loop, &b->timer);
	return b;
}

/* ---- asking the engine ---- */

void docker_box_ask(struct docker_box *b, const char *method, const char *path, json_t *body,
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

void docker_box_later(struct docker_box *b, uv_timer_cb what, unsigned ms)
{
	(void)uv_timer_start(&b->timer, what, ms, 0);
}

static void on_removed(void *user, struct http_client_answer *a, const struct err *err);

void docker_box_remove(struct docker_box *b)
{
	_cleanup_free_ char *path = xasprintf("/containers/%s?force=1&v=1", b->name);
	docker_box_ask(b, "DELETE", path, NULL, REMOVE_US, on_removed);
}

static void on_remove_again(uv_timer_t *t)
{
	docker_box_remove(container_of(t, struct docker_box, timer));
}

static struct list abandoned = LIST_INIT(abandoned);

void docker_box_abandon(struct docker_box *b)
{
	b->destroying = true;
	b->since_us = clock_monotonic_us();
	docker_box_let_go(b);
	list_append(&abandoned, &b->abandoned);
	docker_box_later(b, on_remove_again, 0);
}

void docker_box_make_anew(const char *name)
{
	list_for_each (b, next, &abandoned, struct docker_box, abandoned) {
		if (strcmp(b->name, name) != 0)
			continue;
		docker_box_forget(b);
		docker_box_free(b);
	}
}

/* The engine knows of none; one that it was asked for may still come. */
static bool may_come(const struct docker_box *b, uint64_t waited)
{
	return (b->inherited && record_is_fresh(&b->record)) ||
	       (b->unanswered && waited < UNANSWERED_US);
}

static void on_removed(void *user, struct http_client_answer *a, const struct err *err)
{
	struct docker_box *b = user;
	uint64_t waited = clock_monotonic_us() - b->since_us;
	bool unborn = a && a->status == 404 && may_come(b, waited);
	b->call = NULL;
	if (a && (a->status == 204 || a->status == 404) && !unborn) {
		docker_box_forget(b);
		docker_box_free(b);
		return;
	}
	/* Being removed already, or the engine is busy, or away just now. */
	bool away = !a && err->errnum != ETIMEDOUT;
	if (waited < (away ? REMOVE_US : REMOVE_BUSY_US)) {
		docker_box_later(b, on_remove_again, DOCKER_RETRY_MS);
		return;
	}
	/* Its record stays: the next sweep tries again. */
	b->leftovers = xasprintf(
		"container %s (%s)", b->name, err ? err->text : "the engine does not remove it");
	docker_box_free(b);
}
