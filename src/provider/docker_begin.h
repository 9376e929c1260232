/* docker_begin.h: create, attach, start: requests that follow one another on the loop. Their
 * failures go to docker_box_tell(). */
#pragma once

#include "provider/docker_box.h"

/* Makes the container of b->wish, attaches to it and starts it. */
void docker_begin_make(struct docker_box *b);
/* Attaches to it; starts it where it was not found running (b->found). */
void docker_begin_attach(struct docker_box *b);
