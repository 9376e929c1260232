/* audit.h: `scb audit`: what its commands share. */
#pragma once

#include "cli/settings.h"

#define AUDIT_ARGS_FILES 1024

struct audit_args {
	struct settings settings;
	const char *verb;
	const char *files[AUDIT_ARGS_FILES]; /* instead of the state directory's */
	size_t n_files;
	const char *anchor; /* verify */
	/* tail, export: which lines */
	uint64_t n; /* the last so many; UINT64_MAX: all */
	bool follow, json, ocsf;
	const char *event, *session, *principal, *tool, *since;
};

/* Where the broker's chain is; the caller frees it. No directory is made. */
int audit_state(const struct audit_args *a, char **ret, struct err *err) MUST_CHECK;
/* The state directory's chains: the broker's, then those of --solo processes. Calls fn with the
 * path of each …/audit.jsonl until it returns something else than 0. */
int audit_each_chain(const char *state, int (*fn)(void *user, const char *path), void *user);

/* Is it one of the lines that were asked for? By its text, without parsing. */
bool audit_wanted(const struct audit_args *a, const char *line, size_t n);
/* Calls fn for each whole line of fd from where it stands; *ret_rest (may be NULL): bytes at the
 * end without a newline, which are read again later. */
int audit_read_lines(int fd, void (*fn)(void *user, const char *line, size_t n), void *user);

int audit_verify(const struct audit_args *a, struct err *err);
int audit_tail(const struct audit_args *a, struct err *err);
int audit_export(const struct audit_args *a, struct err *err);
