/* job_read.h: what a job printed, by offset: action read of the job tool. */
#pragma once

#include "mcp/call.h"

/* Members of an answer's pieces. */
extern const struct field job_piece_fields[];

/* With c->session and c->job known; answers the call. */
void job_read(struct call *c);
