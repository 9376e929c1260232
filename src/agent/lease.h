/* lease.h: when the agent ends itself: its lease has run out and nothing is busy, no broker has
 * ever come, or one told it to. With BOOT_ORPHAN_MS 0 it ends with its link; else it goes on
 * without a broker by the same rule, with a lease of BOOT_ORPHAN_MS after what was still busy when
 * the lease ran out, or after the link's end where there was no lease. Times count on
 * CLOCK_BOOTTIME, which goes on while the machine sleeps. Also the operations OP_LEASE, OP_SHUTDOWN
 * and OP_USAGE. */
#pragma once

#include "agent/config.h"
#include "agent/stream.h"

/* c is kept. 0, or a negative errno. */
int lease_init(const struct config *c) MUST_CHECK;
void lease_link_up(void);
void lease_link_down(void);
/* Ends every process, then the agent. */
NORETURN void lease_end(const char *why);
/* Once a round, after the link was flushed: the end that OP_SHUTDOWN asked for, or that of a lease
 * that ran out while something was busy. */
void lease_end_if_due(void);
extern const struct stream_handler lease_handlers[];
