/* walk.c: see walk.h.
 *
 * Directories are entered through the descriptor of the one above, by single components and never
 * through a link, so a tree that is renamed while it is walked leads nowhere else. */
#include "agent/walk.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/request.h"
#include "agent/scan.h"
#include "agent/turn.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/glob.h"

/* What keeps adding to a directory that is being deleted is given so many tries. */
#define DELETE_ROUNDS 16

struct level {
	DIR *dir;
	size_t path_len; /* of the path to this directory, in walk.path */
	unsigned rounds;
};

struct walk {
	struct turn turn;
	struct list node; /* of the walks that wait to begin */
	bool active;
	struct stream *s;
	struct request q;
	/* One entry of the directory on top. False: stop the walk. */
	bool (*entry)(struct walk *w, const char *name);
	struct level levels[WALK_DEPTH];
	size_t n_levels;
	struct buf
		path; /* to the current directory, relative to the top, with a slash at its end */
	uint64_t count, deadline_us;
	bool more;
	int errnum; /* the first one */
	enum wire_status status;
	const char *text;
	struct scan *scan; /* of the file being searched; else NULL */
	uint64_t scanned;
	/* delete: the top directory's own name */
	int parent;
	const char *name;
};

static unsigned n_active;
static struct list waiting = LIST_INIT(waiting);

static int top_fd(const struct walk *w)
{
	return dirfd(w->levels[w->n_levels - 1].dir);
}

static void walk_free(struct walk *w)
{
	while (w->n_levels)
		(void)closedir(w->levels[--w->n_levels].dir);
	turn_remove(&w->turn);
	list_remove(&w->node);
	scan_free(w->scan);
	fd_closep(&w->parent);
	buf_done(&w->path);
	request_done(&w->q);
	if (w->active) {
		n_active--;
		if (!list_empty(&waiting)) {
			struct walk *next = container_of(waiting.next, struct walk, node);
			list_remove(&next->node);
			next->active = true;
			n_active++;
			turn_add(&next->turn);
		}
	}
	free(w);
}

static void walk_end(struct walk *w)
{
	if (w->status != WIRE_OK) {
		stream_fail(w->s, w->status, w->errnum, "%s", w->text);
	} else if (w->errnum) {
		request_fail(w->s, w->errnum);
	} else {
		_cleanup_buf_ struct buf b = BUF_INIT(KIB);
		CHECK(tlv_u64(&b, TAG_COUNT, w->count) == 0 && tlv_u64(&b, TAG_MORE, w->more) == 0);
		stream_end(w->s, WIRE_OK, &b);
	}
	walk_free(w);
}

/* Enters the directory fd, whose name is the last component to be. Takes fd. */
static int enter(struct walk *w, int fd, const char *name)
{
	_cleanup_close_ int own = fd;
	struct level *l = &w->levels[w->n_levels];
	size_t before = w->path.len;
	if (w->n_levels == WALK_DEPTH || before + strlen(name) + 1 > LIMIT_PATH)
		return -ENAMETOOLONG;
	DIR *dir = fdopendir(own);
	if (!dir)
		return -errno;
	(void)TAKE_FD(own);
	if (w->n_levels)
		CHECK(buf_printf(&w->path, "%s/", name) == 0);
	*l = (struct level){.dir = dir, .path_len = before};
	w->n_levels++;
	return 0;
}

static int enter_name(struct walk *w, const char *name)
{
	int fd = fd_open_beneath(
		top_fd(w), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0);
	return fd < 0 ? fd : enter(w, fd, name);
}

static bool delete_entry(struct walk *w, const char *name);
static bool leave(struct walk *w);

/* One step: false where the walk is over. */
static bool walk_once(struct walk *w)
{
	if (w->scan) {
		if (clock_monotonic_us() > w->deadline_us || w->scanned > WALK_SEARCH_BYTES) {
			w->more = true;
			return false;
		}
		size_t n = scan_step(w->scan, w->s, w->q.limit, &w->count, &w->more);
		w->scanned += n;
		if (w->more)
			return false;
		if (!n) {
			scan_free(w->scan);
			w->scan = NULL;
		}
		return w->scan || w->n_levels;
	}
	errno = 0;
	struct dirent *e = readdir(w->levels[w->n_levels - 1].dir);
	if (!e && errno && !w->errnum)
		w->errnum = errno;
	if (!e)
		return leave(w);
	if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
		return true;
	return w->entry(w, e->d_name);
}

static void walk_step(struct turn *t, uint64_t deadline_us)
{
	struct walk *w = container_of(t, struct walk, turn);
	do {
		/* The broker does not read: walk_writable() goes on. Deleting has nothing to tell
		 * until its end, and may go on without a broker. */
		if (w->entry != delete_entry && !stream_room(w->s)) {
			turn_remove(t);
			return;
		}
		if (!walk_once(w)) {
			walk_end(w);
			return;
		}
	} while (clock_monotonic_us() < deadline_us);
}

static void walk_writable(struct stream *s)
{
	struct walk *w = stream_user(s);
	if (w->active)
		turn_add(&w->turn);
}

static void walk_closed(struct stream *s)
{
	walk_free(stream_user(s));
}

static struct walk *walk_new(struct stream *s, struct request *q)
{
	struct walk *w = xcalloc(1, sizeof(*w));
	w->s = s;
	w->q = *q;
	*q = (struct request){0};
	w->turn.step = walk_step;
	list_init(&w->turn.node);
	list_init(&w->node);
	w->path = BUF_INIT(LIMIT_PATH + LIMIT_NAME + 2);
	w->parent = -1;
	w->deadline_us = clock_monotonic_us() + WALK_SEARCH_US;
	return w;
}

static void walk_begin(struct walk *w)
{
	static const struct stream_ops ops = {
		.writable = walk_writable, .closed = walk_closed, .goes_on = true};
	stream_serve(w->s, &ops, w);
	if (n_active < WALK_ACTIVE) {
		w->active = true;
		n_active++;
		turn_add(&w->turn);
	} else {
		list_append(&waiting, &w->node);
	}
}

/* ---- listing ---- */

static bool list_entry(struct walk *w, const char *name)
{
	struct stat st;
	if (fstatat(top_fd(w), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true; /* gone meanwhile */
	if (w->count == w->q.limit) {
		w->more = true;
		return false;
	}
	_cleanup_buf_ struct buf b = BUF_INIT(2 * LIMIT_PATH);
	size_t dir_len = w->path.len;
	CHECK(buf_append_str(&w->path, name) == 0 &&
		tlv_bytes(&b, TAG_PATH, w->path.data, w->path.len) == 0 &&
		request_describe(&b, &st) == 0);
	w->path.len = dir_len;
	stream_msg(w->s, &b);
	w->count++;
	if (S_ISDIR(st.st_mode) && w->n_levels < MAX(w->q.depth, 1)) {
		int r = enter_name(w, name);
		if (r == -ENAMETOOLONG)
			w->more = true;
	}
	return true;
}

/* "/mnt" is no directory of any file system that all providers have. */
static void list_mounts(struct stream *s, const struct config *c)
{
	_cleanup_buf_ struct buf end = BUF_INIT(KIB);
	for (size_t i = 0; i < c->n_mounts; i++) {
		_cleanup_buf_ struct buf b = BUF_INIT(2 * LIMIT_PATH);
		struct stat st = {.st_mode = S_IFDIR};
		if (c->mounts[i].fd >= 0)
			(void)fstat(c->mounts[i].fd, &st);
		CHECK(tlv_str(&b, TAG_PATH, c->mounts[i].name) == 0 &&
			request_describe(&b, &st) == 0);
		stream_msg(s, &b);
	}
	CHECK(tlv_u64(&end, TAG_COUNT, c->n_mounts) == 0);
	stream_end(s, WIRE_OK, &end);
}

void walk_list(struct stream *s, struct tlv_reader body, const struct config *c)
{
	_cleanup_request_ struct request q = {0};
	if (!request_read(s, body, c, REQUEST_LISTS, &q))
		return;
	if (!q.path.rel) {
		list_mounts(s, c);
		return;
	}
	int fd = fd_open_beneath(q.path.dirfd, q.path.rel, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
	if (fd < 0) {
		request_fail(s, -fd);
		return;
	}
	q.limit = MIN(q.limit ? q.limit : LIMIT_LIST_ENTRIES, LIMIT_LIST_ENTRIES);
	struct walk *w = walk_new(s, &q);
	w->entry = list_entry;
	w->errnum = -enter(w, fd, "");
	if (w->errnum)
		walk_end(w);
	else
		walk_begin(w);
}

/* ---- searching ---- */

static bool name_matches(struct walk *w, const char *name)
{
	const char *pattern = w->q.name_pattern;
	if (!strchr(pattern, '/'))
		return glob_match(pattern, name, false);
	_cleanup_free_ char *path =
		xasprintf("%.*s%s", (int)w->path.len, (const char *)w->path.data, name);
	return glob_match(pattern, path, true);
}

/* Starts to look into a file; files that cannot be opened are passed over. */
static void search_contents(struct walk *w, int dir, const char *rel, int flags)
{
	struct stat st;
	_cleanup_close_ int fd = fd_open_beneath(dir, rel, O_RDONLY | O_NONBLOCK | flags, 0);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		w->scan = scan_new(
			TAKE_FD(fd), w->path.data, w->path.len, w->q.pattern, w->q.pattern_len);
}

static bool search_entry(struct walk *w, const char *name)
{
	struct stat st;
	if (clock_monotonic_us() > w->deadline_us) {
		w->more = true;
		return false;
	}
	if (fstatat(top_fd(w), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	size_t dir_len = w->path.len;
	bool matches = !w->q.name_pattern || name_matches(w, name);
	if (matches && !w->q.pattern_len) {
		if (w->count == w->q.limit) {
			w->more = true;
			return false;
		}
		_cleanup_buf_ struct buf b = BUF_INIT(2 * LIMIT_PATH);
		CHECK(buf_append_str(&w->path, name) == 0 &&
			tlv_bytes(&b, TAG_PATH, w->path.data, w->path.len) == 0 &&
			request_describe(&b, &st) == 0);
		w->path.len = dir_len;
		stream_msg(w->s, &b);
		w->count++;
	}
	if (matches && w->q.pattern_len && S_ISREG(st.st_mode)) {
		CHECK(buf_append_str(&w->path, name) == 0);
		search_contents(w, top_fd(w), name, O_NOFOLLOW);
		w->path.len = dir_len;
	}
	if (S_ISDIR(st.st_mode) && enter_name(w, name) == -ENAMETOOLONG)
		w->more = true;
	return true;
}

void walk_search(struct stream *s, struct tlv_reader body, const struct config *c)
{
	_cleanup_request_ struct request q = {0};
	if (!request_read(s, body, c, REQUEST_READS, &q))
		return;
	if ((!q.pattern_len && !q.name_pattern) ||
		(q.pattern_len && memchr(q.pattern, '\n', q.pattern_len))) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "the pattern is empty or more than a line");
		return;
	}
	q.limit = MIN(q.limit ? q.limit : LIMIT_SEARCH_HITS, LIMIT_SEARCH_HITS);
	struct walk *w = walk_new(s, &q);
	w->entry = search_entry;
	int fd = fd_open_beneath(
		w->q.path.dirfd, w->q.path.rel, O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0);
	if (fd == -ENOTDIR && w->q.pattern_len)
		search_contents(w, w->q.path.dirfd, w->q.path.rel, 0);
	w->errnum = w->scan ? 0 : fd < 0 ? -fd : -enter(w, fd, "");
	if (w->errnum)
		walk_end(w);
	else
		walk_begin(w);
}

/* ---- deleting ---- */

static bool delete_failed(struct walk *w, int errnum)
{
	if (errnum == ENOENT) /* somebody else was faster */
		return true;
	if (errnum == ENAMETOOLONG) {
		w->status = WIRE_LIMIT;
		w->text = "directories lie too deep in one another for this; use rm -rf";
	}
	if (!w->errnum)
		w->errnum = errnum;
	return false;
}

static bool delete_entry(struct walk *w, const char *name)
{
	if (unlinkat(top_fd(w), name, 0) == 0) {
		w->count++;
		return true;
	}
	if (errno != EISDIR && errno != EPERM)
		return delete_failed(w, errno);
	int unlink_errnum = errno, r = enter_name(w, name);
	return r == 0 || delete_failed(w, r == -ENOTDIR ? unlink_errnum : -r);
}

/* The directory on top has been read to its end. False where the walk is over. */
static bool leave(struct walk *w)
{
	struct level *l = &w->levels[w->n_levels - 1];
	if (w->entry != delete_entry) {
		(void)closedir(l->dir);
		w->path.len = l->path_len;
		return --w->n_levels > 0;
	}
	bool top = w->n_levels == 1;
	char name[LIMIT_NAME + 1] = "";
	if (!top) { /* "….../name/" */
		size_t n = w->path.len - l->path_len - 1;
		memcpy(name, w->path.data + l->path_len, n);
	}
	int above = top ? w->parent : dirfd(l[-1].dir);
	if (unlinkat(above, top ? w->name : name, AT_REMOVEDIR) == 0) {
		w->count++;
	} else if (errno == ENOTEMPTY && l->rounds++ < DELETE_ROUNDS) {
		rewinddir(l->dir); /* something was added, or reading skipped it */
		return true;
	} else if (!delete_failed(w, errno)) {
		return false;
	}
	(void)closedir(l->dir);
	w->path.len = l->path_len;
	return --w->n_levels > 0;
}

void walk_delete(struct stream *s, struct tlv_reader body, const struct config *c)
{
	_cleanup_request_ struct request q = {0};
	if (!request_read(s, body, c, REQUEST_WRITES, &q))
		return;
	const char *name = NULL;
	if (strcmp(q.path.rel, ".") == 0) {
		stream_fail(s, WIRE_DENIED, 0, "the workspace itself stays");
		return;
	}
	_cleanup_close_ int parent = fd_open_parent_beneath(q.path.dirfd, q.path.rel, &name);
	int r = MIN(parent, 0);
	if (!r && unlinkat(parent, name, 0) < 0)
		r = -errno;
	if ((r == -EISDIR || r == -EPERM) && !q.recursive)
		r = unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
	if (r == 0) {
		_cleanup_buf_ struct buf b = BUF_INIT(KIB);
		CHECK(tlv_u64(&b, TAG_COUNT, 1) == 0);
		stream_end(s, WIRE_OK, &b);
		return;
	}
	int fd = r;
	if (q.recursive && (r == -EISDIR || r == -EPERM))
		fd = fd_open_beneath(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0) {
		request_fail(s, fd == -ENOTDIR ? -r : -fd);
		return;
	}
	struct walk *w = walk_new(s, &q);
	w->entry = delete_entry;
	w->parent = TAKE_FD(parent);
	w->name = name;
	w->errnum = -enter(w, fd, "");
	if (w->errnum)
		walk_end(w);
	else
		walk_begin(w);
}
