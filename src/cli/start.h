/* start.h: starts the broker of a state directory, so that it outlives whoever needed it first. */
#pragma once

#include <stdbool.h>

#include "cli/settings.h"

/* The broker's descriptors at its start. */
enum { START_LOCK_FD = 3, START_READY_FD = 4 };

/* Starts `scb broker` in a session of its own, without the caller's environment and descriptors,
 * and waits until it can be connected to. lock_fd, the state directory's lock, goes to the broker;
 * the caller closes its copy. options: of settings_broker_args(). A failed broker's reason is in
 * *err. */
int start_broker(
	const char *state, const struct arglist *options, int lock_fd, struct err *err) MUST_CHECK;

/* The broker's side: it can be connected to, or why it ends. Once. */
void start_ready(void);
void start_failed(const struct err *err);

/* Does this user have a systemd manager, to give the broker a control group of its own? Root needs
 * none. */
bool start_has_scope(void);
/* The path of this program, also where an update has put another file in its place; good for as
 * long as this process lives, and for others: /proc/self/exe would be systemd-run's. To be freed.
 */
char *start_program(void);
/* Adds what runs a program in such a scope. */
void start_scope_args(struct arglist *a);
