/* webgive.h: secrets from variables and programs for principals that come over HTTP: they have no
 * front that could read them, so that the broker reads them itself, in its own environment. */
#pragma once

#include "cli/parts.h"

struct webgive;
/* principals (n of them) are copied. Variables and programs of what the policy says are read from
 * now on. */
struct webgive *webgive_new(struct parts *parts, const char *const *principals, size_t n);
/* The policy has changed, and sessions know (sessions_secrets_reload()): all is asked once more. */
void webgive_reload(struct webgive *g);
/* Ends programs that still run, and lets go of what was given. From the loop. NULL is fine. */
void webgive_close(struct webgive *g);
