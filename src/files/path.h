/* path.h: paths of a sandbox as callers write them. Pure: the agent confines each of them again. */
#pragma once

#include "base/err.h"

/* What a sandbox has. Zero: a workspace and no mount. */
struct path_view {
	const char *workspace; /* NULL, or another absolute path that names the workspace besides
				* /workspace (as code in a `local` sandbox sees it) */
	char **mounts;         /* their names */
	size_t n_mounts;
};

/* Checks path and gives its short form, owned by the caller: "." or "data/x.csv" for the workspace,
 * "/mnt/NAME" or "/mnt/NAME/x" for a mount, "/mnt" for the list of mounts.
 *
 * ERR_INVALID_ARGUMENT: empty, too long, no UTF-8. ERR_NO_SUCH_FILE: in a mount that is not there.
 * ERR_FILE_REFUSED: control characters, "..", or outside of workspace and mounts. */
int path_canonical(
	const struct path_view *v, const char *path, char **ret, struct err *err) MUST_CHECK;

/* "mounts: data, sales" or "no folder is mounted", for a sentence. */
#define PATH_MOUNTS 200
void path_mounts(const struct path_view *v, char ret_text[static PATH_MOUNTS]);

/* path for a sentence: valid UTF-8 without control characters, the end of it where it is long. */
#define PATH_SHOWN 120
void path_shown(const char *path, char ret_text[static PATH_SHOWN]);

/* A name that came from a sandbox, for people and models, owned by the caller: what is no UTF-8 and
 * every control character becomes U+FFFD. (Such a file can be reached by running commands only.) */
char *path_printable(const void *name, size_t n);
