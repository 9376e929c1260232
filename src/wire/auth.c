/* auth.c: see auth.h. */
#include "wire/auth.h"

#include <string.h>

const uint8_t auth_sync[AUTH_SYNC] = {0x00, 0xff, 's', 'c', 'b', 0x1a, 0xd7, 0x5e, 0x91, 0x0c, 0xe3,
	0x66, 0xba, 0x28, 0x7f, 0x00};

static void mac(const uint8_t *key, const char *label, const uint8_t *first, const uint8_t *second,
	uint8_t *ret_mac)
{
	struct hmac_part parts[] = {
		{label, strlen(label)}, {first, AUTH_NONCE}, {second, AUTH_NONCE}};
	sha256_hmac(key, AUTH_KEY, parts, 3, ret_mac);
}

void auth_agent_mac(const uint8_t key[static AUTH_KEY], const uint8_t nonce_b[static AUTH_NONCE],
	const uint8_t nonce_a[static AUTH_NONCE], uint8_t ret_mac[static SHA256_SIZE])
{
	mac(key, "scb agent v1", nonce_b, nonce_a, ret_mac);
}

void auth_broker_mac(const uint8_t key[static AUTH_KEY], const uint8_t nonce_a[static AUTH_NONCE],
	const uint8_t nonce_b[static AUTH_NONCE], uint8_t ret_mac[static SHA256_SIZE])
{
	mac(key, "scb broker v1", nonce_a, nonce_b, ret_mac);
}

void auth_seal(const uint8_t key[static AUTH_KEY], const uint8_t nonce_b[static AUTH_NONCE],
	uint8_t ret_seal[static AUTH_SEAL])
{
	static const char label[] = "scb frame v1";
	struct hmac_part parts[] = {{label, sizeof(label) - 1}, {nonce_b, AUTH_NONCE}};
	uint8_t whole[SHA256_SIZE];
	sha256_hmac(key, AUTH_KEY, parts, 2, whole);
	memcpy(ret_seal, whole, AUTH_SEAL);
}
