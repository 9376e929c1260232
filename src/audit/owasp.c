/* owasp.c: see owasp.h. */
#include "audit/owasp.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

const struct owasp_row owasp_rows[] = {
	{"audit.", {"ASI08", "ASI10", "T8"}},
	{"broker.", {"ASI08", "T8"}},
	{"exec.", {"ASI05", "T11"}},
	{"file.", {"ASI02", "ASI05", "T2", "T11"}},
	{"handle.foreign", {"ASI03", "ASI07", "T9", "T16"}},
	{"link.auth_failed", {"ASI03", "ASI07", "T9", "T16"}},
	{"policy.", {"ASI03", "ASI09", "T3", "T10"}},
	{"rate.limited", {"ASI08", "ASI02", "T4"}},
	{"redact.hit", {"ASI03", "T3", "T9"}},
	{"secret.", {"ASI03", "T3", "T9"}},
	{"session.", {"ASI06", "T1", "T12"}},
	{"tool.", {"ASI02", "T2"}},
};
const size_t owasp_n_rows = ARRAY_SIZE(owasp_rows);

const char *const owasp_limit_reasons[] = {
	"timeout", "out_of_memory", "disk_full", "too_many_processes", "output_limit", NULL};
const char *const owasp_limit_ids[] = {"ASI08", "ASI02", "T4", NULL};

static const struct owasp_row *row_of(const char *event)
{
	const struct owasp_row *best = NULL;
	for (size_t i = 0; i < owasp_n_rows; i++)
		if (str_starts(event, owasp_rows[i].event) &&
			(!best || strlen(owasp_rows[i].event) > strlen(best->event)))
			best = &owasp_rows[i];
	return best;
}

static bool is_in(const char *const *list, const char *text)
{
	for (; *list; list++)
		if (strcmp(*list, text) == 0)
			return true;
	return false;
}

void owasp_put(struct line *l, const char *event, const char *exit_reason)
{
	static const char *const none[] = {NULL};
	const struct owasp_row *row = row_of(event);
	const char *const *ids = row ? row->ids : none;
	line_open(l, "owasp", '[');
	for (size_t i = 0; ids[i]; i++)
		line_text(l, NULL, ids[i], 8);
	if (exit_reason && is_in(owasp_limit_reasons, exit_reason))
		for (size_t i = 0; owasp_limit_ids[i]; i++)
			if (!is_in(ids, owasp_limit_ids[i]))
				line_text(l, NULL, owasp_limit_ids[i], 8);
	line_close(l, ']');
}
