/* head.h: the head of an audit chain, kept apart from its lines: which line is the last one, by
 * number and hash, under a MAC whose key stands in neither of the two places.
 *
 * The file has two slots, a page each, written in turn. Slot 0 announces: "the last line is N; I am
 * about to write so many bytes, of which the last line is M". Slot 1 commits: "the last line is M".
 * The generation goes up with each. A broker can be killed at any instruction; what the next one,
 * or `scb audit verify`, then finds:
 *
 *   newest is a commit               the log ends with its line, and nothing may follow
 *   newest is an announcement,       the log ends with its line N, or with all that is announced,
 *     older is the commit before     or somewhere in between
 *   slot 0 is unreadable             nothing was written yet: as the commit says
 *   slot 1 is unreadable             all was written: the log ends with the announced line
 *
 * So an announcement that is spoilt, or a commit, frees nobody from having the last line there;
 * only somebody who puts back older bytes of both log and head can take lines away unseen, and for
 * that there is `scb audit verify --anchor`. Nothing is done on the strength of a line before it is
 * committed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "audit/hash.h"
#include "base/err.h"

#define HEAD_NAME "audit.head"
#define HEAD_BOOT 16

struct head {
	uint64_t generation;
	uint8_t chain[HASH_SIZE]; /* random; `prev` of the first line */
	uint64_t seq;             /* of the last committed line; 0: none yet */
	uint8_t hash[HASH_SIZE];  /* of it; chain where there is none */
	uint64_t offset;          /* where it ends in audit.jsonl */
	/* announced; all 0 where nothing is */
	uint64_t next_seq, next_bytes;
	uint8_t next_hash[HASH_SIZE];
	uint8_t boot[HEAD_BOOT]; /* of the machine, when this was written */
};

enum head_state {
	HEAD_MISSING,  /* nothing was ever written to it */
	HEAD_FOREIGN,  /* nothing in it has a good MAC */
	HEAD_SETTLED,  /* seq and hash are those of the last line */
	HEAD_OPEN,     /* what is announced may be there, in part too */
	HEAD_FULFILLED /* what is announced must be there */
};

/* Reads both slots. A negative errno: it cannot be read. */
int head_read(int fd, const uint8_t key[static HASH_KEY_SIZE], enum head_state *ret_state,
	struct head *ret) MUST_CHECK;
/* Both slots in memory, shared with the file, which is made as long as they are: a store is what
 * costs least, and is there whatever becomes of this process. A negative errno. */
int head_map(int fd, void **ret_map) MUST_CHECK;
void head_unmap(void *map);
/* Writes h with the next generation (to slot 0 where something is announced, else to slot 1).
 * Generations are made even and odd by that. */
void head_write(void *map, const uint8_t key[static HASH_KEY_SIZE], struct head *h);
/* Makes room for both slots, so that a full disk is no obstacle later. */
int head_prepare(int fd) MUST_CHECK;
void head_boot(uint8_t ret[static HEAD_BOOT]);

/* The key: 32 random bytes in a file of this user's, 0600. make: where there is none, one is made,
 * with its directory (0700). */
int head_key(
	const char *path, bool make, uint8_t ret[static HASH_KEY_SIZE], struct err *err) MUST_CHECK;
