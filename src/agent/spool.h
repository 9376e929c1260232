/* spool.h: what a job has printed: of each stream the first and the last bytes with their exact
 * offsets, and the order in which pieces of both arrived.
 *
 * Adding never fails and never waits: what there is no room for is counted and lost, from the
 * middle. All spools together stay within a session's maximum; the memory is the agent's own and is
 * not inherited by forked children. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/proto.h"

struct spool;

/* Sizes as in BOOT_SPOOL_…. When the session's maximum is reached, reclaim() is asked to free
 * something (spool_drop() of a finished job, spool_shed() of another), until it says false. */
void spool_init(uint64_t head_max, uint64_t tail_max, uint64_t session_max, bool (*reclaim)(void));
/* Bytes that all spools hold, and what spool_charge() has added. */
uint64_t spool_used(void);
/* Other memory that counts towards the session's maximum (results of cells). False where it does
 * not fit, then nothing is charged. */
bool spool_charge(size_t n);
void spool_uncharge(size_t n);

/* NULL is a spool that nothing was added to yet; all but spool_add() take it. */
struct spool *spool_new(void);
void spool_free(struct spool *s);

/* stream: CHANNEL_STDOUT or CHANNEL_STDERR; time_us since the job's start. */
void spool_add(struct spool *s, int stream, const void *p, size_t n, uint64_t time_us);
/* Bytes added so far. */
uint64_t spool_total(const struct spool *s, int stream);
/* The hole in what is kept: [*ret_from, *ret_from + length). Returns its length, 0: none. */
uint64_t spool_lost(const struct spool *s, int stream, uint64_t *ret_from);
/* Points at bytes that are kept from offset on. The number there in one piece; 0 at the end, and at
 * the hole. */
size_t spool_peek(const struct spool *s, int stream, uint64_t offset, const uint8_t **ret);
/* Copies up to n bytes from offset on; stops at the end and at the hole. */
size_t spool_copy(const struct spool *s, int stream, uint64_t offset, void *p, size_t n);

/* A piece of one stream at a place in the order of arrival. */
struct spool_piece {
	int stream;
	uint64_t offset; /* in its stream */
	uint64_t len;
	uint64_t time_us; /* of its first byte */
};
/* The piece that holds byte number at of both streams together in order of arrival, from that byte
 * on. False behind the last. The order is exact for SPOOL_PIECES pieces and coarser for old ones
 * beyond; inside a stream it is always right. */
#define SPOOL_PIECES 1024
bool spool_piece_at(const struct spool *s, uint64_t at, struct spool_piece *ret);

/* Memory held: what spool_drop() gives back. */
uint64_t spool_size(const struct spool *s);
/* Forgets all bytes; totals stay, everything is lost. */
void spool_drop(struct spool *s);
/* Gives back the oldest block of the longer tail. False where only a last block is left. */
bool spool_shed(struct spool *s);
