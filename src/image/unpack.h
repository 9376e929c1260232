/* unpack.h: from an archive to a root directory, and nowhere else. The archive is hostile.
 *
 * Nothing is made but folders, files and links, each once, beneath the root: a path that is
 * absolute, has "..", leads through a link or is there twice ends it, and so does a hard link to
 * anything but a file that is there already. Symbolic links are written down and never followed.
 * Devices, FIFOs and sockets are left out, set-user-ID and set-group-ID bits are dropped; all
 * belongs to who unpacks. Sizes are limited (LIMIT_IMAGE_…). */
#pragma once

#include "base/err.h"
#include "image/manifest.h"

struct unpack_told {
	size_t left_out; /* devices, FIFOs, sockets */
	size_t setid;    /* files that lost such a bit */
	uint64_t bytes;  /* of files */
};

/* Reads the archive to its end. root: an empty directory; -1: nothing is written. *ret is sorted,
 * with digest and length of the archive. What was made so far stays on failure. */
int unpack(int fd, int root, struct manifest *ret, struct unpack_told *told,
	struct err *err) MUST_CHECK;
