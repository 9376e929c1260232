/* jobread.h: OP_JOB_READ and OP_JOB_SEARCH: what a job has printed. */
#pragma once

#include "agent/stream.h"

void jobread_open(struct stream *s, struct tlv_reader body);
void jobsearch_open(struct stream *s, struct tlv_reader body);
