/* recall.h: what changing operations answered, so that one that is delivered again after its
 * broker's death is answered again instead of done again. A ring: the newest LIMIT_DELIVERIES. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/proto.h"

#define RECALL_TAG 16 /* bytes of TAG_DELIVERY */

struct recall {
	uint16_t op; /* 0: an unused place */
	uint8_t tag[RECALL_TAG];
	bool done; /* else it was cut off: by its link's end */
	enum wire_status status;
	uint8_t *body; /* of END, behind the status */
	size_t body_len;
	uint64_t taken; /* cut off: so many bytes of its DATA count already */
};

/* NULL where it is not known (any more). op 0: of any operation. Borrowed until the next call of
 * recall_done() or recall_taken(). */
const struct recall *recall_find(uint16_t op, const uint8_t tag[static RECALL_TAG]);
/* It has ended. body is copied. */
void recall_done(uint16_t op, const uint8_t tag[static RECALL_TAG], enum wire_status status,
	const void *body, size_t n);
/* It was cut off after so many bytes: the same delivery goes on behind them. */
void recall_taken(uint16_t op, const uint8_t tag[static RECALL_TAG], uint64_t taken);
