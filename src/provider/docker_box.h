/* docker_box.h: what the provider keeps of one container, shared by the files that each deal with a
 * part of its life: docker_begin.c, docker_why.c, and docker.c, which has the interface. */
#pragma once

#include <jansson.h>
#include <uv.h>

#include "base/buf.h"
#include "base/clock.h"
#include "http/client.h"
#include "provider/provider.h"
#include "provider/record.h"

/* A busy engine takes seconds to make or end a container; a minute means that it hangs. */
#define DOCKER_CALL_US (60 * USEC_PER_SEC)
/* An engine that is restarted is back within seconds. */
#define DOCKER_AWAY_US (15 * USEC_PER_SEC)
/* Its stream has ended, and the engine still calls it running: so long until that is believed. */
#define DOCKER_LINGER_US (2 * USEC_PER_SEC)
#define DOCKER_RETRY_MS  200

enum docker_step {
	DOCKER_STEP_CREATE,
	DOCKER_STEP_ATTACH,
	DOCKER_STEP_START,
	DOCKER_STEP_RUN,
	DOCKER_STEP_ENDED
};

struct docker_box {
	struct sandbox base;
	uv_loop_t *loop;
	struct sandbox_events events;
	void *user;
	char *name, *endpoint;
	struct record record;
	enum docker_step step;
	struct http_client *call; /* on its way */
	json_t *wish;             /* body of create */
	struct buf boot;          /* by stdio: what the agent reads first */
	/* The link's socket; NULL: it is stdio. door: until the agent has come. */
	char *socket_path, *workdir;
	struct docker_door *door;
	struct docker_watch *watch;
	int pipe_fd; /* the other end of base.link_fd, until there is a pipe */
	struct docker_pipe *pipe;
	struct buf said; /* the beginning of its stderr */
	uv_timer_t timer;
	bool inherited;  /* an earlier broker asked for it */
	bool unanswered; /* the engine has not said whether it made it */
	bool found, told, engine_was_away;
	bool link_over, stream_over; /* of the socket; of what is attached */
	uint64_t since_us; /* it is being made, its stream or link has ended, it is being removed */
	bool destroying;
	struct list abandoned; /* see docker_box_abandon() */
	void (*done)(void *user, const char *leftovers);
	void *done_user;
	char *leftovers;
};

struct docker_box *docker_box_new(uv_loop_t *loop, const char *id, const char *endpoint,
	const struct sandbox_events *events, void *user);
/* Tells docker_why.h once the link's socket is over. 0, or a negative errno of libuv. */
int docker_box_watch(struct docker_box *b) MUST_CHECK;
/* Asks the engine; there is one question at a time. path: as in struct docker_request. */
void docker_box_ask(struct docker_box *b, const char *method, const char *path, json_t *body,
	uint64_t timeout_us, http_client_fn done);
void docker_box_later(struct docker_box *b, uv_timer_cb what, unsigned ms);
/* Tells whose it is that it has ended, if nobody has yet. */
void docker_box_tell(struct docker_box *b, const struct err *why);
/* Nothing goes on any more; the container and its record stay. */
void docker_box_let_go(struct docker_box *b);
/* The same, and frees it; done() is called. */
void docker_box_free(struct docker_box *b);
/* Removes all that is left of it on this host. */
void docker_box_forget(struct docker_box *b);
/* Removes its container (as long as b->since_us allows), then forgets and frees it. */
void docker_box_remove(struct docker_box *b);
/* The same from the next turn of the loop on: until then nothing has been asked of the engine. */
void docker_box_abandon(struct docker_box *b);
/* That container is made anew, which replaces what there is of it: forgets the one that was
 * abandoned, if there is one. */
void docker_box_make_anew(const char *name);
