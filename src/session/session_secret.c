/* session_secret.c: secrets of a session: which ones its sandbox is given, and when what it says
 * can be masked; see session.h.
 *
 * They are given over the link, before anything is asked of the sandbox, so that a sandbox that was
 * kept ready does not differ from a new one. The store has their names alone: a later broker waits
 * until it knows the values again, gives them once more, and is told where the sandbox has others.
 */
#include "session/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "secret/vault.h"
#include "session/session_internal.h"

/* ---- what the policy says ---- */

static enum vault_source source_of(const struct policy_secret *s)
{
	return strcmp(s->source, "env") == 0    ? VAULT_ENV
	       : strcmp(s->source, "file") == 0 ? VAULT_FILE
						: VAULT_EXEC;
}

static void set_wants(struct sessions *m, const char *principal)
{
	const struct policy_secret *secrets;
	struct vault_want wants[LIMIT_SECRETS];
	size_t n = policy_secrets(m->config.policy, principal, &secrets);
	n = MIN(n, LIMIT_SECRETS); /* the policy has no more */
	for (size_t i = 0; i < n; i++)
		wants[i] = (struct vault_want){
			.name = secrets[i].name,
			.source = source_of(&secrets[i]),
			.place = secrets[i].value,
			.argv = secrets[i].argv,
			.exposure = secrets[i].exposure == POLICY_SESSION ? VAULT_SESSION
									  : VAULT_PLACEHOLDER,
			.variable = secrets[i].variable,
		};
	vault_set_wants(m->config.vault, principal, wants, n);
}

void sessions_secrets_know(struct sessions *m, const char *principal)
{
	if (m->config.vault && !vault_has(m->config.vault, principal))
		set_wants(m, principal);
}

static void reload_one(void *user, const char *principal)
{
	set_wants(user, principal);
}

void sessions_secrets_reload(struct sessions *m)
{
	if (!m->config.vault)
		return;
	vault_each(m->config.vault, reload_one, m);
	sessions_secrets_changed(m);
}

/* ---- giving ---- */

static const char *exposure_name(enum vault_exposure e)
{
	return e == VAULT_SESSION ? "session" : "placeholder";
}

static int audit_one(const struct session *s, const struct vault_granted *one, struct err *err)
{
	char detail[512];
	(void)snprintf(detail, sizeof(detail), "%s as %s (%s)%s%s", one->name, one->variable,
		exposure_name(one->exposure), one->why[0] ? ": " : "", one->why);
	struct audit_event e =
		session_audit_about(s, one->why[0] ? "secret.refused" : "secret.provide", detail);
	return audit_event(s->all->config.audit, &e, err);
}

int session_secrets_grant(struct session *s, struct err *err)
{
	const struct vault_granted *list;
	int r = 0;
	if (!s->all->config.vault)
		return 0;
	sessions_secrets_know(s->all, s->principal);
	s->grant = vault_grant_new(s->all->config.vault, s->principal);
	size_t n = vault_grant_list(s->grant, &list);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = audit_one(s, &list[i], err);
	return r;
}

/* ---- over the link ---- */

/* The sandbox says how many of them had another value. */
static void on_given(void *user, enum wire_status status, struct tlv_reader msg)
{
	struct session *s = user;
	uint64_t other = 0;
	for (struct tlv t; tlv_next(&msg, &t);)
		if (t.tag == TAG_COUNT && tlv_get_u64(&t, &other) < 0)
			other = 1;
	if (status != WIRE_OK && status != WIRE_GONE)
		log_warning(
			"sandbox %s did not take a secret (status %d)", s->sandbox_id, (int)status);
	if (other && s->found)
		vault_grant_other(s->grant);
}

static const struct link_stream_events given_events = {.end = on_given};

static void give_one(struct session *s, const struct vault_granted *one)
{
	struct buf text = BUF_INIT(LIMIT_SECRET_NAME + 1 + LIMIT_SECRET_BYTES);
	struct buf body = BUF_INIT(TLV_HEADER + text.max);
	struct link_stream *stream;
	size_t n = strlen(one->placeholder);
	const uint8_t *p =
		one->value ? secret_value_bytes(one->value, &n) : (const uint8_t *)one->placeholder;
	text.wipe = body.wipe = true;
	CHECK(buf_append_str(&text, one->variable) == 0 && buf_append_str(&text, "=") == 0 &&
		buf_append(&text, p, n) == 0 &&
		tlv_bytes(&body, TAG_ENV, text.data, text.len) == 0);
	if (link_open(s->link, OP_ENV, &body, &given_events, s, &stream) < 0)
		log_warning("sandbox %s was not given the secret \"%s\"", s->sandbox_id, one->name);
	buf_done(&text);
	buf_done(&body);
}

void session_secrets_send(struct session *s)
{
	const struct vault_granted *list;
	if (!s->grant || s->secrets_sent || !s->link || s->link_over || s->state > SESSION_LIVE ||
		!vault_grant_complete(s->grant, NULL))
		return;
	size_t n = vault_grant_list(s->grant, &list);
	for (size_t i = 0; i < n; i++)
		if (list[i].value || list[i].placeholder[0])
			give_one(s, &list[i]);
	s->secrets_sent = true;
}

void sessions_secrets_changed(struct sessions *m)
{
	list_for_each (s, next, &m->sessions, struct session, sessions)
		session_secrets_send(s);
}

/* ---- what is told of them ---- */

int session_speaks(struct session *s, struct err *err)
{
	if (!s->grant || vault_grant_complete(s->grant, err)) {
		session_secrets_send(s);
		return 0;
	}
	return -EACCES;
}

size_t session_secrets(const struct session *s, const struct vault_granted **ret)
{
	return vault_grant_list(s->grant, ret);
}

json_t *session_secrets_json(const struct session *s)
{
	const struct vault_granted *list;
	size_t n = vault_grant_list(s->grant, &list);
	json_t *all = n ? json_array() : NULL;
	for (size_t i = 0; i < n; i++) {
		if (list[i].why[0]) /* it was not given */
			continue;
		json_array_append_new(all,
			json_pack("{s:s,s:s,s:s}", "name", list[i].name, "variable",
				list[i].variable, "exposure", exposure_name(list[i].exposure)));
	}
	return all;
}

static bool read_list(struct session *s, const json_t *all)
{
	size_t i;
	json_t *o;
	if (!json_is_array(all) || json_array_size(all) > LIMIT_SECRETS)
		return false;
	json_array_foreach (all, i, o) {
		const char *name, *variable, *exposure;
		if (json_unpack(o, "{s:s,s:s,s:s}", "name", &name, "variable", &variable,
			    "exposure", &exposure) < 0 ||
			!secret_name_valid(name) || !secret_variable_valid(variable))
			return false;
		vault_grant_found_add(s->grant, name, variable,
			strcmp(exposure, "session") == 0 ? VAULT_SESSION : VAULT_PLACEHOLDER);
	}
	return true;
}

void session_secrets_restore(struct session *s, const json_t *list)
{
	if (!list || !s->all->config.vault)
		return;
	sessions_secrets_know(s->all, s->principal);
	s->grant = vault_grant_found(s->all->config.vault, s->principal);
	if (!read_list(s, list)) /* what is to be masked is not known */
		vault_grant_other(s->grant);
}
