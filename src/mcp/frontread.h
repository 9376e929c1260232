/* frontread.h: frames of a front or its broker (frontwire.h) as they come over a connection, for
 * both ends of it. */
#pragma once

#include "base/buf.h"
#include "mcp/frontwire.h"

/* One read; a frame of usual size is worked on where it was read to. */
#define FRONTREAD_CHUNK (128 * KIB)

struct frontread {
	enum front_side from;
	/* frame is borrowed. False: the connection is over. */
	bool (*frame)(void *user, const struct front_frame *frame);
	void *user;
	uint8_t *chunk; /* of FRONTREAD_CHUNK; nothing stays in it that waits for the rest of a
			   frame */
};

/* One read, without waiting. kept: the beginning of a frame that is not all there yet; it has room
 * for the largest frame and one read. False: the connection is over. */
bool frontread(const struct frontread *how, int fd, struct buf *kept) MUST_CHECK;
