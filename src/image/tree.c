/* tree.c: see tree.h. */
#include "image/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "files/digest.h"

#define CHUNK (128 * KIB)

struct verifying {
	const struct manifest *m;
	bool *seen;
	size_t faults;
	void (*fn)(void *user, const char *fault);
	void *user;
	struct err *err;
	uint8_t chunk[CHUNK];
};

static void wrong(struct verifying *v, const char *path, const char *what)
{
	if (v->faults++ >= TREE_FAULTS)
		return;
	_cleanup_free_ char *text = xasprintf("%.300s %s", path, what);
	v->fn(v->user, text);
}

static int hash_file(struct verifying *v, int fd, char ret[static MANIFEST_DIGEST_TEXT])
{
	struct digest *d;
	uint8_t hash[SHA256_SIZE];
	ssize_t n = 0;
	int r = digest_new(&d, v->err);
	if (r < 0)
		return r;
	while (r == 0 && (n = read(fd, v->chunk, sizeof(v->chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		r = n < 0 ? err_set(v->err, ERR_IO, errno, "%s", strerror(errno))
			  : digest_update(d, v->chunk, (size_t)n, v->err);
	}
	if (r == 0)
		r = digest_final(d, hash, v->err);
	digest_free(d);
	if (r == 0)
		id_hex(hash, sizeof(hash), ret);
	return r;
}

/* What an entry of the manifest is once it is unpacked: hard links are files like any other. */
static const struct manifest_entry *meant(const struct manifest *m, const struct manifest_entry *e)
{
	for (int i = 0; e && e->type == MANIFEST_HARDLINK && i < 8; i++)
		e = manifest_find(m, e->target);
	return e;
}

static int check_file(struct verifying *v, int dir, const char *name, const char *path,
	const struct manifest_entry *e, const struct stat *st)
{
	char found[MANIFEST_DIGEST_TEXT];
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (!S_ISREG(st->st_mode) || fd < 0) {
		wrong(v, path, fd < 0 ? "cannot be read" : "is no file");
		return 0;
	}
	int r = hash_file(v, fd, found);
	if (r == 0 && strcmp(found, e->sha256) != 0)
		wrong(v, path, "has other contents");
	return r;
}

static int check(struct verifying *v, int dir, const char *name, const char *path,
	const struct manifest_entry *e, const struct stat *st)
{
	const struct manifest_entry *is = meant(v->m, e);
	char target[LIMIT_PATH];
	v->seen[e - v->m->entries] = true;
	if (!is) {
		wrong(v, path, "is a link to what is not in the manifest");
		return 0;
	}
	if (is->type == MANIFEST_SYMLINK) {
		ssize_t n =
			S_ISLNK(st->st_mode) ? readlinkat(dir, name, target, sizeof(target)) : -1;
		if (n < 0 || (size_t)n != strlen(is->target) ||
			memcmp(target, is->target, (size_t)n) != 0)
			wrong(v, path, "is not the link that it was");
		return 0;
	}
	if ((st->st_mode & 07777) != manifest_unpacked_mode(is))
		wrong(v, path, "has another mode");
	if (is->type == MANIFEST_DIRECTORY) {
		if (!S_ISDIR(st->st_mode))
			wrong(v, path, "is no folder");
		return 0;
	}
	return check_file(v, dir, name, path, is, st);
}

static int walk(struct verifying *v, int dir, const char *above, unsigned depth)
{
	DIR *d = depth > LIMIT_IMAGE_DEPTH ? NULL : fdopendir(dir);
	int r = 0;
	if (!d) {
		(void)close(dir);
		return err_set(v->err, ERR_IO, errno, "%.200s cannot be listed", above);
	}
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		struct stat st;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		_cleanup_free_ char *path =
			xasprintf("%s%s%s", above, *above ? "/" : "", e->d_name);
		const struct manifest_entry *told = manifest_find(v->m, path);
		if (!told || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			wrong(v, path, "is not in the manifest");
			continue;
		}
		r = check(v, dirfd(d), e->d_name, path, told, &st);
		if (r < 0 || !S_ISDIR(st.st_mode))
			continue;
		int below = openat(
			dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below < 0)
			wrong(v, path, "cannot be listed");
		else
			r = walk(v, below, path, depth + 1);
	}
	(void)closedir(d);
	return r;
}

int tree_verify(int root, const struct manifest *m, void (*fn)(void *user, const char *fault),
	void *user, struct err *err)
{
	struct verifying *v = xcalloc(1, sizeof(*v));
	v->m = m;
	v->seen = xcalloc(MAX(m->n, 1U), sizeof(*v->seen));
	v->fn = fn;
	v->user = user;
	v->err = err;
	int fd = fd_open_beneath_no_links(root, ".", O_RDONLY | O_DIRECTORY, 0);
	int r = fd < 0 ? err_set(err, ERR_IO, -fd, "%s", strerror(-fd)) : walk(v, fd, "", 0);
	for (size_t i = 0; r == 0 && i < m->n; i++)
		if (!v->seen[i])
			wrong(v, m->entries[i].path, "is missing");
	if (r == 0 && v->faults)
		r = err_set(err, ERR_CONFLICT, EBADMSG,
			"%zu entries are not as the manifest says: remove its folder and import "
			"the archive again",
			v->faults);
	free(v->seen);
	free(v);
	return r;
}

int tree_remove(int dirfd_, const char *name, struct err *err)
{
	int fd = openat(dirfd_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;
	if (d)
		(void)fchmod(fd, 0700);
	for (struct dirent *e; d && r == 0 && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(fd, e->d_name, 0) < 0)
			r = errno == EISDIR || errno == EPERM
				    ? tree_remove(fd, e->d_name, err)
				    : err_set(err, ERR_IO, errno, "%s", strerror(errno));
	}
	if (d)
		(void)closedir(d);
	else if (fd >= 0)
		(void)close(fd);
	if (r == 0 && unlinkat(dirfd_, name, AT_REMOVEDIR) < 0)
		r = err_set(
			err, ERR_IO, errno, "%.200s cannot be removed: %s", name, strerror(errno));
	return r;
}
