/* loop.c: see loop.h. */
#include "agent/loop.h"

#include <errno.h>

#include "agent/turn.h"
#include "base/clock.h"
#include "base/limits.h"

/* Events taken in one round; more wait for the next. */
#define BATCH 64

static int epoll_fd = -1;
static struct epoll_event batch[BATCH];
static int batch_len, batch_at;
static struct list timers = LIST_INIT(timers); /* by due_us */
static volatile sig_atomic_t children_changed;
static sigset_t sleep_mask;

static void on_sigchld(int sig)
{
	(void)sig;
	children_changed = 1;
}

int loop_init(void)
{
	sigset_t block;
	(void)sigemptyset(&block);
	(void)sigaddset(&block, SIGCHLD);
	(void)sigemptyset(&sleep_mask);
	if (sigprocmask(SIG_SETMASK, &block, NULL) < 0)
		return -errno;
	struct sigaction sa = {.sa_handler = on_sigchld};
	if (sigaction(SIGCHLD, &sa, NULL) < 0)
		return -errno;
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return epoll_fd < 0 ? -errno : 0;
}

int loop_add(struct source *s, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.ptr = s};
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		return -errno;
	s->fd = fd;
	s->events = events;
	return 0;
}

void loop_change(struct source *s, uint32_t events)
{
	if (s->fd < 0 || s->events == events)
		return;
	struct epoll_event e = {.events = events, .data.ptr = s};
	CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_MOD, s->fd, &e) == 0);
	s->events = events;
}

void loop_remove(struct source *s)
{
	if (s->fd < 0)
		return;
	(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
	s->fd = -1;
	for (int i = batch_at; i < batch_len; i++)
		if (batch[i].data.ptr == s)
			batch[i].data.ptr = NULL;
}

void timer_init(struct timer *t, void (*fire)(struct timer *t))
{
	list_init(&t->node);
	t->fire = fire;
}

void timer_set(struct timer *t, uint64_t after_us)
{
	list_remove(&t->node);
	t->due_us = clock_monotonic_us() + after_us;
	/* From the end: most timers are set for longer than those before them. */
	struct list *at = timers.prev;
	while (at != &timers && container_of(at, struct timer, node)->due_us > t->due_us)
		at = at->prev;
	t->node.next = at->next;
	t->node.prev = at;
	at->next->prev = &t->node;
	at->next = &t->node;
}

void timer_cancel(struct timer *t)
{
	list_remove(&t->node);
}

bool timer_is_set(const struct timer *t)
{
	return !list_empty(&t->node);
}

static void run_timers(void)
{
	if (list_empty(&timers))
		return;
	/* A timer that a callback sets for "now" waits for the next round. */
	uint64_t now = clock_monotonic_us();
	while (!list_empty(&timers)) {
		struct timer *t = container_of(timers.next, struct timer, node);
		if (t->due_us > now)
			return;
		list_remove(&t->node);
		t->fire(t);
	}
}

static int sleep_ms(void)
{
	if (turn_pending())
		return 0;
	if (list_empty(&timers))
		return -1;
	uint64_t now = clock_monotonic_us();
	uint64_t due = container_of(timers.next, struct timer, node)->due_us;
	if (due <= now)
		return 0;
	return (int)MIN((due - now + USEC_PER_MSEC - 1) / USEC_PER_MSEC, 3600 * 1000ULL);
}

NORETURN void loop_run(const struct loop_hooks *hooks)
{
	for (;;) {
		hooks->before_sleep();
		batch_at = 0;
		batch_len = epoll_pwait(epoll_fd, batch, BATCH, sleep_ms(), &sleep_mask);
		CHECK(batch_len >= 0 || errno == EINTR);
		for (; batch_at < batch_len; batch_at++) {
			struct source *s = batch[batch_at].data.ptr;
			if (s)
				s->ready(s, batch[batch_at].events);
		}
		batch_len = 0;
		if (children_changed) {
			children_changed = 0;
			hooks->children();
		}
		run_timers();
		turn_run();
	}
}
