/* walk.h: what visits whole trees: listing, searching, deleting. In turns (agent/turn.h).
 *
 * A helper process would have to hold the agent's rights to work, and could not be started when the
 * process limit is reached, which is when files are looked at and removed. */
#pragma once

#include "agent/config.h"
#include "agent/stream.h"

/* Deeper directories are not entered: each level holds a descriptor. */
#define WALK_DEPTH 64
/* At once; the others wait for their turn to begin. */
#define WALK_ACTIVE 8
/* A search stops (MORE) after so many bytes or so long. */
#define WALK_SEARCH_BYTES (1 * GIB)
#define WALK_SEARCH_US    (20 * USEC_PER_SEC)
/* Of a line in a hit. */
#define WALK_LINE_TEXT 400

/* OP_FILE_LIST: entries in the order of the file system, a directory before what is in it; PATH is
 * relative to the one asked for. */
void walk_list(struct stream *s, struct tlv_reader body, const struct config *c);
/* OP_FILE_SEARCH. Both patterns: contents of the files that have such a name. A name pattern with a
 * slash is for the whole path below the one asked for. Files with a NUL in their first 8 KiB are
 * not looked into. One hit a line. */
void walk_search(struct stream *s, struct tlv_reader body, const struct config *c);
/* OP_FILE_DELETE. */
void walk_delete(struct stream *s, struct tlv_reader body, const struct config *c);
