/* transfer.h: bytes of one file, in and out: reading (as credit allows), writing, hashing. */
#pragma once

#include "agent/config.h"
#include "agent/stream.h"

/* OP_FILE_READ. END describes the file as it was when opened. With LIMIT: WIRE_LIMIT where it is
 * larger. With STABLE: no link anywhere in the path, a regular file without set-id bits, and
 * WIRE_CHANGED where it is not the same at the end, still under its path. */
void transfer_read(struct stream *s, struct tlv_reader body, const struct config *c);
/* OP_FILE_WRITE. Replacing writes a new file beside the old one and renames it: a write that fails
 * or is cut off leaves the old one as it was. */
void transfer_write(struct stream *s, struct tlv_reader body, const struct config *c);
/* OP_FILE_HASH, in turns. */
void transfer_hash(struct stream *s, struct tlv_reader body, const struct config *c);
