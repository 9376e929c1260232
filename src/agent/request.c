/* request.c: see request.h. */
#include "agent/request.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"

void request_done(struct request *q)
{
	free(q->path.text);
	free(q->target.text);
	free(q->pattern);
	free(q->name_pattern);
	*q = (struct request){0};
}

/* What follows prefix in path, where prefix is a whole number of path's components: "/work" is no
 * prefix of "/work-evil". Else NULL. */
static const char *below(const char *path, const char *prefix)
{
	size_t n = prefix ? strlen(prefix) : 0;
	if (n < 2 || prefix[0] != '/' || strncmp(path, prefix, n) != 0)
		return NULL;
	if (path[n] != '\0' && path[n] != '/')
		return NULL;
	return path + n + strspn(path + n, "/");
}

/* In `local` workspace and mounts have other paths than the names that the protocol gives them;
 * the code knows those and may pass them on. */
static const char *below_mount(const char *path, const struct config_mount *m)
{
	const char *rest = below(path, "/mnt");
	size_t n = strlen(m->name);
	if (rest && strncmp(rest, m->name, n) == 0 && (rest[n] == '\0' || rest[n] == '/'))
		return rest + n + strspn(rest + n, "/");
	return below(path, m->path);
}

static bool is_mounts(const char *path)
{
	const char *rest = below(path, "/mnt");
	return rest && !rest[0];
}

static bool find_place(const struct config *c, struct place *p)
{
	char *path = p->text;
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	const char *rel = path[0] == '/' ? below(path, "/workspace") : path;
	if (!rel)
		rel = below(path, c->workspace);
	p->dirfd = c->workspace_fd;
	for (size_t i = 0; !rel && i < c->n_mounts; i++) {
		rel = below_mount(path, &c->mounts[i]);
		p->dirfd = c->mounts[i].fd;
		p->read_only = true;
	}
	p->rel = rel && !rel[0] ? "." : rel;
	return rel;
}

static bool take_path(const struct tlv *t, struct place *p)
{
	free(p->text);
	p->text = t->n <= LIMIT_PATH ? tlv_dup_str(t) : NULL;
	return p->text;
}

static bool take_number(const struct tlv *t, uint64_t max, uint64_t *ret)
{
	return tlv_get_u64(t, ret) == 0 && *ret <= max;
}

static bool take_u32(const struct tlv *t, uint32_t *ret)
{
	uint64_t v;
	if (!take_number(t, UINT32_MAX, &v))
		return false;
	*ret = (uint32_t)v;
	return true;
}

static bool take_bool(const struct tlv *t, bool *ret)
{
	uint64_t v;
	if (!take_number(t, 1, &v))
		return false;
	*ret = v;
	return true;
}

static bool take_tag(const struct tlv *t, struct request *q)
{
	switch (t->tag) {
	case TAG_PATH:
		return take_path(t, &q->path);
	case TAG_TARGET:
		return take_path(t, &q->target);
	case TAG_OFFSET:
		q->has_offset = true;
		return take_number(t, INT64_MAX, &q->offset);
	case TAG_LENGTH:
		q->has_length = true;
		return take_number(t, INT64_MAX, &q->length);
	case TAG_SIZE:
		q->has_expected = true;
		return take_number(t, UINT64_MAX, &q->expected_size);
	case TAG_MTIME_US:
		q->has_expected = true;
		return take_number(t, UINT64_MAX, &q->expected_mtime_us);
	case TAG_COUNT:
		q->has_count = true;
		return take_number(t, UINT64_MAX, &q->count);
	case TAG_APPEND:
		return take_bool(t, &q->append);
	case TAG_PARENTS:
		return take_bool(t, &q->parents);
	case TAG_REPLACE:
		return take_bool(t, &q->replace);
	case TAG_RECURSIVE:
		return take_bool(t, &q->recursive);
	case TAG_STABLE:
		return take_bool(t, &q->stable);
	case TAG_MODE:
		return take_u32(t, &q->mode);
	case TAG_DEPTH:
		return take_u32(t, &q->depth);
	case TAG_LIMIT:
		return take_u32(t, &q->limit);
	case TAG_PATTERN:
		free(q->pattern);
		q->pattern = xmemdup(t->p, t->n);
		q->pattern_len = t->n;
		return t->n <= LIMIT_PATTERN;
	case TAG_NAME_PATTERN:
		free(q->name_pattern);
		q->name_pattern = tlv_dup_str(t);
		return q->name_pattern && t->n <= LIMIT_PATTERN;
	default: /* of a newer broker */
		return true;
	}
}

/* Finds where p points; ends the stream where it may not. */
static bool check_place(
	struct stream *s, const struct config *c, struct place *p, enum request_need need)
{
	bool write = need == REQUEST_WRITES || need == REQUEST_MOVES;
	if (need == REQUEST_LISTS && is_mounts(p->text))
		return true;
	if (!find_place(c, p)) {
		stream_fail(s, WIRE_OUTSIDE, 0, "%s", "");
		return false;
	}
	if (write && p->read_only) {
		stream_fail(s, WIRE_READ_ONLY, 0, "it is a mount");
		return false;
	}
	if (p->dirfd < 0) {
		stream_fail(s, WIRE_NOT_FOUND, 0, "this mount could not be opened");
		return false;
	}
	return true;
}

bool request_read(struct stream *s, struct tlv_reader body, const struct config *c,
	enum request_need need, struct request *q)
{
	struct tlv t;
	while (tlv_next(&body, &t)) {
		if (!take_tag(&t, q)) {
			stream_fail(s, WIRE_BAD_REQUEST, 0, "tag %u has no sense", t.tag);
			return false;
		}
	}
	if (body.bad || !q->path.text || (need == REQUEST_MOVES && !q->target.text)) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "no path");
		return false;
	}
	return check_place(s, c, &q->path, need) &&
	       (need != REQUEST_MOVES || check_place(s, c, &q->target, need));
}

int request_make_parents(const struct place *p)
{
	const char *slash = strrchr(p->rel, '/');
	if (!slash)
		return 0;
	_cleanup_free_ char *parent = xstrndup(p->rel, (size_t)(slash - p->rel));
	_cleanup_close_ int at = fd_open_beneath(p->dirfd, parent, O_PATH | O_DIRECTORY, 0);
	if (at >= 0 || at != -ENOENT)
		return MIN(at, 0);
	at = fd_open_beneath(p->dirfd, ".", O_PATH | O_DIRECTORY, 0);
	char *rest = parent;
	for (char *name; at >= 0 && (name = strsep(&rest, "/"));) {
		if (!name[0])
			continue;
		if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		int next = fd_open_beneath(at, name, O_PATH | O_DIRECTORY, 0);
		fd_closep(&at);
		at = next;
	}
	return MIN(at, 0);
}

static enum wire_file_kind kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return FILE_REGULAR;
	case S_IFDIR:
		return FILE_DIRECTORY;
	case S_IFLNK:
		return FILE_LINK;
	case S_IFIFO:
		return FILE_FIFO;
	case S_IFSOCK:
		return FILE_SOCKET;
	default:
		return FILE_DEVICE;
	}
}

void request_fail(struct stream *s, int errnum)
{
	static const struct {
		int errnum;
		enum wire_status status;
		const char *text; /* NULL: the system's own words */
	} rows[] = {
		{ENOENT, WIRE_NOT_FOUND, ""},
		{EEXIST, WIRE_EXISTS, ""},
		{EXDEV, WIRE_OUTSIDE, ""},
		{ELOOP, WIRE_IS_LINK, ""},
		{EISDIR, WIRE_IS_DIRECTORY, ""},
		{ENOTDIR, WIRE_NOT_DIRECTORY, ""},
		{ENOTEMPTY, WIRE_EXISTS, "the directory is not empty"},
		{EROFS, WIRE_READ_ONLY, ""},
		{ENOSPC, WIRE_NO_SPACE, ""},
		{EDQUOT, WIRE_NO_SPACE, ""},
		{EACCES, WIRE_DENIED, ""},
		{EPERM, WIRE_DENIED, ""},
		{EINVAL, WIRE_BAD_REQUEST, "this path cannot be used so"},
		{ENAMETOOLONG, WIRE_BAD_REQUEST, NULL},
		{EMFILE, WIRE_LIMIT, "too many files are open in the agent"},
		{ENFILE, WIRE_LIMIT, NULL},
		{EAGAIN, WIRE_CHANGED, "something renamed parts of the path all the time"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (rows[i].errnum == errnum) {
			stream_fail(s, rows[i].status, errnum, "%s",
				rows[i].text ? rows[i].text : strerror(errnum));
			return;
		}
	}
	stream_fail(s, WIRE_IO, errnum, "%s", strerror(errnum));
}

void request_fail_kind(struct stream *s, mode_t mode)
{
	static const char *const words[] = {
		[FILE_DIRECTORY] = "a directory",
		[FILE_LINK] = "a symbolic link",
		[FILE_FIFO] = "a FIFO",
		[FILE_SOCKET] = "a socket",
		[FILE_DEVICE] = "a device",
	};
	enum wire_file_kind kind = kind_of(mode);
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	enum wire_status status = kind == FILE_DIRECTORY ? WIRE_IS_DIRECTORY
				  : kind == FILE_LINK    ? WIRE_IS_LINK
							 : WIRE_NOT_REGULAR;
	const char *word = kind == FILE_REGULAR ? "a regular file" : words[kind];
	CHECK(tlv_str(&b, TAG_TEXT, word) == 0 && tlv_u64(&b, TAG_KIND, kind) == 0);
	stream_end(s, status, &b);
}

static uint64_t mtime_us(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * USEC_PER_SEC + (uint64_t)st->st_mtim.tv_nsec / 1000;
}

bool request_expects(const struct request *q, const struct stat *st)
{
	return !q->has_expected ||
	       (q->expected_size == (uint64_t)st->st_size && q->expected_mtime_us == mtime_us(st));
}

int request_describe(struct buf *b, const struct stat *st)
{
	int r = tlv_u64(b, TAG_KIND, kind_of(st->st_mode));
	if (!r)
		r = tlv_u64(b, TAG_SIZE, (uint64_t)st->st_size);
	if (!r)
		r = tlv_u64(b, TAG_MODE, st->st_mode & 07777);
	if (!r)
		r = tlv_u64(b, TAG_MTIME_US, mtime_us(st));
	return r;
}
