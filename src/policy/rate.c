/* rate.c: see rate.h. The generic cell rate algorithm: of each principal one moment is known, at
 * which a call would come exactly in time; a burst may be ahead of it. */
#include "policy/rate.h"

#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

struct entry {
	char *principal;
	uint64_t due_us; /* when the next call would be in time */
	uint64_t refused, told_us;
};

struct rates {
	struct entry *v;
	size_t n;
};

struct rates *rates_new(void)
{
	return xcalloc(1, sizeof(struct rates));
}

void rates_free(struct rates *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++)
		free(r->v[i].principal);
	free(r->v);
	free(r);
}

static struct entry *find(struct rates *r, const char *principal)
{
	for (size_t i = 0; i < r->n; i++)
		if (strcmp(r->v[i].principal, principal) == 0)
			return &r->v[i];
	return NULL;
}

/* A new one, in the place of the one that would wait least where there is no other. */
static struct entry *add(struct rates *r, const char *principal)
{
	struct entry *e;
	if (r->n < RATES_MAX) {
		r->v = xrealloc(r->v, (r->n + 1) * sizeof(*r->v));
		e = &r->v[r->n++];
	} else {
		e = &r->v[0];
		for (size_t i = 1; i < r->n; i++)
			if (r->v[i].due_us < e->due_us)
				e = &r->v[i];
		free(e->principal);
	}
	*e = (struct entry){.principal = xstrdup(principal)};
	return e;
}

uint64_t rates_take(
	struct rates *r, const char *principal, const struct policy_rate *rule, uint64_t now_us)
{
	if (rule->per_minute == 0)
		return 0;
	struct entry *e = find(r, principal);
	if (!e)
		e = add(r, principal);
	uint64_t each_us = MAX(60 * USEC_PER_SEC / rule->per_minute, 1U);
	uint64_t ahead_us = (rule->burst - 1) * each_us;
	/* what was due under a rule that is no more cannot make it wait for longer than this one's
	 */
	uint64_t due_us = MIN(MAX(e->due_us, now_us), now_us + ahead_us + each_us);
	uint64_t wait_us = due_us > now_us + ahead_us ? due_us - ahead_us - now_us : 0;
	e->due_us = due_us + (wait_us ? 0 : each_us);
	return wait_us;
}

uint64_t rates_refused(struct rates *r, const char *principal, uint64_t now_us)
{
	struct entry *e = find(r, principal);
	if (!e)
		return 0;
	e->refused++;
	if (e->told_us && now_us - e->told_us < RATES_TELL_US)
		return 0;
	uint64_t n = e->refused;
	e->refused = 0;
	e->told_us = now_us;
	return n;
}
