/* docker_begin.c: see docker_begin.h. */
#include "provider/docker_begin.h"

#include <string.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "provider/docker_engine.h"
#include "provider/docker_facts.h"
#include "provider/docker_pipe.h"
#include "provider/docker_why.h"

static void said(void *user, const void *p, size_t n)
{
	struct docker_box *b = user;
	size_t room = b->said.max - b->said.len;
	CHECK(buf_append(&b->said, p, MIN(n, room)) == 0);
}

static const struct docker_pipe_events pipe_events = {.said = said, .over = docker_why_stream_over};

static void failed(struct docker_box *b, const struct http_client_answer *a, const struct err *err,
	const char *what)
{
	struct err why = {0};
	if (b->found && b->socket_path) { /* it has ended, or the engine is away again */
		docker_why_ask(b);
		return;
	}
	docker_doubt();
	if (a)
		(void)docker_refused(a, what, &why);
	else
		(void)docker_unreachable(b->endpoint, err, &why);
	docker_box_tell(b, &why);
}

static void on_started(void *user, struct http_client_answer *a, const struct err *err)
{
	struct docker_box *b = user;
	b->call = NULL;
	if (!a || (a->status != 204 && a->status != 304)) {
		failed(b, a, err, "start the sandbox's container");
		return;
	}
	b->step = DOCKER_STEP_RUN;
	b->found = true;
	if (b->link_over || b->stream_over) {
		b->since_us = clock_monotonic_us();
		docker_why_ask(b);
	}
}

static void on_attached(void *user, struct http_client_answer *a, const struct err *err)
{
	struct docker_box *b = user;
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
		docker_box_tell(b, &why);
		return;
	}
	if (b->found) {
		b->step = DOCKER_STEP_RUN;
		return;
	}
	b->step = DOCKER_STEP_START;
	_cleanup_free_ char *path = xasprintf("/containers/%s/start", b->name);
	docker_box_ask(b, "POST", path, NULL, DOCKER_CALL_US, on_started);
}

void docker_begin_attach(struct docker_box *b)
{
	_cleanup_free_ char *path = xasprintf("/containers/%s/attach?stream=1%s&stdout=1&stderr=1",
		b->name, b->socket_path ? "" : "&stdin=1");
	b->step = DOCKER_STEP_ATTACH;
	b->stream_over = false;
	docker_box_ask(b, "POST", path, NULL, DOCKER_CALL_US, on_attached);
}

static void make(struct docker_box *b);

static void on_make_again(uv_timer_t *t)
{
	make(container_of(t, struct docker_box, timer));
}

/* What an earlier broker asked for, died, and asks for again through this one. */
static void on_replaced(void *user, struct http_client_answer *a, const struct err *err)
{
	struct docker_box *b = user;
	b->call = NULL;
	if (b->destroying)
		docker_box_remove(b);
	else if (a && (a->status == 404 || a->status == 409)) /* being made, being removed */
		docker_box_later(b, on_make_again, DOCKER_RETRY_MS);
	else if (!a || a->status >= 400)
		failed(b, a, err, "remove the container of an earlier broker");
	else
		make(b);
}

static void on_created(void *user, struct http_client_answer *a, const struct err *err)
{
	struct docker_box *b = user;
	b->call = NULL;
	b->unanswered = !a && err->errnum != ENOENT && err->errnum != ECONNREFUSED;
	if (b->destroying) {
		b->since_us = clock_monotonic_us(); /* of removing it, not of waiting for this */
		docker_box_remove(b);
	} else if (a && a->status == 409 && clock_monotonic_us() - b->since_us < DOCKER_CALL_US) {
		_cleanup_free_ char *path = xasprintf("/containers/%s?force=1&v=1", b->name);
		docker_box_ask(b, "DELETE", path, NULL, DOCKER_CALL_US, on_replaced);
	} else if (!a || a->status != 201) {
		struct err why = {0};
		if (!a || a->status != 404)
			failed(b, a, err, "make the sandbox's container");
		else /* the image was there a minute ago, perhaps */
			(void)docker_no_image(&why);
		if (why.code)
			docker_box_tell(b, &why);
	} else {
		docker_begin_attach(b);
	}
}

static void make(struct docker_box *b)
{
	_cleanup_free_ char *path = xasprintf("/containers/create?name=%s", b->name);
	docker_box_ask(b, "POST", path, b->wish, DOCKER_CALL_US, on_created);
}

void docker_begin_make(struct docker_box *b)
{
	b->step = DOCKER_STEP_CREATE;
	b->since_us = clock_monotonic_us();
	make(b);
}
