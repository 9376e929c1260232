/* dashboard_internal.h: shared by the files of dashboard; nobody else includes it. */
#pragma once

#include "base/list.h"
#include "dashboard/dashboard.h"
#include "exec/exec.h"
#include "wire/sha256.h"

struct dashboards {
	struct dashboards_config config;
	struct list all; /* the one used last at the end */
	bool loaded;     /* what is on record was looked through */
};

struct dashboard {
	struct list link;
	struct dashboards *all;
	char id[ID_TEXT_SIZE], handle[ID_TEXT_SIZE];
	char *principal, *kernel;       /* kernel NULL: the default one */
	char code[2 * SHA256_SIZE + 1]; /* SHA-256 of what it is made from; "": not known */
	char *tree;                     /* the last whole one, as JSON; NULL: not in memory */
	bool tree_recorded;             /* there is one on record */
	char *title, *status;           /* what it says of itself; NULL: nothing */
	bool stale;                     /* something was shown since */
	unsigned users;                 /* who hold it */
	struct list runs;               /* the oldest first; those that are done stay for a while */
	uv_timer_t patience;            /* then what runs is interrupted for what waits */
	uv_timer_t settle;              /* then the whole tree is fetched */
};

/* One cell. */
struct dashboard_run {
	struct list link;
	struct dashboard *dashboard;
	struct dashboard_ask ask; /* with job and request of its own */
	char job[ID_TEXT_SIZE];
	json_t *request;
	uint64_t seq;            /* the newest of those that were gathered */
	struct session *session; /* held until it is done; NULL: done, or there was none */
	struct exec_call *op;
	uint64_t started_us; /* CLOCK_MONOTONIC; 0: held back */
	uint64_t steps_us;   /* what it showed meanwhile took so much of the loop's time */
	bool quiet;          /* the broker's own, for the tree: nobody asked, nothing is recorded */
	bool told;           /* its kernel knows that a newer event waits */
	bool gave_way;       /* … and says that it has ended for that */
	char by[ID_TEXT_SIZE]; /* job of the event that it gave way to, whose answer is its own */
	bool interrupted, done;
	struct exec_status *status;
	struct err *err;
	/* Of what was shown while it runs: it fits who has one of these. rev 0: nothing was. */
	uint64_t from, rev;
	json_t *tree, *patch, *page, *outline; /* until everybody has them who waited … */
	char *kept;                            /* … then all in one, as JSON */
	char *text, *export_path;
	struct exec_mime image; /* type NULL: none */
	struct list waits;
};

/* That is its tree now; NULL: it has none. */
void dashboard_keep_tree(struct dashboard *d, const json_t *tree);
/* Fetches the whole tree, once things have been quiet for a while. */
void dashboard_settle(struct dashboard *d);
/* Frees a run; who still waits for it is not called. */
void dashboard_run_free(struct dashboard_run *r);

/* ---- what a cell said ---- */

/* Does the request hand on an event of that type? */
bool dashboard_wants(const json_t *request, const char *type);

/* Takes what the cell's displays hold into r: parsed, within bounds, masked, and no members but
 * those that there are; then status has none of them any more. 0, or ERR_PROTOCOL, or why nothing
 * may leave. */
int dashboard_answer_take(
	struct dashboard_run *r, struct exec_status *status, struct err *err) MUST_CHECK;

/* What a cell that runs shows of what is ready: r has it as its tree or patch, and from and rev.
 * True where there is something new. The end says all of it again, and what was wrong with it. */
bool dashboard_answer_step(struct dashboard_run *r, const struct exec_bundle *b);

/* Puts tree, patch, page and outline away as text, and back: as values they take ten times as much.
 */
void dashboard_answer_keep(struct dashboard_run *r);
void dashboard_answer_bring(struct dashboard_run *r);

/* ---- the store ---- */

/* Records it as it is now, without its tree; a failure is logged, for the kernel has the truth. */
void dashboard_record_put(const struct dashboard *d);
/* … with its tree. */
void dashboard_record_tree(struct dashboard *d);
/* The tree that is on record, the caller's; NULL: none that can be read. */
json_t *dashboard_record_tree_get(const struct dashboard *d);
void dashboard_record_remove(const struct dashboard *d);
/* That it is the newest of its code, and that it is no more. */
void dashboard_record_code(const struct dashboard *d);
void dashboard_record_uncode(const struct dashboard *d);
/* 0 and *ret filled in, but for its tree; or -ENOENT. */
int dashboard_record_get(struct dashboards *m, const char *id, struct dashboard *ret) MUST_CHECK;
/* The id that was recorded last for that principal and code (its SHA-256): 0, or -ENOENT. */
int dashboard_record_find(struct dashboards *m, const char *principal, const char *code,
	char ret_id[static ID_TEXT_SIZE]) MUST_CHECK;
/* Calls fn with the id of each that is on record. */
void dashboard_record_each(struct dashboards *m, void (*fn)(struct dashboards *m, const char *id));
