/* shield.c: see shield.h. */
#include "agent/shield.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mount.h>

bool shield_wanted(const struct config *c)
{
	return c->empty && c->n_mounts > 0;
}

int shield_enter(const struct config *c)
{
	for (size_t i = 0; i < c->n_mounts; i++) {
		const char *path = c->mounts[i].path;
		char layers[2 * LIMIT_PATH];
		/* An overlay that nobody writes to has two layers at least. */
		int n = snprintf(layers, sizeof(layers), "lowerdir=%s:%s", path, c->empty);
		if (n < 0 || (size_t)n >= sizeof(layers))
			return -ENAMETOOLONG;
		if (mount("scb", path, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, layers) < 0)
			return -errno;
	}
	return 0;
}
