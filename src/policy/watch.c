/* watch.c: see watch.h. Watched are directories: that of the name, and that of the file it leads
 * to. Where the first is not there yet, the nearest one above it. */
#include "policy/watch.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"

#define DEBOUNCE_MS 100

enum { OF_NAME, OF_FILE, DIRECTORIES };

struct policy_watch {
	char *path;
	void (*changed)(void *user);
	void *user;
	uv_timer_t timer;
	uv_fs_event_t events[DIRECTORIES];
	char *watched[DIRECTORIES]; /* NULL: none */
	bool known;                 /* st is what it was like */
	struct stat st;             /* all zero: there is none */
	unsigned handles;
};

static void on_timer(uv_timer_t *t);

static void on_event(uv_fs_event_t *e, const char *name, int events, int status)
{
	struct policy_watch *w = e->data;
	(void)name;
	(void)events;
	(void)status;
	/* Not started anew by each: what never rests is told of all the same. */
	if (!uv_is_active((uv_handle_t *)&w->timer))
		(void)uv_timer_start(&w->timer, on_timer, DEBOUNCE_MS, 0);
}

/* The directory of path, or the nearest one above that is there. */
static char *directory_of(const char *path)
{
	char *dir = xstrdup(path);
	for (char *slash; (slash = strrchr(dir, '/')) && slash > dir;) {
		struct stat st;
		*slash = '\0';
		if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode))
			return dir;
	}
	dir[dir[0] == '/'] = '\0';
	return dir;
}

static void watch_directory(struct policy_watch *w, int which, const char *dir)
{
	(void)uv_fs_event_stop(&w->events[which]); /* by its name: it may be another one by now */
	free(w->watched[which]);
	w->watched[which] = NULL;
	if (!dir)
		return;
	int r = uv_fs_event_start(&w->events[which], on_event, dir, 0);
	if (r == 0)
		w->watched[which] = xstrdup(dir);
	else
		log_warning("changes in %s are not seen (%s); after one of the policy file send "
			    "the broker SIGHUP",
			dir, uv_strerror(r));
}

static void watch(struct policy_watch *w)
{
	_cleanup_free_ char *dir = directory_of(w->path), *real = realpath(w->path, NULL);
	_cleanup_free_ char *real_dir = real ? directory_of(real) : NULL;
	watch_directory(w, OF_NAME, dir);
	watch_directory(w, OF_FILE, real_dir && strcmp(real_dir, dir) != 0 ? real_dir : NULL);
}

static bool differs(const struct stat *a, const struct stat *b)
{
	return a->st_dev != b->st_dev || a->st_ino != b->st_ino || a->st_size != b->st_size ||
	       a->st_mode != b->st_mode || a->st_uid != b->st_uid ||
	       a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec ||
	       a->st_ctim.tv_sec != b->st_ctim.tv_sec || a->st_ctim.tv_nsec != b->st_ctim.tv_nsec;
}

static void on_timer(uv_timer_t *t)
{
	struct policy_watch *w = t->data;
	struct stat now = {0};
	watch(w); /* before it is looked at: what comes later is seen */
	if (stat(w->path, &now) < 0)
		now = (struct stat){0};
	bool tell = !w->known || differs(&now, &w->st);
	w->known = true;
	w->st = now;
	if (tell)
		w->changed(w->user);
}

struct policy_watch *policy_watch_new(
	uv_loop_t *loop, const char *path, void (*changed)(void *user), void *user)
{
	if (!path)
		return NULL;
	struct policy_watch *w = xcalloc(1, sizeof(*w));
	w->path = xstrdup(path);
	w->changed = changed;
	w->user = user;
	(void)uv_timer_init(loop, &w->timer);
	w->timer.data = w;
	uv_unref((uv_handle_t *)&w->timer);
	w->handles = 1;
	for (int i = 0; i < DIRECTORIES; i++) {
		CHECK(uv_fs_event_init(loop, &w->events[i]) == 0);
		w->events[i].data = w;
		uv_unref((uv_handle_t *)&w->events[i]);
		w->handles++;
	}
	(void)uv_timer_start(&w->timer, on_timer, 0, 0);
	return w;
}

static void on_closed(uv_handle_t *h)
{
	struct policy_watch *w = h->data;
	if (--w->handles > 0)
		return;
	for (int i = 0; i < DIRECTORIES; i++)
		free(w->watched[i]);
	free(w->path);
	free(w);
}

void policy_watch_close(struct policy_watch *w)
{
	if (!w)
		return;
	for (int i = 0; i < DIRECTORIES; i++)
		uv_close((uv_handle_t *)&w->events[i], on_closed);
	uv_close((uv_handle_t *)&w->timer, on_closed);
}
