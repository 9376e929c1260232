/* record.c: dashboards in the store, to be found by a later broker and after their session's end.
 * What one showed last is a record of its own: it is a thousand times larger than the rest, and
 * read only when it is shown. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "dashboard/dashboard_internal.h"
#include "store/store.h"

#define KEY_PREFIX  "dashboard/"
#define KEY_SIZE    (sizeof(KEY_PREFIX) + ID_TEXT_SIZE)
#define TREE_PREFIX "dashboard-tree/"
#define TREE_SIZE   (sizeof(TREE_PREFIX) + ID_TEXT_SIZE)
/* … and the id of the newest for each principal and code, by a hash of both. */
#define CODE_PREFIX "dashboard-code/"
#define CODE_SIZE   (sizeof(CODE_PREFIX) + 2 * SHA256_SIZE)

static void key_of(const char *id, char ret[static KEY_SIZE])
{
	(void)snprintf(ret, KEY_SIZE, KEY_PREFIX "%s", id);
}

static void tree_key(const char *id, char ret[static TREE_SIZE])
{
	(void)snprintf(ret, TREE_SIZE, TREE_PREFIX "%s", id);
}

static void code_key(const char *principal, const char *code, char ret[static CODE_SIZE])
{
	uint8_t bytes[SHA256_SIZE];
	struct sha256 s;
	sha256_init(&s);
	sha256_update(&s, principal, strlen(principal) + 1);
	sha256_update(&s, code, strlen(code));
	sha256_final(&s, bytes);
	memcpy(ret, CODE_PREFIX, strlen(CODE_PREFIX));
	id_hex(bytes, sizeof(bytes), ret + strlen(CODE_PREFIX));
}

void dashboard_record_code(const struct dashboard *d)
{
	struct store *s = d->all->config.store;
	char key[CODE_SIZE];
	struct err err = {0};
	if (!s)
		return;
	code_key(d->principal, d->code, key);
	if (s->ops->put(s, key, d->id, strlen(d->id), &err) < 0)
		log_error("dashboard %s will not be found by its code: %s", d->id, err.text);
}

int dashboard_record_find(struct dashboards *m, const char *principal, const char *code,
	char ret_id[static ID_TEXT_SIZE])
{
	struct store *s = m->config.store;
	_cleanup_buf_ struct buf text = BUF_INIT(STORE_VALUE_MAX);
	char key[CODE_SIZE];
	struct err err;
	code_key(principal, code, key);
	if (!s || s->ops->get(s, key, &text, &err) < 0)
		return -ENOENT;
	(void)snprintf(ret_id, ID_TEXT_SIZE, "%.*s", (int)text.len, (const char *)text.data);
	return id_valid('d', ret_id) ? 0 : -ENOENT;
}

void dashboard_record_uncode(const struct dashboard *d)
{
	struct store *s = d->all->config.store;
	char key[CODE_SIZE], id[ID_TEXT_SIZE];
	struct err err = {0};
	if (!d->code[0])
		return;
	code_key(d->principal, d->code, key);
	if (dashboard_record_find(d->all, d->principal, d->code, id) == 0 &&
		strcmp(id, d->id) == 0 && s->ops->remove(s, key, &err) < 0)
		log_error("%s", err.text);
}

void dashboard_record_put(const struct dashboard *d)
{
	struct store *s = d->all->config.store;
	char key[KEY_SIZE];
	struct err err = {0};
	if (!s)
		return;
	json_t *o = json_pack("{s:s, s:s, s:s*, s:s, s:s*, s:s*, s:b}", "session", d->handle,
		"principal", d->principal, "kernel", d->kernel, "code", d->code, "title", d->title,
		"status", d->status, "shown", d->tree_recorded);
	_cleanup_free_ char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	key_of(d->id, key);
	if (!text || s->ops->put(s, key, text, strlen(text), &err) < 0)
		log_error("dashboard %s is not on record: %s", d->id, err.text);
}

void dashboard_record_tree(struct dashboard *d)
{
	struct store *s = d->all->config.store;
	char key[TREE_SIZE];
	struct err err = {0};
	if (!s || !d->tree)
		return;
	tree_key(d->id, key);
	if (s->ops->put(s, key, d->tree, strlen(d->tree), &err) < 0)
		log_error("what dashboard %s shows is not on record: %s", d->id, err.text);
	else
		d->tree_recorded = true;
	dashboard_record_put(d);
}

json_t *dashboard_record_tree_get(const struct dashboard *d)
{
	struct store *s = d->all->config.store;
	_cleanup_buf_ struct buf text = BUF_INIT(STORE_VALUE_MAX);
	char key[TREE_SIZE];
	struct err err;
	tree_key(d->id, key);
	if (!s || s->ops->get(s, key, &text, &err) < 0)
		return NULL;
	json_t *tree = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(tree))
		return tree;
	json_decref(tree);
	return NULL;
}

void dashboard_record_remove(const struct dashboard *d)
{
	struct store *s = d->all->config.store;
	char key[KEY_SIZE], tree[TREE_SIZE];
	struct err err;
	if (!s)
		return;
	dashboard_record_uncode(d);
	key_of(d->id, key);
	tree_key(d->id, tree);
	if (s->ops->remove(s, tree, &err) < 0 || s->ops->remove(s, key, &err) < 0)
		log_error("%s", err.text);
}

static char *member(const json_t *o, const char *name)
{
	const char *text = json_string_value(json_object_get(o, name));
	return text ? xstrdup(text) : NULL;
}

static int fill(json_t *o, struct dashboard *ret)
{
	const char *handle = json_string_value(json_object_get(o, "session"));
	const char *principal = json_string_value(json_object_get(o, "principal"));
	const char *code = json_string_value(json_object_get(o, "code"));
	if (!handle || !id_valid('s', handle) || !principal)
		return -ENOENT;
	str_copy(ret->handle, sizeof(ret->handle), handle);
	ret->principal = xstrdup(principal);
	str_copy(ret->code, sizeof(ret->code), code);
	ret->kernel = member(o, "kernel");
	ret->title = member(o, "title");
	ret->status = member(o, "status");
	ret->tree_recorded = json_is_true(json_object_get(o, "shown"));
	return 0;
}

int dashboard_record_get(struct dashboards *m, const char *id, struct dashboard *ret)
{
	struct store *s = m->config.store;
	_cleanup_buf_ struct buf text = BUF_INIT(STORE_VALUE_MAX);
	char key[KEY_SIZE];
	struct err err;
	key_of(id, key);
	if (!s || s->ops->get(s, key, &text, &err) < 0)
		return -ENOENT;
	json_t *o = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
	int r = json_is_object(o) ? fill(o, ret) : -ENOENT;
	str_copy(ret->id, sizeof(ret->id), id);
	json_decref(o);
	return r;
}

struct each {
	struct dashboards *all;
	void (*fn)(struct dashboards *m, const char *id);
};

static int on_key(void *user, const char *key)
{
	const struct each *e = user;
	const char *id = key + strlen(KEY_PREFIX);
	if (id_valid('d', id))
		e->fn(e->all, id);
	return 0;
}

void dashboard_record_each(struct dashboards *m, void (*fn)(struct dashboards *m, const char *id))
{
	struct store *s = m->config.store;
	struct each e = {m, fn};
	struct err err;
	if (s && s->ops->each(s, KEY_PREFIX, on_key, &e, &err) < 0)
		log_error("%s", err.text);
}
