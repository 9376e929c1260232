/* docker_stream.h: what a container without a terminal prints, as the engine's attach sends it
 * (Docker's API, "ContainerAttach", stream format), without I/O: frames of eight bytes of header
 * (which output, three zeros, be32 length) and their bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/mem.h"

#define DOCKER_STREAM_HEADER 8
enum docker_stream_kind { DOCKER_STDOUT = 1, DOCKER_STDERR = 2 };

struct docker_stream {
	uint8_t head[DOCKER_STREAM_HEADER];
	size_t have;   /* bytes of the header */
	uint32_t left; /* bytes of the frame still to come */
};

/* Takes the next piece of p[0..n): how many bytes of it, and *ret_piece of *ret_n of them as output
 * of *ret_kind (0 bytes: none yet). -EPROTO where it is no such stream. */
ssize_t docker_stream_next(struct docker_stream *s, const uint8_t *p, size_t n,
	enum docker_stream_kind *ret_kind, const uint8_t **ret_piece, size_t *ret_n) MUST_CHECK;
