/* shelf.h: presented files on the host's disk. All calls block on the disk; none is long, and those
 * that write are made for a worker thread.
 *
 *   DIR/PRINCIPAL/2026-11-29_20-45-01.123_3f2a9c1b/NAME              0600
 *                                                 /.scb-meta.json    0600
 *
 * PRINCIPAL is its name as far as that is letters, digits and dashes, and a part of its hash. The
 * third directory has the time (UTC) and the first eight digits of the id, so that a person finds
 * the newest last, files of one name don't meet, and an id is found without an index. While it is
 * being written it is called .new-ID. Directories 0700. A file whose name begins with a dot cannot
 * be presented, so nothing meets the record. */
#pragma once

#include "files/outputs.h"

struct shelf {
	char *dir; /* absolute, without links */
	int fd;
};

/* dir and those above it are made where they are missing. Refused, here and in each directory below
 * as it is used: what is not our own uid's, or others can write in. */
int shelf_open(const char *dir, struct shelf *ret, struct err *err) MUST_CHECK;
void shelf_close(struct shelf *s);

#define SHELF_NAME 64
/* A file on its way in, or just put there. */
struct shelf_draft {
	int principal; /* its directory */
	int dir;
	int file;
	char name[SHELF_NAME]; /* of dir, in principal */
	char *file_name;
	uint64_t quota; /* of the principal; set by the caller */
};
#define SHELF_DRAFT_INIT                                                                           \
	((struct shelf_draft){.principal = -1, .dir = -1, .file = -1, .quota = LIMIT_OUTPUTS_BYTES})

/* Makes the directories and an empty file; *ret_used is what the principal's files take already.
 * What a broker that died left of the same id is taken away. */
int shelf_begin(const struct shelf *s, const char *principal, const struct output *o,
	struct shelf_draft *d, uint64_t *ret_used, struct err *err) MUST_CHECK;
/* Writes the record, puts file and record on disk (fsync) and gives the directory its name; sets
 * o->host_path. The quota is checked again, under a lock (flock) of the principal's directory: of
 * several brokers none passes it. */
int shelf_publish(const struct shelf *s, const char *principal, struct shelf_draft *d,
	struct output *o, struct err *err) MUST_CHECK;
/* ERR_LIMIT_REACHED, where used bytes are there already. */
int shelf_over_quota(
	const struct shelf *s, const struct shelf_draft *d, uint64_t used, struct err *err);
/* Takes it away again, published or not. */
void shelf_discard(struct shelf_draft *d);
/* Closes what is open. */
void shelf_draft_done(struct shelf_draft *d);

/* -ENOENT where principal has nothing of this URI. ret_file: opened for reading (may be NULL). */
int shelf_find(const struct shelf *s, const char *principal, const char *uri, struct output *ret,
	int *ret_file) MUST_CHECK;
/* The same by "o-…" alone. */
int shelf_find_id(const struct shelf *s, const char *principal, const char *id,
	struct output *ret) MUST_CHECK;
/* Newest first; stops with fn's value where that is not 0. */
int shelf_list(const struct shelf *s, const char *principal,
	int (*fn)(void *user, const struct output *o), void *user, struct err *err) MUST_CHECK;
/* Removes what was presented longer than age_s ago, and what was not finished in an hour. */
int shelf_expire(const struct shelf *s, uint64_t age_s);
