/* policy.c: see policy.h. */
#include "policy/policy.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"

/* What python, the shell and a little data need beside the file systems in memory. */
#define MEMORY_RESERVE (64 * MIB)
#define MEMORY_MIN     (128 * MIB)
#define MEMORY_MAX     (1024 * GIB)
/* A file system smaller than this holds nothing useful. */
#define TMPFS_MIN (1 * MIB)

struct policy {
	struct policy_limits limits;
	bool workspace_set, tmp_set, shm_set; /* by hand: not scaled */
};

enum limit_kind { LIMIT_SIZE, LIMIT_COUNT };

/* One settable limit: where it stands in struct policy_limits, and what is accepted. */
struct limit_key {
	const char *name;
	enum limit_kind kind;
	size_t offset;
	uint64_t min, max;
};

#define FIELD(member) offsetof(struct policy_limits, member)
static const struct limit_key limit_keys[] = {
	{"memory", LIMIT_SIZE, FIELD(memory), MEMORY_MIN, MEMORY_MAX},
	{"workspace", LIMIT_SIZE, FIELD(workspace), TMPFS_MIN, MEMORY_MAX},
	{"tmp", LIMIT_SIZE, FIELD(tmp), TMPFS_MIN, MEMORY_MAX},
	{"shm", LIMIT_SIZE, FIELD(shm), TMPFS_MIN, MEMORY_MAX},
	{"cpus", LIMIT_COUNT, FIELD(cpus), 1, 1024},
	{"pids", LIMIT_COUNT, FIELD(pids), 16, 32768},
	{"timeout_s", LIMIT_COUNT, FIELD(timeout_s), 1, LIMIT_TIMEOUT_S},
	{"wait_s", LIMIT_COUNT, FIELD(wait_s), 1, LIMIT_WAIT_S},
	{"idle_ttl_s", LIMIT_COUNT, FIELD(idle_ttl_s), 1, 365 * 24 * 3600},
	{"absolute_ttl_s", LIMIT_COUNT, FIELD(absolute_ttl_s), 1, 365 * 24 * 3600},
	{"sessions", LIMIT_COUNT, FIELD(sessions), 1, 10000},
	{"sessions_principal", LIMIT_COUNT, FIELD(sessions_principal), 1, 10000},
	{"pool", LIMIT_COUNT, FIELD(pool), 0, LIMIT_POOL},
	{"outputs", LIMIT_SIZE, FIELD(outputs_bytes), MIB, MEMORY_MAX},
};

struct policy *policy_new_default(void)
{
	struct policy *p = xcalloc(1, sizeof(*p));
	p->limits = (struct policy_limits){
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
	return p;
}

struct policy *policy_copy(const struct policy *p)
{
	return xmemdup(p, sizeof(*p));
}

void policy_free(struct policy *p)
{
	free(p);
}

/* The built-in policy allows every tool: what bounds a call is the sandbox and its limits. */
void policy_decide(
	const struct policy *p, const struct policy_request *req, struct policy_decision *ret)
{
	(void)p;
	(void)req;
	*ret = (struct policy_decision){.allowed = true, .rule = "default.tools"};
}

const struct policy_limits *policy_limits(const struct policy *p, const char *principal)
{
	(void)principal;
	return &p->limits;
}

/* The built-in policy has none. */
size_t policy_secrets(
	const struct policy *p, const char *principal, const struct policy_secret **ret)
{
	(void)p;
	(void)principal;
	*ret = NULL;
	return 0;
}

bool policy_limits_equal(const struct policy *a, const struct policy *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(limit_keys); i++) {
		const struct limit_key *k = &limit_keys[i];
		size_t size = k->kind == LIMIT_SIZE ? sizeof(uint64_t) : sizeof(uint32_t);
		if (memcmp((const char *)&a->limits + k->offset,
			    (const char *)&b->limits + k->offset, size) != 0)
			return false;
	}
	return true;
}

static const struct limit_key *find_key(const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(limit_keys); i++)
		if (strlen(limit_keys[i].name) == n && memcmp(limit_keys[i].name, name, n) == 0)
			return &limit_keys[i];
	return NULL;
}

static int unknown_key(const char *assignment, struct err *err)
{
	char names[240] = "";
	for (size_t i = 0; i < ARRAY_SIZE(limit_keys); i++) {
		size_t used = strlen(names);
		(void)snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
			limit_keys[i].name);
	}
	return err_set(err, ERR_INVALID_ARGUMENT, 0,
		"limit \"%.60s\" is not NAME=VALUE with one of the names %s", assignment, names);
}

/* As it is written on the command line: in powers of 1,024. */
static void size_text(uint64_t bytes, char ret_text[static STR_SIZE_TEXT])
{
	char unit = bytes % GIB == 0 ? 'G' : 'M';
	(void)snprintf(ret_text, STR_SIZE_TEXT, "%llu%c",
		(unsigned long long)(bytes / (unit == 'G' ? GIB : MIB)), unit);
}

static int bad_value(const struct limit_key *k, const char *value, struct err *err)
{
	if (k->kind == LIMIT_COUNT)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"limit %s is a whole number from %llu to %llu, not \"%.40s\"", k->name,
			(unsigned long long)k->min, (unsigned long long)k->max, value);
	char min[STR_SIZE_TEXT], max[STR_SIZE_TEXT];
	size_text(k->min, min);
	size_text(k->max, max);
	return err_set(err, ERR_INVALID_ARGUMENT, 0,
		"limit %s is a size from %s to %s, written like 512M or 2G, not \"%.40s\"", k->name,
		min, max, value);
}

int policy_set_limit(struct policy *p, const char *assignment, struct err *err)
{
	const char *eq = strchr(assignment, '=');
	const struct limit_key *k = eq ? find_key(assignment, (size_t)(eq - assignment)) : NULL;
	if (!k)
		return unknown_key(assignment, err);

	uint64_t v;
	int r = k->kind == LIMIT_SIZE ? str_to_size(eq + 1, &v) : str_to_u64(eq + 1, k->max, &v);
	if (r < 0 || v < k->min || v > k->max)
		return bad_value(k, eq + 1, err);

	void *field = (char *)&p->limits + k->offset;
	if (k->kind == LIMIT_SIZE)
		*(uint64_t *)field = v;
	else
		*(uint32_t *)field = (uint32_t)v;

	p->workspace_set |= k->offset == FIELD(workspace);
	p->tmp_set |= k->offset == FIELD(tmp);
	p->shm_set |= k->offset == FIELD(shm);
	return 0;
}

/* Down to whole pages, never up: memory that is there stays where it was asked to be. */
static uint64_t scaled(uint64_t def, uint64_t available, uint64_t wanted)
{
	if (available >= wanted)
		return def;
	return (uint64_t)((double)def * ((double)available / (double)wanted)) & ~(uint64_t)4095;
}

int policy_check_limits(struct policy *p, struct err *err)
{
	struct policy_limits *l = &p->limits;
	struct {
		uint64_t *value;
		uint64_t def;
		bool set;
	} parts[] = {
		{&l->workspace, DEFAULT_WORKSPACE, p->workspace_set},
		{&l->tmp, DEFAULT_TMP, p->tmp_set},
		{&l->shm, DEFAULT_SHM, p->shm_set},
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
		char memory[STR_SIZE_TEXT], need[STR_SIZE_TEXT];
		size_text(l->memory, memory);
		size_text(fixed, need);
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"limits do not fit: workspace, tmp and shm as given need, with 64 MiB for "
			"programs, %s of the memory limit of %s; raise memory or lower them",
			need, memory);
	}
	if (l->sessions_principal > l->sessions)
		l->sessions_principal = l->sessions;
	if (l->idle_ttl_s > l->absolute_ttl_s)
		l->idle_ttl_s = l->absolute_ttl_s;
	return 0;
}
