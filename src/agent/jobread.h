/* jobread.h: OP_JOB_READ: what a job has printed, by offset. */
#pragma once

#include "agent/stream.h"

void jobread_open(struct stream *s, struct tlv_reader body);
