/* session_record.c: what the store keeps of a session: JSON, so that a person can read it, with a
 * version, so that a later broker can. It holds the link's key: the store is its owner's alone. */
#include "session/session_internal.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "store/store.h"

#define RECORD_VERSION 1
#define RECORD_KEY     (sizeof("session/") + ID_TEXT_SIZE)

static void record_key(const struct session *s, char ret_key[static RECORD_KEY])
{
	if (s->handle[0])
		(void)snprintf(ret_key, RECORD_KEY, "session/%s", s->handle);
	else
		(void)snprintf(ret_key, RECORD_KEY, "pool/%s", s->sandbox_id);
}

int session_record_put(struct store *store, const struct session *s,
	const uint8_t key[static AUTH_KEY], struct err *err)
{
	char name[RECORD_KEY], hex[2 * AUTH_KEY + 1];
	record_key(s, name);
	id_hex(key, AUTH_KEY, hex);
	json_t *record = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:I}", "version",
		RECORD_VERSION, "session", s->handle, "principal", s->principal ? s->principal : "",
		"provider", s->sandbox->provider->name, "sandbox", s->sandbox_id, "ref",
		s->sandbox->ref, "key", hex, "implicit", s->implicit, "created_us",
		(json_int_t)s->created_us);
	char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;
	int r = text ? store->ops->put(store, name, text, strlen(text), err)
		     : err_set(err, ERR_INTERNAL, EILSEQ, "a session's record is no valid text");
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
	json_decref(record);
	explicit_bzero(hex, sizeof(hex));
	return r;
}

static void remove_record(struct store *store, const char *name)
{
	struct err err;
	if (store->ops->remove(store, name, &err) < 0)
		log_warning("the record of a closed session stays: %s", err.text);
}

void session_record_remove(struct store *store, const struct session *s)
{
	char name[RECORD_KEY];
	record_key(s, name);
	remove_record(store, name);
}

void session_record_remove_pooled(struct store *store, const struct session *s)
{
	char name[RECORD_KEY];
	(void)snprintf(name, sizeof(name), "pool/%s", s->sandbox_id);
	remove_record(store, name);
}
