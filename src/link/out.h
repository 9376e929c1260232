/* out.h: bytes on their way to an agent: to the socket at once where it takes them, queued where
 * not.
 */
#pragma once

#include <sys/uio.h>

#include "base/buf.h"

struct link_out {
	int fd; /* borrowed; nonblocking or not */
	struct buf bytes;
	size_t sent;    /* at the start of bytes, gone already */
	uint64_t total; /* ever given to the socket */
};

void link_out_init(struct link_out *o, int fd);
void link_out_done(struct link_out *o);

size_t link_out_queued(const struct link_out *o);
/* How much an operation may queue now: LIMIT_LINK_OUT_QUEUE less a reserve for the link's own short
 * frames. */
size_t link_out_room(const struct link_out *o);

/* What the socket takes now, past the queue: 0 and *ret_n, or a negative errno where it is broken.
 */
int link_out_now(
	struct link_out *o, const struct iovec *iov, size_t n_iov, size_t *ret_n) MUST_CHECK;
/* All of it; what the socket does not take, or all where hold is set, is queued. 0, -ENOBUFS where
 * the peer has not read for too long, or another negative errno where the socket is broken. */
int link_out_send(struct link_out *o, const struct iovec *iov, size_t n_iov, bool hold) MUST_CHECK;
/* All of it with descriptors (at most LINK_OUT_FDS), or nothing: -EAGAIN where something is queued
 * or the socket takes nothing now. What it takes not at once of the bytes is queued; else as
 * link_out_send(). */
#define LINK_OUT_FDS 4
int link_out_with_fds(struct link_out *o, const struct iovec *iov, size_t n_iov, const int *fds,
	size_t n_fds) MUST_CHECK;
/* As much of the queue as the socket takes: 0, or a negative errno where it is broken. */
int link_out_flush(struct link_out *o) MUST_CHECK;
