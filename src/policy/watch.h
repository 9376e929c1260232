/* watch.h: a policy file that may change at any time: written anew, replaced by renaming, removed,
 * the link that leads to it turned to another one, or not there yet. Tells of it within a tenth of
 * a second, once for what comes together. */
#pragma once

#include <uv.h>

struct policy_watch;

/* changed is called from the loop: once soon after the beginning, for what was changed before that,
 * then after each change. Does not keep the loop going. NULL where path is. */
struct policy_watch *policy_watch_new(
	uv_loop_t *loop, const char *path, void (*changed)(void *user), void *user);
/* Frees it from the loop's next turn. NULL is allowed. */
void policy_watch_close(struct policy_watch *w);
