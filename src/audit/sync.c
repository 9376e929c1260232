/* sync.c: see sync.h. */
#include "audit/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

struct sync {
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	uint64_t interval_ms;
	int head;
	/* under the mutex */
	int log, former; /* -1: none */
	bool dirty, ending;
};

/* The log before its head, so that the head names nothing that is not there. */
static void flush_one(int fd)
{
	if (fd >= 0 && fdatasync(fd) < 0)
		log_warning("the audit log could not be made durable: %s", strerror(errno));
}

static void flush(struct sync *s)
{
	_cleanup_close_ int log = fcntl(s->log, F_DUPFD_CLOEXEC, 3);
	_cleanup_close_ int former = TAKE_FD(s->former);
	s->dirty = false;
	(void)pthread_mutex_unlock(&s->mutex);
	flush_one(former);
	flush_one(log);
	flush_one(s->head);
	(void)pthread_mutex_lock(&s->mutex);
}

static void *run(void *arg)
{
	struct sync *s = arg;
	(void)pthread_mutex_lock(&s->mutex);
	while (!s->ending) {
		struct timespec until;
		(void)clock_gettime(CLOCK_MONOTONIC, &until);
		uint64_t ns = (uint64_t)until.tv_nsec + s->interval_ms * 1000 * 1000;
		until.tv_sec += (time_t)(ns / (1000 * USEC_PER_SEC));
		until.tv_nsec = (long)(ns % (1000 * USEC_PER_SEC));
		while (!s->ending &&
			pthread_cond_timedwait(&s->wake, &s->mutex, &until) != ETIMEDOUT)
			continue;
		if (s->dirty || s->former >= 0)
			flush(s);
	}
	(void)pthread_mutex_unlock(&s->mutex);
	return NULL;
}

int sync_start(uint64_t interval_ms, int head, struct sync **ret)
{
	struct sync *s = xcalloc(1, sizeof(*s));
	pthread_condattr_t attributes;
	sigset_t all, before;
	s->interval_ms = interval_ms;
	s->log = s->former = -1;
	s->head = head;
	(void)pthread_mutex_init(&s->mutex, NULL);
	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&s->wake, &attributes);
	(void)pthread_condattr_destroy(&attributes);
	(void)sigfillset(&all); /* signals are the loop's */
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&s->thread, NULL, run, s);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0) {
		free(s);
		return -r;
	}
	*ret = s;
	return 0;
}

void sync_log(struct sync *s, int log)
{
	(void)pthread_mutex_lock(&s->mutex);
	fd_closep(&s->former);
	s->former = TAKE_FD(s->log);
	s->log = fcntl(log, F_DUPFD_CLOEXEC, 3);
	(void)pthread_mutex_unlock(&s->mutex);
}

void sync_dirty(struct sync *s)
{
	(void)pthread_mutex_lock(&s->mutex);
	s->dirty = true;
	(void)pthread_mutex_unlock(&s->mutex);
}

void sync_stop(struct sync *s)
{
	if (!s)
		return;
	(void)pthread_mutex_lock(&s->mutex);
	s->ending = true;
	(void)pthread_cond_signal(&s->wake);
	(void)pthread_mutex_unlock(&s->mutex);
	(void)pthread_join(s->thread, NULL);
	flush_one(s->former);
	flush_one(s->log);
	flush_one(s->head);
	fd_closep(&s->former);
	fd_closep(&s->log);
	(void)pthread_mutex_destroy(&s->mutex);
	(void)pthread_cond_destroy(&s->wake);
	free(s);
}
