/* tlv.h: messages: be16 tag, be32 length, bytes; unknown tags are skipped; a tag may repeat.
 * Integers are big-endian, 1 to 8 bytes long. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define TLV_HEADER 6

/* Appending: 0 or -ENOBUFS, the buffer then being as before. */
int tlv_bytes(struct buf *b, uint16_t tag, const void *p, size_t n) MUST_CHECK;
int tlv_str(struct buf *b, uint16_t tag, const char *s) MUST_CHECK;
int tlv_u64(
	struct buf *b, uint16_t tag, uint64_t v) MUST_CHECK; /* shortest form, at least 1 byte */

struct tlv {
	uint16_t tag;
	const uint8_t *p;
	size_t n;
};

struct tlv_reader {
	const uint8_t *p;
	size_t n;
	bool bad; /* sticky: the bytes are not a sequence of TLVs */
};

static inline struct tlv_reader tlv_reader(const void *p, size_t n)
{
	return (struct tlv_reader){.p = p, .n = n};
}

/* The next one; false at the end or where the bytes are broken (then r->bad). */
bool tlv_next(struct tlv_reader *r, struct tlv *ret);
/* Value as a number; 0, or -EPROTO where it is longer than 8 bytes or empty. */
int tlv_get_u64(const struct tlv *t, uint64_t *ret) MUST_CHECK;
/* Value as text that the caller owns. NULL where it holds a NUL. */
char *tlv_dup_str(const struct tlv *t);
/* True where the value is exactly the text s. */
bool tlv_is(const struct tlv *t, const char *s);
