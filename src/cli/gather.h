/* gather.h: a front's side of secrets: reads variables and runs programs as its broker asks, and
 * keeps what it has, since a broker that is started anew asks again. Never blocks; for a loop of
 * poll(2). */
#pragma once

#include <poll.h>

#include "secret/vault.h"

struct gather;

struct gather *gather_new(void);
/* One for another principal of the same process: a variable can be read once, so that they share
 * what was read. first is freed last; NULL: none. */
struct gather *gather_new_beside(struct gather *first);
/* Ends what still runs. NULL is allowed. */
void gather_free(struct gather *g);
/* SECRETS came (frontsecret.h): variables are read, programs started. A program that has given its
 * value is run again only where the same broker asks again, that is after a change of its policy.
 * ERR_PROTOCOL. */
int gather_ask(struct gather *g, const char *p, size_t n, struct err *err) MUST_CHECK;
/* Another broker: what comes next is not asked again, and nothing is to be answered until then. */
void gather_forget_broker(struct gather *g);
/* What is to be polled for, at most max; how many. */
size_t gather_poll(const struct gather *g, struct pollfd *ret, size_t max);
/* The shorter of timeout_ms (-1: none) and what programs have left. */
int gather_timeout_ms(const struct gather *g, int timeout_ms);
/* Takes what programs have printed by now. */
void gather_work(struct gather *g);

struct gather_answer {
	const char *name;
	struct secret_value *value; /* NULL: none, why; borrowed */
	const char *why;
};
/* The next answer that is to be given: until gather_given(). False: none now. */
bool gather_answer(const struct gather *g, struct gather_answer *ret);
void gather_given(struct gather *g);
/* Everything asked is answered. */
bool gather_done(const struct gather *g);
