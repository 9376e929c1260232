/* recall.c: see recall.h. */
#include "agent/recall.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

static struct recall ring[LIMIT_DELIVERIES];
static size_t next_place;

static struct recall *find(uint16_t op, const uint8_t tag[static RECALL_TAG])
{
	for (size_t i = 0; i < LIMIT_DELIVERIES; i++) {
		struct recall *r = &ring[i];
		if (r->op && (!op || r->op == op) && memcmp(r->tag, tag, RECALL_TAG) == 0)
			return r;
	}
	return NULL;
}

const struct recall *recall_find(uint16_t op, const uint8_t tag[static RECALL_TAG])
{
	return find(op, tag);
}

/* Its place, or that of the oldest one, emptied. */
static struct recall *place(uint16_t op, const uint8_t tag[static RECALL_TAG])
{
	struct recall *r = find(op, tag);
	if (!r) {
		r = &ring[next_place];
		next_place = (next_place + 1) % LIMIT_DELIVERIES;
	}
	free(r->body);
	*r = (struct recall){.op = op};
	memcpy(r->tag, tag, RECALL_TAG);
	return r;
}

void recall_done(uint16_t op, const uint8_t tag[static RECALL_TAG], enum wire_status status,
	const void *body, size_t n)
{
	struct recall *r = place(op, tag);
	r->done = true;
	r->status = status;
	r->body = n ? xmemdup(body, n) : NULL;
	r->body_len = n;
}

void recall_taken(uint16_t op, const uint8_t tag[static RECALL_TAG], uint64_t taken)
{
	place(op, tag)->taken = taken;
}
