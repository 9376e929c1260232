/* record.c: dashboards in the store, to be found by a later broker and after their session's end.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "dashboard/dashboard_internal.h"
#include "store/store.h"

#define KEY_PREFIX "dashboard/"
#define KEY_SIZE   (sizeof(KEY_PREFIX) + ID_TEXT_SIZE)
/* … and the id of the newest for each principal and code, by a hash of both. */
#define CODE_PREFIX "dashboard-code/"
#define CODE_SIZE   (sizeof(CODE_PREFIX) + 2 * SHA256_SIZE)

static void key_of(const char *id, char ret[static KEY_SIZE])
{
	(void)snprintf(ret, KEY_SIZE, KEY_PREFIX "%s", id);
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

static void remove_code(const struct dashboard *d)
{
	struct store *s = d->all->config.store;
	char key[CODE_SIZE], id[ID_TEXT_SIZE];
	struct err err = {0};
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
	json_t *o = json_pack("{s:s, s:s, s:s*, s:s}", "session", d->handle, "principal",
		d->principal, "kernel", d->kernel, "code", d->code);
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	if (!text) {
		log_error("dashboard %s is not on record", d->id);
		return;
	}
	/* what the tree is as text is not made a value for this */
	if (d->tree && strlen(text) + strlen(d->tree) + 16 < STORE_VALUE_MAX) {
		char *whole = xasprintf("%.*s,\"tree\":%s}", (int)strlen(text) - 1, text, d->tree);
		free(text);
		text = whole;
	}
	key_of(d->id, key);
	if (s->ops->put(s, key, text, strlen(text), &err) < 0)
		log_error("dashboard %s is not on record: %s", d->id, err.text);
	free(text);
}

void dashboard_record_remove(const struct dashboard *d)
{
	struct store *s = d->all->config.store;
	char key[KEY_SIZE];
	struct err err;
	if (!s)
		return;
	remove_code(d);
	key_of(d->id, key);
	if (s->ops->remove(s, key, &err) < 0)
		log_error("%s", err.text);
}

static int fill(json_t *o, struct dashboard *ret)
{
	const char *handle = json_string_value(json_object_get(o, "session"));
	const char *principal = json_string_value(json_object_get(o, "principal"));
	const char *kernel = json_string_value(json_object_get(o, "kernel"));
	const char *code = json_string_value(json_object_get(o, "code"));
	const json_t *tree = json_object_get(o, "tree");
	if (!handle || !id_valid('s', handle) || !principal)
		return -ENOENT;
	(void)snprintf(ret->handle, sizeof(ret->handle), "%s", handle);
	ret->principal = xstrdup(principal);
	ret->kernel = kernel ? xstrdup(kernel) : NULL;
	(void)snprintf(ret->code, sizeof(ret->code), "%s", code ? code : "");
	dashboard_keep_tree(ret, json_is_object(tree) ? tree : NULL);
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
	(void)snprintf(ret->id, sizeof(ret->id), "%s", id);
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
