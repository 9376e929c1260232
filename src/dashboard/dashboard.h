/* dashboard.h: dashboards: which session and kernel each lives in, what it showed last, and the
 * cells that run for it. The truth about a dashboard is in its kernel; what is kept here is the
 * last whole tree, so that it can be shown while the kernel is busy and when it has gone. No
 * JSON-RPC.
 *
 * Every call on a dashboard is a cell of its kernel (docs/dashboard.md). One event that makes
 * statements run again is in flight at a time: what the person changes meanwhile is gathered into
 * one event that follows, and an event that takes long is interrupted for it.
 *
 * What a kernel says is hostile input: it is parsed, bounded, and its secrets are masked before
 * anything of it is kept. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/id.h"

struct dashboard;
struct dashboard_wait;
struct dashboards;
struct exec_mime;
struct exec_status;
struct redactor;
struct session;
struct sessions;
struct store;

enum dashboard_kind {
	DASHBOARD_RUN,  /* new code: statements run */
	DASHBOARD_MOVE, /* an event after which statements may run again */
	DASHBOARD_LOOK, /* a page, a window, an image: nothing runs again */
};
struct dashboard_ask {
	enum dashboard_kind kind;
	const char *tool;      /* that asks; static text */
	bool once;             /* a broker that died may have put its end on record */
	const char *job;       /* "j-…" for the cell */
	const json_t *request; /* {"op":…}; borrowed */
	uint64_t seq;          /* of the App's event; 0: none */
	uint64_t have;         /* the revision that the App shows; 0: not known */
	uint64_t timeout_us;   /* from the start of running */
};

/* Borrowed pointers live as long as the dashboards. */
struct dashboards_config {
	uv_loop_t *loop;
	struct sessions *sessions;
	struct store *store; /* NULL: forgotten with this process */
	/* v is stolen; the same with that principal's secrets masked. NULL where nothing of the
	 * session may leave: *ret says why. */
	json_t *(*mask)(void *user, struct session *s, json_t *v, struct err *ret);
	/* A cell has ended, or nobody can know any more how (status NULL: err says why). */
	void (*ended)(void *user, struct session *s, const struct dashboard_ask *ask,
		const struct exec_status *status, const struct err *err);
	void *user;
};

struct dashboards *dashboards_new(const struct dashboards_config *c);
/* Nobody is called back any more. */
void dashboards_free(struct dashboards *m);

/* A dashboard of that session, shown by nobody yet. id: "d-…" of id.h; where it is there already
 * (the call was delivered again) it is the answer. kernel NULL: the default one. */
int dashboards_make(struct dashboards *m, struct session *s, const char *kernel, const char *id,
	struct dashboard **ret, struct err *err) MUST_CHECK;
/* ERR_NO_SUCH_RESOURCE with one and the same text for forged, foreign and forgotten ids. */
int dashboards_find(struct dashboards *m, const char *principal, const char *id,
	struct dashboard **ret, struct err *err) MUST_CHECK;

/* By the code that it was made from, the newest that is in that session (NULL: in any). */
int dashboards_find_code(struct dashboards *m, const char *principal, const char *session,
	const char *code, struct dashboard **ret, struct err *err) MUST_CHECK;
/* What it is made from now. */
void dashboard_set_code(struct dashboard *d, const char *code);

/* Held, it stays; else it is there until the loop goes on. */
void dashboard_hold(struct dashboard *d);
void dashboard_release(struct dashboard *d);

/* Each of that principal, those of former brokers too, the one used last at the end. Nothing of it
 * counts as being used. */
void dashboards_each(struct dashboards *m, const char *principal,
	void (*fn)(void *user, const struct dashboard *d), void *user);

const char *dashboard_id(const struct dashboard *d);
/* Of its session, whether it is there or not. */
const char *dashboard_handle(const struct dashboard *d);
/* The session, or NULL where it has gone: then nothing runs any more, and what was shown last is
 * there all the same. */
struct session *dashboard_session(struct dashboard *d);
/* The last whole tree; NULL: none yet. The caller's. */
json_t *dashboard_tree(const struct dashboard *d);
/* What that tree says of itself; NULL: nothing. */
const char *dashboard_title(const struct dashboard *d);
const char *dashboard_status(const struct dashboard *d);
bool dashboard_has_tree(const struct dashboard *d);
bool dashboard_busy(const struct dashboard *d);

/* What a cell of the dashboard has answered; members are borrowed until the callback returns. */
struct dashboard_answer {
	const char *job; /* where the answer comes from: another's, where events were gathered */
	bool running;    /* it goes on, with what is ready: ask again with dashboard_wait_for() */
	bool expired;    /* its kernel has gone */
	uint64_t seq;
	const json_t *tree, *patch, *page, *outline; /* NULL: not in this answer */
	const char *text;                            /* for the model; NULL: none */
	const struct exec_mime *image;               /* that was asked for; NULL: none */
	const char *export_path; /* the file that was asked for, as the kernel names it; NULL: none
				  */
	const struct exec_status *status; /* without what it displayed; NULL while running */
};
/* Called once, from the loop; answer is NULL where err is not. Who waits holds the dashboard. */
typedef void (*dashboard_fn)(
	void *user, const struct dashboard_answer *answer, const struct err *err);

/* Would this event become a part of one that waits for its turn? Then no cell of its own runs. */
bool dashboard_joins(const struct dashboard *d, const struct dashboard_ask *ask);
/* Runs a cell for it, or joins one that is to run: answers when that is done, or "running" after
 * wait_us. The session must be there. */
struct dashboard_wait *dashboard_ask(struct dashboard *d, const struct dashboard_ask *ask,
	uint64_t wait_us, dashboard_fn fn, void *user);
/* Waits for the cell of that seq (0: the newest); the answer of one that is done is kept until
 * eight newer ones are. Without one the answer says what state the dashboard is in. have: as in an
 * ask; where it is known, the answer comes as soon as the cell shows something newer. */
struct dashboard_wait *dashboard_wait_for(struct dashboard *d, uint64_t seq, uint64_t have,
	uint64_t wait_us, dashboard_fn fn, void *user);
/* No callback any more; the cell goes on. */
void dashboard_wait_abandon(struct dashboard_wait *w);
/* Interrupts what runs for it, and drops what was to follow. */
void dashboard_cancel(struct dashboard *d);
