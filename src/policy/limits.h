/* limits.h: the limits that can be set, by name: what each accepts, and whether they fit together.
 */
#pragma once

#include <stddef.h>

#include "policy/policy.h"

/* A set of limits that were given by somebody: those are not scaled. */
typedef uint32_t limit_set;

struct limit_key {
	const char *name;
	bool size;      /* bytes, as "512M"; else a whole number */
	bool wide;      /* a uint64_t in struct policy_limits, else a uint32_t */
	bool in_broker; /* of all principals together */
	bool in_file;   /* has its place among a file's limits */
	size_t offset;
	uint64_t min, max;
};
extern const struct limit_key limit_keys[];
extern const size_t limit_keys_n;

struct policy_limits limits_default(void);
/* By name[0..n), or NULL. */
const struct limit_key *limits_find(const char *name, size_t n);
limit_set limits_bit(const struct limit_key *k);
uint64_t limits_get(const struct policy_limits *l, const struct limit_key *k);
void limits_put(struct policy_limits *l, const struct limit_key *k, uint64_t v);
/* What the key accepts: "a size from 128M to 1024G, written like 512M or 2G". */
void limits_accepts(const struct limit_key *k, char *ret_text, size_t size);
/* NAME=VALUE of a command line. */
int limits_parse(const char *assignment, const struct limit_key **ret_key, uint64_t *ret_value,
	struct err *err) MUST_CHECK;
/* workspace, tmp, shm and 64 MiB must fit into memory; those of the three that are not in given
 * scale down from their defaults. */
int limits_fit(struct policy_limits *l, limit_set given, struct err *err) MUST_CHECK;
/* In powers of 1,024, exactly: "512M", "1536K", "100". */
#define LIMITS_TEXT 24
void limits_size_text(uint64_t bytes, char ret_text[static LIMITS_TEXT]);
