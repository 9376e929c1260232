/* manifest.h: what is in a root file system: a list of its entries, as JSON (SPEC.md, "Images").
 *
 * Paths are relative, without "." or "..", valid UTF-8 without controls. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "wire/sha256.h"

#define MANIFEST_DIGEST_TEXT (2 * SHA256_SIZE + 1)
#define MANIFEST_NAME        64 /* of an image, with its NUL */

enum manifest_type { MANIFEST_FILE, MANIFEST_DIRECTORY, MANIFEST_SYMLINK, MANIFEST_HARDLINK };

struct manifest_entry {
	char *path;
	enum manifest_type type;
	unsigned mode; /* of the archive, 07777 */
	uint64_t size; /* of a file */
	char sha256[MANIFEST_DIGEST_TEXT];
	char *target; /* of links */
};

struct manifest {
	char name[MANIFEST_NAME];            /* "": not given */
	char digest[MANIFEST_DIGEST_TEXT];   /* of the archive */
	char sbom[MANIFEST_DIGEST_TEXT];     /* "": there is none */
	char licences[MANIFEST_DIGEST_TEXT]; /* the same */
	uint64_t bytes;                      /* of the archive */
	struct manifest_entry *entries;
	size_t n, room;
};

/* Up to 63 lower-case letters, digits, ".", "_" and "-", a letter or digit first. */
bool manifest_name_valid(const char *name);
bool manifest_digest_valid(const char *text);
bool manifest_path_valid(const char *path);
/* Copies path and target. ERR_LIMIT_REACHED beyond LIMIT_IMAGE_ENTRIES. */
int manifest_add(struct manifest *m, const struct manifest_entry *e, struct err *err) MUST_CHECK;
/* Once all are added: found by path from then on. ERR_FILE_REFUSED where a path is there twice. */
int manifest_sort(struct manifest *m, struct err *err) MUST_CHECK;
/* NULL: there is none. */
const struct manifest_entry *manifest_find(const struct manifest *m, const char *path);
/* Entry by entry; both are sorted. ERR_CONFLICT names the first difference. */
int manifest_compare(
	const struct manifest *told, const struct manifest *found, struct err *err) MUST_CHECK;
/* What a mode becomes where it is unpacked: without set-user-ID and set-group-ID, and such that its
 * owner can read it. */
unsigned manifest_unpacked_mode(const struct manifest_entry *e);

/* Beneath a directory. */
int manifest_read(int dirfd, const char *path, struct manifest *ret, struct err *err) MUST_CHECK;
int manifest_write(
	int dirfd, const char *path, const struct manifest *m, struct err *err) MUST_CHECK;
void manifest_done(struct manifest *m);
#define _cleanup_manifest_ CLEANUP(manifest_done)
