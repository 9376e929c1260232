/* probe.h: booting one sandbox to see whether it works. */
#pragma once

#include "provider/provider.h"

/* Creates a sandbox of p with the agent in it, lets the agent prove its key, destroys it. Blocks
 * for as long as that takes, LIMIT_HELLO_US at most. Always 0 (see provider.h), but for a broken
 * host.
 */
int probe_hosted(const struct provider *p, struct provider_probe *ret, struct err *err);
