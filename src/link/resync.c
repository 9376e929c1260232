/* resync.c: see resync.h. */
#include "link/resync.h"

#include <string.h>

#include "base/id.h"
#include "wire/frame.h"

#define PROOF_FRAME (FRAME_HEADER + AUTH_PROOF)

ssize_t resync_find_proof(const uint8_t *p, size_t n, const uint8_t key[static AUTH_KEY],
	const uint8_t nonce[static AUTH_NONCE], size_t *ret_keep)
{
	uint8_t head[FRAME_HEADER], mac[SHA256_SIZE];
	frame_header(head, FRAME_PROOF, 0, 0, AUTH_PROOF);
	for (size_t from = 0; n - from >= PROOF_FRAME;) {
		const uint8_t *at = memmem(p + from, n - from, head, sizeof(head));
		if (!at || (size_t)(p + n - at) < PROOF_FRAME)
			break;
		const uint8_t *nonce_a = at + FRAME_HEADER;
		auth_agent_mac(key, nonce, nonce_a, mac);
		if (id_equal(mac, nonce_a + AUTH_NONCE, sizeof(mac)))
			return at - p;
		from = (size_t)(at - p) + 1;
	}
	*ret_keep = n < PROOF_FRAME ? n : PROOF_FRAME - 1;
	return -1;
}

size_t resync_split(const uint8_t *p, size_t n)
{
	const uint8_t *at = n < AUTH_SYNC ? NULL : memmem(p, n, auth_sync, AUTH_SYNC);
	return at ? (size_t)(at - p) + AUTH_SYNC / 2 : n;
}
