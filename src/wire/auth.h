/* auth.h: how broker and agent show each other that they hold the sandbox's key, without sending
 * it.
 *
 *   broker → agent  CHALLENGE  sync marker (16), nonce_b (32)
 *   agent → broker  PROOF      nonce_a (32), HMAC(key, "scb agent v1" nonce_b nonce_a)
 *   broker → agent  CONFIRM    HMAC(key, "scb broker v1" nonce_a nonce_b)
 *   agent → broker  HELLO      TLVs
 *
 * On a link that tears every later frame of the broker's is followed by the link's seal, the first
 * bytes of HMAC(key, "scb frame v1" nonce_b): a frame that was torn and got a wrong end has none,
 * and is not handled.
 */
#pragma once

#include <stdint.h>

#include "wire/sha256.h"

#define AUTH_KEY       32
#define AUTH_NONCE     32
#define AUTH_SYNC      16
#define AUTH_CHALLENGE (AUTH_SYNC + AUTH_NONCE)
#define AUTH_PROOF     (AUTH_NONCE + SHA256_SIZE)
#define AUTH_SEAL      8

/* What an agent on a link that tears looks for: everything before it is thrown away. */
extern const uint8_t auth_sync[AUTH_SYNC];

void auth_agent_mac(const uint8_t key[static AUTH_KEY], const uint8_t nonce_b[static AUTH_NONCE],
	const uint8_t nonce_a[static AUTH_NONCE], uint8_t ret_mac[static SHA256_SIZE]);
void auth_broker_mac(const uint8_t key[static AUTH_KEY], const uint8_t nonce_a[static AUTH_NONCE],
	const uint8_t nonce_b[static AUTH_NONCE], uint8_t ret_mac[static SHA256_SIZE]);
void auth_seal(const uint8_t key[static AUTH_KEY], const uint8_t nonce_b[static AUTH_NONCE],
	uint8_t ret_seal[static AUTH_SEAL]);
