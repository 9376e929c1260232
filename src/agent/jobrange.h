/* jobrange.h: which output of a job an operation is about: JOB, CHANNEL, OFFSET, LENGTH, and what
 * to look for there. */
#pragma once

#include "agent/job.h"
#include "agent/stream.h"

/* Points into the message. */
struct jobrange {
	struct job *job;
	const uint8_t *id;
	uint64_t channel, offset, length, limit;
	const uint8_t *pattern;
	size_t pattern_len;
	bool bad;
};

/* False where the stream has been ended with the reason. */
bool jobrange_read(struct stream *s, struct tlv_reader body, struct jobrange *ret) MUST_CHECK;
