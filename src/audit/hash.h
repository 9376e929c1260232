/* hash.h: SHA-256 and HMAC-SHA-256 of the audit chain.
 *
 * By the small SHA-256 of the link key (wire/sha256.h) until HASH_OWN_BYTES are hashed, and by
 * OpenSSL's from then on: loading that takes 4 ms, which a broker that is to answer its first
 * request does not have, and then it is eight times as fast (0.3 µs for a line of 450 bytes). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wire/sha256.h"

#define HASH_SIZE     SHA256_SIZE
#define HASH_TEXT     (2 * HASH_SIZE + 1)
#define HASH_KEY_SIZE 32

void hash_bytes(const void *p, size_t n, uint8_t ret[static HASH_SIZE]);
void hash_mac(const uint8_t key[static HASH_KEY_SIZE], const void *p, size_t n,
	uint8_t ret[static HASH_SIZE]);
/* Loads OpenSSL now: for programs that hash a whole log. Where it cannot be loaded, the small one
 * goes on. */
void hash_load(void);

/* In pieces. */
struct hash;
struct hash *hash_new(void);
void hash_update(struct hash *h, const void *p, size_t n);
/* Frees h; ret NULL: nobody wants it. */
void hash_end(struct hash *h, uint8_t *ret);
