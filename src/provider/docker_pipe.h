/* docker_pipe.h: carries a link's bytes between the stream that is attached to a container and the
 * socket that the link is given: what comes from the broker as it is, what the container prints
 * unpacked (docker_stream.h).
 *
 * Neither side's bytes pile up here: who does not read is no longer read for. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"

struct docker_pipe;
struct docker_pipe_events {
	/* The container printed to stderr. */
	void (*said)(void *user, const void *p, size_t n);
	/* The engine has ended the stream, or it is broken. Once. */
	void (*over)(void *user);
};

/* Takes both descriptors (nonblocking stream sockets), also where it fails. link_fd -1: the link
 * goes elsewhere, and only what the container prints to stderr is of interest. first: bytes that
 * have come from the engine already. head: bytes to be sent to it before the link's; taken
 * (emptied). */
int docker_pipe_new(uv_loop_t *loop, int engine_fd, int link_fd, const void *first, size_t n_first,
	struct buf *head, const struct docker_pipe_events *events, void *user,
	struct docker_pipe **ret) MUST_CHECK;
/* Closes both ends. No callback any more. NULL is fine. */
void docker_pipe_close(struct docker_pipe *p);
