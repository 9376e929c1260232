/* limits.c: see limits.h. */
#include "policy/limits.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"

/* What python, the shell and a little data need beside the file systems in memory. */
#define MEMORY_RESERVE (64 * MIB)
#define MEMORY_MIN     (128 * MIB)
#define MEMORY_MAX     (1024 * GIB)
/* A file system smaller than this holds nothing useful. */
#define TMPFS_MIN (1 * MIB)
#define TTL_MAX   (365 * 24 * 3600)

#define FIELD(member) offsetof(struct policy_limits, member)
#define SIZE(name, member, min, max)                                                               \
	{                                                                                          \
		name, true, true, false, true, FIELD(member), min, max                             \
	}
#define COUNT(name, member, min, max)                                                              \
	{                                                                                          \
		name, false, false, false, true, FIELD(member), min, max                           \
	}
#define BROKER(name, member, min, max)                                                             \
	{                                                                                          \
		name, false, false, true, true, FIELD(member), min, max                            \
	}
const struct limit_key limit_keys[] = {
	SIZE("memory", memory, MEMORY_MIN, MEMORY_MAX),
	SIZE("workspace", workspace, TMPFS_MIN, MEMORY_MAX),
	SIZE("tmp", tmp, TMPFS_MIN, MEMORY_MAX),
	SIZE("shm", shm, TMPFS_MIN, MEMORY_MAX),
	COUNT("cpus", cpus, 1, 1024),
	COUNT("pids", pids, 16, 32768),
	COUNT("timeout_s", timeout_s, 1, LIMIT_TIMEOUT_S),
	COUNT("max_timeout_s", max_timeout_s, 1, LIMIT_TIMEOUT_S),
	COUNT("wait_s", wait_s, 1, LIMIT_WAIT_S),
	COUNT("idle_ttl_s", idle_ttl_s, 1, TTL_MAX),
	COUNT("absolute_ttl_s", absolute_ttl_s, 1, TTL_MAX),
	BROKER("sessions", sessions, 1, 10000),
	COUNT("sessions_principal", sessions_principal, 1, 10000),
	BROKER("pool", pool, 0, LIMIT_POOL),
	/* in a file it is outputs.quota */
	{"outputs", true, true, false, false, FIELD(outputs_bytes), MIB, MEMORY_MAX},
};
const size_t limit_keys_n = ARRAY_SIZE(limit_keys);

struct policy_limits limits_default(void)
{
	return (struct policy_limits){
		.memory = DEFAULT_MEMORY,
		.workspace = DEFAULT_WORKSPACE,
		.tmp = DEFAULT_TMP,
		.shm = DEFAULT_SHM,
		.cpus = DEFAULT_CPUS,
		.pids = DEFAULT_PIDS,
		.wait_s = DEFAULT_WAIT_S,
		.max_wait_s = LIMIT_WAIT_S,
		.timeout_s = DEFAULT_TIMEOUT_S,
		.max_timeout_s = LIMIT_TIMEOUT_S,
		.idle_ttl_s = DEFAULT_IDLE_TTL_S,
		.absolute_ttl_s = DEFAULT_ABSOLUTE_TTL_S,
		.sessions = LIMIT_SESSIONS,
		.sessions_principal = LIMIT_SESSIONS_PRINCIPAL,
		.pool = DEFAULT_POOL,
		.outputs_bytes = LIMIT_OUTPUTS_BYTES,
	};
}

/* ---- one of them ---- */

const struct limit_key *limits_find(const char *name, size_t n)
{
	for (size_t i = 0; i < limit_keys_n; i++)
		if (strlen(limit_keys[i].name) == n && memcmp(limit_keys[i].name, name, n) == 0)
			return &limit_keys[i];
	return NULL;
}

limit_set limits_bit(const struct limit_key *k)
{
	return (limit_set)1 << (k - limit_keys);
}

uint64_t limits_get(const struct policy_limits *l, const struct limit_key *k)
{
	const char *field = (const char *)l + k->offset;
	return k->wide ? *(const uint64_t *)field : *(const uint32_t *)field;
}

void limits_put(struct policy_limits *l, const struct limit_key *k, uint64_t v)
{
	char *field = (char *)l + k->offset;
	if (k->wide)
		*(uint64_t *)field = v;
	else
		*(uint32_t *)field = (uint32_t)v;
}

void limits_size_text(uint64_t bytes, char ret_text[static LIMITS_TEXT])
{
	static const char units[] = "\0KMG";
	unsigned u = 0;
	for (; u < 3 && bytes > 0 && bytes % 1024 == 0; u++)
		bytes /= 1024;
	(void)snprintf(
		ret_text, LIMITS_TEXT, u ? "%llu%c" : "%llu", (unsigned long long)bytes, units[u]);
}

void limits_accepts(const struct limit_key *k, char *ret_text, size_t size)
{
	char min[LIMITS_TEXT], max[LIMITS_TEXT];
	limits_size_text(k->min, min);
	limits_size_text(k->max, max);
	if (k->size)
		(void)snprintf(
			ret_text, size, "a size from %s to %s, written like 512M or 2G", min, max);
	else
		(void)snprintf(ret_text, size, "a whole number from %llu to %llu",
			(unsigned long long)k->min, (unsigned long long)k->max);
}

static int unknown_key(const char *assignment, struct err *err)
{
	_cleanup_buf_ struct buf names = BUF_INIT(400);
	for (size_t i = 0; i < limit_keys_n; i++)
		CHECK(buf_printf(&names, "%s%s", i ? ", " : "", limit_keys[i].name) == 0);
	return err_set(err, ERR_INVALID_ARGUMENT, 0,
		"limit \"%.60s\" is not NAME=VALUE with one of the names %.*s", assignment,
		(int)names.len, (const char *)names.data);
}

int limits_parse(const char *assignment, const struct limit_key **ret_key, uint64_t *ret_value,
	struct err *err)
{
	const char *eq = strchr(assignment, '=');
	const struct limit_key *k = eq ? limits_find(assignment, (size_t)(eq - assignment)) : NULL;
	if (!k)
		return unknown_key(assignment, err);
	uint64_t v;
	int r = k->size ? str_to_size(eq + 1, &v) : str_to_u64(eq + 1, k->max, &v);
	if (r < 0 || v < k->min || v > k->max) {
		char accepts[120];
		limits_accepts(k, accepts, sizeof(accepts));
		return err_set(err, ERR_INVALID_ARGUMENT, 0, "limit %s is %s, not \"%.40s\"",
			k->name, accepts, eq + 1);
	}
	*ret_key = k;
	*ret_value = v;
	return 0;
}

/* ---- all together ---- */

/* Down to whole pages, never up: memory that is there stays where it was asked to be. */
static uint64_t scaled(uint64_t def, uint64_t available, uint64_t wanted)
{
	if (available >= wanted)
		return def;
	return (uint64_t)((double)def * ((double)available / (double)wanted)) & ~(uint64_t)4095;
}

static bool is_given(limit_set given, const char *name)
{
	return given & limits_bit(limits_find(name, strlen(name)));
}

int limits_fit(struct policy_limits *l, limit_set given, struct err *err)
{
	struct {
		uint64_t *value;
		uint64_t def;
		bool set;
	} parts[] = {
		{&l->workspace, DEFAULT_WORKSPACE, is_given(given, "workspace")},
		{&l->tmp, DEFAULT_TMP, is_given(given, "tmp")},
		{&l->shm, DEFAULT_SHM, is_given(given, "shm")},
	};

	uint64_t fixed = MEMORY_RESERVE, wanted = 0;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		*(parts[i].set ? &fixed : &wanted) += parts[i].set ? *parts[i].value : parts[i].def;

	uint64_t available = l->memory > fixed ? l->memory - fixed : 0;
	bool fits = l->memory >= fixed;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (parts[i].set)
			continue;
		*parts[i].value = scaled(parts[i].def, available, wanted);
		fits = fits && *parts[i].value >= TMPFS_MIN;
	}
	if (!fits) {
		char memory[LIMITS_TEXT], need[LIMITS_TEXT];
		limits_size_text(l->memory, memory);
		limits_size_text(fixed, need);
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"limits do not fit: workspace, tmp and shm as given need, with 64 MiB for "
			"programs, %s of the memory limit of %s; raise memory or lower them",
			need, memory);
	}
	if (l->sessions_principal > l->sessions)
		l->sessions_principal = l->sessions;
	if (l->timeout_s > l->max_timeout_s)
		l->timeout_s = l->max_timeout_s;
	if (l->idle_ttl_s > l->absolute_ttl_s)
		l->idle_ttl_s = l->absolute_ttl_s;
	return 0;
}
