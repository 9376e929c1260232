/* run.c: the cells of dashboards: sent, gathered, waited for; see dashboard.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "dashboard/dashboard_internal.h"
#include "exec/exec.h"
#include "session/session.h"

/* An event that has run for so long is interrupted for a newer one: until then its caller waits,
 * and was not yet told that it takes long. */
#define PATIENCE_US (400 * USEC_PER_MSEC)
/* … but first it has so long to end between two statements. */
#define GRACE_US (60 * USEC_PER_MSEC)
/* Without events for so long: the whole tree is fetched. */
#define SETTLE_MS 1000
/* Answers that are kept for who asks later. */
#define KEPT 8
/* What a cell shows while it runs is read for so long, and from then on for a tenth of the time: it
 * says all of it again at its end, and others wait for this loop. */
#define STEPS_US    (50 * USEC_PER_MSEC)
#define STEPS_SHARE 10

struct dashboard_wait {
	struct list link;
	struct dashboard_run *run; /* NULL: there is none to wait for */
	struct dashboard *dashboard;
	uint64_t seq, have;
	bool early; /* is answered once there is something newer than have */
	uv_timer_t timer;
	dashboard_fn fn;
	void *user;
};

/* ---- waiting ---- */

static void on_wait_closed(uv_handle_t *h)
{
	free(container_of((uv_timer_t *)h, struct dashboard_wait, timer));
}

void dashboard_wait_abandon(struct dashboard_wait *w)
{
	if (!w)
		return;
	list_remove(&w->link);
	dashboard_release(w->dashboard);
	uv_close((uv_handle_t *)&w->timer, on_wait_closed);
}

/* Does the run, which goes on, show something that fits what the page has? */
static bool has_news(const struct dashboard_wait *w)
{
	const struct dashboard_run *r = w->run;
	return r && !r->done && w->have && w->have >= r->from && w->have < r->rev;
}

static void tell(struct dashboard_wait *w)
{
	struct dashboard_run *r = w->run;
	struct dashboard_answer a = {.seq = r ? r->seq : w->seq};
	/* a move's page has a newer one than what is kept here: it keeps that while the move runs
	 */
	json_t *last = r && (r->done || r->ask.kind == DASHBOARD_MOVE)
			       ? NULL
			       : dashboard_tree(w->dashboard);
	bool kept = r && r->kept;
	if (kept)
		dashboard_answer_bring(r);
	a.tree = last;
	if (r && r->done && r->err) {
		w->fn(w->user, NULL, r->err);
	} else {
		a.running = r && !r->done;
		a.expired = !dashboard_session(w->dashboard);
		if (r)
			a.job = r->job;
		if (has_news(w) && r->patch)
			a.patch = r->patch;
		if (r && r->done) {
			a.tree = r->tree;
			a.patch = r->patch;
			a.page = r->page;
			a.outline = r->outline;
			a.text = r->text;
			a.image = r->image.type ? &r->image : NULL;
			a.export_path = r->export_path;
			a.status = r->status;
		}
		w->fn(w->user, &a, NULL);
	}
	if (kept)
		dashboard_answer_keep(r);
	json_decref(last);
	dashboard_wait_abandon(w);
}

static void on_wait(uv_timer_t *t)
{
	tell(container_of(t, struct dashboard_wait, timer));
}

static struct dashboard_wait *wait_new(struct dashboard *d, struct dashboard_run *r, uint64_t have,
	bool early, uint64_t wait_us, dashboard_fn fn, void *user)
{
	struct dashboard_wait *w = xcalloc(1, sizeof(*w));
	w->run = r;
	w->dashboard = d;
	w->seq = r ? r->seq : 0;
	w->have = have;
	w->early = early;
	w->fn = fn;
	w->user = user;
	dashboard_hold(d);
	list_init(&w->link);
	if (r)
		list_append(&r->waits, &w->link);
	(void)uv_timer_init(d->all->config.loop, &w->timer);
	bool waits = r && !r->done && !(early && has_news(w));
	(void)uv_timer_start(&w->timer, on_wait, waits ? wait_us / USEC_PER_MSEC : 0, 0);
	return w;
}

static void tell_all(struct dashboard_run *r)
{
	/* what is called may abandon the next one */
	while (!list_empty(&r->waits))
		tell(container_of(r->waits.next, struct dashboard_wait, link));
}

/* ---- runs ---- */

bool dashboard_wants(const json_t *request, const char *type)
{
	const json_t *event = json_object_get(request, "event");
	const char *given = json_string_value(json_object_get(event, "type"));
	return given && strcmp(given, type) == 0;
}

static struct dashboard_run *run_new(
	struct dashboard *d, const struct dashboard_ask *ask, struct session *s)
{
	struct dashboard_run *r = xcalloc(1, sizeof(*r));
	r->dashboard = d;
	str_copy(r->job, sizeof(r->job), ask->job);
	r->request = json_deep_copy(ask->request);
	r->seq = ask->seq;
	r->ask = *ask;
	r->ask.job = r->job;
	r->ask.request = r->request;
	r->session = s;
	if (s)
		session_hold(s);
	list_init(&r->waits);
	list_append(&d->runs, &r->link);
	return r;
}

void dashboard_run_free(struct dashboard_run *r)
{
	while (!list_empty(&r->waits))
		dashboard_wait_abandon(container_of(r->waits.next, struct dashboard_wait, link));
	list_remove(&r->link);
	if (r->op)
		exec_abandon(r->op);
	if (r->session)
		session_release(r->session);
	if (r->status)
		exec_status_done(r->status);
	free(r->status);
	free(r->err);
	json_decref(r->request);
	json_decref(r->tree);
	json_decref(r->patch);
	json_decref(r->page);
	json_decref(r->outline);
	free(r->kept);
	free(r->text);
	free(r->export_path);
	free(r->image.type);
	free(r->image.data);
	free(r);
}

/* Only answers are kept. */
static void forget_request(struct dashboard_run *r)
{
	r->ask.request = NULL;
	json_decref(TAKE_PTR(r->request));
}

/* It ends without a cell: what is on record as begun has its end there. */
static void fail(struct dashboard_run *r, enum err_code code, int errnum, const char *why)
{
	const struct dashboards_config *c = &r->dashboard->all->config;
	r->done = true;
	forget_request(r);
	r->err = xcalloc(1, sizeof(*r->err));
	err_set(r->err, code, errnum, "%s", why);
	if (!r->session)
		return;
	c->ended(c->user, r->session, &r->ask, NULL, r->err);
	session_release(TAKE_PTR(r->session));
}

/* On its way, not held back. */
static struct dashboard_run *in_flight(const struct dashboard *d)
{
	list_for_each (r, next, &d->runs, struct dashboard_run, link)
		if (!r->done && r->started_us && r->ask.kind != DASHBOARD_LOOK)
			return r;
	return NULL;
}

static struct dashboard_run *held_back(const struct dashboard *d)
{
	list_for_each (r, next, &d->runs, struct dashboard_run, link)
		if (!r->done && !r->started_us)
			return r;
	return NULL;
}

static unsigned count_held(const struct dashboard *d)
{
	unsigned n = 0;
	list_for_each (r, next, &d->runs, struct dashboard_run, link)
		n += !r->done && !r->started_us;
	return n;
}

bool dashboard_busy(const struct dashboard *d)
{
	list_for_each (r, next, &d->runs, struct dashboard_run, link)
		if (!r->done && !r->quiet)
			return true;
	return false;
}

/* Keeps the newest answers, as many as there is room for; at least the last one. */
static void drop_old(struct dashboard *d)
{
	unsigned n = 0;
	size_t bytes = 0;
	for (struct list *at = d->runs.prev, *before; at != &d->runs; at = before) {
		struct dashboard_run *r = container_of(at, struct dashboard_run, link);
		before = at->prev;
		if (!r->done || !list_empty(&r->waits))
			continue;
		bytes += (r->kept ? strlen(r->kept) : 0) + r->image.n;
		if (r->quiet || n >= KEPT || (n > 0 && bytes > LIMIT_DASHBOARD_KEPT))
			dashboard_run_free(r);
		else
			n++;
	}
}

static void start(struct dashboard_run *r);

static const char session_ended[] = "the dashboard's session has ended";

static void start_held(struct dashboard *d)
{
	for (struct dashboard_run *r; !in_flight(d) && (r = held_back(d));) {
		if (dashboard_session(d)) {
			start(r);
		} else {
			fail(r, ERR_NO_SUCH_SESSION, ENOENT, session_ended);
			tell_all(r);
		}
	}
}

/* ---- an event that a newer one overtakes ---- */

static json_t *values_of(const struct dashboard_run *r)
{
	return json_object_get(json_object_get(r->request, "event"), "values");
}

static bool sets_values(const json_t *request)
{
	const json_t *event = json_object_get(request, "event");
	return dashboard_wants(request, "set") && json_is_object(json_object_get(event, "values"));
}

/* The event for which it ended before its end; NULL: none. What was cut off before it began said
 * nothing. */
static struct dashboard_run *overtaken_by(const struct dashboard_run *r)
{
	bool cut_off =
		r->gave_way || (r->status && !r->patch && r->status->reason == REASON_CANCELLED);
	return r->told && cut_off ? held_back(r->dashboard) : NULL;
}

/* Who waits for it waits for that one from now on, which sets its values too: it may not have come
 * to do so. */
static void pass_on(struct dashboard_run *r, struct dashboard_run *next)
{
	str_copy(r->by, sizeof(r->by), next->job);
	if (sets_values(r->request) && sets_values(next->request))
		json_object_update_missing(values_of(next), values_of(r));
	list_for_each (w, after, &r->waits, struct dashboard_wait, link) {
		list_remove(&w->link);
		list_append(&next->waits, &w->link);
		w->run = next;
	}
}

/* The run whose answer it is. */
static struct dashboard_run *standing(struct dashboard_run *r)
{
	if (!r || !r->by[0])
		return r;
	list_for_each (one, next, &r->dashboard->runs, struct dashboard_run, link)
		if (strcmp(one->job, r->by) == 0)
			return standing(one);
	return NULL;
}

/* ---- the end of a run ---- */

static void keep_tree(struct dashboard_run *r)
{
	struct dashboard *d = r->dashboard;
	if (r->tree) {
		dashboard_keep_tree(d, r->tree);
		d->stale = false;
		dashboard_record_tree(d);
	} else if (r->patch) {
		/* a kernel that answers the broker's own question with a patch is not asked on and
		 * on */
		d->stale = !r->quiet;
	}
	dashboard_settle(d);
}

static void on_end(struct dashboard_run *r, struct exec_status *status, const struct err *err)
{
	struct dashboard *d = r->dashboard;
	const struct dashboards_config *c = &d->all->config;
	struct err failed;
	if (!err && dashboard_answer_take(r, status, &failed) < 0)
		err = &failed;
	if (!r->quiet)
		c->ended(c->user, r->session, &r->ask, status, err);
	r->done = true;
	r->err = err ? xmemdup(err, sizeof(*err)) : NULL;
	if (!err) {
		r->status = xmalloc(sizeof(*r->status));
		*r->status = *status;
		*status = (struct exec_status){0};
	}
	session_release(TAKE_PTR(r->session));
	dashboard_hold(d);
	struct dashboard_run *next = overtaken_by(r);
	if (next)
		pass_on(r, next);
	else
		tell_all(r);
	forget_request(r);
	if (!r->err)
		keep_tree(r);
	dashboard_answer_keep(r);
	start_held(d);
	drop_old(d);
	dashboard_release(d);
}

/* What is ready while it runs. */
static void on_shown(void *user, const struct exec_bundle *b)
{
	struct dashboard_run *r = user;
	uint64_t now_us = clock_monotonic_us();
	if (r->quiet || r->steps_us > STEPS_US + (now_us - r->started_us) / STEPS_SHARE)
		return;
	bool news = dashboard_answer_step(r, b);
	if (news && r->tree)
		dashboard_keep_tree(r->dashboard, r->tree);
	r->steps_us += clock_monotonic_us() - now_us;
	if (!news)
		return;
	list_for_each (w, next, &r->waits, struct dashboard_wait, link)
		if (w->early && has_news(w)) /* from the loop: what is called may abandon others */
			(void)uv_timer_start(&w->timer, on_wait, 0, 0);
}

static void on_status(void *user, struct exec_status *status, const struct err *err)
{
	struct dashboard_run *r = user;
	r->op = NULL;
	if (!err && status->state != JOB_DONE)
		r->op = exec_wait(session_exec(r->session), r->job, LIMIT_TIMEOUT_S * USEC_PER_SEC,
			on_status, r);
	else
		on_end(r, status, err);
}

/* ---- the start of one ---- */

static void start(struct dashboard_run *r)
{
	_cleanup_free_ char *request = json_dumps(r->request, JSON_COMPACT);
	const struct exec_request req = {
		.kind = JOB_KIND_CELL,
		.job = r->job,
		.language = "python",
		.kernel = r->dashboard->kernel,
		.mode = "dashboard",
		.code = request,
		.timeout_us = r->ask.timeout_us,
		.wait_us = LIMIT_TIMEOUT_S * USEC_PER_SEC,
		.stdin_open = r->ask.kind == DASHBOARD_MOVE, /* for make_way() */
		.shown = on_shown,
	};
	r->started_us = clock_monotonic_us();
	session_note_job(r->session, r->job);
	r->op = exec_run(session_exec(r->session), &req, on_status, r);
}

static void interrupt(struct dashboard_run *r)
{
	if (r->interrupted)
		return;
	r->interrupted = true;
	exec_cancel(session_exec(r->session), r->job, NULL, NULL, NULL);
}

static void on_patience(uv_timer_t *t)
{
	struct dashboard *d = container_of(t, struct dashboard, patience);
	struct dashboard_run *running = held_back(d) ? in_flight(d) : NULL;
	if (running)
		interrupt(running);
}

/* A newer event waits for it: it may end between two statements, and is interrupted after a while.
 * A click runs to its end, since it is one for the run that it causes alone. */
static void make_way(struct dashboard_run *running)
{
	uint64_t ran_us = clock_monotonic_us() - running->started_us;
	if (!sets_values(running->request) && !dashboard_wants(running->request, "rerun"))
		return;
	if (!running->told)
		(void)exec_input(session_exec(running->session), running->job, "\n", 1, true, NULL,
			NULL, NULL);
	running->told = true;
	(void)uv_timer_start(&running->dashboard->patience, on_patience,
		MAX(PATIENCE_US - MIN(ran_us, PATIENCE_US), GRACE_US) / USEC_PER_MSEC, 0);
}

/* What is gathered goes in one cell. */
static bool has_room(const struct dashboard_run *held, const struct dashboard_ask *ask)
{
	return json_dumpb(held->request, NULL, 0, JSON_COMPACT) +
		       json_dumpb(ask->request, NULL, 0, JSON_COMPACT) <=
	       LIMIT_CODE - 16; /* beside its mode */
}

/* Two events that set values are one. */
static void gather(struct dashboard_run *held, const struct dashboard_ask *ask)
{
	json_t *have = json_object_get(held->request, "event");
	const json_t *more = json_object_get(ask->request, "event");
	json_object_update(json_object_get(have, "values"), json_object_get(more, "values"));
	json_object_set(have, "seq", json_object_get(more, "seq"));
	json_object_set(have, "rev", json_object_get(more, "rev"));
	held->seq = MAX(held->seq, ask->seq);
}

bool dashboard_joins(const struct dashboard *d, const struct dashboard_ask *ask)
{
	struct dashboard_run *held = held_back(d);
	return held && ask->kind == DASHBOARD_MOVE && sets_values(held->request) &&
	       sets_values(ask->request);
}

struct dashboard_wait *dashboard_ask(struct dashboard *d, const struct dashboard_ask *ask,
	uint64_t wait_us, dashboard_fn fn, void *user)
{
	struct dashboard_run *running = in_flight(d), *held = held_back(d);
	struct session *s = dashboard_session(d);
	(void)uv_timer_stop(&d->settle);
	list_for_each (r, next, &d->runs, struct dashboard_run, link) /* delivered again */
		if (strcmp(r->job, ask->job) == 0)
			return wait_new(d, standing(r), ask->have, false, wait_us, fn, user);
	bool joins = dashboard_joins(d, ask), fits = !joins || has_room(held, ask);
	if (joins && fits) {
		gather(held, ask);
		return wait_new(d, held, ask->have, false, wait_us, fn, user);
	}
	drop_old(d);
	struct dashboard_run *r = run_new(d, ask, joins ? NULL : s);
	if (!s) {
		fail(r, ERR_NO_SUCH_SESSION, ENOENT, session_ended);
	} else if (!fits || count_held(d) > LIMIT_DASHBOARD_HELD) {
		fail(r, ERR_LIMIT_REACHED, EAGAIN,
			"too many events of this dashboard wait for the one that runs; wait, or "
			"cancel it");
	} else if (ask->kind == DASHBOARD_MOVE && running) {
		make_way(running);
	} else {
		start(r);
	}
	return wait_new(d, r, ask->have, false, wait_us, fn, user);
}

struct dashboard_wait *dashboard_wait_for(struct dashboard *d, uint64_t seq, uint64_t have,
	uint64_t wait_us, dashboard_fn fn, void *user)
{
	struct dashboard_run *found = NULL;
	list_for_each (r, next, &d->runs, struct dashboard_run, link)
		if (!r->quiet && (seq == 0 || r->seq == seq))
			found = r;
	return wait_new(d, standing(found), have, true, wait_us, fn, user);
}

void dashboard_cancel(struct dashboard *d)
{
	list_for_each (r, next, &d->runs, struct dashboard_run, link) {
		if (r->done)
			continue;
		if (r->started_us) {
			interrupt(r);
			continue;
		}
		fail(r, ERR_CANCELLED, ECANCELED, "the event was cancelled before it ran");
		tell_all(r);
	}
}

/* ---- the whole tree ---- */

static void on_settle(uv_timer_t *t)
{
	struct dashboard *d = container_of(t, struct dashboard, settle);
	struct session *s = d->stale && !dashboard_busy(d) ? dashboard_session(d) : NULL;
	char job[ID_TEXT_SIZE];
	if (!s)
		return;
	id_new('j', job);
	json_t *request = json_pack(
		"{s:s, s:s, s:{s:s}}", "op", "event", "id", d->id, "event", "type", "open");
	const struct dashboard_ask ask = {
		.kind = DASHBOARD_LOOK,
		.job = job,
		.request = request,
		.timeout_us = DEFAULT_TIMEOUT_S * USEC_PER_SEC,
	};
	struct dashboard_run *r = run_new(d, &ask, s);
	json_decref(request);
	r->quiet = true;
	start(r);
}

void dashboard_settle(struct dashboard *d)
{
	if (d->stale)
		(void)uv_timer_start(&d->settle, on_settle, SETTLE_MS, 0);
}
