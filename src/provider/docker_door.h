/* docker_door.h: how the agent in a container gets the socket that it listens on.
 *
 * That socket is made here, in the broker's runtime directory, where nothing in the container has a
 * name for it. The agent is given it as a descriptor, and its configuration as another, over a
 * second socket, the door, which is bound into the container. The door is open to the first who
 * comes, and that is PID 1 before any code runs; then it is shut and its directory removed, and
 * what remains of it in the container leads to nobody. A directory that is still there says so that
 * no code can have run. */
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "base/err.h"

struct docker_door;

/* Makes the socket at path and the directory with the door in it (both may go into a record
 * before); *ret_link is a first connection to the socket, which waits until the agent accepts it.
 * config is the agent's. On failure what was made stays, for who knows its names to remove. */
int docker_door_new(uv_loop_t *loop, const char *path, const char *directory,
	const struct buf *config, struct docker_door **ret, int *ret_link,
	struct err *err) MUST_CHECK;
/* The door's path on this host, in the directory: what is to be bound. The caller frees. */
char *docker_door_path(const char *directory);
/* Shuts it; the directory stays where nobody has come. NULL is fine. */
void docker_door_close(struct docker_door *d);
