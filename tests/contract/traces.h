/* traces.h: for tests: what there is of sandboxes on this host, to be the same before and after. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "contract/box.h"

struct traces {
	size_t fds, mounts, children, groups, names, uids;
};
struct traces traces(const struct box_host *host);
/* Notes the differences. */
bool traces_same(const struct traces *a, const struct traces *b);

/* Names in a directory that begin so, without hidden ones. */
size_t traces_count(const char *path, const char *prefix);
/* Processes below this one, zombies too. */
size_t traces_children(void);
/* Control groups of this process's boxes. */
size_t traces_groups(void);
/* Gives this process a range of uids of its own, so that other brokers of this machine do not
 * count; what their names begin with. */
void traces_own_uids(void);
const char *traces_uid_prefix(void);
