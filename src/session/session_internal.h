/* session_internal.h: shared by the files of session and their test; nobody else includes it. */
#pragma once

#include "base/limits.h"
#include "base/list.h"
#include "link/link.h"
#include "session/session.h"

/* An implicit session not named again for so long goes first when a cap is hit; a session whose
 * sandbox is lost is kept so long, to say so. */
#define SESSION_GRACE_US (120 * USEC_PER_SEC)
#define SESSION_LEASE_MS 60000
/* A third of it: two renewals may be missed. */
#define SESSION_RENEW_US (20 * USEC_PER_SEC)
/* How often a session past its idle TTL is asked whether its jobs still run. */
#define SESSION_BUSY_US (30 * USEC_PER_SEC)

struct sessions {
	struct sessions_config config;
	struct list sessions; /* all that are not freed; the oldest first */
	uv_timer_t timer;     /* due when the next deadline of any session is */
	struct pool *pool;
	bool closing, ended;
	void (*closed)(void *user);
	void *closed_user;
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
	struct sandbox *sandbox;        /* NULL once destroy() was called */
	struct capabilities caps;
	struct link *link;
	struct exec *exec;
	struct files *files;
	bool kernel_asked; /* a forked kernel is to come once the link is ready, or on its way */
	bool destroyed;    /* destroy() has called back */
	bool link_over;    /* the link was lost, and has said so */
	char *leftovers, *why_closed;
	struct list waiters; /* for its end */
	unsigned holds;
	bool checking;                          /* asking whether jobs run */
	uint64_t created_us;                    /* CLOCK_REALTIME */
	uint64_t born_us, asked_us, renewed_us; /* CLOCK_BOOTTIME */
	uint64_t check_us;                      /* not idle before */
	uint64_t lost_us;
	uint64_t auth_event_us;    /* last EVENT_AUTH_FAILED that was audited; 0: none */
	uint8_t (*jobs)[ID_BYTES]; /* the last LIMIT_JOBS, a ring once it is full */
	size_t n_jobs, next_job;
};

/* Found by handle or job: it is asked for. */
void session_asked(struct session *s);
/* How long it lives if it is not asked for again and idle. */
uint64_t session_left_us(const struct session *s, uint64_t now_us);

/* session.c: room for one more session of the principal (NULL: of all) below a cap. */
int sessions_make_room(
	struct sessions *m, const char *principal, uint32_t max, struct err *err) MUST_CHECK;

/* session_life.c */
/* Makes a sandbox for the pool. */
int session_make_pooled(struct sessions *m, const struct session_profile *profile,
	struct session **ret, struct err *err) MUST_CHECK;
/* Ends one of the pool. */
void session_drop_pooled(struct session *s, const char *why);

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
void pool_used(struct pool *p, const struct session_profile *profile);
/* One that is like what sessions_open() would make, or NULL. It stays SESSION_POOLED until the
 * caller makes it a session. */
struct session *pool_take(struct pool *p, const struct session_profile *profile);
/* One of the pool has ended by itself. */
void pool_lost(struct pool *p);
/* What kernels can be forked from now, or NULL; asking says that one is wanted. */
struct template *pool_template(struct pool *p);
/* Ends the template once no sandbox is left; then calls done and frees. */
void pool_close(struct pool *p, void (*done)(void *user), void *user);

/* The record under "session/HANDLE", or "pool/SANDBOX" while it is nobody's: what a later broker
 * needs to find the sandbox. */
int session_record_put(struct store *store, const struct session *s,
	const uint8_t key[static AUTH_KEY], struct err *err) MUST_CHECK;
void session_record_remove(struct store *store, const struct session *s);
/* The one under "pool/SANDBOX", of one that is a session by now. */
void session_record_remove_pooled(struct store *store, const struct session *s);
