/* images.c: see images.h. */
#include "image/images.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "files/digest.h"
#include "image/tree.h"

#define DIGEST_MIN 12
#define MANIFEST   "manifest.json"
#define SBOM       "sbom.spdx.json"
#define LICENCES   "licences"
#define ROOT       "root"

int images_directory(char **ret, struct err *err)
{
	const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	if (xdg && xdg[0] == '/')
		*ret = xasprintf("%s/scb/images", xdg);
	else if (home && home[0] == '/')
		*ret = xasprintf("%s/.local/share/scb/images", home);
	else
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"no home directory is known; set HOME or XDG_DATA_HOME");
	return 0;
}

static int open_directory(bool make, struct err *err)
{
	_cleanup_free_ char *path = NULL;
	int r = images_directory(&path, err);
	if (r < 0)
		return r;
	for (char *p = path + 1; make && p; p++) {
		p = strchr(p, '/');
		if (p)
			*p = '\0';
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return err_set(err, ERR_IO, errno, "%.300s cannot be made: %s", path,
				strerror(errno));
		if (!p)
			break;
		*p = '/';
	}
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, ERR_NO_SUCH_FILE, errno,
			"there are no images (%.300s: %s): `scb image build`, then `scb image "
			"import`",
			path, strerror(errno));
	return fd;
}

/* NAME@SHA256, whole. */
static bool is_full(const char *text)
{
	const char *at = strchr(text, '@');
	if (!at || (size_t)(at - text) >= MANIFEST_NAME || !manifest_digest_valid(at + 1))
		return false;
	_cleanup_free_ char *name = xstrndup(text, (size_t)(at - text));
	return manifest_name_valid(name);
}

int images_each(int (*fn)(void *user, const char *full), void *user)
{
	struct err err;
	int fd = open_directory(false, &err), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	for (struct dirent *e; d && r == 0 && (e = readdir(d));)
		if (is_full(e->d_name))
			r = fn(user, e->d_name);
	if (d)
		(void)closedir(d);
	return r;
}

struct finding {
	const char *start;
	char *ret;
	unsigned n;
};

static int find_one(void *user, const char *full)
{
	struct finding *f = user;
	if (str_starts(full, f->start)) {
		memcpy(f->ret, full, strlen(full) + 1);
		f->n++;
	}
	return 0;
}

int images_find(const char *name, char ret[static IMAGES_FULL], struct err *err)
{
	const char *at = strchr(name, '@');
	if (at) {
		struct finding f = {name, ret, 0};
		if (strlen(at + 1) >= DIGEST_MIN)
			(void)images_each(find_one, &f);
		if (f.n == 1)
			return 0;
	} else if (manifest_name_valid(name)) {
		_cleanup_close_ int dir = open_directory(false, err);
		if (dir < 0)
			return dir;
		ssize_t n = readlinkat(dir, name, ret, IMAGES_FULL - 1);
		ret[MAX(n, 0)] = '\0';
		if (n > 0 && is_full(ret))
			return 0;
	}
	return err_set(err, ERR_NO_SUCH_FILE, ENOENT,
		"no image \"%.100s\" is unpacked here; `scb image list` tells which are, `scb "
		"image "
		"import` adds one",
		name);
}

/* Others could put into a sandbox what they like. */
static int check_own(int fd, const char *what, struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 0022))
		return err_set(err, ERR_FILE_REFUSED, EPERM,
			"%.300s is not this user's alone to write", what);
	return 0;
}

/* The folder of an image. */
static int open_image(const char *name, char full[static IMAGES_FULL], struct err *err)
{
	int r = images_find(name, full, err);
	_cleanup_close_ int dir = r < 0 ? -1 : open_directory(false, err);
	if (r < 0 || dir < 0)
		return r < 0 ? r : dir;
	_cleanup_close_ int fd = fd_open_beneath_no_links(dir, full, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return err_set(err, ERR_NO_SUCH_FILE, -fd, "image %s: %s", full, strerror(-fd));
	r = check_own(dir, "the folder of images", err);
	if (r == 0)
		r = check_own(fd, full, err);
	return r < 0 ? r : TAKE_FD(fd);
}

int images_root(const char *name, char **ret, struct err *err)
{
	char full[IMAGES_FULL];
	_cleanup_free_ char *dir = NULL;
	_cleanup_close_ int fd = open_image(name, full, err);
	if (fd < 0)
		return fd;
	int r = images_directory(&dir, err);
	if (r < 0)
		return r;
	_cleanup_free_ char *path = xasprintf("%s/%s/" ROOT, dir, full);
	*ret = realpath(path, NULL);
	return *ret ? 0
		    : err_set(err, ERR_NO_SUCH_FILE, errno, "image %s has no root: %s", full,
			      strerror(errno));
}

/* ---- what stands beside an archive ---- */

/* SHA-256 of a file, "" where there is none; to: written there as well, or -1. */
static int digest_file(int dir, const char *name, int to_dir, const char *to_name,
	char ret[static MANIFEST_DIGEST_TEXT], struct err *err)
{
	uint8_t hash[SHA256_SIZE], chunk[16 * KIB];
	uint64_t size = 0;
	struct digest *d;
	ssize_t n = 1;
	ret[0] = '\0';
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK), to = -1;
	if (fd < 0)
		return errno == ENOENT
			       ? 0
			       : err_set(err, ERR_IO, errno, "%.200s: %s", name, strerror(errno));
	if (to_dir >= 0)
		to = openat(to_dir, to_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	int r = to_dir >= 0 && to < 0
			? err_set(err, ERR_IO, errno, "%s: %s", to_name, strerror(errno))
			: digest_new(&d, err);
	if (r < 0)
		return r;
	while (r == 0 && n > 0) {
		n = read(fd, chunk, sizeof(chunk));
		size += n > 0 ? (size_t)n : 0;
		if (n < 0 || size > LIMIT_IMAGE_MANIFEST ||
			(n > 0 && to >= 0 && fd_write_full(to, chunk, (size_t)n) < 0))
			r = err_set(err, ERR_IO, n < 0 ? errno : EFBIG,
				"%.200s cannot be read and copied", name);
		else if (n > 0)
			r = digest_update(d, chunk, (size_t)n, err);
	}
	if (r == 0)
		r = digest_final(d, hash, err);
	digest_free(d);
	if (r == 0)
		id_hex(hash, sizeof(hash), ret);
	return r;
}

static int check_digest(const char *what, const char *told, const char *found, struct err *err)
{
	if (strcmp(told, found) == 0)
		return 0;
	return err_set(err, ERR_CONFLICT, EBADMSG, "%s is %s", what,
		found[0] ? "not what the manifest says" : "missing, and the manifest names it");
}

/* It describes this very archive. */
static int check_sbom(int dir, const char *name, const char *digest, struct err *err)
{
	const char *version, *sum;
	json_t *package = NULL;
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	json_t *root = fd < 0 ? NULL : json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL);
	bool good = root &&
		    json_unpack(root, "{s:s, s:[o]}", "spdxVersion", &version, "packages",
			    &package) == 0 &&
		    strcmp(version, "SPDX-2.3") == 0 &&
		    json_unpack(package, "{s:[{s:s}]}", "checksums", "checksumValue", &sum) == 0 &&
		    strcmp(sum, digest) == 0;
	json_decref(root);
	return good ? 0
		    : err_set(err, ERR_CONFLICT, EBADMSG,
			      "the SBOM is no SPDX 2.3 of the archive sha256:%s", digest);
}

/* The names of what is beside NAME.tar. */
static char *beside(const char *tar, const char *end)
{
	size_t n = strlen(tar);
	if (n > 4 && strcmp(tar + n - 4, ".tar") == 0)
		n -= 4;
	return xasprintf("%.*s%s", (int)n, tar, end);
}

/* Reads an archive against what is beside it; to_dir, root: unpacked there, or -1. *ret is what was
 * found in it. */
static int take_archive(const char *tar, int to_dir, int root, struct manifest *ret,
	struct unpack_told *told, bool *ret_manifest, struct err *err)
{
	_cleanup_free_ char *manifest = beside(tar, ".manifest.json"),
			    *sbom = beside(tar, ".spdx.json"), *licences = beside(tar, ".licences");
	_cleanup_manifest_ struct manifest m = {0};
	struct manifest found = {0};
	_cleanup_close_ int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd = open(tar, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, ERR_NO_SUCH_FILE, fd < 0 ? errno : EBADF, "%.300s: %s", tar,
			fd < 0 ? strerror(errno) : "it is no file");
	*ret_manifest = access(manifest, F_OK) == 0;
	int r = *ret_manifest ? manifest_read(top, manifest + 1, &m, err) : 0;
	if (r == 0)
		r = unpack(fd, root, &found, told, err);
	if (r == 0 && *ret_manifest)
		r = manifest_compare(&m, &found, err);
	if (r == 0)
		r = digest_file(AT_FDCWD, sbom, to_dir, SBOM, found.sbom, err);
	if (r == 0)
		r = digest_file(AT_FDCWD, licences, to_dir, LICENCES, found.licences, err);
	if (r == 0 && *ret_manifest)
		r = check_digest("the SBOM", m.sbom, found.sbom, err);
	if (r == 0 && *ret_manifest)
		r = check_digest("the list of licences", m.licences, found.licences, err);
	if (r == 0 && found.sbom[0])
		r = check_sbom(AT_FDCWD, sbom, found.digest, err);
	memcpy(found.name, m.name, sizeof(found.name));
	if (r < 0)
		manifest_done(&found);
	else
		*ret = found;
	return r;
}

int images_verify_archive(const char *tar, struct manifest *ret, struct err *err)
{
	struct unpack_told told;
	bool with_manifest;
	_cleanup_free_ char *real = realpath(tar, NULL);
	if (!real)
		return err_set(err, ERR_NO_SUCH_FILE, errno, "%.300s: %s", tar, strerror(errno));
	int r = take_archive(real, -1, -1, ret, &told, &with_manifest, err);
	if (r == 0 && !with_manifest) {
		manifest_done(ret);
		return err_set(err, ERR_NO_SUCH_FILE, ENOENT,
			"%.300s has no manifest beside it, against which it could be verified",
			tar);
	}
	return r;
}

/* ---- importing ---- */

static int choose_name(const char *tar, const char *given, struct manifest *m, struct err *err)
{
	_cleanup_free_ char *stem = beside(strrchr(tar, '/') + 1, "");
	const char *name = given ? given : m->name[0] ? m->name : stem;
	if (!manifest_name_valid(name))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"\"%.80s\" is no name of an image: up to %d lower-case letters, digits, "
			"\".\", "
			"\"_\" and \"-\"; give one with --name",
			name, MANIFEST_NAME - 1);
	if (name != m->name)
		memcpy(m->name, name, strlen(name) + 1);
	return 0;
}

/* From its unfinished name to its own, and to that by which it is found. */
static int put_in_place(
	int dir, const char *new, const char *full, const char *name, struct err *err)
{
	_cleanup_free_ char *link = xasprintf("%s.link", new);
	if (faccessat(dir, full, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
		renameat(dir, new, dir, full) < 0)
		return err_set(err, ERR_IO, errno, "%s: %s", full, strerror(errno));
	if (symlinkat(full, dir, link) < 0 || renameat(dir, link, dir, name) < 0) {
		int saved = errno;
		(void)unlinkat(dir, link, 0);
		return err_set(err, ERR_IO, saved, "%s: %s", name, strerror(saved));
	}
	return 0;
}

int images_import(const char *tar, const char *name, char ret_full[static IMAGES_FULL],
	struct unpack_told *told, bool *ret_manifest, struct err *err)
{
	char id[ID_TEXT_SIZE];
	_cleanup_manifest_ struct manifest m = {0};
	_cleanup_free_ char *real = realpath(tar, NULL);
	if (!real)
		return err_set(err, ERR_NO_SUCH_FILE, errno, "%.300s: %s", tar, strerror(errno));
	_cleanup_close_ int dir = open_directory(true, err);
	if (dir < 0)
		return dir;
	id_new('n', id);
	_cleanup_free_ char *new = xasprintf(".%s", id);
	_cleanup_close_ int at = -1, root = -1;
	if (mkdirat(dir, new, 0755) < 0 ||
		(at = openat(dir, new, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
		mkdirat(at, ROOT, 0755) < 0 ||
		(root = openat(at, ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return err_set(err, ERR_IO, errno, "%s: %s", new, strerror(errno));
	int r = take_archive(real, at, root, &m, told, ret_manifest, err);
	if (r == 0)
		r = choose_name(real, name, &m, err);
	if (r == 0)
		r = manifest_write(at, MANIFEST, &m, err);
	if (r == 0) {
		(void)snprintf(ret_full, IMAGES_FULL, "%s@%s", m.name, m.digest);
		r = put_in_place(dir, new, ret_full, m.name, err);
	}
	/* The unfinished one, or the second of the same. */
	struct err ignored;
	if (faccessat(dir, new, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
		tree_remove(dir, new, &ignored) < 0 && r == 0)
		*err = ignored;
	return r;
}

int images_verify(const char *name, void (*fault)(void *user, const char *text), void *user,
	struct manifest *ret, struct err *err)
{
	char full[IMAGES_FULL], sum[MANIFEST_DIGEST_TEXT];
	_cleanup_close_ int fd = open_image(name, full, err);
	if (fd < 0)
		return fd;
	int r = manifest_read(fd, MANIFEST, ret, err);
	if (r < 0)
		return r;
	if (strcmp(ret->digest, strchr(full, '@') + 1) != 0)
		r = err_set(err, ERR_CONFLICT, EBADMSG, "the manifest is of another archive");
	if (r == 0)
		r = digest_file(fd, SBOM, -1, NULL, sum, err);
	if (r == 0)
		r = check_digest("the SBOM", ret->sbom, sum, err);
	if (r == 0 && sum[0])
		r = check_sbom(fd, SBOM, ret->digest, err);
	if (r == 0)
		r = digest_file(fd, LICENCES, -1, NULL, sum, err);
	if (r == 0)
		r = check_digest("the list of licences", ret->licences, sum, err);
	_cleanup_close_ int root = fd_open_beneath_no_links(fd, ROOT, O_RDONLY | O_DIRECTORY, 0);
	if (r == 0)
		r = root < 0 ? err_set(err, ERR_CONFLICT, -root, "it has no root")
			     : tree_verify(root, ret, fault, user, err);
	if (r < 0)
		manifest_done(ret);
	return r;
}
