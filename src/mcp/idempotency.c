/* idempotency.c: see idempotency.h. */
#include "mcp/idempotency.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "store/store.h"

#define KEEP_US        (24 * 3600 * USEC_PER_SEC)
#define RECORD_VERSION 1
#define PREFIX         "key/"
#define STORE_KEY      (sizeof(PREFIX) + 2 * SHA256_SIZE)

struct entry {
	struct list link;
	struct idempotency_name name;
	uint64_t written_us; /* CLOCK_REALTIME: it may outlive the machine's */
	struct idempotency_record record;
};

struct idempotency {
	struct store *store;
	bool loaded;
	struct list entries;
	size_t n;
};

void idempotency_name(
	const char *principal, const char *host, const char *key, struct idempotency_name *ret)
{
	struct sha256 s;
	sha256_init(&s);
	sha256_update(&s, principal, strlen(principal) + 1); /* the NUL parts the three */
	sha256_update(&s, host, strlen(host) + 1);
	sha256_update(&s, key, strlen(key));
	sha256_final(&s, ret->hash);
}

/* ---- records ---- */

static void store_key(const struct idempotency_name *name, char ret_key[static STORE_KEY])
{
	memcpy(ret_key, PREFIX, sizeof(PREFIX));
	id_hex(name->hash, sizeof(name->hash), ret_key + strlen(PREFIX));
}

static char *entry_text(const struct entry *e)
{
	const struct idempotency_record *r = &e->record;
	char hex[2 * SHA256_SIZE + 1];
	id_hex(r->arguments, sizeof(r->arguments), hex);
	json_t *o = json_pack("{s:i,s:I,s:s,s:s,s:s,s:i,s:I}", "version", RECORD_VERSION,
		"written_us", (json_int_t)e->written_us, "arguments", hex, "session", r->session,
		"job", r->job, "kind", (int)r->kind, "timeout_us", (json_int_t)r->timeout_us);
	if (r->ended)
		json_object_set_new(o, "ended",
			json_pack("{s:i,s:i,s:b,s:i,s:i,s:I,s:I,s:I}", "reason", (int)r->reason,
				"evidence", (int)r->evidence, "has_exit", r->has_exit, "exit_code",
				r->exit_code, "signal", r->signal, "bytes_out",
				(json_int_t)r->bytes_out, "bytes_err", (json_int_t)r->bytes_err,
				"duration_us", (json_int_t)r->duration_us));
	char *text = json_dumps(o, JSON_COMPACT);
	CHECK(text);
	json_decref(o);
	return text;
}

static int read_ended(json_t *o, struct idempotency_record *r)
{
	int reason, evidence, has_exit;
	json_int_t out, err, duration;
	if (json_unpack(o, "{s:i,s:i,s:b,s:i,s:i,s:I,s:I,s:I}", "reason", &reason, "evidence",
		    &evidence, "has_exit", &has_exit, "exit_code", &r->exit_code, "signal",
		    &r->signal, "bytes_out", &out, "bytes_err", &err, "duration_us", &duration) < 0)
		return -EPROTO;
	r->ended = true;
	r->reason = (enum wire_reason)reason;
	r->evidence = (enum wire_evidence)evidence;
	r->has_exit = has_exit;
	r->bytes_out = (uint64_t)out;
	r->bytes_err = (uint64_t)err;
	r->duration_us = (uint64_t)duration;
	return 0;
}

static int read_entry(json_t *o, struct entry *e)
{
	struct idempotency_record *r = &e->record;
	const char *arguments, *session, *job;
	json_int_t written, timeout;
	int version, kind;
	if (json_unpack(o, "{s:i,s:I,s:s,s:s,s:s,s:i,s:I}", "version", &version, "written_us",
		    &written, "arguments", &arguments, "session", &session, "job", &job, "kind",
		    &kind, "timeout_us", &timeout) < 0 ||
		version != RECORD_VERSION || !id_valid('s', session) || !id_valid('j', job) ||
		id_unhex(arguments, r->arguments, sizeof(r->arguments)) < 0)
		return -EPROTO;
	memcpy(r->session, session, sizeof(r->session));
	memcpy(r->job, job, sizeof(r->job));
	r->kind = (enum wire_job_kind)kind;
	r->timeout_us = (uint64_t)timeout;
	e->written_us = (uint64_t)written;
	json_t *ended = json_object_get(o, "ended");
	return ended ? read_ended(ended, r) : 0;
}

static int write_entry(struct idempotency *k, struct entry *e, struct err *err)
{
	char key[STORE_KEY];
	e->written_us = clock_realtime_us();
	if (!k->store)
		return 0;
	store_key(&e->name, key);
	_cleanup_free_ char *text = entry_text(e);
	return k->store->ops->put(k->store, key, text, strlen(text), err);
}

/* ---- all of them ---- */

static void forget(struct idempotency *k, const char *key)
{
	struct err err;
	if (k->store && k->store->ops->remove(k->store, key, &err) < 0)
		log_warning("a used idempotency key stays in the store: %s", err.text);
}

static void entry_free(struct idempotency *k, struct entry *e)
{
	list_remove(&e->link);
	k->n--;
	free(e);
}

static void entry_forget(struct idempotency *k, struct entry *e)
{
	char key[STORE_KEY];
	store_key(&e->name, key);
	forget(k, key);
	entry_free(k, e);
}

static bool expired(const struct entry *e)
{
	return clock_realtime_us() >= e->written_us + KEEP_US;
}

static int load_one(void *user, const char *key)
{
	struct idempotency *k = user;
	struct err err;
	struct entry e = {0};
	_cleanup_buf_ struct buf b = BUF_INIT(STORE_VALUE_MAX);
	if (k->store->ops->get(k->store, key, &b, &err) < 0)
		return 0;
	json_t *o = json_loadb((const char *)b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
	bool good = o && read_entry(o, &e) == 0 &&
		    id_unhex(key + strlen(PREFIX), e.name.hash, sizeof(e.name.hash)) == 0;
	json_decref(o);
	if (!good || expired(&e) || k->n >= LIMIT_IDEMPOTENCY_KEYS) {
		forget(k, key);
		return 0;
	}
	struct entry *kept = xmemdup(&e, sizeof(e));
	list_init(&kept->link);
	list_append(&k->entries, &kept->link);
	k->n++;
	return 0;
}

static void load(struct idempotency *k)
{
	struct err err;
	if (k->loaded)
		return;
	k->loaded = true;
	if (k->store && k->store->ops->each(k->store, PREFIX, load_one, k, &err) < 0)
		log_warning("used idempotency keys cannot be read: %s", err.text);
}

struct idempotency *idempotency_new(struct store *store)
{
	struct idempotency *k = xcalloc(1, sizeof(*k));
	k->store = store;
	list_init(&k->entries);
	return k;
}

void idempotency_free(struct idempotency *k)
{
	if (!k)
		return;
	list_for_each (e, next, &k->entries, struct entry, link)
		entry_free(k, e);
	free(k);
}

static struct entry *find(struct idempotency *k, const struct idempotency_name *name)
{
	load(k);
	list_for_each (e, next, &k->entries, struct entry, link) {
		if (expired(e))
			entry_forget(k, e);
		else if (memcmp(&e->name, name, sizeof(*name)) == 0)
			return e;
	}
	return NULL;
}

const struct idempotency_record *idempotency_find(
	struct idempotency *k, const struct idempotency_name *name)
{
	struct entry *e = find(k, name);
	return e ? &e->record : NULL;
}

static struct entry *oldest(struct idempotency *k)
{
	struct entry *best = NULL;
	list_for_each (e, next, &k->entries, struct entry, link)
		if (!best || e->written_us < best->written_us)
			best = e;
	return best;
}

int idempotency_put(struct idempotency *k, const struct idempotency_name *name,
	const struct idempotency_record *record, struct err *err)
{
	struct entry e = {.name = *name, .record = *record};
	load(k);
	int r = write_entry(k, &e, err);
	if (r < 0)
		return r;
	if (k->n >= LIMIT_IDEMPOTENCY_KEYS)
		entry_forget(k, oldest(k));
	struct entry *kept = xmemdup(&e, sizeof(e));
	list_init(&kept->link);
	list_append(&k->entries, &kept->link);
	k->n++;
	return 0;
}

void idempotency_remove(struct idempotency *k, const struct idempotency_name *name)
{
	struct entry *e = find(k, name);
	if (e)
		entry_forget(k, e);
}

void idempotency_ended(struct idempotency *k, const char *job, const struct exec_status *status)
{
	struct err err;
	load(k);
	list_for_each (e, next, &k->entries, struct entry, link) {
		struct idempotency_record *r = &e->record;
		if (r->ended || strcmp(r->job, job) != 0)
			continue;
		r->ended = true;
		r->has_exit = status->has_exit_code;
		r->exit_code = status->exit_code;
		r->signal = status->signal;
		r->reason = status->reason;
		r->evidence = status->evidence;
		r->bytes_out = status->out.total;
		r->bytes_err = status->err.total;
		r->duration_us = status->duration_us;
		if (write_entry(k, e, &err) < 0)
			log_warning("how a keyed call ended cannot be recorded: %s", err.text);
	}
}
