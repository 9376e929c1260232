/* session_internal.h: shared by the files of session and their test; nobody else includes it. */
#pragma once

#include <jansson.h>

#include "base/limits.h"
#include "base/list.h"
#include "link/link.h"
#include "session/session.h"

/* An implicit session not named again for so long goes first when a cap is hit; a session whose
 * sandbox is lost is kept so long, to say so. */
#define SESSION_GRACE_US (120 * USEC_PER_SEC)
/* What the agent is given while its broker ends with it; else a session's idle TTL, if longer. */
#define SESSION_LEASE_MS 60000
/* A third of it: two renewals may be missed. */
#define SESSION_RENEW_US (20 * USEC_PER_SEC)
/* How often a session past its idle TTL is asked whether its jobs still run. */
#define SESSION_BUSY_US (30 * USEC_PER_SEC)

/* How long a closed session's handle is kept, for the delivery that closed it. */
#define SESSION_TOMB_US (600 * USEC_PER_SEC)
/* A sandbox that an earlier broker left has so long to answer. */
#define SESSION_RESTORE_US (5 * USEC_PER_SEC)

struct sessions {
	struct sessions_config config;
	struct list sessions;   /* all that are not freed; the oldest first */
	uv_timer_t timer;       /* due when the next deadline of any session is */
	struct session *latest; /* asked for; NULL: none, or it has gone */
	struct pool *pool;
	bool closing, detaching, ended;
	void (*closed)(void *user);
	void *closed_user;
	bool tombs;          /* there may be records of closed sessions */
	uint64_t tombs_us;   /* when they are looked through next */
	uint64_t restore_us; /* CLOCK_BOOTTIME; by then all are found or lost; 0: done */
	void (*restored)(void *user);
	void *restored_user;
};

enum session_state {
	SESSION_POOLED, /* a sandbox that is kept ready, nobody's yet: no handle, no principal */
	SESSION_LIVE,
	SESSION_LOST,    /* its sandbox is gone; it can still be found, to be told so */
	SESSION_CLOSING, /* unknown to everybody; being taken down */
	SESSION_CLOSED,  /* nothing is left of it; freed once nobody holds it */
};

struct session_waiter {
	struct list waiters;
	void (*done)(void *user, const char *leftovers);
	void *user;
};

struct session {
	struct list sessions;
	struct sessions *all; /* NULL: it outlived them, held by somebody */
	enum session_state state;
	char handle[ID_TEXT_SIZE], sandbox_id[ID_TEXT_SIZE];
	char *principal;
	bool implicit;
	struct session_profile profile; /* with copies of its own */
	struct policy_limits limits;    /* that its sandbox was made with */
	uint8_t key[AUTH_KEY];          /* of its link */
	char *ref;                      /* of its sandbox; known before that is made */
	bool made;                      /* its agent has said hello: code may have run in it */
	bool found;                     /* an earlier broker's: what its agent knows is asked */
	unsigned asking;                /* so many answers to that are to come */
	struct vault_grant *grant;      /* its secrets; NULL: none */
	bool secrets_sent;              /* over the link */
	bool once;                      /* what is audited of it may be on record already */
	struct sandbox *sandbox;        /* NULL once destroy() was called */
	struct capabilities caps;
	struct link *link;
	struct exec *exec;
	struct files *files;
	bool kernel_asked; /* a forked kernel is to come once the link is ready, or on its way */
	bool destroyed;    /* destroy() has called back */
	bool link_over;    /* the link was lost, and has said so */
	bool ready;        /* this link has been */
	char *leftovers, *why_closed, *why_lost;
	char closed_by[DELIVERY_TEXT]; /* the delivery that closes it; "": none */
	struct list waiters;           /* for its end */
	unsigned holds;
	bool checking;                          /* asking whether jobs run */
	uint64_t created_us;                    /* CLOCK_REALTIME */
	uint64_t born_us, asked_us, renewed_us; /* CLOCK_BOOTTIME */
	uint64_t check_us;                      /* not idle before */
	uint64_t lost_us;
	uint64_t auth_event_us;        /* last EVENT_AUTH_FAILED that was audited; 0: none */
	uint8_t (*jobs)[ID_BYTES];     /* the last LIMIT_JOBS, a ring once it is full */
	uint8_t job_marks[LIMIT_JOBS]; /* the first byte of each: to look through */
	size_t n_jobs, next_job;
};

/* Found by handle or job: it is asked for. */
void session_asked(struct session *s);
/* How long it lives if it is not asked for again and idle. */
uint64_t session_left_us(const struct session *s, uint64_t now_us);

/* session.c: room for one more session of the principal (NULL: of all) below a cap. */
int sessions_make_room(
	struct sessions *m, const char *principal, uint32_t max, struct err *err) MUST_CHECK;

/* ---- session_open.c ---- */

/* Makes a sandbox for the pool. */
int session_make_pooled(struct sessions *m, const struct session_profile *profile,
	const struct policy_limits *limits, struct session **ret, struct err *err) MUST_CHECK;
/* With id, times and lists; not in all->sessions yet. */
struct session *session_new(struct sessions *m, const struct session_profile *profile,
	const struct policy_limits *limits);
/* Writes its record, makes its sandbox and what stands on that. Puts it into all->sessions, but
 * where it fails: then it is freed, or taken down by the timer. */
int session_make(struct session *s, struct err *err) MUST_CHECK;

/* ---- session_audit.c ---- */

/* An event about s, with all that says which it is; detail may be NULL. */
struct audit_event session_audit_about(
	const struct session *s, const char *event, const char *detail);
/* Where s is of a delivery that came before: once. */
int session_audit_write(
	const struct session *s, const struct audit_event *e, struct err *err) MUST_CHECK;
/* Of what has happened and cannot be held back. */
void session_audit_after(const struct session *s, const char *event, const char *detail);
/* Before it is made: what it may have, and what will hold it to that. */
int session_audit_open(const struct session *s, struct err *err) MUST_CHECK;

/* session_kernel.c: the default kernel of a session, forked from the template where there is one.
 */
void session_kernel_init(struct session *s);
/* The link has become ready. */
void session_kernel_ready(struct session *s);
/* The link is lost: no kernel will come. */
void session_kernel_lost(struct session *s);

/* pool.c: the template, and sandboxes that are kept ready. */
struct pool *pool_new(struct sessions *m);
/* A session of that profile was asked for: such sandboxes are kept ready from now on, begun soon.
 */
void pool_used(struct pool *p, const struct session_profile *profile, const char *principal);
/* One that is like what sessions_open() would make, or NULL. It stays SESSION_POOLED until the
 * caller makes it a session. */
struct session *pool_take(
	struct pool *p, const struct session_profile *profile, const char *principal);
/* What is kept ready may be of other limits now. */
void pool_policy_changed(struct pool *p);
/* One of the pool has ended by itself. */
void pool_lost(struct pool *p);
/* What kernels can be forked from now, or NULL; asking says that one is wanted. */
struct template *pool_template(struct pool *p);
/* Ends the template, or where sandboxes live on (in_use) lets go of it; then calls done and frees.
 */
void pool_close(struct pool *p, bool in_use, void (*done)(void *user), void *user);

/* ---- session_life.c ---- */

/* The link over this connection (taken), and what stands on it. found: see link_found(). */
int session_attach(struct session *s, int fd, bool found, const char *kernels_dir,
	const char *workspace, struct err *err) MUST_CHECK;
extern const struct sandbox_events session_sandbox_events;
/* Its sandbox, if it has one. */
void session_destroy(struct session *s);
void session_free(struct session *s);
/* From what is on record to closing, unless it is there already. */
void session_begin_close(struct session *s, const char *why);
/* The timer is due in at most so long. */
void session_due_in(struct sessions *m, uint64_t us);

/* ---- session_restore.c ---- */

/* The link is ready: asks the agent of a found one what it knows. */
void session_learn(struct session *s);
/* Over a stream that tears, found while it was being opened, and its agent has not answered yet.
 * Whether that has its configuration nobody knows, but it was never asked for anything: once the
 * link is over, or the time, it is made anew. */
bool session_unborn(const struct session *s);
/* Are all found ones ready or lost? Those that have not answered in time are given up. */
bool sessions_all_restored(struct sessions *m, uint64_t now_us);

/* ---- session_secret.c ---- */

/* Before the sandbox of a new session is made, or given away: what it will be given, audited. */
int session_secrets_grant(struct session *s, struct err *err) MUST_CHECK;
/* Over its link, once and as soon as all of it is known. */
void session_secrets_send(struct session *s);
/* For its record, NULL: none; and back from there. */
json_t *session_secrets_json(const struct session *s);
void session_secrets_restore(struct session *s, const json_t *list);

/* ---- session_record.c: what a later broker needs ---- */

struct session_record {
	enum session_state state;
	bool made;
	char handle[ID_TEXT_SIZE], sandbox_id[ID_TEXT_SIZE];
	char *principal, *ref;
	char *why; /* of lost and closing ones; may be NULL */
	char closed_by[DELIVERY_TEXT];
	uint8_t key[AUTH_KEY];
	bool implicit;
	uint64_t created_us;
	bool has_limits;
	struct policy_limits limits;    /* those of a sandbox */
	json_t *secrets;                /* NULL: none */
	struct session_profile profile; /* copies */
};

/* What is on record of its sandbox's limits, over those in l. */
void session_record_limits(const struct session_record *r, struct policy_limits *l);
/* As s is now. */
int session_record_put(struct session *s, struct err *err) MUST_CHECK;
/* Nothing of it is left, nor is its record; where a delivery closed it, that stays known. */
void session_record_end(struct session *s);
/* The one that it had while it was in the pool. */
void session_record_remove_pooled(struct session *s);
/* -EBADMSG for what is no record of this version. */
int session_record_get(struct store *store, const char *key, struct session_record *ret) MUST_CHECK;
void session_record_done(struct session_record *r);
bool session_record_closed_by(struct store *store, const char *principal, const char *delivery,
	struct session_closed *ret);
/* Removes what is older than SESSION_TOMB_US; false where nothing is left. */
bool session_record_sweep(struct store *store);
