/* sessionenv.h: variables that the broker gives a sandbox once it knows whose it is (OP_ENV): every
 * job and kernel that starts from then on has them, and kernels that run already are told. */
#pragma once

#include "agent/jobstart.h"
#include "agent/stream.h"

/* NAME=value each; NULL at its end, or NULL where there is none. */
char *const *sessionenv_all(void);
size_t sessionenv_count(void);
extern const struct stream_handler sessionenv_handlers[];
