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

static void key_of(const char *id, char ret[static KEY_SIZE])
{
	(void)snprintf(ret, KEY_SIZE, KEY_PREFIX "%s", id);
}

void dashboard_record_put(const struct dashboard *d)
{
	struct store *s = d->all->config.store;
	char key[KEY_SIZE];
	struct err err = {0};
	if (!s)
		return;
	json_t *o = json_pack("{s:s, s:s, s:s*, s:O*}", "session", d->handle, "principal",
		d->principal, "kernel", d->kernel, "tree", d->tree);
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	key_of(d->id, key);
	if (!text || s->ops->put(s, key, text, strlen(text), &err) < 0)
		log_error("dashboard %s is not on record: %s", d->id,
			text ? err.text : "its tree is odd");
	free(text);
}

void dashboard_record_remove(const struct dashboard *d)
{
	struct store *s = d->all->config.store;
	char key[KEY_SIZE];
	struct err err;
	key_of(d->id, key);
	if (s && s->ops->remove(s, key, &err) < 0)
		log_error("%s", err.text);
}

static int fill(json_t *o, struct dashboard *ret)
{
	const char *handle = json_string_value(json_object_get(o, "session"));
	const char *principal = json_string_value(json_object_get(o, "principal"));
	const char *kernel = json_string_value(json_object_get(o, "kernel"));
	json_t *tree = json_object_get(o, "tree");
	if (!handle || !id_valid('s', handle) || !principal || (tree && !json_is_object(tree)))
		return -ENOENT;
	(void)snprintf(ret->handle, sizeof(ret->handle), "%s", handle);
	ret->principal = xstrdup(principal);
	ret->kernel = kernel ? xstrdup(kernel) : NULL;
	ret->tree = json_incref(tree);
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
