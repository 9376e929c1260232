/* session_record.c: what the store keeps of a session: JSON, so that a person can read it, with a
 * version, so that a later broker can. It holds the link's key: the store is its owner's alone.
 *
 *   session/HANDLE  written before its sandbox is made, and at each turn of its life
 *   pool/SANDBOX    the same, while it is nobody's
 *   closed/HANDLE   for ten minutes after its end: which delivery closed it */
#include "session/session_internal.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "store/store.h"

#define RECORD_VERSION 1
#define RECORD_KEY     (sizeof("session/") + ID_TEXT_SIZE)

static const char session_kind[] = "session/", pool_kind[] = "pool/", closed_kind[] = "closed/";

static void record_key(const char *kind, const char *id, char ret_key[static RECORD_KEY])
{
	(void)snprintf(ret_key, RECORD_KEY, "%s%s", kind, id);
}

static void key_now(const struct session *s, char ret_key[static RECORD_KEY])
{
	if (s->handle[0])
		record_key(session_kind, s->handle, ret_key);
	else
		record_key(pool_kind, s->sandbox_id, ret_key);
}

static const char *state_name(const struct session *s)
{
	if (s->state == SESSION_LOST)
		return "lost";
	if (s->state >= SESSION_CLOSING)
		return "closing";
	if (s->state == SESSION_POOLED)
		return "pooled";
	return s->made ? "live" : "opening";
}

/* ---- writing ---- */

static int put(struct store *store, const char *key, json_t *record, struct err *err)
{
	char *text = record ? json_dumps(record, JSON_COMPACT) : NULL;
	int r = text ? store->ops->put(store, key, text, strlen(text), err)
		     : err_set(err, ERR_INTERNAL, EILSEQ, "a session's record is no valid text");
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
	json_decref(record);
	return r;
}

static json_t *mounts_json(const struct session_profile *p)
{
	json_t *mounts = json_array();
	for (size_t i = 0; i < p->n_mounts; i++) {
		json_t *m = json_pack(
			"{s:s, s:s}", "name", p->mounts[i].name, "source", p->mounts[i].source);
		if (!m || json_array_append_new(mounts, m) < 0) {
			json_decref(mounts);
			return NULL;
		}
	}
	return mounts;
}

static json_t *limits_json(const struct policy_limits *l)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "memory", (json_int_t)l->memory,
		"workspace", (json_int_t)l->workspace, "tmp", (json_int_t)l->tmp, "shm",
		(json_int_t)l->shm, "cpus", (json_int_t)l->cpus, "pids", (json_int_t)l->pids);
}

int session_record_put(struct session *s, struct err *err)
{
	char name[RECORD_KEY], hex[2 * AUTH_KEY + 1];
	key_now(s, name);
	id_hex(s->key, AUTH_KEY, hex);
	json_t *record = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:o, s:o, "
				   "s:o*, s:s*, s:s*, s:s*}",
		"version", RECORD_VERSION, "state", state_name(s), "session", s->handle,
		"principal", s->principal ? s->principal : "", "provider",
		s->profile.provider->name, "sandbox", s->sandbox_id, "ref", s->ref, "key", hex,
		"implicit", s->implicit, "created_us", (json_int_t)s->created_us, "mounts",
		mounts_json(&s->profile), "limits", limits_json(&s->limits), "secrets",
		session_secrets_json(s), "why",
		s->state >= SESSION_CLOSING ? s->why_closed : s->why_lost, "closed_by",
		s->closed_by[0] ? s->closed_by : NULL, "root", s->profile.root);
	explicit_bzero(hex, sizeof(hex));
	return put(s->all->config.store, name, record, err);
}

static void remove_key(struct store *store, const char *key)
{
	struct err err;
	if (store->ops->remove(store, key, &err) < 0)
		log_warning("the record of a closed session stays: %s", err.text);
}

void session_record_end(struct session *s)
{
	struct store *store = s->all->config.store;
	char name[RECORD_KEY];
	struct err err;
	if (s->closed_by[0]) {
		json_t *record = json_pack("{s:i, s:s, s:s, s:s, s:I}", "version", RECORD_VERSION,
			"principal", s->principal, "sandbox", s->sandbox_id, "closed_by",
			s->closed_by, "closed_us", (json_int_t)clock_realtime_us());
		record_key(closed_kind, s->handle, name);
		if (put(store, name, record, &err) < 0)
			log_warning("that a session was closed is not on record: %s", err.text);
		s->all->tombs = true;
	}
	key_now(s, name);
	remove_key(store, name);
}

void session_record_remove_pooled(struct session *s)
{
	char name[RECORD_KEY];
	record_key(pool_kind, s->sandbox_id, name);
	remove_key(s->all->config.store, name);
}

/* ---- reading ---- */

static json_t *get(struct store *store, const char *key)
{
	_cleanup_buf_ struct buf b = BUF_INIT(STORE_VALUE_MAX);
	struct err err;
	json_t *record = NULL;
	int version = 0;
	int r = store->ops->get(store, key, &b, &err);
	if (r == 0)
		record = json_loadb((const char *)b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
	if (b.data)
		explicit_bzero(b.data, b.len);
	if (record && (json_unpack(record, "{s:i}", "version", &version) < 0 ||
			      version != RECORD_VERSION)) {
		json_decref(record);
		record = NULL;
	}
	return record;
}

static bool read_profile(const json_t *mounts, const char *root, struct session_record *ret)
{
	size_t n = json_array_size(mounts);
	if (!json_is_array(mounts) || n > LIMIT_MOUNTS)
		return false;
	struct sandbox_mount list[LIMIT_MOUNTS];
	for (size_t i = 0; i < n; i++)
		if (json_unpack(json_array_get(mounts, i), "{s:s, s:s}", "name", &list[i].name,
			    "source", &list[i].source) < 0)
			return false;
	const struct session_profile p = {ret->profile.provider, list, n, root};
	session_profile_copy(&p, &ret->profile);
	return true;
}

/* Records of an earlier scb have none. */
static void read_limits(const json_t *o, struct session_record *ret)
{
	json_int_t memory, workspace, tmp, shm, cpus, pids;
	if (json_unpack((json_t *)o, "{s:I, s:I, s:I, s:I, s:I, s:I}", "memory", &memory,
		    "workspace", &workspace, "tmp", &tmp, "shm", &shm, "cpus", &cpus, "pids",
		    &pids) < 0)
		return;
	ret->has_limits = true;
	ret->limits = (struct policy_limits){
		.memory = (uint64_t)memory,
		.workspace = (uint64_t)workspace,
		.tmp = (uint64_t)tmp,
		.shm = (uint64_t)shm,
		.cpus = (uint32_t)cpus,
		.pids = (uint32_t)pids,
	};
}

void session_record_limits(const struct session_record *r, struct policy_limits *l)
{
	if (!r->has_limits)
		return;
	l->memory = r->limits.memory;
	l->workspace = r->limits.workspace;
	l->tmp = r->limits.tmp;
	l->shm = r->limits.shm;
	l->cpus = r->limits.cpus;
	l->pids = r->limits.pids;
}

static bool read_state(const char *name, struct session_record *ret)
{
	static const struct {
		const char *name;
		enum session_state state;
		bool made;
	} rows[] = {{"pooled", SESSION_POOLED, true}, {"opening", SESSION_LIVE, false},
		{"live", SESSION_LIVE, true}, {"lost", SESSION_LOST, true},
		{"closing", SESSION_CLOSING, true}};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (strcmp(name, rows[i].name) != 0)
			continue;
		ret->state = rows[i].state;
		ret->made = rows[i].made;
		return true;
	}
	return false;
}

/* A record stands under what it says. */
static bool names(const char *key, const char *handle, const char *sandbox)
{
	if (str_starts(key, pool_kind))
		return handle[0] == '\0' && strcmp(key + strlen(pool_kind), sandbox) == 0;
	return id_valid('s', handle) && strcmp(key + strlen(session_kind), handle) == 0;
}

int session_record_get(struct store *store, const char *key, struct session_record *ret)
{
	const char *state, *handle, *principal, *provider, *sandbox, *ref, *hex, *why = NULL,
										 *closed_by = "";
	json_t *record = get(store, key), *mounts;
	json_int_t created_us;
	int implicit;
	*ret = (struct session_record){0};
	bool good =
		record &&
		json_unpack(record, "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:I, s:o, s?s, s?s}",
			"state", &state, "session", &handle, "principal", &principal, "provider",
			&provider, "sandbox", &sandbox, "ref", &ref, "key", &hex, "implicit",
			&implicit, "created_us", &created_us, "mounts", &mounts, "why", &why,
			"closed_by", &closed_by) == 0 &&
		id_valid('x', sandbox) && names(key, handle, sandbox) && read_state(state, ret) &&
		strlen(closed_by) < sizeof(ret->closed_by) && created_us > 0 &&
		id_unhex(hex, ret->key, sizeof(ret->key)) == 0;
	if (good)
		ret->profile.provider = provider_by_name(provider);
	if (good && ret->profile.provider &&
		read_profile(mounts, json_string_value(json_object_get(record, "root")), ret)) {
		memcpy(ret->handle, handle, strlen(handle) + 1);
		memcpy(ret->sandbox_id, sandbox, sizeof(ret->sandbox_id));
		memcpy(ret->closed_by, closed_by, strlen(closed_by) + 1);
		ret->principal = xstrdup(principal);
		ret->ref = xstrdup(ref);
		ret->why = why ? xstrdup(why) : NULL;
		ret->implicit = implicit;
		read_limits(json_object_get(record, "limits"), ret);
		ret->created_us = (uint64_t)created_us;
		ret->secrets = json_incref(json_object_get(record, "secrets"));
	} else {
		good = false;
	}
	json_decref(record);
	return good ? 0 : -EBADMSG;
}

void session_record_done(struct session_record *r)
{
	free(r->principal);
	free(r->ref);
	free(r->why);
	json_decref(r->secrets);
	session_profile_done(&r->profile);
	explicit_bzero(r, sizeof(*r));
}

/* ---- closed ones ---- */

struct looking {
	struct store *store;
	const char *principal, *delivery;
	struct session_closed *ret;
};

static int look_at(void *user, const char *key)
{
	struct looking *l = user;
	const char *whose, *by, *sandbox, *handle = key + strlen(closed_kind);
	json_t *record = get(l->store, key);
	bool same = record && id_valid('s', handle) &&
		    json_unpack(record, "{s:s, s:s, s:s}", "principal", &whose, "closed_by", &by,
			    "sandbox", &sandbox) == 0 &&
		    id_valid('x', sandbox) && strcmp(whose, l->principal) == 0 &&
		    strcmp(by, l->delivery) == 0;
	if (same) {
		memcpy(l->ret->handle, handle, ID_TEXT_SIZE);
		memcpy(l->ret->sandbox_id, sandbox, ID_TEXT_SIZE);
	}
	json_decref(record);
	return same;
}

bool session_record_closed_by(struct store *store, const char *principal, const char *delivery,
	struct session_closed *ret)
{
	struct looking l = {store, principal, delivery, ret};
	struct err err;
	return store->ops->each(store, closed_kind, look_at, &l, &err) == 1;
}

struct sweeping {
	struct store *store;
	uint64_t now_us;
	bool left;
};

static int sweep_one(void *user, const char *key)
{
	struct sweeping *w = user;
	json_t *record = get(w->store, key);
	json_int_t closed_us = 0;
	if (record)
		(void)json_unpack(record, "{s:I}", "closed_us", &closed_us);
	json_decref(record);
	uint64_t at = closed_us > 0 ? (uint64_t)closed_us : 0;
	/* Also one from a future that a clock once told of. */
	if (at > w->now_us || w->now_us - at >= SESSION_TOMB_US)
		remove_key(w->store, key);
	else
		w->left = true;
	return 0;
}

bool session_record_sweep(struct store *store)
{
	struct sweeping w = {store, clock_realtime_us(), false};
	struct err err;
	if (store->ops->each(store, closed_kind, sweep_one, &w, &err) < 0)
		log_warning("closed sessions stay on record: %s", err.text);
	return w.left;
}
