/* owasp.h: which ids of OWASP's lists an event bears on: the Top 10 for Agentic Applications (2026
 * edition, v1.0: ASI01 … ASI10) and Agentic AI, Threats and Mitigations (v1.1: T1 … T17).
 * docs/audit.md has the same table; tests/unit/test-audit-docs.c holds the two together. */
#pragma once

#include <stddef.h>

#include "audit/line.h"

#define OWASP_IDS 7

struct owasp_row {
	const char *event; /* the longest one that the event's name begins with counts */
	const char *ids[OWASP_IDS + 1];
};
extern const struct owasp_row owasp_rows[];
extern const size_t owasp_n_rows;
/* What ended by one of these bears on these ids, too. */
extern const char *const owasp_limit_reasons[]; /* NULL ends them */
extern const char *const owasp_limit_ids[];     /* NULL ends them */

/* The member `owasp`: in the order of the table, each id once. exit_reason may be NULL. */
void owasp_put(struct line *l, const char *event, const char *exit_reason);
