/* pagelook.c: see pagelook.h. */
#include "mcp/pagelook.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/recent.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "dashboard/dashboard.h"
#include "mcp/build.h"
#include "mcp/conn.h"
#include "mcp/redaction.h"

/* How often it is looked whether something has happened, while somebody waits. */
#define LOOK_MS 200

struct pagelooks {
	struct mcp_server *server;
	struct list looks;
	size_t n;
	uv_timer_t timer;
	uv_loop_t *loop;
	bool closing, timer_closed;
	void (*done)(void *user);
	void *user;
};

/* One page that asks. */
struct look {
	struct list link;
	struct pagelooks *all;
	struct http_exchange *x; /* NULL: it has gone */
	char *principal;
	uint64_t after, deadline_us; /* CLOCK_MONOTONIC */
	/* The thread's, while it reads. */
	uv_work_t work;
	bool reading;
	int dir, result;
	uint64_t seen; /* the number of the last line, whosever it is */
	json_t *lines;
};

/* ---- in the thread ---- */

static void on_line(void *user, const char *line, size_t n)
{
	struct look *k = user;
	json_t *o = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
	json_int_t seq = json_integer_value(json_object_get(o, "seq"));
	const char *whose = json_string_value(json_object_get(o, "principal"));
	if (seq > 0 && (uint64_t)seq > k->after) {
		k->seen = MAX(k->seen, (uint64_t)seq);
		if (whose && strcmp(whose, k->principal) == 0)
			(void)json_array_append(k->lines, o);
		if (json_array_size(k->lines) > LIMIT_PAGE_LINES)
			(void)json_array_remove(k->lines, 0);
	}
	json_decref(o);
}

static void read_log(uv_work_t *work)
{
	struct look *k = container_of(work, struct look, work);
	k->result = recent_read(k->dir, LIMIT_PAGE_TAIL, on_line, k);
}

/* ---- answers ---- */

static void look_free(struct look *k)
{
	list_remove(&k->link);
	k->all->n--;
	json_decref(k->lines);
	free(k->principal);
	free(k);
}

struct listing {
	struct mcp_server *server;
	const char *principal;
	json_t *list;
};

struct wanted {
	const char *handle;
	bool live;
};

static int is_wanted(void *user, struct session *s)
{
	struct wanted *w = user;
	w->live |= strcmp(session_handle(s), w->handle) == 0 && !session_lost(s);
	return 0;
}

static void add_dashboard(void *user, const struct dashboard *d)
{
	const struct listing *l = user;
	struct wanted w = {dashboard_handle(d), false};
	(void)sessions_each(l->server->config.sessions, l->principal, is_wanted, &w);
	const char *status = dashboard_status(d);
	json_array_append_new(
		l->list, json_pack("{s:s, s:s, s:s*, s:s}", "id", dashboard_id(d), "session",
				 w.handle, "title", dashboard_title(d), "status",
				 !w.live             ? "expired"
				 : dashboard_busy(d) ? "running"
				 : status            ? status
						     : "ok"));
}

/* Those of a principal who may not use them are not told of. */
static json_t *dashboards_of(struct mcp_server *s, const char *principal)
{
	const struct policy_request ask = {.principal = principal, .tool = "dashboard_event"};
	struct policy_decision d;
	struct listing l = {s, principal, json_array()};
	policy_decide(s->config.policy, &ask, &d);
	if (d.allowed && s->dashboards && s->config.sessions)
		dashboards_each(s->dashboards, principal, add_dashboard, &l);
	return l.list;
}

static void answer(struct look *k)
{
	static const struct http_field fields[] = {
		{"cache-control", "no-store"}, {"cross-origin-resource-policy", "same-origin"}};
	struct mcp_server *s = k->all->server;
	const struct redacting w = {redaction_of(s, k->principal), NULL};
	json_t *o = json_pack("{s:s, s:s, s:I, s:O, s:o}", "principal", k->principal, "version",
		build.version, "seq", (json_int_t)k->seen, "lines", k->lines, "dashboards",
		dashboards_of(s, k->principal));
	/* a secret may have become known after a line was written */
	o = redaction_mask_data(o, &w);
	char *text = json_dumps(o, JSON_COMPACT);
	CHECK(text);
	http_answer(k->x, 200, "application/json", fields, ARRAY_SIZE(fields), text, strlen(text));
	free(text);
	json_decref(o);
	look_free(k);
}

static void answer_failed(struct look *k, const char *why)
{
	_cleanup_free_ char *text = xasprintf("Service Unavailable: %s\n", why);
	http_answer(k->x, 503, "text/plain; charset=utf-8", NULL, 0, text, strlen(text));
	look_free(k);
}

/* ---- waiting ---- */

static void end_if_closed(struct pagelooks *l)
{
	if (!l->closing || l->n || !l->timer_closed)
		return;
	void (*done)(void *user) = l->done;
	void *user = l->user;
	free(l);
	if (done)
		done(user);
}

static void on_timer(uv_timer_t *t);

static void on_read(uv_work_t *work, int status)
{
	struct look *k = container_of(work, struct look, work);
	struct pagelooks *l = k->all;
	k->reading = false;
	(void)close(k->dir);
	if (!k->x) {
		look_free(k);
		end_if_closed(l);
	} else if (status < 0 || k->result < 0) {
		answer_failed(k, "the audit log cannot be read");
	} else if (json_array_size(k->lines) || clock_monotonic_us() >= k->deadline_us) {
		answer(k);
	} else {
		k->after = k->seen; /* lines of others */
		(void)uv_timer_start(&l->timer, on_timer, LOOK_MS, LOOK_MS);
	}
}

static void start_reading(struct look *k)
{
	k->dir = audit_dup_dir(k->all->server->config.audit);
	k->reading = true;
	if (k->dir >= 0 && uv_queue_work(k->all->loop, &k->work, read_log, on_read) == 0)
		return;
	k->reading = false;
	fd_closep(&k->dir);
	answer_failed(k, "there are not enough descriptors");
}

static void on_timer(uv_timer_t *t)
{
	struct pagelooks *l = t->data;
	uint64_t seq = audit_seq(l->server->config.audit), now_us = clock_monotonic_us();
	bool waits = false;
	list_for_each (k, next, &l->looks, struct look, link) {
		if (k->reading || !k->x)
			continue;
		if (seq > k->after)
			start_reading(k);
		else if (now_us >= k->deadline_us)
			answer(k);
		else
			waits = true;
	}
	if (!waits)
		(void)uv_timer_stop(t);
}

static void on_gone(void *user)
{
	struct look *k = user;
	struct pagelooks *l = k->all;
	k->x = NULL;
	if (!k->reading)
		look_free(k);
	end_if_closed(l);
}

static const struct http_watcher watcher = {on_gone, NULL};

static size_t count_of(const struct pagelooks *l, const char *principal)
{
	size_t n = 0;
	list_for_each (k, next, &l->looks, struct look, link)
		n += strcmp(k->principal, principal) == 0;
	return n;
}

void pagelook(struct pagelooks *l, struct http_exchange *x, const struct pagelook_wish *wish)
{
	static const char busy[] = "Service Unavailable: too many pages are waiting\n";
	if (l->n == LIMIT_PAGE_LOOKS ||
		count_of(l, wish->principal) >= LIMIT_PAGE_LOOKS_PRINCIPAL) {
		http_answer(x, 503, "text/plain; charset=utf-8", NULL, 0, busy, sizeof(busy) - 1);
		return;
	}
	struct look *k = xcalloc(1, sizeof(*k));
	k->all = l;
	k->x = x;
	k->principal = xstrdup(wish->principal);
	k->after = k->seen = wish->after;
	k->deadline_us = clock_monotonic_us() + wish->wait_s * USEC_PER_SEC;
	k->lines = json_array();
	list_append(&l->looks, &k->link);
	l->n++;
	http_watch(x, &watcher, k);
	if (audit_seq(l->server->config.audit) > k->after)
		start_reading(k);
	else if (wish->wait_s == 0)
		answer(k);
	else
		(void)uv_timer_start(&l->timer, on_timer, LOOK_MS, LOOK_MS);
}

/* ---- life ---- */

struct pagelooks *pagelooks_new(uv_loop_t *loop, struct mcp_server *server)
{
	struct pagelooks *l = xcalloc(1, sizeof(*l));
	l->server = server;
	l->loop = loop;
	list_init(&l->looks);
	(void)uv_timer_init(loop, &l->timer);
	l->timer.data = l;
	return l;
}

static void on_timer_closed(uv_handle_t *timer)
{
	struct pagelooks *l = timer->data;
	l->timer_closed = true;
	end_if_closed(l);
}

void pagelooks_close(struct pagelooks *l, void (*done)(void *user), void *user)
{
	l->closing = true;
	l->done = done;
	l->user = user;
	uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}
