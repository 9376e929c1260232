/* manifest.c: see manifest.h. */
#include "image/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"

#define VERSION 1

static const char *const types[] = {"file", "directory", "symlink", "hardlink"};

bool manifest_name_valid(const char *name)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char all[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t n = strlen(name);
	return n > 0 && n < MANIFEST_NAME && strchr(first, name[0]) && strspn(name, all) == n;
}

bool manifest_digest_valid(const char *text)
{
	return strlen(text) == MANIFEST_DIGEST_TEXT - 1 &&
	       strspn(text, "0123456789abcdef") == MANIFEST_DIGEST_TEXT - 1;
}

static bool text_valid(const char *text)
{
	size_t n = strlen(text);
	if (n == 0 || n >= LIMIT_PATH || !str_utf8_valid(text, n))
		return false;
	for (const char *p = text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return false;
	return true;
}

bool manifest_path_valid(const char *path)
{
	if (!text_valid(path))
		return false;
	const char *p = path;
	for (unsigned depth = 0; depth < LIMIT_IMAGE_DEPTH; depth++) {
		size_t n = strcspn(p, "/");
		bool dots = (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.');
		if (n == 0 || n > LIMIT_NAME || dots)
			return false;
		if (!p[n])
			return true;
		p += n + 1;
	}
	return false;
}

int manifest_add(struct manifest *m, const struct manifest_entry *e, struct err *err)
{
	if (m->n == LIMIT_IMAGE_ENTRIES)
		return err_set(err, ERR_LIMIT_REACHED, EFBIG, "an image has at most %llu entries",
			(unsigned long long)LIMIT_IMAGE_ENTRIES);
	if (m->n == m->room) {
		m->room = m->room ? 2 * m->room : 1024;
		m->entries = xrealloc(m->entries, m->room * sizeof(*m->entries));
	}
	struct manifest_entry *to = &m->entries[m->n++];
	*to = *e;
	to->path = xstrdup(e->path);
	to->target = e->target ? xstrdup(e->target) : NULL;
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(
		((const struct manifest_entry *)a)->path, ((const struct manifest_entry *)b)->path);
}

int manifest_sort(struct manifest *m, struct err *err)
{
	if (m->n)
		qsort(m->entries, m->n, sizeof(*m->entries), by_path);
	for (size_t i = 1; i < m->n; i++)
		if (strcmp(m->entries[i - 1].path, m->entries[i].path) == 0)
			return err_set(err, ERR_FILE_REFUSED, EEXIST, "%.300s is there twice",
				m->entries[i].path);
	return 0;
}

const struct manifest_entry *manifest_find(const struct manifest *m, const char *path)
{
	const struct manifest_entry key = {.path = (char *)path};
	return m->n ? bsearch(&key, m->entries, m->n, sizeof(key), by_path) : NULL;
}

unsigned manifest_unpacked_mode(const struct manifest_entry *e)
{
	return (e->mode & 01777) | (e->type == MANIFEST_DIRECTORY ? 0700U : 0400U);
}

static bool same(const struct manifest_entry *a, const struct manifest_entry *b)
{
	bool links = a->type == MANIFEST_SYMLINK || a->type == MANIFEST_HARDLINK;
	if (a->type != b->type)
		return false;
	if (links)
		return strcmp(a->target, b->target) == 0;
	return a->mode == b->mode && a->size == b->size && strcmp(a->sha256, b->sha256) == 0;
}

int manifest_compare(const struct manifest *told, const struct manifest *found, struct err *err)
{
	if (strcmp(told->digest, found->digest) != 0)
		return err_set(err, ERR_CONFLICT, EBADMSG,
			"the archive is sha256:%s, and its manifest is of sha256:%s", found->digest,
			told->digest);
	for (size_t i = 0; i < MAX(told->n, found->n); i++) {
		if (i >= told->n || i >= found->n ||
			strcmp(told->entries[i].path, found->entries[i].path) != 0)
			return err_set(err, ERR_CONFLICT, EBADMSG,
				"archive and manifest have different entries: %.200s",
				i < found->n ? found->entries[i].path : told->entries[i].path);
		if (!same(&told->entries[i], &found->entries[i]))
			return err_set(err, ERR_CONFLICT, EBADMSG,
				"%.300s is not what the manifest says", told->entries[i].path);
	}
	return 0;
}

void manifest_done(struct manifest *m)
{
	for (size_t i = 0; i < m->n; i++) {
		free(m->entries[i].path);
		free(m->entries[i].target);
	}
	free(m->entries);
	*m = (struct manifest){0};
}

/* ---- JSON ---- */

static bool take_digest(const json_t *o, const char *key, char ret[static MANIFEST_DIGEST_TEXT])
{
	const char *text = json_string_value(json_object_get(o, key));
	if (!text)
		return !json_object_get(o, key);
	if (!manifest_digest_valid(text))
		return false;
	memcpy(ret, text, MANIFEST_DIGEST_TEXT);
	return true;
}

static bool take_mode(const json_t *o, unsigned *ret)
{
	const char *text = json_string_value(json_object_get(o, "mode"));
	if (!text || strlen(text) != 4 || strspn(text, "01234567") != 4)
		return false;
	*ret = 0;
	for (const char *p = text; *p; p++)
		*ret = *ret << 3 | (unsigned)(*p - '0');
	return true;
}

static bool take_entry(const json_t *o, struct manifest_entry *e)
{
	const char *type = json_string_value(json_object_get(o, "type"));
	size_t t = 0;
	*e = (struct manifest_entry){.path = (char *)json_string_value(json_object_get(o, "path")),
		.target = (char *)json_string_value(json_object_get(o, "target"))};
	while (type && t < ARRAY_SIZE(types) && strcmp(type, types[t]) != 0)
		t++;
	if (!type || t == ARRAY_SIZE(types) || !e->path || !manifest_path_valid(e->path) ||
		!take_mode(o, &e->mode) || !take_digest(o, "sha256", e->sha256))
		return false;
	e->type = (enum manifest_type)t;
	json_int_t size = json_integer_value(json_object_get(o, "size"));
	if (size < 0 || (e->type == MANIFEST_FILE && !e->sha256[0]))
		return false;
	e->size = (uint64_t)size;
	bool link = e->type == MANIFEST_SYMLINK || e->type == MANIFEST_HARDLINK;
	return link == (e->target != NULL) && (!link || text_valid(e->target));
}

static int take_all(const json_t *root, struct manifest *m, struct err *err)
{
	const json_t *entries = json_object_get(root, "entries"), *o;
	const char *name = json_string_value(json_object_get(root, "name"));
	json_int_t bytes = json_integer_value(json_object_get(root, "bytes"));
	size_t i;
	if (json_integer_value(json_object_get(root, "version")) != VERSION ||
		!json_is_array(entries) || bytes < 0 ||
		(name && *name && !manifest_name_valid(name)) ||
		!take_digest(root, "sha256", m->digest) || !m->digest[0] ||
		!take_digest(root, "sbom", m->sbom) || !take_digest(root, "licences", m->licences))
		return err_set(err, ERR_FILE_REFUSED, EBADMSG, "it is no manifest of version 1");
	if (name)
		memcpy(m->name, name, strlen(name) + 1);
	m->bytes = (uint64_t)bytes;
	json_array_foreach (entries, i, o) {
		struct manifest_entry e;
		if (!take_entry(o, &e))
			return err_set(
				err, ERR_FILE_REFUSED, EBADMSG, "its entry %zu is not valid", i);
		int r = manifest_add(m, &e, err);
		if (r < 0)
			return r;
	}
	return manifest_sort(m, err);
}

static int read_text(int fd, struct buf *b, struct err *err)
{
	ssize_t n;
	do {
		if (buf_reserve(b, 64 * KIB) < 0)
			return err_set(err, ERR_LIMIT_REACHED, EFBIG,
				"it is larger than %llu bytes", (unsigned long long)b->max);
		n = read(fd, b->data + b->len, 64 * KIB);
		b->len += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? err_set(err, ERR_IO, errno, "%s", strerror(errno)) : 0;
}

int manifest_read(int dirfd, const char *path, struct manifest *ret, struct err *err)
{
	_cleanup_close_ int fd = fd_open_beneath_no_links(dirfd, path, O_RDONLY | O_NONBLOCK, 0);
	_cleanup_buf_ struct buf b = BUF_INIT(LIMIT_IMAGE_MANIFEST);
	struct stat st;
	*ret = (struct manifest){0};
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, fd == -ENOENT ? ERR_NO_SUCH_FILE : ERR_IO, fd < 0 ? -fd : EBADF,
			"%.200s cannot be read: %s", path,
			fd < 0 ? strerror(-fd) : "it is no file");
	json_error_t fault;
	int r = read_text(fd, &b, err);
	json_t *root =
		r < 0 ? NULL
		      : json_loadb((const char *)b.data, b.len, JSON_REJECT_DUPLICATES, &fault);
	if (r == 0)
		r = root ? take_all(root, ret, err)
			 : err_set(err, ERR_FILE_REFUSED, EBADMSG, "line %d: %.150s", fault.line,
				   fault.text);
	json_decref(root);
	if (r < 0) {
		manifest_done(ret);
		return err_wrap(err, "the manifest %.200s", path);
	}
	return 0;
}

static json_t *entry_json(const struct manifest_entry *e)
{
	char mode[8];
	(void)snprintf(mode, sizeof(mode), "%04o", e->mode & 07777);
	json_t *o = json_pack("{s:s, s:s, s:s, s:s*}", "path", e->path, "type", types[e->type],
		"mode", mode, "target", e->target);
	if (o && e->type == MANIFEST_FILE &&
		(json_object_set_new(o, "size", json_integer((json_int_t)e->size)) < 0 ||
			json_object_set_new(o, "sha256", json_string(e->sha256)) < 0)) {
		json_decref(o);
		return NULL;
	}
	return o;
}

int manifest_write(int dirfd, const char *path, const struct manifest *m, struct err *err)
{
	json_t *entries = json_array();
	for (size_t i = 0; i < m->n; i++)
		CHECK(json_array_append_new(entries, entry_json(&m->entries[i])) == 0);
	json_t *root = json_pack("{s:i, s:s, s:s, s:I, s:s*, s:s*, s:o}", "version", VERSION,
		"name", m->name, "sha256", m->digest, "bytes", (json_int_t)m->bytes, "sbom",
		m->sbom[0] ? m->sbom : NULL, "licences", m->licences[0] ? m->licences : NULL,
		"entries", entries);
	CHECK(root);
	_cleanup_close_ int fd =
		openat(dirfd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	int r = fd < 0 ? -1 : json_dumpfd(root, fd, JSON_INDENT(1) | JSON_SORT_KEYS);
	int saved = errno;
	json_decref(root);
	return r < 0 ? err_set(err, ERR_IO, saved, "%.200s cannot be written: %s", path,
			       strerror(saved))
		     : 0;
}
