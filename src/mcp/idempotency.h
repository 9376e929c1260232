/* idempotency.h: which job a caller's key already stands for. Kept in memory, for 24 hours. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "wire/sha256.h"

struct idempotency;

struct idempotency_record {
	uint8_t arguments[SHA256_SIZE]; /* what the key was first used with */
	char session[ID_TEXT_SIZE], job[ID_TEXT_SIZE];
	uint64_t timeout_us;
};

struct idempotency *idempotency_new(void);
void idempotency_free(struct idempotency *k);
/* Of this principal alone; NULL: not known. Valid until the next call of this module. */
const struct idempotency_record *idempotency_find(
	struct idempotency *k, const char *principal, const char *key);
/* Recorded before anything runs. The oldest of LIMIT_IDEMPOTENCY_KEYS is forgotten for it. */
void idempotency_put(struct idempotency *k, const char *principal, const char *key,
	const struct idempotency_record *record);
/* Nothing ran after all. */
void idempotency_remove(struct idempotency *k, const char *principal, const char *key);
