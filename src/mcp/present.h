/* present.h: a file of the session's workspace handed to the person, whichever tool it is done for:
 * the policy's rule for present_output, the quota, the look for secrets and the line on record are
 * the same. */
#pragma once

#include "files/outputs.h"
#include "mcp/call.h"

struct present;
/* Called once, from the loop, when its end is on record; o is NULL where err is not. Both are gone
 * after the call. */
typedef void (*present_fn)(struct call *c, const struct output *o, const struct err *err);

struct present_wish {
	const char *path;  /* in the workspace */
	const char *title; /* NULL: none */
	const char *id;    /* "o-…" */
	bool again;        /* it may have been put there before, under this id: then that is it */
};
/* 0, *ret is there until its callback; or why it cannot be tried. c->session is set; texts are
 * copied. */
int present_start(struct call *c, const struct present_wish *wish, present_fn done,
	struct present **ret, struct err *err) MUST_CHECK;
/* No callback any more, and nothing stays of the file. NULL is fine. */
void present_abandon(struct present *p);

/* What a model reads of it, and shows the person; over HTTP with a link. */
void present_tell(struct call *c, const struct output *o);
/* The same as members of into: uri, name, path, bytes, sha256, mimeType, executable, link. */
void present_set(const struct call *c, const struct output *o, json_t *into);
