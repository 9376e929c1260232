/* audit.h: what happened, one JSON line each, in a chain of hashes (chain.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct audit;
struct audit_job;
struct redactor;

/* When what is written is also on the disk: after a power cut, not after a broker's death, which
 * loses nothing. */
enum audit_fsync {
	AUDIT_FSYNC_NEVER,    /* as the kernel likes */
	AUDIT_FSYNC_INTERVAL, /* from a thread, every so often */
	AUDIT_FSYNC_ALWAYS,   /* before anything is done: the loop waits for the disk */
};

/* The policy's section `audit`. */
struct audit_config {
	enum audit_fsync fsync;
	uint64_t interval_ms; /* of AUDIT_FSYNC_INTERVAL: 10 … 60,000 */
	uint64_t max_bytes;   /* of one file; then the next one begins: 1 MiB … 1 TiB */
	unsigned keep; /* files beside the present one: 1 … 10,000; older ones are deleted */
};
#define AUDIT_CONFIG_DEFAULT                                                                       \
	((struct audit_config){.fsync = AUDIT_FSYNC_NEVER,                                         \
		.interval_ms = 1000,                                                               \
		.max_bytes = 64 << 20,                                                             \
		.keep = 16})
/* ERR_INVALID_ARGUMENT: which value, and what is accepted. */
int audit_config_check(const struct audit_config *c, struct err *err) MUST_CHECK;

/* A member of an object of its own in the line. */
struct audit_pair {
	const char *name;
	const char *text; /* NULL: number counts */
	uint64_t number;
};

struct audit_event {
	const char *event; /* "exec.start", "exec.end", "tool.call", "tool.end", "session.open",
			    * "session.close", "file.present", "file.refused", "policy.decision",
			    * "link.auth_failed", "broker.start" … */
	const char *tool, *action, *principal, *session, *job;
	const char *delivery; /* delivery_text() of the request that it belongs to */
	const char *provider, *isolation_level, *sandbox_id;
	bool has_exit;
	int exit_code;
	const char *exit_reason; /* agent-reported */
	uint64_t duration_us;    /* 0: none */
	uint64_t bytes_out;
	const char *policy_rule;
	bool policy_denied;
	const char *path, *sha256, *detail;
	/* session.open: what the sandbox may have, and what holds it to that */
	const struct audit_pair *limits, *enforced;
	size_t n_limits, n_enforced;
	/* Masks the texts of the line before anything of them is kept; NULL: none. */
	const struct redactor *redactor;
	/* Another event follows before anything is done or answered on the strength of this one:
	 * both go out in one write. */
	bool with_next;
};

/* path is …/audit.jsonl, in a directory that exists and is this chain's alone; key is the file with
 * the key of its head (made where it is missing); config NULL: the default. What a killed broker
 * left torn is put right; what somebody else did to the log is recorded in it.
 * ERR_AUDIT_UNAVAILABLE with EBUSY: another process writes it. */
int audit_open(const char *path, const char *key, const struct audit_config *config,
	struct audit **ret, struct err *err) MUST_CHECK;
/* Another policy. */
int audit_configure(struct audit *a, const struct audit_config *config, struct err *err) MUST_CHECK;
void audit_close(struct audit *a);
/* 0 once written (with_next: once it waits for the next); ERR_AUDIT_UNAVAILABLE: then the thing
 * audited must not be done. NULL members are left out. Adds ts, seq and the OWASP ids of the event,
 * prev. Room for the end of what begins is kept: where there is none, it does not begin. */
int audit_event(struct audit *a, const struct audit_event *e, struct err *err) MUST_CHECK;
/* Of each name, how many events are on record since it was opened. Names are static texts. */
uint64_t audit_count(const struct audit *a, const char *event);
void audit_each_count(
	const struct audit *a, void (*fn)(void *user, const char *event, uint64_t n), void *user);
/* How many could not be written. */
uint64_t audit_failures(const struct audit *a);
/* For who follows the log (recent.h): the number of its last line, and its directory, with a
 * descriptor of the caller's own (a negative errno where there is none left). */
uint64_t audit_seq(const struct audit *a);
int audit_dup_dir(const struct audit *a) MUST_CHECK;
/* Writes the lines that wait for a next one; nothing where none does. */
int audit_flush(struct audit *a, struct err *err) MUST_CHECK;

/* ---- after a broker's death ----
 *
 * The next one is given the unanswered requests again, and must not write again what is on record.
 * An event happens once to its subject: tool.*, file.*, handle.* and rate.* to a
 * delivery, exec.* to a job, session.*
 * to a session. What the log's last LIMIT_AUDIT_TAIL bytes say is read at the first question (which
 * blocks on the disk) and kept up from then on. */

/* As audit_event(), but nothing is written where the event's subject has that line already. */
int audit_event_once(struct audit *a, const struct audit_event *e, struct err *err) MUST_CHECK;
/* Is it on record? */
bool audit_recorded(struct audit *a, const char *event, const char *subject);

/* A job that began and, as far as the log says, has not ended. */
struct audit_job {
	const char *job, *session, *tool;
};
void audit_each_open_job(
	struct audit *a, void (*fn)(void *user, const struct audit_job *j), void *user);
