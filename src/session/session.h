/* session.h: what a handle refers to: one sandbox with its link, jobs, kernels and files, and how
 * long it lives. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "audit/audit.h"
#include "base/err.h"
#include "base/id.h"
#include "policy/policy.h"
#include "provider/provider.h"
#include "wire/delivery.h"

struct exec;
struct files;
struct store;
struct vault;
struct vault_granted;
struct session;
struct sessions;

/* Borrowed pointers live as long as the sessions. */
struct sessions_config {
	uv_loop_t *loop;
	struct policy *policy;
	struct audit *audit;
	struct store *store;
	struct vault *vault; /* NULL: there are no secrets */
	const char *runtime_dir, *agent_path, *kernels_dir;
	/* Sandboxes outlive this process, and a later one finds them by the store. */
	bool outlive;
};

/* What a connection's sandboxes are made with. */
struct session_profile {
	const struct provider *provider;
	const struct sandbox_mount *mounts; /* by real path */
	size_t n_mounts;
	const char *root; /* see struct sandbox_spec */
};
void session_profile_copy(const struct session_profile *from, struct session_profile *ret);
/* Frees what a copy holds. */
void session_profile_done(struct session_profile *p);

/* May principal use sandboxes that are made with this profile and held by these capabilities?
 * False: *ret is the decision. */
bool session_permit(const struct policy *p, const char *principal,
	const struct session_profile *profile, const struct capabilities *k,
	struct policy_decision *ret);
/* The policy's `require` alone. */
bool session_permit_held(const struct policy *p, const struct provider *provider,
	const struct capabilities *k, struct policy_decision *ret);

struct sessions *sessions_new(const struct sessions_config *c);
/* At a broker's start, once: finds the sessions that an earlier one has left in the store. They are
 * live at once, and what is asked of them waits for their links. What is lost says so once. done is
 * called from the loop when all have answered, with their jobs and kernels, or are lost: after
 * SESSION_RESTORE_US at the latest. */
void sessions_restore(struct sessions *m, void (*done)(void *user), void *user);
/* Destroys every sandbox, then calls done (may be NULL) and frees. */
void sessions_close(struct sessions *m, void (*done)(void *user), void *user);
/* Lets go of everything where it stands, for a later broker; calls done (may be NULL) and frees.
 * What is held by calls is lost to them. */
void sessions_detach(struct sessions *m, void (*done)(void *user), void *user);

/* Other rules hold: TTLs and what is kept ready are looked at anew. */
void sessions_policy_changed(struct sessions *m);

/* What the next sandbox of that profile will be held by. */
void sessions_capabilities(
	struct sessions *m, const struct session_profile *profile, struct capabilities *ret);

struct session_wish {
	const char *principal;
	const struct session_profile *profile; /* copied */
	bool implicit;                         /* nobody asked for it by `session open` */
	const struct delivery *delivery;       /* gives the handle; NULL: a random one */
};
/* Starts a sandbox and returns its session at once: what is asked of it waits for the link. Audited
 * before; caps of principal and broker hold (an implicit session not named again for 2 minutes is
 * evicted first); what the policy does not permit is refused and audited. A session that this
 * delivery has made already is the answer. */
int sessions_open(struct sessions *m, const struct session_wish *wish, struct session **ret,
	struct err *err) MUST_CHECK;
/* ERR_NO_SUCH_SESSION with one and the same text for malformed, forged, foreign, expired and closed
 * handles. Compares in constant time. Counts as being asked for (idle TTL). */
int sessions_find(struct sessions *m, const char *principal, const char *handle,
	struct session **ret, struct err *err) MUST_CHECK;
/* Something is about to be asked of the session of that handle: its sandbox is woken meanwhile, if
 * it is the one that was asked for last. Not a use of it. */
void sessions_expect(struct sessions *m, const char *handle);
int sessions_each(struct sessions *m, const char *principal,
	int (*fn)(void *user, struct session *s), void *user);
/* What there is at present, the pool's too: fn for each sandbox with its provider's name and the
 * number of its kernels. */
enum sandbox_use { SANDBOX_LIVE, SANDBOX_LOST, SANDBOX_READY, SANDBOX_ENDING, SANDBOX_USES };
void sessions_sandboxes(struct sessions *m,
	void (*fn)(void *user, const char *provider, enum sandbox_use use, size_t kernels),
	void *user);
/* Which session has this job? Jobs are remembered by session_note_job(). ERR_NO_SUCH_JOB otherwise.
 */
int sessions_find_job(struct sessions *m, const char *principal, const char *job,
	struct session **ret, struct err *err) MUST_CHECK;
void session_note_job(struct session *s, const char *job);

/* Its sandbox is gone: nothing can be asked of it any more. */
bool session_lost(const struct session *s);
const char *session_handle(const struct session *s);
const char *session_principal(const struct session *s);
const struct provider *session_provider(const struct session *s);
const struct capabilities *session_capabilities(const struct session *s);
const struct session_profile *session_profile(const struct session *s);
/* Those that its sandbox was made with. */
const struct policy_limits *session_limits(const struct session *s);
const char *session_sandbox_id(const struct session *s);
struct exec *session_exec(struct session *s);
struct files *session_files(struct session *s);
uint64_t session_created_us(const struct session *s); /* CLOCK_REALTIME */
uint64_t session_expires_us(
	const struct session *s); /* CLOCK_REALTIME, if not asked for again and idle */
/* While held, a session is busy: its idle TTL does not run. */
void session_hold(struct session *s);
void session_release(struct session *s);
/* Ends it; the handle is unknown from now on. done (may be NULL) once nothing of it is left. */
void session_close(struct session *s, const char *why,
	void (*done)(void *user, const char *leftovers), void *user);

/* ---- secrets ---- */

/* What the policy says of a principal's secrets is in the vault from now on; once for each. */
void sessions_secrets_know(struct sessions *m, const char *principal);
/* The policy has changed: the same anew for all of them, and for sessions from now on. */
void sessions_secrets_reload(struct sessions *m);
/* Values were given: sessions of an earlier broker may have waited for them. */
void sessions_secrets_changed(struct sessions *m);
/* What it was given, and what it was not, each with the reason. */
size_t session_secrets(const struct session *s, const struct vault_granted **ret);
/* Can what it says be masked? Else nothing of it may leave (ERR_SECRET_UNAVAILABLE): an earlier
 * broker has given it values that this one does not know yet. */
int session_speaks(struct session *s, struct err *err) MUST_CHECK;

/* Before session_close(): the delivery that closes it. For ten minutes after its end
 * sessions_closed_by() knows, whichever broker is asked. */
void session_set_closer(struct session *s, const struct delivery *d);
struct session_closed {
	struct session *ending; /* session_close() waits for its end; NULL: nothing is left */
	char handle[ID_TEXT_SIZE], sandbox_id[ID_TEXT_SIZE];
};
bool sessions_closed_by(struct sessions *m, const char *principal, const struct delivery *d,
	struct session_closed *ret);
