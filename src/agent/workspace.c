/* workspace.c: see workspace.h. */
#include "agent/workspace.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/request.h"
#include "agent/transfer.h"
#include "agent/walk.h"
#include "base/fd.h"

static const struct config *config;

void workspace_init(const struct config *c)
{
	config = c;
}

/* Of a link: the link itself. */
static void open_stat(struct stream *s, struct tlv_reader body)
{
	_cleanup_request_ struct request q = {0};
	if (!request_read(s, body, config, REQUEST_LISTS, &q))
		return;
	/* "/mnt" itself is a list of names. */
	struct stat st = {.st_mode = S_IFDIR | 0555};
	_cleanup_close_ int fd = -1;
	if (q.path.rel)
		fd = fd_open_beneath(q.path.dirfd, q.path.rel, O_PATH | O_NOFOLLOW, 0);
	if (q.path.rel && (fd < 0 || fstat(fd, &st) < 0)) {
		request_fail(s, fd < 0 ? -fd : errno);
		return;
	}
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	CHECK(request_describe(&b, &st) == 0);
	stream_end(s, WIRE_OK, &b);
}

static void open_mkdir(struct stream *s, struct tlv_reader body)
{
	_cleanup_request_ struct request q = {0};
	if (!request_read(s, body, config, REQUEST_WRITES, &q))
		return;
	if (strcmp(q.path.rel, ".") == 0) {
		if (q.parents)
			stream_end(s, WIRE_OK, NULL);
		else
			request_fail(s, EEXIST);
		return;
	}
	int r = q.parents ? request_make_parents(&q.path) : 0;
	const char *name = NULL;
	_cleanup_close_ int parent =
		r < 0 ? r : fd_open_parent_beneath(q.path.dirfd, q.path.rel, &name);
	if (parent < 0) {
		request_fail(s, -parent);
		return;
	}
	struct stat st;
	r = mkdirat(parent, name, 0755) < 0 ? errno : 0;
	if (r == EEXIST && q.parents && fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISDIR(st.st_mode))
		r = 0;
	if (r)
		request_fail(s, r);
	else
		stream_end(s, WIRE_OK, NULL);
}

static int move(int from, const char *name, int to, const char *target, bool replace)
{
	if (replace)
		return renameat(from, name, to, target) < 0 ? -errno : 0;
	if (syscall(SYS_renameat2, from, name, to, target, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != ENOSYS && errno != EINVAL)
		return -errno;
	/* A file system or kernel (gVisor) that cannot do it in one step: two steps, between which
	 * only the sandbox's own code can come. */
	struct stat st;
	if (fstatat(to, target, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(from, name, to, target) < 0 ? -errno : 0;
}

static void open_move(struct stream *s, struct tlv_reader body)
{
	_cleanup_request_ struct request q = {0};
	if (!request_read(s, body, config, REQUEST_MOVES, &q))
		return;
	const char *name = NULL, *target = NULL;
	_cleanup_close_ int from = fd_open_parent_beneath(q.path.dirfd, q.path.rel, &name);
	int r = MIN(from, 0);
	if (!r && q.parents)
		r = request_make_parents(&q.target);
	_cleanup_close_ int to =
		r < 0 ? r : fd_open_parent_beneath(q.target.dirfd, q.target.rel, &target);
	r = MIN(to, 0);
	if (!r)
		r = move(from, name, to, target, q.replace);
	if (r < 0)
		request_fail(s, -r);
	else
		stream_end(s, WIRE_OK, NULL);
}

static void open_list(struct stream *s, struct tlv_reader body)
{
	walk_list(s, body, config);
}

static void open_read(struct stream *s, struct tlv_reader body)
{
	transfer_read(s, body, config);
}

static void open_write(struct stream *s, struct tlv_reader body)
{
	transfer_write(s, body, config);
}

static void open_delete(struct stream *s, struct tlv_reader body)
{
	walk_delete(s, body, config);
}

static void open_search(struct stream *s, struct tlv_reader body)
{
	walk_search(s, body, config);
}

static void open_hash(struct stream *s, struct tlv_reader body)
{
	transfer_hash(s, body, config);
}

const struct stream_handler workspace_handlers[] = {
	{OP_FILE_STAT, open_stat},
	{OP_FILE_LIST, open_list},
	{OP_FILE_READ, open_read},
	{OP_FILE_WRITE, open_write},
	{OP_FILE_MKDIR, open_mkdir},
	{OP_FILE_MOVE, open_move},
	{OP_FILE_DELETE, open_delete},
	{OP_FILE_SEARCH, open_search},
	{OP_FILE_HASH, open_hash},
	{0, NULL},
};
