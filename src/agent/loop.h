/* loop.h: the agent's event loop: one thread, epoll, timers, children.
 *
 * Callbacks may add and remove sources and timers freely, their own too; a source that was removed
 * is not called again, even when an event for it had already been fetched. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"

struct source {
	int fd; /* -1 while not in the loop; not owned */
	uint32_t events;
	void (*ready)(struct source *s, uint32_t events);
};

/* Sets up epoll and the handler of SIGCHLD, which stays blocked but while the loop sleeps. 0, or a
 * negative errno. */
int loop_init(void) MUST_CHECK;
/* Level-triggered. 0, or a negative errno. */
int loop_add(struct source *s, int fd, uint32_t events) MUST_CHECK;
void loop_change(struct source *s, uint32_t events);
/* Harmless when it is not in the loop. Does not close. */
void loop_remove(struct source *s);

struct timer {
	struct list node; /* timer_init() before the first use */
	uint64_t due_us;  /* CLOCK_MONOTONIC */
	void (*fire)(struct timer *t);
};

void timer_init(struct timer *t, void (*fire)(struct timer *t));
void timer_set(struct timer *t, uint64_t after_us);
/* Harmless when it is not set. */
void timer_cancel(struct timer *t);
bool timer_is_set(const struct timer *t);

struct loop_hooks {
	void (*children)(void);     /* SIGCHLD has come since the last round; a hint */
	void (*before_sleep)(void); /* once a round, after every callback */
};
/* Does not return; the process ends by exit(3) from a callback. */
NORETURN void loop_run(const struct loop_hooks *hooks);
