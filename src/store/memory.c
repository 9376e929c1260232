/* memory.c: the store that ends with the process: a list of records in order of their keys. */
#include "store/store.h"

#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "base/str.h"

struct record {
	struct list records;
	void *value;
	size_t n;
	char key[];
};

struct memory {
	struct store store;
	struct list records; /* few: sessions and keyed calls of one broker */
};

static struct memory *memory(struct store *s)
{
	return container_of(s, struct memory, store);
}

/* The record of that key; else NULL, and *ret_before is what a new one stands before. */
static struct record *find(struct memory *m, const char *key, struct list **ret_before)
{
	*ret_before = &m->records;
	list_for_each (r, next, &m->records, struct record, records) {
		int order = strcmp(r->key, key);
		*ret_before = &r->records;
		if (order == 0)
			return r;
		if (order > 0)
			return NULL;
		*ret_before = &m->records;
	}
	return NULL;
}

static void record_free(struct record *r)
{
	list_remove(&r->records);
	if (r->value)
		explicit_bzero(r->value, r->n); /* link keys */
	free(r->value);
	free(r);
}

static int memory_put(
	struct store *s, const char *key, const void *value, size_t n, struct err *err)
{
	int r = store_check_put(key, n, err);
	if (r < 0)
		return r;
	struct list *before;
	struct record *old = find(memory(s), key, &before);
	struct record *new = xcalloc(1, sizeof(*new) + strlen(key) + 1);
	memcpy(new->key, key, strlen(key) + 1);
	new->value = xmemdup(value, n);
	new->n = n;
	list_append(before, &new->records); /* "at the end" of what begins there: just before it */
	if (old)
		record_free(old);
	return 0;
}

static int memory_get(struct store *s, const char *key, struct buf *ret, struct err *err)
{
	struct list *before;
	if (!store_key_valid(key))
		return store_bad_key(key, err);
	struct record *r = find(memory(s), key, &before);
	if (!r)
		return -ENOENT;
	return buf_append(ret, r->value, r->n);
}

static int memory_remove(struct store *s, const char *key, struct err *err)
{
	struct list *before;
	if (!store_key_valid(key))
		return store_bad_key(key, err);
	struct record *r = find(memory(s), key, &before);
	if (r)
		record_free(r);
	return 0;
}

static int memory_each(struct store *s, const char *prefix, int (*fn)(void *user, const char *key),
	void *user, struct err *err)
{
	(void)err;
	struct memory *m = memory(s);
	char last[STORE_KEY_MAX + 1] = "";
	/* fn may put and remove: go on behind the last key instead of holding a record. */
	for (;;) {
		struct record *found = NULL;
		list_for_each (r, next, &m->records, struct record, records) {
			if (strcmp(r->key, last) > 0 && str_starts(r->key, prefix)) {
				found = r;
				break;
			}
		}
		if (!found)
			return 0;
		memcpy(last, found->key, strlen(found->key) + 1);
		int r = fn(user, last);
		if (r != 0)
			return r;
	}
}

static void memory_close(struct store *s)
{
	struct memory *m = memory(s);
	while (!list_empty(&m->records))
		record_free(container_of(m->records.next, struct record, records));
	free(m);
}

static const struct store_ops memory_ops = {
	.name = "memory",
	.put = memory_put,
	.get = memory_get,
	.remove = memory_remove,
	.each = memory_each,
	.close = memory_close,
};

int store_memory_open(struct store **ret)
{
	struct memory *m = xcalloc(1, sizeof(*m));
	m->store.ops = &memory_ops;
	list_init(&m->records);
	*ret = &m->store;
	return 0;
}
