/* idempotency.h: which job a caller's key stands for, and how that ended. Kept in the store, for 24
 * hours after it was last written, so that no later broker runs it again either. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "exec/exec.h"
#include "wire/sha256.h"

struct idempotency;
struct store;

/* Of principal, host and key: of fixed size, whatever the caller sends. */
struct idempotency_name {
	uint8_t hash[SHA256_SIZE];
};
void idempotency_name(
	const char *principal, const char *host, const char *key, struct idempotency_name *ret);

struct idempotency_record {
	uint8_t arguments[SHA256_SIZE]; /* what the key was first used with */
	char session[ID_TEXT_SIZE], job[ID_TEXT_SIZE];
	enum wire_job_kind kind;
	uint64_t timeout_us;
	/* once it has ended: what is told when the output is no longer kept */
	bool ended, has_exit;
	enum wire_reason reason;
	enum wire_evidence evidence;
	int exit_code, signal;
	uint64_t bytes_out, bytes_err, duration_us;
};

/* store: borrowed; NULL: nothing outlives this process. Read at the first question. */
struct idempotency *idempotency_new(struct store *store);
void idempotency_free(struct idempotency *k);
/* NULL: not known. Valid until the next call of this module. */
const struct idempotency_record *idempotency_find(
	struct idempotency *k, const struct idempotency_name *name);
/* Recorded before anything runs: where that fails, nothing may run. The oldest of
 * LIMIT_IDEMPOTENCY_KEYS is forgotten for it. */
int idempotency_put(struct idempotency *k, const struct idempotency_name *name,
	const struct idempotency_record *record, struct err *err) MUST_CHECK;
/* Nothing ran after all. */
void idempotency_remove(struct idempotency *k, const struct idempotency_name *name);
/* A job has ended, keyed or not. */
void idempotency_ended(struct idempotency *k, const char *job, const struct exec_status *status);
