/* docker_why.h: why a container's link ended: the engine is asked for its state, and asked again
 * where it is away, until it is known whether the container goes on. */
#pragma once

#include "provider/docker_box.h"

/* Asks, if nobody does yet. The answer goes to docker_box_tell(), or the link goes on. */
void docker_why_ask(struct docker_box *b);
/* The link's socket is over. */
void docker_why_link_over(struct docker_box *b);
/* What is attached is over (struct docker_pipe_events). */
void docker_why_stream_over(void *box);
