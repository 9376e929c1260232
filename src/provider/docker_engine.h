/* docker_engine.h: talking to a container engine by Docker's API (docs.docker.com/engine/api), from
 * version 1.41 on: Docker 20.10 and later, Podman's compatible socket.
 *
 * An endpoint is what DOCKER_HOST holds: unix://PATH or tcp://HOST:PORT. What an engine says is
 * read as hostile input. Errors are in words for whoever has to put it right. */
#pragma once

#include <jansson.h>
#include <uv.h>

#include "base/err.h"
#include "http/client.h"

/* DOCKER_HOST, BROKER_IMAGE and BROKER_RUNTIME ("auto", "runc", "runsc", …), or their defaults. */
const char *docker_endpoint(void);
const char *docker_image(void);
const char *docker_runtime_wish(void);

struct docker_facts {
	char version[48]; /* "Docker 20.10.24" */
	char api[16];     /* the version that is spoken: "1.41" */
	bool podman;
	bool live_restore; /* containers survive a restart of the engine */
	bool small_ids;    /* a user namespace that maps no uid above 65535 */
	bool runsc;        /* registered */
	bool runsc_no_net; /* with --network=none among its own arguments */
	bool memory, pids, cpu;
	unsigned cgroup; /* 1 or 2 */
};
/* What is known of an engine, asked anew once a minute: blocks, for milliseconds, or for 2 s where
 * it does not answer. 0, or ERR_PROVIDER_UNUSABLE with what to do. *ret is valid until the next
 * call. */
int docker_facts(const char *endpoint, const struct docker_facts **ret, struct err *err) MUST_CHECK;
/* Is the image there, and fit? As above. */
int docker_image_check(const char *endpoint, const char *image, struct err *err) MUST_CHECK;

struct docker_request {
	const char *method, *path; /* "/containers/…", without the version */
	json_t *body;              /* borrowed; NULL: none */
	bool upgrade;
	uint64_t timeout_us;
};
/* NULL where the endpoint makes no sense; then err says so. */
struct http_client *docker_send(uv_loop_t *loop, const char *endpoint,
	const struct docker_request *req, http_client_fn done, void *user, struct err *err);
/* The same, blocking, on a loop of its own; *ret_json may be NULL. 0 where any answer came. */
int docker_ask(const char *endpoint, const struct docker_request *req, unsigned *ret_status,
	json_t **ret_json, struct err *err) MUST_CHECK;

/* Words for an engine that cannot be reached, or what it refused (status ≥ 400; what: what was
 * asked of it). Fill *err, and return a negative errno. */
int docker_unreachable(const char *endpoint, const struct err *why, struct err *err);
int docker_refused(const struct http_client_answer *a, const char *what, struct err *err);
/* 0 where a container of that name had ended, or force is set, and is removed now; -ENOENT: the
 * engine knows none; -EBUSY: it lives; else the engine does not answer. Blocks as docker_facts()
 * does. */
int docker_remove_ended(const char *endpoint, const char *name, bool force);
