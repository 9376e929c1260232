/* policy.h: one question, one answer. The built-in default policy for now: all tools, no egress, no
 * secrets, the limits of base/limits.h. Policy files come behind the same call. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct policy;

struct policy_request {
	const char *principal;
	const char *tool;
	const char *action; /* NULL: the tool has none */
};

struct policy_decision {
	bool allowed;
	const char *rule; /* names what decided: "default.tools"; never NULL */
	char reason[240]; /* not allowed: for the model, with the remedy */
};

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

struct policy *policy_new_default(void);
struct policy *policy_copy(const struct policy *p);
void policy_free(struct policy *p);
void policy_decide(
	const struct policy *p, const struct policy_request *req, struct policy_decision *ret);
/* Of a principal; NULL: what is the broker's own (sessions, pool). Borrowed until the next reload.
 */
const struct policy_limits *policy_limits(const struct policy *p, const char *principal);
/* The secrets that sessions of a principal are given; how many. NULL: those of all principals, each
 * source once. Borrowed until the next reload: copy. */
size_t policy_secrets(
	const struct policy *p, const char *principal, const struct policy_secret **ret);
bool policy_limits_equal(const struct policy *a, const struct policy *b);
/* "memory=512M", "pids=64", "workspace=…", "tmp=…", "shm=…", "cpus=…", "timeout_s=…",
 * "idle_ttl_s=…", "sessions=…": the command line's --limit. ERR_INVALID_ARGUMENT names what is
 * accepted. Sizes are checked together: workspace, tmp and shm plus 64 MiB must fit in memory;
 * those not set by hand scale down. */
int policy_set_limit(struct policy *p, const char *assignment, struct err *err) MUST_CHECK;
int policy_check_limits(struct policy *p, struct err *err) MUST_CHECK;
