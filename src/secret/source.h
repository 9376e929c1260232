/* source.h: reads a secret's value where it is kept: a file, an environment variable, the output of
 * a program. Each gives a value or says why there is none (ERR_SECRET_UNAVAILABLE, never with
 * anything of the value or of what a program printed). One newline at the end is not part of a
 * value.
 */
#pragma once

#include <poll.h>

#include "secret/value.h"

/* A regular file, reached by an absolute path without following a link at its end, of this user or
 * root, which neither group nor others may read or write. Blocks on the disk. */
int source_file(
	const char *name, const char *path, struct secret_value **ret, struct err *err) MUST_CHECK;

/* The variable of this process. Where it has a value that value is overwritten in the environment,
 * so that neither /proc/PID/environ nor a child has it: it can be had once. */
int source_env(const char *name, const char *variable, struct secret_value **ret,
	struct err *err) MUST_CHECK;

/* A program that runs: without a shell, without stdin, its stderr thrown away, in a session of its
 * own, so that all of it can be ended. Never blocks. */
struct source_exec;
/* argv[0] is an absolute path, or a name that is looked for in PATH. hidden: variables that it is
 * not to have (n_hidden of them). */
int source_exec_start(const char *name, const char *const *argv, const char *const *hidden,
	size_t n_hidden, struct source_exec **ret, struct err *err) MUST_CHECK;
/* What to poll for. */
struct pollfd source_exec_poll(const struct source_exec *x);
/* CLOCK_MONOTONIC: by then source_exec_step() is to be called, whatever has happened. */
uint64_t source_exec_deadline_us(const struct source_exec *x);
/* 0: it goes on. 1: it is over, *ret (owned) is the value. Negative: it is over without one. */
int source_exec_step(struct source_exec *x, struct secret_value **ret, struct err *err) MUST_CHECK;
const char *source_exec_name(const struct source_exec *x);
/* Ends what still runs. NULL is allowed. */
void source_exec_free(struct source_exec *x);
