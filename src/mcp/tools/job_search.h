/* job_search.h: the action search of the tool job. */
#pragma once

#include "mcp/call.h"

/* What the argument "stream" names; fallback where it is not given. */
enum wire_channel job_channel(const struct call *c, enum wire_channel fallback);
const char *job_channel_name(enum wire_channel channel);

extern const struct field job_hit_fields[];

/* With c->job and c->session known. */
void job_search(struct call *c);
