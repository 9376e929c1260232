/* masked.h: what a sandbox says of its jobs, masked before anything else is done with it: before
 * lines are collapsed, bytes that are no text replaced, and what is long cut. Pure. */
#pragma once

#include "exec/exec.h"
#include "secret/redact.h"

/* All texts of s in place, but for JSON, whose strings are masked once it has been read. Where
 * output is left out between head and tail, and at the end of what a running job has printed so
 * far, what could be a part of a secret is masked, too. redacting may be NULL. */
void exec_status_mask(struct exec_status *s, const struct redacting *redacting);

/* "application/json" and the like. */
bool exec_mime_is_json(const char *type);
