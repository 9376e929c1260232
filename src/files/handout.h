/* handout.h: reads presented files for whoever fetches them: found, seen to be what was presented,
 * then read in pieces. All of it is done by libuv's worker threads.
 *
 * A file is read through before its first byte is given: its hash must be the one on record, and no
 * secret that is known now may stand in it. What was found is remembered for as long as the file
 * stays as it is (inode, size and times), so that ranges of it cost nothing more. A change while it
 * is read ends the reading. */
#pragma once

#include <uv.h>

#include "files/outputs.h"

#define HANDOUT_PIECE (128 * 1024)

struct handouts;
/* outputs are borrowed. */
struct handouts *handouts_new(uv_loop_t *loop, struct outputs *outputs);
/* All handouts are closed before. NULL is fine. */
void handouts_free(struct handouts *h);

struct handout;
/* o is the file, and lives as long as the handout; NULL where err is not, and then the handout is
 * gone after the call. ERR_NO_SUCH_RESOURCE; ERR_CONFLICT: it was changed; ERR_FILE_REFUSED: a
 * secret stands in it. */
typedef void (*handout_open_fn)(void *user, const struct output *o, const struct err *err);
/* Calls back once, from the loop. */
struct handout *handout_open(struct handouts *h, const char *principal, const char *uri,
	const struct redactor *redactor, handout_open_fn done, void *user);
/* err as above, or ERR_IO. p[0..n) is gone after the call. */
typedef void (*handout_read_fn)(void *user, const void *p, size_t n, const struct err *err);
/* Exactly n bytes, at most HANDOUT_PIECE, all of them within the file. One at a time. */
void handout_read(struct handout *h, uint64_t offset, size_t n, handout_read_fn done, void *user);
/* At any time, also from its callbacks: none comes any more. NULL is fine. */
void handout_close(struct handout *h);
