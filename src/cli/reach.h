/* reach.h: a connection to the broker of a state directory, which is started where there is none,
 * waited for where it is starting or ending, and asked to go where it is older than this program.
 * Blocking. */
#pragma once

#include "cli/settings.h"
#include "mcp/fronthello.h"

/* Connects and says hello. 0 and *ret_fd, once the broker has said WELCOME; or why not, for a
 * person. */
int reach_broker(const char *state, const struct settings *settings,
	const struct front_hello *hello, int *ret_fd, struct err *err) MUST_CHECK;

/* The lock of the state directory, for a process that is broker itself and serves HTTP: taken, or
 * handed over by the broker that runs. The descriptor; or why not, for a person. */
int reach_lock(const char *state, struct err *err) MUST_CHECK;

/* The version, kind and provider of a hello of this program; the rest is empty. */
void reach_fill_hello(struct front_hello *h, enum front_kind kind);

/* One CONTROL on a connection of that kind; *ret_lock (may be NULL) is a descriptor that came with
 * the answer, or -1. The answer is owned by the caller. */
int reach_control(int fd, const json_t *request, json_t **ret_answer, int *ret_lock,
	struct err *err) MUST_CHECK;
