/* tail.h: what the end of an audit log says has happened. For audit.c alone. */
#pragma once

#include "audit/chain.h"

struct tail;

/* By which member of its line an event is known. */
enum tail_subject { TAIL_NOTHING, TAIL_DELIVERY, TAIL_JOB, TAIL_SESSION };
enum tail_subject tail_subject(const char *event);

/* Reads the last LIMIT_AUDIT_TAIL bytes of the log. What cannot be read has not happened, as far as
 * anybody knows; that is logged. */
struct tail *tail_read(struct chain *c);
void tail_free(struct tail *t);
/* subject NULL: nothing to keep. */
void tail_add(struct tail *t, const char *event, const char *subject);
bool tail_has(const struct tail *t, const char *event, const char *subject);
/* Reads the log again, for exec.start of jobs that have no exec.end in t. */
void tail_each_open_job(const struct tail *t, struct chain *c,
	void (*fn)(void *user, const struct audit_job *j), void *user);
