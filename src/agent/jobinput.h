/* jobinput.h: OP_JOB_INPUT: bytes for the standard input of a running command or cell. */
#pragma once

#include "agent/job.h"
#include "agent/stream.h"

void jobinput_open(struct stream *s, struct tlv_reader body);
/* The job's standard input is over: an operation that still writes to it is answered. */
void jobinput_close(struct job *j);
