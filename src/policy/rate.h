/* rate.h: how often each principal may call. Outlives what a reload exchanges. */
#pragma once

#include "policy/policy.h"

/* Principals whose last calls are remembered. One that has made none for a minute is as good as
 * new, so that only that many busy at once are told apart; beyond it the one that waits least is
 * forgotten.
 */
#define RATES_MAX 1024
/* So often at most it is worth a line in the audit log that a principal was refused. */
#define RATES_TELL_US (10 * 1000 * 1000)

struct rates;

struct rates *rates_new(void);
void rates_free(struct rates *r);
/* One call at now_us (CLOCK_MONOTONIC). 0: it may be made; else after so many µs. */
uint64_t rates_take(
	struct rates *r, const char *principal, const struct policy_rate *rule, uint64_t now_us);
/* One was refused: how many were since the last time that this was not 0; 0: not to be told yet. */
uint64_t rates_refused(struct rates *r, const char *principal, uint64_t now_us);
