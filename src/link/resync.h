/* resync.h: what a link needs on a stream that tears (docs/agent-protocol.md), without I/O: finding
 * the answer to one's challenge among what an earlier link left on its way, and keeping what would
 * look like a challenge out of the frames that are sent. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "wire/auth.h"

/* Where the PROOF frame that answers nonce begins in p[0..n), or -1; then the last *ret_keep bytes
 * may be the beginning of it. */
ssize_t resync_find_proof(const uint8_t *p, size_t n, const uint8_t key[static AUTH_KEY],
	const uint8_t nonce[static AUTH_NONCE], size_t *ret_keep);
/* How many of the bytes may go out in one frame: up to the middle of the first sync marker. */
size_t resync_split(const uint8_t *p, size_t n);
