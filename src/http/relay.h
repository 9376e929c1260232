/* relay.h: a stream that goes by TLS, for who knows only plain ones. */
#pragma once

#include <uv.h>

#include "base/mem.h"

struct tls;

/* Carries bytes between peer_fd, by tls, and the socket that *ret_fd is the other end of, until one
 * of them ends; then both do. Neither side's bytes pile up: who does not read is no longer read
 * for. It has no owner: it lives as long as its descriptors. Takes peer_fd and tls, also where it
 * fails; 0, or a negative errno. */
int relay_start(uv_loop_t *loop, int peer_fd, struct tls *tls, int *ret_fd) MUST_CHECK;
