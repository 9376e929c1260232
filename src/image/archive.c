/* archive.c: see archive.h. */
#include "image/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <errno.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/str.h"
#include "files/digest.h"

#define LIBRARY "libarchive.so.13"
#define CHUNK   (256 * KIB)

#define FUNCTIONS(X)                                                                               \
	X(archive_read_new)                                                                        \
	X(archive_read_free)                                                                       \
	X(archive_read_support_format_tar)                                                         \
	X(archive_read_open)                                                                       \
	X(archive_read_next_header)                                                                \
	X(archive_read_data)                                                                       \
	X(archive_error_string)                                                                    \
	X(archive_entry_pathname_utf8)                                                             \
	X(archive_entry_hardlink_utf8)                                                             \
	X(archive_entry_symlink_utf8)                                                              \
	X(archive_entry_filetype)                                                                  \
	X(archive_entry_perm)                                                                      \
	X(archive_entry_size)                                                                      \
	X(archive_entry_mtime)

static struct {
	void *library;
#define X(name) __typeof__(name) *name;
	FUNCTIONS(X)
#undef X
} lib;

struct archive_reader {
	struct archive *archive;
	struct digest *digest;
	int fd;
	uint64_t bytes;
	struct err failed; /* of reading the file; code ERR_NONE: it did not */
	uint8_t chunk[CHUNK];
};

/* For the life of the process. */
static int load(struct err *err)
{
	if (lib.library)
		return 0;
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return err_set(err, ERR_UNSUPPORTED, ENOENT,
			"images are read by libarchive, which is not installed: sudo apt install "
			"libarchive13");
	const struct {
		const char *name;
		void *to;
	} all[] = {
#define X(name) {#name, &lib.name},
		FUNCTIONS(X)
#undef X
	};
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		void *symbol = dlsym(library, all[i].name);
		if (!symbol) {
			(void)dlclose(library);
			return err_set(
				err, ERR_UNSUPPORTED, ENOENT, LIBRARY " has no %s", all[i].name);
		}
		*(void **)all[i].to = symbol; /* dlsym(3): POSIX' way to a function */
	}
	/* It turns names into UTF-8 by the process's locale. */
	(void)setlocale(LC_CTYPE, "C.UTF-8");
	lib.library = library;
	return 0;
}

static ssize_t fill(struct archive_reader *r)
{
	ssize_t n;
	do
		n = read(r->fd, r->chunk, sizeof(r->chunk));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(&r->failed, ERR_IO, errno, "the archive cannot be read: %s",
			strerror(errno));
	r->bytes += (size_t)n;
	if (r->bytes > LIMIT_IMAGE_ARCHIVE)
		return err_set(&r->failed, ERR_LIMIT_REACHED, EFBIG,
			"the archive is larger than %llu GiB",
			(unsigned long long)(LIMIT_IMAGE_ARCHIVE / GIB));
	int failed = digest_update(r->digest, r->chunk, (size_t)n, &r->failed);
	return failed < 0 ? failed : n;
}

static la_ssize_t on_read(struct archive *a, void *user, const void **ret)
{
	(void)a;
	struct archive_reader *r = user;
	*ret = r->chunk;
	ssize_t n = r->failed.code ? -1 : fill(r);
	return n < 0 ? -1 : n;
}

static int fault(struct archive_reader *r, struct err *err)
{
	char text[200];
	const char *said = lib.archive_error_string(r->archive);
	if (r->failed.code) {
		*err = r->failed;
		return -(err->errnum ? err->errnum : EINVAL);
	}
	str_copy(text, sizeof(text), said ? said : "it ends in the middle");
	str_make_printable(text);
	return err_set(err, ERR_FILE_REFUSED, EBADMSG, "this is no whole tar archive: %s", text);
}

int archive_reader_new(int fd, struct archive_reader **ret, struct err *err)
{
	int n = load(err);
	if (n < 0)
		return n;
	struct archive_reader *r = xcalloc(1, sizeof(*r));
	r->fd = fd;
	n = digest_new(&r->digest, err);
	r->archive = lib.archive_read_new();
	CHECK(r->archive);
	if (n == 0 &&
		(lib.archive_read_support_format_tar(r->archive) != ARCHIVE_OK ||
			lib.archive_read_open(r->archive, r, NULL, on_read, NULL) != ARCHIVE_OK))
		n = fault(r, err);
	if (n < 0)
		archive_reader_free(r);
	else
		*ret = r;
	return n;
}

int archive_reader_next(struct archive_reader *r, enum archive_kind *ret_kind,
	struct manifest_entry *ret, int64_t *ret_mtime, struct err *err)
{
	struct archive_entry *e = NULL;
	int n = lib.archive_read_next_header(r->archive, &e);
	*ret = (struct manifest_entry){0};
	*ret_kind = ARCHIVE_END;
	if (n == ARCHIVE_EOF)
		return 0;
	/* A warning is about a name that is no text, or a number out of range. */
	if (n != ARCHIVE_OK)
		return fault(r, err);
	ret->path = (char *)lib.archive_entry_pathname_utf8(e);
	ret->target = (char *)lib.archive_entry_hardlink_utf8(e);
	if (!ret->path)
		return err_set(err, ERR_FILE_REFUSED, EILSEQ, "a name in it is no UTF-8");
	*ret_mtime = lib.archive_entry_mtime(e);
	ret->mode = lib.archive_entry_perm(e) & 07777U;
	*ret_kind = ARCHIVE_ENTRY;
	switch (lib.archive_entry_filetype(e)) {
	case S_IFREG:
	case 0: /* of hard links */
		ret->type = ret->target ? MANIFEST_HARDLINK : MANIFEST_FILE;
		ret->size = ret->target ? 0 : (uint64_t)MAX(lib.archive_entry_size(e), 0);
		break;
	case S_IFDIR:
		ret->type = MANIFEST_DIRECTORY;
		ret->target = NULL;
		break;
	case S_IFLNK:
		ret->type = MANIFEST_SYMLINK;
		ret->target = (char *)lib.archive_entry_symlink_utf8(e);
		break;
	default:
		*ret_kind = ARCHIVE_OTHER;
	}
	return 0;
}

int archive_reader_read(struct archive_reader *r, void *p, size_t n, size_t *ret_n, struct err *err)
{
	la_ssize_t got = lib.archive_read_data(r->archive, p, n);
	if (got < 0)
		return fault(r, err);
	*ret_n = (size_t)got;
	return 0;
}

int archive_reader_digest(struct archive_reader *r, char ret_digest[static MANIFEST_DIGEST_TEXT],
	uint64_t *ret_bytes, struct err *err)
{
	uint8_t hash[SHA256_SIZE];
	ssize_t n;
	while ((n = fill(r)) > 0)
		;
	if (n < 0)
		return fault(r, err);
	int failed = digest_final(r->digest, hash, err);
	if (failed < 0)
		return failed;
	id_hex(hash, sizeof(hash), ret_digest);
	*ret_bytes = r->bytes;
	return 0;
}

void archive_reader_free(struct archive_reader *r)
{
	if (!r)
		return;
	(void)lib.archive_read_free(r->archive);
	digest_free(r->digest);
	free(r);
}
