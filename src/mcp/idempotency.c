/* idempotency.c: see idempotency.h. */
#include "mcp/idempotency.h"

#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"

#define KEEP_US (24 * 3600 * USEC_PER_SEC)

struct entry {
	struct list link;
	uint8_t name[SHA256_SIZE]; /* of principal and key: fixed size, whatever the caller sends */
	uint64_t expires_us;
	struct idempotency_record record;
};

struct idempotency {
	struct list entries; /* oldest first */
	size_t n;
};

struct idempotency *idempotency_new(void)
{
	struct idempotency *k = xcalloc(1, sizeof(*k));
	list_init(&k->entries);
	return k;
}

static void entry_free(struct idempotency *k, struct entry *e)
{
	list_remove(&e->link);
	k->n--;
	free(e);
}

void idempotency_free(struct idempotency *k)
{
	if (!k)
		return;
	list_for_each (e, next, &k->entries, struct entry, link)
		entry_free(k, e);
	free(k);
}

static void name_of(const char *principal, const char *key, uint8_t ret[static SHA256_SIZE])
{
	struct sha256 s;
	sha256_init(&s);
	sha256_update(&s, principal, strlen(principal) + 1); /* the NUL parts the two */
	sha256_update(&s, key, strlen(key));
	sha256_final(&s, ret);
}

static struct entry *find(struct idempotency *k, const char *principal, const char *key)
{
	uint8_t name[SHA256_SIZE];
	uint64_t now_us = clock_boottime_us();
	name_of(principal, key, name);
	list_for_each (e, next, &k->entries, struct entry, link) {
		if (e->expires_us <= now_us)
			entry_free(k, e);
		else if (memcmp(e->name, name, sizeof(name)) == 0)
			return e;
	}
	return NULL;
}

const struct idempotency_record *idempotency_find(
	struct idempotency *k, const char *principal, const char *key)
{
	struct entry *e = find(k, principal, key);
	return e ? &e->record : NULL;
}

void idempotency_put(struct idempotency *k, const char *principal, const char *key,
	const struct idempotency_record *record)
{
	struct entry *e = xcalloc(1, sizeof(*e));
	name_of(principal, key, e->name);
	e->expires_us = clock_boottime_us() + KEEP_US;
	e->record = *record;
	if (k->n >= LIMIT_IDEMPOTENCY_KEYS)
		entry_free(k, container_of(k->entries.next, struct entry, link));
	list_append(&k->entries, &e->link);
	k->n++;
}

void idempotency_remove(struct idempotency *k, const char *principal, const char *key)
{
	struct entry *e = find(k, principal, key);
	if (e)
		entry_free(k, e);
}
