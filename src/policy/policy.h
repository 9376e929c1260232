/* policy.h: one question, one answer: what a principal may do, with what limits, and which rule
 * says so. The rules come from a policy file (docs/policy.md), or are the built-in ones: all tools,
 * no egress, no secrets, the limits of base/limits.h.
 *
 * Where there is a file, what it does not name is denied, and what it does not say (but limits) is
 * nothing. One struct policy lives as long as its broker; a reload exchanges what is behind it, all
 * at once. policy_pin() holds on to what is behind it now. Not for several threads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/audit.h"
#include "base/err.h"

struct policy;

/* ---- where it comes from ---- */

struct policy_source {
	const char *path; /* absolute; NULL: the built-in policy */
	bool optional;    /* while there is no such file, the built-in policy holds */
	/* NAME=VALUE of a command line. To a file's limits they are maxima, of every principal;
	 * the built-in ones they replace. */
	const char *const *limits;
	size_t n_limits;
};

/* One thing that is wrong with a file. */
struct policy_problem {
	unsigned line, column; /* from 1; 0: of the file as a whole */
	char path[200];        /* of the key: `principals."uid:1000".limits.memory`; "": none */
	char text[320];
};
#define POLICY_PROBLEMS_MAX 20
struct policy_problems {
	struct policy_problem v[POLICY_PROBLEMS_MAX];
	size_t n; /* more are not looked for */
};

/* Reads the file, which must be of this user or root and not writable by others, as must be the
 * directories above it. ERR_INVALID_ARGUMENT with file, line, column and key of the first problem;
 * all of them in *ret_problems (may be NULL). */
int policy_open(const struct policy_source *src, struct policy **ret,
	struct policy_problems *ret_problems, struct err *err) MUST_CHECK;
/* The same from a text; name is for messages. Limits are those of src. */
int policy_parse(const struct policy_source *src, const char *name, const char *text, size_t n,
	struct policy **ret, struct policy_problems *ret_problems, struct err *err) MUST_CHECK;
/* Reads its file again. 1: other rules hold from now on; 0: it is the same file; a negative errno
 * and why: what held holds. */
int policy_reload(struct policy *p, struct err *err) MUST_CHECK;
void policy_free(struct policy *p);
/* A policy that stays what p is now, whatever is reloaded. */
struct policy *policy_pin(const struct policy *p);

/* Where it would be read from; NULL: nowhere. */
const char *policy_source_path(const struct policy *p);
/* The file in force; NULL: none. */
const char *policy_path(const struct policy *p);
/* Of that file, in hex; "" where there is none. */
const char *policy_sha256(const struct policy *p);
/* 1 at the start, one more with every reload that changed something. */
uint64_t policy_generation(const struct policy *p);
/* Where a rule stands in that file, as it is now; false where it does not. */
bool policy_rule_place(
	const struct policy *p, const char *rule, unsigned *ret_line, unsigned *ret_column);
/* What holds, as a policy file with every key. The caller frees. */
char *policy_text(const struct policy *p);

/* ---- decisions ---- */

struct policy_request {
	const char *principal;
	const char *tool;
	const char *action; /* of run_code: the language; NULL: the tool has none */
};

struct policy_decision {
	bool allowed;
	/* Names what decided, as a path in the file: `tools.allow[3]`; "default.tools" without one.
	 * Never NULL; borrowed until the next reload. */
	const char *rule;
	char reason[320]; /* not allowed: for the model, with the remedy */
};

void policy_decide(
	const struct policy *p, const struct policy_request *req, struct policy_decision *ret);
/* May this folder, by its real path, be shown to sandboxes under this name? */
void policy_decide_mount(const struct policy *p, const char *principal, const char *name,
	const char *source, struct policy_decision *ret);
/* May presented files be read? (To present one, the tool must be allowed, too.) */
void policy_decide_outputs(
	const struct policy *p, const char *principal, struct policy_decision *ret);

/* ---- settings ---- */

/* What a session may have; the limits that a sandbox is made with. */
struct policy_limits {
	uint64_t memory, workspace, tmp, shm;
	uint32_t cpus, pids;
	uint32_t wait_s, max_wait_s, timeout_s, max_timeout_s;
	uint32_t idle_ttl_s, absolute_ttl_s;
	uint32_t sessions, sessions_principal;
	uint32_t pool; /* sandboxes kept ready; 0: none */
	uint64_t outputs_bytes;
};

struct policy_outputs {
	uint64_t max_bytes; /* one file; the quota of all is among the limits */
	bool executable;    /* also what would run something when it is opened */
};

/* Calls of a principal. */
struct policy_rate {
	uint32_t per_minute; /* 0: not bounded */
	uint32_t burst;      /* at once, after a pause */
	const char *rule;    /* its name */
};

/* What a sandbox must be held to, or there is none. Names are those of session info. */
struct policy_require {
	const char *isolation_level; /* the least; NULL: any */
	const char *const *enforced; /* NULL at its end */
};

/* How a secret gets to a session. */
enum policy_exposure {
	POLICY_PLACEHOLDER, /* code sees a text that stands for it */
	POLICY_SESSION,     /* every process of the session can read it */
};

struct policy_secret {
	const char *name;
	const char *source;      /* "env" | "file" | "exec" */
	const char *value;       /* env: the variable; file: an absolute path; exec: NULL */
	const char *const *argv; /* exec: NULL at its end, argv[0] absolute; else NULL */
	enum policy_exposure exposure;
	const char *variable; /* the environment variable that code finds it in */
};

/* Of a principal; NULL: what is the broker's own (sessions, pool). All that is returned is borrowed
 * until the next reload. */
const struct policy_limits *policy_limits(const struct policy *p, const char *principal);
const struct policy_outputs *policy_outputs(const struct policy *p, const char *principal);
const struct policy_rate *policy_rate(const struct policy *p, const char *principal);
/* Are figures given to the model? */
bool policy_images(const struct policy *p, const char *principal);
/* The secrets that sessions of a principal are given; how many. */
size_t policy_secrets(
	const struct policy *p, const char *principal, const struct policy_secret **ret);
const struct policy_require *policy_require(const struct policy *p);
const struct audit_config *policy_audit(const struct policy *p);

/* ---- a command line's limits ---- */

/* Is it NAME=VALUE with a name and a value that are accepted? */
int policy_check_limit(const char *assignment, struct err *err) MUST_CHECK;
/* Do all sandboxes hold to it already? (To a file's limits: or to less.) */
bool policy_holds(const struct policy *p, const char *assignment);

/* The built-in policy. */
struct policy *policy_new_default(void);
/* Of it: one limit, without a look at the others; and that look. */
int policy_set_limit(struct policy *p, const char *assignment, struct err *err) MUST_CHECK;
int policy_check_limits(struct policy *p, struct err *err) MUST_CHECK;
