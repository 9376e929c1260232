/* docker_engine.h: talking to a container engine by Docker's API (docs.docker.com/engine/api), from
 * version 1.41 on: Docker 20.10 and later, Podman's compatible socket.
 *
 * An endpoint is what DOCKER_HOST holds: unix://PATH or tcp://HOST[:PORT], with TLS where
 * DOCKER_TLS_VERIFY is set (DOCKER_CERT_PATH), without only on this machine. What an engine says is
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

/* api ("1.41") is spoken with that engine from now on; "": its own. */
void docker_speaks(const char *endpoint, const char *api);

struct docker_request {
	const char *method, *path; /* "/containers/…", without the version */
	const char *api;           /* NULL: as docker_speaks() has said */
	json_t *body;              /* borrowed; NULL: none */
	bool upgrade;
	uint64_t timeout_us;
};
/* NULL where the endpoint makes no sense; then err says so. */
struct http_client *docker_send(uv_loop_t *loop, const char *endpoint,
	const struct docker_request *req, http_client_fn done, void *user, struct err *err);
/* Words for an engine that cannot be reached, or what it refused (status ≥ 400; what: what was
 * asked of it). Fill *err, and return a negative errno. */
int docker_unreachable(const char *endpoint, const struct err *why, struct err *err);
int docker_refused(const struct http_client_answer *a, const char *what, struct err *err);
/* 0 where a container of that name had ended, or force is set, and is removed now; -ENOENT: the
 * engine knows none; -EBUSY: it lives; else the engine does not answer. Blocks, but not for
 * long: once 4 s were waited since docker_may_block() it asks no more. */
int docker_remove_ended(const char *endpoint, const char *name, bool force);
/* A sweep begins. */
void docker_may_block(void);
