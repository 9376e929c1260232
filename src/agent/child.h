/* child.h: what a forked child of the agent gives up before it runs code (design rules 1 to 5). */
#pragma once

#include "agent/config.h"

/* Once, in the agent itself, before the first child: Landlock's scopes (signals, abstract sockets)
 * around the whole sandbox, where CONFINE_LANDLOCK asks and the kernel has them (ABI 6). One domain
 * for all, not one a child: a later call must be able to `kill` the server that an earlier one
 * started. 0, or a negative errno; a kernel without the scopes is 0. */
int child_init(const struct config *c);

/* In a freshly forked child that still has the agent's rights: joins the code's cgroup, makes its
 * own user namespace (uid and gid 1000, no capability), sets the limits and oom_score_adj, empties
 * the bounding set, sets no_new_privs and the seccomp filter: as far as c->confine asks. Fails
 * closed. 0, or a negative errno and *ret_step names the step. Uses only system calls, no
 * allocation. Closes no descriptors. The agent must be single-threaded. */
int child_confine(const struct config *c, const char **ret_step);

/* In a supervisor: no capability, and none to be had by exec. */
void child_drop(void);

/* Agent-reported features for HELLO ("nested_userns", "seccomp", "landlock6", "openat2", …): tried
 * in a child, not guessed. Writes a NULL-terminated list of static strings. */
#define CHILD_FEATURES 16
void child_features(const struct config *c, const char *ret_names[CHILD_FEATURES]);
