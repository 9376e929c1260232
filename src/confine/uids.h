/* uids.h: unprivileged uids for the sandboxes of a root broker: one each, so that no process of a
 * sandbox ever has host uid 0 and no two sandboxes can signal, trace or starve one another. */
#pragma once

#include <sys/types.h>

#include "base/err.h"

/* Where uids are claimed: one locked file a uid, 0700. */
#define UIDS_DIR "/run/scb/uids"

struct uid_claim {
	uid_t uid; /* the gid has the same number; 0: nothing claimed */
	/* The claim lasts while either of these is open anywhere. shared_fd is for the sandbox to
	 * inherit: the uid stays taken exactly as long as a process of it lives, whoever dies
	 * first. guard_fd is the broker's own: a hostile agent can unlock the first, not this. */
	int shared_fd;
	int guard_fd;
};
#define UID_CLAIM_NONE ((struct uid_claim){.shared_fd = -1, .guard_fd = -1})

/* Claims a free uid of the range (SCB_UID_RANGE=FIRST-LAST, else the first of two built-in ranges
 * that this user namespace maps). ERR_LIMIT_REACHED where all are taken, ERR_PROVIDER_UNUSABLE
 * where no range is mapped. Root only. */
int uids_claim(struct uid_claim *ret, struct err *err) MUST_CHECK;
/* Shares the claim of a uid that another process made, while its sandbox lives. */
int uids_share(uid_t uid, struct uid_claim *ret, struct err *err) MUST_CHECK;
/* Gives up this process's part of the claim; the name goes too, unless the sandbox still holds it.
 */
void uids_release(struct uid_claim *c);
/* Removes the names of uids that nobody holds. The number removed. */
int uids_sweep(void);
