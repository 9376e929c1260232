/* shield.h: what a mount shows to code beside files and directories.
 *
 * A read-only bind still leads to the host's sockets and FIFOs in it: read-only keeps nobody from
 * connecting to a socket that its uid may write. So each child sees a mount through an overlay in a
 * mount namespace of its own, in which sockets and FIFOs are others than the host's: a connection
 * is refused, a FIFO is empty. */
#pragma once

#include "agent/config.h"

/* True where there is something to shield and BOOT_EMPTY asks for it: the child needs a mount
 * namespace of its own. */
bool shield_wanted(const struct config *c);

/* In a child that has just made its user and mount namespace, before it gives up its capabilities.
 * 0, or a negative errno: the code would see a mount itself (-EPERM before Linux 5.11; -EINVAL
 * where another file system is mounted within it, which the provider refuses before). No
 * allocation. */
int shield_enter(const struct config *c);
