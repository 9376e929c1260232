/* sha256.h: SHA-256 (FIPS 180-4) and HMAC (RFC 2104), small: for the link key, on both its ends,
 * and for files that the agent hashes. The agent links no library; where speed matters the broker
 * uses OpenSSL. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32

struct sha256 {
	uint32_t state[8];
	uint64_t total;
	uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_update(struct sha256 *s, const void *p, size_t n);
void sha256_final(struct sha256 *s, uint8_t ret_digest[static SHA256_SIZE]);

struct hmac_part {
	const void *p;
	size_t n;
};
/* HMAC-SHA-256 of the parts one after the other; key ≤ 64 bytes. */
void sha256_hmac(const void *key, size_t key_len, const struct hmac_part *parts, size_t n_parts,
	uint8_t ret_mac[static SHA256_SIZE]);
