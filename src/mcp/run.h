/* run.h: what run_code, run_command and `job wait` share: start or wait for a job, keep the record,
 * answer its status. */
#pragma once

#include "exec/exec.h"
#include "mcp/call.h"

/* Arguments that both run tools have. */
#define RUN_ARGS                                                                                   \
	{"session", ARG_TEXT, .max = 64 * KIB, .description = "handle from an earlier result"},    \
		{"stdin", ARG_TEXT, .binary = true, .max = LIMIT_STDIN,                            \
			.description = "empty if left out"},                                       \
		{"timeout_s", ARG_NUMBER, .min = 0.1, .max = LIMIT_TIMEOUT_S,                      \
			.description = "ends it; default 120"},                                    \
		{"wait_s", ARG_NUMBER, .min = 0, .max = LIMIT_WAIT_S,                              \
			.description = "then answers with a job handle while it goes on; default " \
				       "25"},                                                      \
	{                                                                                          \
		"idempotency_key", ARG_TEXT,                                                       \
			.min = 1, .max = 200,                                                      \
			.description = "same key again: same job, not run twice"                   \
	}

/* Fills what RUN_ARGS gives, runs it and answers. The request's members are the caller's, borrowed.
 */
void run_start(struct call *c, struct exec_request *req);
/* Answers with the status of a job that is there. */
void run_wait(struct call *c, const char *job, uint64_t wait_us, uint64_t timeout_us);
/* wait_s of this call, bounded by policy. */
uint64_t run_wait_us(const struct call *c);
bool run_cancel(struct call *c);
/* Writes the line exec.start of what is not run by run_start(); request stands in it as its hash,
 * detail as it is. */
int run_audit_start(
	struct call *c, const json_t *request, const char *detail, struct err *err) MUST_CHECK;
/* timeout_s of this call, checked against the policy. */
int run_timeout_us(const struct call *c, uint64_t *ret_timeout_us, struct err *err) MUST_CHECK;
