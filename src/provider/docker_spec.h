/* docker_spec.h: a sandbox as a container engine is asked for it (docs/docker.md). */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "provider/boot.h"
#include "provider/docker_facts.h"
#include "provider/provider.h"

/* Inside the container. */
#define DOCKER_AGENT     "/.scb/scb-agent"
#define DOCKER_KERNELS   "/.scb/kernels"
#define DOCKER_DOOR      "/.scb/door"
#define DOCKER_WORKSPACE "/workspace"
#define DOCKER_MNT       "/mnt"

/* Labels: whose it is. */
#define DOCKER_LABEL_SANDBOX "dev.scb.sandbox" /* its id */
#define DOCKER_LABEL_BROKER  "dev.scb.broker"  /* runtime directory of its broker */
#define DOCKER_LABEL_BOOT    "dev.scb.boot"    /* boot id of the broker's machine */
#define DOCKER_LABEL_OWNER   "dev.scb.owner"   /* "uid:N" of the broker */

/* A name that belongs to the sandbox's id alone. The caller frees. */
char *docker_name(const char *sandbox_id);
/* Will it be gVisor's runtime? */
bool docker_gvisor(const struct docker_facts *f);
void docker_capabilities(const struct docker_facts *f, struct capabilities *ret);
/* Is the link a unix socket of this host (docker_door.h)? Else it is the container's attached
 * stdio: of an engine elsewhere, which could not bind the door, and of gVisor, whose sandboxes
 * cannot connect to this kernel's sockets. */
bool docker_has_door(const struct docker_facts *f, const char *endpoint);
/* The body of POST /containers/create. door: its path on this host; NULL: there is none. */
json_t *docker_container(
	const struct sandbox_spec *spec, const struct docker_facts *f, const char *door);
/* The configuration of its agent. The caller frees; it holds the key. 0, or -ENOBUFS. */
int docker_boot(const struct sandbox_spec *spec, const struct docker_facts *f, const uint8_t *key,
	struct buf *ret) MUST_CHECK;
