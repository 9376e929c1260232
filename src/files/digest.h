/* digest.h: SHA-256 of presented files, by OpenSSL.
 *
 * The library is loaded when the first file is hashed: relocating it takes longer than all else
 * that a front, or a broker, does until it answers its first request, and most of them never hash.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/sha256.h"

struct digest;

int digest_new(struct digest **ret, struct err *err) MUST_CHECK;
int digest_update(struct digest *d, const void *p, size_t n, struct err *err) MUST_CHECK;
int digest_final(
	struct digest *d, uint8_t ret_hash[static SHA256_SIZE], struct err *err) MUST_CHECK;
void digest_free(struct digest *d);
