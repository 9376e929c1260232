/* docker_facts.h: what is known of the engine that DOCKER_HOST names, and of its image. Asking
 * takes time, and a hostile or broken engine never answers: what needs to know is told what was
 * learnt last, and whoever can wait does so on the loop. */
#pragma once

#include "base/err.h"
#include "provider/provider.h"

struct docker_facts {
	char version[48]; /* "Docker 20.10.24" */
	char api[16];     /* the version that is spoken: "1.41" */
	bool podman;
	bool same_kernel;  /* as this process's: it most likely runs on this host */
	bool live_restore; /* containers survive a restart of the engine */
	bool small_ids;    /* a user namespace that maps no uid above 65535 */
	bool runsc;        /* registered */
	bool runsc_no_net; /* with --network=none among its own arguments */
	bool memory, pids, cpu;
	unsigned cgroup;  /* 1 or 2 */
	struct err image; /* code other than 0: BROKER_IMAGE is not there, or not fit */
};

/* Nothing blocks: what was learnt last. 0; ERR_PROVIDER_UNUSABLE with what to do, also where nobody
 * has asked yet. *ret is valid until the loop goes on. */
int docker_known(const struct docker_facts **ret, struct err *err) MUST_CHECK;
/* Is its image there, too? */
int docker_known_image(struct err *err) MUST_CHECK;
/* See struct provider, await. An engine is asked anew once a minute, one that has failed after 2 s,
 * or a minute where it hung; all of it takes 15 s at most. */
bool docker_await(uv_loop_t *loop, struct provider_wait *w);
/* It has just refused what by these facts it should do: they are asked for anew. */
void docker_doubt(void);

/* Words for an image that the engine does not have. */
int docker_no_image(struct err *err);
