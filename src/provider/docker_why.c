/* docker_why.c: see docker_why.h. */
#include "provider/docker_why.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "provider/docker_begin.h"
#include "provider/docker_engine.h"
#include "provider/docker_pipe.h"

/* How a program in Go ends that cannot go on; of the agent it comes with words. */
#define GVISOR_FAILED 2
/* Between two questions to an engine that is away while the link goes on. */
#define AWAY_RETRY_MS 1000

static void on_inspected(void *user, struct http_client_answer *a, const struct err *err);

static void inspect(struct docker_box *b)
{
	_cleanup_free_ char *path = xasprintf("/containers/%s/json", b->name);
	docker_box_ask(b, "GET", path, NULL, DOCKER_AWAY_US, on_inspected);
}

static void on_inspect_again(uv_timer_t *t)
{
	inspect(container_of(t, struct docker_box, timer));
}

static void explain(struct docker_box *b, json_t *state, struct err *why)
{
	json_int_t code = json_integer_value(json_object_get(state, "ExitCode"));
	const char *error = json_string_value(json_object_get(state, "Error"));
	bool gvisor = strcmp(b->base.caps.isolation_level, "container+gvisor") == 0;
	char text[201];
	str_copy(text, sizeof(text), error && *error ? error : "");
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
			(int)code, gvisor ? " with gVisor, as a whole," : "");
	else if (gvisor && code == GVISOR_FAILED && !text[0] && !b->engine_was_away)
		(void)err_set(why, ERR_SANDBOX_LOST, ECHILD,
			"gVisor's own kernel has failed (status %d), and the sandbox with it as a "
			"whole; so it ends where it gets no more threads: too many processes come "
			"and go at once",
			(int)code);
	else
		(void)err_set(why, ERR_SANDBOX_LOST, ECHILD,
			"the sandbox's container ended with status %d%s%s%s", (int)code,
			b->engine_was_away ? " while the Docker Engine was restarted (only with "
					     "live-restore containers go on)"
					   : "",
			text[0] ? ": " : "", text);
}

static void on_attach_again(uv_timer_t *t)
{
	docker_begin_attach(container_of(t, struct docker_box, timer));
}

/* The engine does not answer. */
static void engine_away(struct docker_box *b, const struct err *err, uint64_t waited)
{
	struct err why = {0};
	b->engine_was_away = true;
	if (b->socket_path && !b->link_over) {
		docker_box_later(b, on_inspect_again, AWAY_RETRY_MS);
	} else if (waited < DOCKER_AWAY_US) {
		docker_box_later(b, on_inspect_again, DOCKER_RETRY_MS);
	} else {
		(void)docker_unreachable(b->endpoint, err, &why);
		why.code = ERR_SANDBOX_LOST;
		docker_box_tell(b, &why);
	}
}

/* Its container goes on although a stream has ended. */
static void goes_on(struct docker_box *b, uint64_t waited)
{
	struct err why = {0};
	if (b->socket_path && !b->link_over) {
		/* The engine was restarted, and has nobody attached now. */
		docker_box_later(b, on_attach_again, AWAY_RETRY_MS);
		return;
	}
	if (waited < DOCKER_LINGER_US) {
		docker_box_later(b, on_inspect_again, DOCKER_RETRY_MS);
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
	docker_box_tell(b, &why);
}

static void on_inspected(void *user, struct http_client_answer *a, const struct err *err)
{
	struct docker_box *b = user;
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
		docker_box_tell(b, &why);
	} else if (!json_is_false(json_object_get(state, "Running"))) {
		goes_on(b, waited);
	} else {
		explain(b, state, &why);
		docker_box_tell(b, &why);
	}
	json_decref(o);
}

/* Asks why, if nobody does yet. */
void docker_why_ask(struct docker_box *b)
{
	if (b->told || b->destroying)
		return;
	if (b->step == DOCKER_STEP_ENDED &&
		b->call) /* asked already; since when is another matter now */
		return;
	b->step = DOCKER_STEP_ENDED;
	http_client_cancel(TAKE_PTR(b->call));
	(void)uv_timer_stop(&b->timer);
	inspect(b);
}

void docker_why_stream_over(void *box)
{
	struct docker_box *b = box;
	b->stream_over = true;
	/* By stdio the link's end waits for its reason. */
	if (b->socket_path)
		docker_pipe_close(TAKE_PTR(b->pipe));
	/* Of what starts on_started() says why, and of a socket's end docker_why_link_over(). */
	if (b->step == DOCKER_STEP_START || b->step == DOCKER_STEP_ENDED)
		return;
	b->since_us = clock_monotonic_us();
	docker_why_ask(b);
}

void docker_why_link_over(struct docker_box *b)
{
	b->link_over = true;
	b->since_us = clock_monotonic_us();
	/* Before it runs the engine's answers say what is wrong. */
	if (b->step == DOCKER_STEP_RUN || b->step == DOCKER_STEP_ENDED || b->found)
		docker_why_ask(b);
}
