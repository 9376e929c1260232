/* bwrap_args.h: bubblewrap's argument list, and what of the host's system a sandbox sees. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "provider/launch.h"

#define BWRAP_ARGS 512

struct bwrap_args {
	char *v[BWRAP_ARGS + 1]; /* owned, NULL-terminated */
	size_t n;
};

void bwrap_args_done(struct bwrap_args *a);
/* Each argument is copied; the list ends with a NULL. */
void bwrap_add(struct bwrap_args *a, ...) __attribute__((sentinel));
void bwrap_add_number(struct bwrap_args *a, const char *option, int number);
/* A sized tmpfs that every uid may write to. */
void bwrap_add_tmpfs(struct bwrap_args *a, const char *path, uint64_t size);
/* An empty directory, 0755 (the parents that bubblewrap makes by itself are 0700). */
void bwrap_add_dir(struct bwrap_args *a, const char *path);
/* root NULL: /usr with the links or directories beside it, /proc, /dev, what of /etc programs need
 * and nothing of the host's people: made-up passwd, group, hosts and the like, handed over as owned
 * descriptors of l. Else the same of the image that is unpacked in root, and all of its /etc. */
int bwrap_add_system(
	struct bwrap_args *a, struct launch *l, const char *root, struct err *err) MUST_CHECK;
