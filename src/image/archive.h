/* archive.h: the entries of a tar archive, read by libarchive.
 *
 * The library is loaded when the first archive is read: a broker never reads one. Of its formats
 * tar alone is switched on, and no decompression. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "image/manifest.h"

struct archive_reader;

enum archive_kind { ARCHIVE_ENTRY, ARCHIVE_OTHER, ARCHIVE_END };

/* fd is borrowed and read from where it stands. */
int archive_reader_new(int fd, struct archive_reader **ret, struct err *err) MUST_CHECK;
/* The next entry: path and target as they stand there, valid until the next call; no digest. OTHER:
 * a device, FIFO or socket, of which the path alone is set. */
int archive_reader_next(struct archive_reader *r, enum archive_kind *ret_kind,
	struct manifest_entry *ret, int64_t *ret_mtime, struct err *err) MUST_CHECK;
/* Bytes of the present entry, holes as zeros; *ret_n 0: its end. */
int archive_reader_read(
	struct archive_reader *r, void *p, size_t n, size_t *ret_n, struct err *err) MUST_CHECK;
/* Reads on to the end of the file, whatever stands there; then SHA-256 and length of all of it. */
int archive_reader_digest(struct archive_reader *r, char ret_digest[static MANIFEST_DIGEST_TEXT],
	uint64_t *ret_bytes, struct err *err) MUST_CHECK;
void archive_reader_free(struct archive_reader *r);
