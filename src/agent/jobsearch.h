/* jobsearch.h: OP_JOB_SEARCH: lines of a job's output that hold a text. Works in turns. */
#pragma once

#include "agent/stream.h"

void jobsearch_open(struct stream *s, struct tlv_reader body);
