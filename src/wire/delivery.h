/* delivery.h: the name of one request of a client, the same each time it is delivered.
 *
 * A front gives every message a number; after a broker has died, the next one is given the
 * unanswered ones again under the same numbers. What a request makes (session, job, output) gets
 * its id from the delivery, so that it is found rather than made again, and what it changes inside
 * a sandbox carries a tag, which the agent does once. The root is the broker's and the front's
 * secret: handles come from it, tags tell nothing of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "wire/sha256.h"

#define DELIVERY_FRONT 16 /* bytes of a front's own random id */
#define DELIVERY_TAG   16
#define DELIVERY_TEXT  (2 * 8 + 1)

struct delivery {
	bool given;    /* false: nobody will deliver it again (stdio in one process) */
	bool replayed; /* it may have been delivered before: look before anything is changed */
	uint8_t root[SHA256_SIZE];
};

void delivery_make(const uint8_t front[static DELIVERY_FRONT], uint64_t number, bool replayed,
	struct delivery *ret);
/* The id, as id_new() makes them, of what this delivery makes; a random one where none is given. A
 * delivery makes at most one thing of a kind. */
void delivery_id(const struct delivery *d, char prefix, char ret_text[static ID_TEXT_SIZE]);
/* For TAG_DELIVERY of the step-th change (0, 1, …) that it makes in a sandbox; random where none is
 * given. */
void delivery_tag(const struct delivery *d, unsigned step, uint8_t ret[static DELIVERY_TAG]);
/* For the audit log: which lines belong to one request. "" where none is given. */
void delivery_text(const struct delivery *d, char ret_text[static DELIVERY_TEXT]);
