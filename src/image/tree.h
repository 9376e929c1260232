/* tree.h: is an unpacked root what its manifest says? And removing one. */
#pragma once

#include "base/err.h"
#include "image/manifest.h"

/* Each file's SHA-256, each mode and link, nothing missing and nothing more. fn is told of each
 * fault, up to TREE_FAULTS; 0, or ERR_CONFLICT with how many there are. */
#define TREE_FAULTS 20
int tree_verify(int root, const struct manifest *m, void (*fn)(void *user, const char *fault),
	void *user, struct err *err) MUST_CHECK;
/* A folder and all in it, whatever its modes. */
int tree_remove(int dirfd, const char *name, struct err *err) MUST_CHECK;
