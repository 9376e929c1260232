/* address.h: where the broker of a state directory is: the file broker.json, and the lock. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "cli/settings.h"

struct address {
	char *socket; /* owned */
	int pid;
	/* What it was started with. A broker that ends unused takes it back; one that died, or was
	 * asked to leave, leaves it to its successor, for whoever still uses it. */
	struct arglist options;
	bool since_boot;
};
/* 0, or a negative errno: -ENOENT where there is none. */
int address_read(const char *state, struct address *ret) MUST_CHECK;
void address_done(struct address *a);
#define _cleanup_address_ CLEANUP(address_done)
/* For the broker, under the lock. */
int address_write(const char *state, const char *socket, const struct settings *settings,
	struct err *err) MUST_CHECK;
void address_remove(const char *state);

/* The lock of the state directory, by flock(2): whoever holds this descriptor, or a copy of it, is
 * its broker or is about to start it. -EWOULDBLOCK: somebody holds it. */
int address_lock(const char *state, struct err *err) MUST_CHECK;
/* The broker writes its number into the lock. */
void address_lock_sign(int lock_fd);
/* Who holds it, where that is known and alive; else 0. */
int address_lock_holder(const char *state);
/* Is that descriptor the lock? */
bool address_is_lock(const char *state, int fd);
