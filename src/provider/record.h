/* record.h: the note about a running sandbox in the runtime directory, by which a later broker
 * removes what a dead one left. */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct record {
	char *path;
	/* Locked (shared). The sandbox inherits one, the broker keeps the other: whoever gets the
	 * exclusive lock knows that both are gone. */
	int shared_fd, guard_fd;
};
#define RECORD_NONE ((struct record){.shared_fd = -1, .guard_fd = -1})

/* Writes ID.box under dir. cgroups: groups to remove, in the order they were made; workdir (may be
 * NULL): a directory to remove with all that is in it; socket: to unlink. */
int record_create(const char *dir, const char *id, char *const *cgroups, size_t n_cgroups,
	const char *socket, const char *workdir, struct record *ret, struct err *err) MUST_CHECK;
void record_remove(struct record *r);
/* See provider_sweep(). */
int record_sweep(const char *dir);

/* Removes a directory and everything in it, of any depth, following nothing, in a bounded number of
 * descriptors. 0, or the first negative errno. Blocking. */
int record_remove_tree(const char *path);
/* This boot's id, as text; static. */
const char *record_boot_id(void);
