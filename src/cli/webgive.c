/* webgive.c: see webgive.h. What a broker asks its fronts (mcp/frontsecret.h) it asks itself here,
 * once for each principal. */
#include "cli/webgive.h"

#include <string.h>

#include "base/log.h"
#include "cli/gather.h"
#include "mcp/frontsecret.h"
#include "mcp/server.h"
#include "session/session.h"

/* Between two looks at programs that print them. */
#define LOOK_MS 20

struct giver {
	char *principal;
	struct gather *gather;
	struct vault_giver *vault;
};

struct webgive {
	struct parts *parts;
	struct giver *givers;
	size_t n;
	uv_timer_t timer;
};

/* ---- answers ---- */

static bool take_answers(struct giver *g)
{
	struct gather_answer a;
	bool some = false;
	gather_work(g->gather);
	for (; gather_answer(g->gather, &a); gather_given(g->gather)) {
		some = true;
		if (a.value)
			vault_give(g->vault, a.value);
		else
			vault_give_nothing(g->vault, a.name, a.why);
	}
	return some;
}

static void on_look(uv_timer_t *t)
{
	struct webgive *w = t->data;
	bool some = false, done = true;
	for (size_t i = 0; i < w->n; i++) {
		some |= take_answers(&w->givers[i]);
		done &= gather_done(w->givers[i].gather);
	}
	if (done)
		(void)uv_timer_stop(t);
	if (!some)
		return;
	sessions_secrets_changed(w->parts->sessions);
	mcp_server_secrets(w->parts->server);
}

/* ---- asking ---- */

static void ask(const struct webgive *w, struct giver *g, bool variables_alone)
{
	json_t *wanted = frontsecret_wanted(w->parts->vault, g->principal);
	json_t *list = json_object_get(wanted, "secrets");
	for (size_t i = json_array_size(list); variables_alone && i-- > 0;)
		if (!json_object_get(json_array_get(list, i), "env"))
			json_array_remove(list, i);
	char *text = json_dumps(wanted, JSON_COMPACT);
	struct err err;
	CHECK(text);
	if (gather_ask(g->gather, text, strlen(text), &err) < 0)
		log_error("%s", err.text);
	free(text);
	json_decref(wanted);
}

/* A program must not find a variable that holds a secret, be it of another principal: all of them
 * are read, and thereby taken out of the environment, before any program is started. */
void webgive_reload(struct webgive *w)
{
	for (size_t i = 0; i < w->n; i++)
		ask(w, &w->givers[i], true);
	for (size_t i = 0; i < w->n; i++) {
		vault_giver_ask(w->givers[i].vault);
		ask(w, &w->givers[i], false);
	}
	(void)uv_timer_start(&w->timer, on_look, LOOK_MS, LOOK_MS);
	on_look(&w->timer);
}

/* ---- life ---- */

struct webgive *webgive_new(struct parts *parts, const char *const *principals, size_t n)
{
	struct webgive *w = xcalloc(1, sizeof(*w));
	w->parts = parts;
	w->givers = xcalloc(n + 1, sizeof(*w->givers));
	w->n = n;
	(void)uv_timer_init(&parts->loop, &w->timer);
	w->timer.data = w;
	for (size_t i = 0; i < n; i++) {
		struct giver *g = &w->givers[i];
		g->principal = xstrdup(principals[i]);
		g->gather = gather_new_beside(i ? w->givers[0].gather : NULL);
		sessions_secrets_know(parts->sessions, g->principal);
		g->vault = vault_giver_new(parts->vault, g->principal);
	}
	webgive_reload(w);
	return w;
}

static void on_closed(uv_handle_t *timer)
{
	struct webgive *w = timer->data;
	free(w);
}

void webgive_close(struct webgive *w)
{
	if (!w)
		return;
	for (size_t i = w->n; i-- > 0;) { /* the first has the variables of all */
		gather_free(w->givers[i].gather);
		vault_giver_free(w->givers[i].vault);
		free(w->givers[i].principal);
	}
	free(w->givers);
	uv_close((uv_handle_t *)&w->timer, on_closed);
}
