/* images.h: the unpacked images of this user, under $XDG_DATA_HOME/scb/images, else
 * ~/.local/share/scb/images:
 *
 *   NAME@SHA256/root/            the root file system
 *   NAME@SHA256/manifest.json, sbom.spdx.json, licences
 *   NAME -> NAME@SHA256          the one that was imported last
 *
 * An image stands there whole or not at all. */
#pragma once

#include "base/err.h"
#include "image/manifest.h"
#include "image/unpack.h"

#define IMAGES_FULL (MANIFEST_NAME + MANIFEST_DIGEST_TEXT) /* NAME@SHA256 */

/* The directory; not made. The caller frees. */
int images_directory(char **ret, struct err *err) MUST_CHECK;
/* NAME, or NAME@ and at least 12 digits of its SHA-256: its full name. ERR_NO_SUCH_FILE. */
int images_find(const char *name, char ret[static IMAGES_FULL], struct err *err) MUST_CHECK;
/* Its root directory by real path, the caller frees. */
int images_root(const char *name, char **ret, struct err *err) MUST_CHECK;
/* fn for each; 0, or what fn answered. */
int images_each(int (*fn)(void *user, const char *full), void *user);
/* Unpacks NAME.tar, checked against NAME.manifest.json, NAME.spdx.json and NAME.licences beside it,
 * where they are. name NULL: the manifest's, else the file's. An image that is there already stays.
 */
int images_import(const char *tar, const char *name, char ret_full[static IMAGES_FULL],
	struct unpack_told *told, bool *ret_manifest, struct err *err) MUST_CHECK;
/* An archive against what is beside it. */
int images_verify_archive(const char *tar, struct manifest *ret, struct err *err) MUST_CHECK;
/* An unpacked one: manifest, SBOM, licences, and every entry. */
int images_verify(const char *name, void (*fault)(void *user, const char *text), void *user,
	struct manifest *ret, struct err *err) MUST_CHECK;
