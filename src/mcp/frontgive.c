/* frontgive.c: a broker's end of secrets: asking fronts, and taking what they give; see
 * front_internal.h and frontsecret.h. */
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "mcp/front_internal.h"
#include "mcp/frontsecret.h"
#include "mcp/server.h"
#include "session/session.h"

/* Something was given, or will not be: whoever waited for it goes on. */
static void secrets_changed(struct front *f)
{
	struct fronts *a = f->all;
	if (a->config.sessions)
		sessions_secrets_changed(a->config.sessions);
	mcp_server_secrets(a->config.server);
}

/* Asks it for what its principal's policy has from variables and programs. */
static void ask_for_secrets(struct front *f)
{
	json_t *wanted = frontsecret_wanted(f->all->config.vault, f->principal);
	vault_giver_ask(f->giver);
	if (vault_giver_open(f->giver) || f->asked_us) /* also that nothing is wanted any more */
		front_send_json(f, FRONT_SECRETS, wanted);
	f->asked_us = clock_monotonic_us();
	json_decref(wanted);
	fronts_tick_later(f->all);
}

void front_secrets_begin(struct front *f, const struct front_hello *h)
{
	struct fronts *a = f->all;
	if (!a->config.vault || !a->config.sessions || !f->conn)
		return;
	sessions_secrets_know(a->config.sessions, f->principal);
	if (!h->secrets) /* an older one */
		return;
	f->giver = vault_giver_new(a->config.vault, f->principal);
	ask_for_secrets(f);
}

/* What was read is overwritten. */
bool front_secrets_take(struct front *f, const struct front_frame *frame)
{
	bool good = frontsecret_take(f->giver, (const uint8_t *)frame->p, frame->n);
	explicit_bzero((void *)frame->p, frame->n);
	secrets_changed(f);
	return good;
}

void front_secrets_end(struct front *f)
{
	if (!f->giver)
		return;
	vault_giver_free(TAKE_PTR(f->giver));
	secrets_changed(f);
}

bool front_secrets_owed(struct front *f, uint64_t now)
{
	if (!f->giver || !vault_giver_open(f->giver))
		return false;
	if (now - f->asked_us < LIMIT_FRONT_SECRETS_US)
		return true;
	vault_giver_late(f->giver);
	secrets_changed(f);
	return false;
}

void fronts_secrets_reload(struct fronts *a)
{
	if (!a->config.vault || !a->config.sessions)
		return;
	sessions_secrets_reload(a->config.sessions);
	list_for_each (f, next, &a->fronts, struct front, link)
		if (f->giver && !f->broken)
			ask_for_secrets(f);
	mcp_server_secrets(a->config.server);
}
