/* jobweigh.h: why a job ended as it did, as far as more than its status tells. */
#pragma once

#include "agent/job.h"

/* Of a job that has just ended, with what its status says in *reason and *evidence. A better reason
 * needs a job that failed and a fact that fits: a counter that moved while it ran, a file system
 * that it filled, or its own words. What merely happened meanwhile becomes a note. */
void job_weigh(struct job *j, enum wire_reason *reason, enum wire_evidence *evidence);
