/* unpack.c: see unpack.h. */
#include "image/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "files/digest.h"
#include "image/archive.h"

#define CHUNK (128 * KIB)

struct unpacking {
	struct archive_reader *reader;
	int root;
	struct manifest *found;
	struct unpack_told *told;
	int64_t mtime;
	uint8_t chunk[CHUNK];
};

static int refused(struct err *err, const char *path, int errnum, const char *why)
{
	return err_set(err, ERR_FILE_REFUSED, errnum, "%.300s %s", path, why);
}

static int failed(struct err *err, const char *path, int r)
{
	if (r == -EEXIST)
		return refused(err, path, EEXIST, "is there twice");
	if (r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV)
		return refused(err, path, -r, "is in no folder that the archive has made before");
	return err_set(err, ERR_IO, -r, "%.300s cannot be made: %s", path, strerror(-r));
}

/* The folder of path, reached through folders alone. */
static int parent(int root, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	*ret_name = slash ? slash + 1 : path;
	return fd_open_beneath_no_links(root, dir, O_RDONLY | O_DIRECTORY, 0);
}

/* Bytes to fd (-1: nowhere) and into the digest. */
static int copy_file(struct unpacking *u, int fd, struct manifest_entry *e, struct err *err)
{
	struct digest *d;
	uint8_t hash[SHA256_SIZE];
	uint64_t size = 0;
	size_t n = 0;
	int r = digest_new(&d, err);
	if (r < 0)
		return r;
	do {
		r = archive_reader_read(u->reader, u->chunk, sizeof(u->chunk), &n, err);
		size += r == 0 ? n : 0;
		if (r == 0 && (size > e->size || u->told->bytes + size > LIMIT_IMAGE_BYTES))
			r = err_set(err, ERR_LIMIT_REACHED, EFBIG,
				"%.200s: an image has at most %llu GiB", e->path,
				(unsigned long long)(LIMIT_IMAGE_BYTES / GIB));
		if (r == 0)
			r = digest_update(d, u->chunk, n, err);
		if (r == 0 && fd >= 0) {
			int w = fd_write_full(fd, u->chunk, n);
			if (w < 0)
				r = failed(err, e->path, w);
		}
	} while (r == 0 && n > 0);
	if (r == 0 && size != e->size)
		r = refused(err, e->path, EBADMSG, "is shorter than the archive says");
	if (r == 0)
		r = digest_final(d, hash, err);
	digest_free(d);
	if (r == 0)
		id_hex(hash, sizeof(hash), e->sha256);
	u->told->bytes += size;
	return r;
}

static int make_file(
	struct unpacking *u, int dir, const char *name, struct manifest_entry *e, struct err *err)
{
	const struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = u->mtime}};
	_cleanup_close_ int fd = -1;
	if (dir >= 0) {
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0)
			return failed(err, e->path, -errno);
	}
	int r = copy_file(u, fd, e, err);
	if (r < 0 || fd < 0)
		return r;
	if (fchmod(fd, manifest_unpacked_mode(e)) < 0 || futimens(fd, times) < 0)
		return failed(err, e->path, -errno);
	return 0;
}

static int make_hardlink(struct unpacking *u, int dir, const char *name,
	const struct manifest_entry *e, struct err *err)
{
	const char *target_name;
	struct stat st;
	if (!manifest_path_valid(e->target))
		return refused(err, e->path, EXDEV, "is a link to outside of the archive");
	if (dir < 0)
		return 0;
	_cleanup_close_ int target = parent(u->root, e->target, &target_name);
	if (target < 0 || fstatat(target, target_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		!S_ISREG(st.st_mode))
		return refused(err, e->path, ENOENT,
			"is a link to what is no file that the archive has made before");
	return linkat(target, target_name, dir, name, 0) < 0 ? failed(err, e->path, -errno) : 0;
}

static int make(struct unpacking *u, struct manifest_entry *e, struct err *err)
{
	const char *name;
	_cleanup_close_ int dir = u->root < 0 ? -1 : parent(u->root, e->path, &name);
	if (u->root >= 0 && dir < 0)
		return failed(err, e->path, dir);
	switch (e->type) {
	case MANIFEST_FILE:
		return make_file(u, dir, name, e, err);
	case MANIFEST_DIRECTORY: /* its own mode later: it may be one that nobody may write to */
		return dir >= 0 && mkdirat(dir, name, 0700) < 0 ? failed(err, e->path, -errno) : 0;
	case MANIFEST_SYMLINK:
		if (!e->target || !*e->target || strlen(e->target) >= LIMIT_PATH)
			return refused(err, e->path, EBADMSG, "is a link to nothing");
		return dir >= 0 && symlinkat(e->target, dir, name) < 0
			       ? failed(err, e->path, -errno)
			       : 0;
	case MANIFEST_HARDLINK:
		return make_hardlink(u, dir, name, e, err);
	}
	return 0;
}

/* Without "./" before it and "/" behind it. */
static char *plain(const char *path)
{
	while (path[0] == '.' && path[1] == '/')
		path += 2;
	size_t n = strlen(path);
	while (n > 1 && path[n - 1] == '/')
		n--;
	return xstrndup(path, n);
}

static int take(struct unpacking *u, struct manifest_entry *e, struct err *err)
{
	_cleanup_free_ char *path = plain(e->path), *target = NULL;
	if (path[0] == '\0' || strcmp(path, ".") == 0) /* the root itself */
		return 0;
	e->path = path;
	if (!manifest_path_valid(path))
		return err_set(err, ERR_FILE_REFUSED, EXDEV,
			"the archive has a path that leads elsewhere, or is no text");
	if (e->type == MANIFEST_HARDLINK)
		e->target = target = plain(e->target);
	u->told->setid += e->type == MANIFEST_FILE && (e->mode & 06000);
	int r = make(u, e, err);
	return r == 0 ? manifest_add(u->found, e, err) : r;
}

/* From the innermost outwards. */
static int set_folder_modes(const struct unpacking *u, struct err *err)
{
	for (size_t i = u->found->n; u->root >= 0 && i-- > 0;) {
		const struct manifest_entry *e = &u->found->entries[i];
		if (e->type != MANIFEST_DIRECTORY)
			continue;
		_cleanup_close_ int fd =
			fd_open_beneath_no_links(u->root, e->path, O_RDONLY | O_DIRECTORY, 0);
		if (fd < 0 || fchmod(fd, manifest_unpacked_mode(e)) < 0)
			return failed(err, e->path, fd < 0 ? fd : -errno);
	}
	return 0;
}

static int take_all(struct unpacking *u, struct err *err)
{
	for (;;) {
		enum archive_kind kind;
		struct manifest_entry e;
		int r = archive_reader_next(u->reader, &kind, &e, &u->mtime, err);
		if (r < 0 || kind == ARCHIVE_END)
			return r;
		if (kind == ARCHIVE_OTHER) {
			if (++u->told->left_out > LIMIT_IMAGE_ENTRIES)
				return err_set(err, ERR_LIMIT_REACHED, EFBIG,
					"the archive has too many devices");
			continue;
		}
		r = take(u, &e, err);
		if (r < 0)
			return r;
	}
}

int unpack(int fd, int root, struct manifest *ret, struct unpack_told *told, struct err *err)
{
	struct unpacking *u = xcalloc(1, sizeof(*u));
	*ret = (struct manifest){0};
	*told = (struct unpack_told){0};
	u->root = root;
	u->found = ret;
	u->told = told;
	int r = archive_reader_new(fd, &u->reader, err);
	if (r == 0)
		r = take_all(u, err);
	if (r == 0)
		r = archive_reader_digest(u->reader, ret->digest, &ret->bytes, err);
	if (r == 0)
		r = manifest_sort(ret, err);
	if (r == 0)
		r = set_folder_modes(u, err);
	archive_reader_free(u->reader);
	free(u);
	if (r < 0)
		manifest_done(ret);
	return r;
}
