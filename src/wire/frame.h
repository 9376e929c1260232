/* frame.h: the 12-byte frame of a link (docs/agent-protocol.md), without I/O.
 *
 *   byte 0     version
 *   byte 1     type
 *   bytes 2-3  flags, be16
 *   bytes 4-7  stream, be32
 *   bytes 8-11 length of the payload that follows, be32
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/limits.h"

#define FRAME_VERSION 1
#define FRAME_HEADER  12

enum frame_type {
	FRAME_CHALLENGE = 1, /* broker → agent: opens (or resynchronises) a link */
	FRAME_PROOF = 2,     /* agent → broker */
	FRAME_CONFIRM = 3,   /* broker → agent */
	FRAME_HELLO = 4,     /* agent → broker: the link is up */
	FRAME_OPEN = 5,      /* broker → agent: a new stream; payload: be16 operation, TLVs */
	FRAME_MSG = 6,       /* a message on a stream; TLVs */
	FRAME_DATA = 7,      /* raw bytes on a stream, against credit */
	FRAME_CREDIT = 8,    /* be32: so many more bytes of DATA may be sent on this stream */
	FRAME_END = 9,       /* agent → broker: be16 status, TLVs; the stream is gone */
	FRAME_RESET = 10,    /* the sender has forgotten the stream; be16 status */
	FRAME_PING = 11,     /* answered by PONG with the same payload (≤ 64 bytes) */
	FRAME_PONG = 12,
	FRAME_EVENT = 13, /* agent → broker, stream 0: be16 event, TLVs */
	/* between agent and kernel, on their own socket (docs/agent-protocol.md, "Kernels") */
	FRAME_CELL = 14,    /* agent → kernel: run; TLVs */
	FRAME_DISPLAY = 15, /* kernel → agent: one MIME bundle; TLVs */
	FRAME_DONE = 16,    /* kernel → agent: the cell ended; TLVs */
	FRAME_READY = 17,   /* kernel → agent: started; TLVs */
	/* agent → kernel: ends the cell that runs, or the one whose CELL came just before */
	FRAME_INTERRUPT = 18,
	FRAME_FORK = 19,   /* agent → kernel: make a twin; descriptors come with it; TLVs */
	FRAME_FORKED = 20, /* kernel → agent: the twin lives, or why not; TLVs */
	FRAME_ENV = 21,    /* agent → kernel: variables of the session; TLVs */
	/* broker → agent, stream 0; agent → kernel: something to run is about to come */
	FRAME_EXPECT = 22,
	FRAME_TYPE_MAX_ = FRAME_EXPECT
};

#define FRAME_FLAG_FIN 1 /* on DATA: the last bytes in this direction */

struct frame {
	uint8_t type;
	uint16_t flags;
	uint32_t stream;
	const uint8_t *payload; /* points into the reader's bytes; valid until they change */
	uint32_t len;
};

/* Appends header and payload (len ≤ LIMIT_FRAME_PAYLOAD). 0 or -ENOBUFS. */
int frame_append(struct buf *out, uint8_t type, uint16_t flags, uint32_t stream,
	const void *payload, size_t len) MUST_CHECK;
/* Writes only the header, for writev. */
void frame_header(uint8_t ret_header[static FRAME_HEADER], uint8_t type, uint16_t flags,
	uint32_t stream, uint32_t len);
/* Reads the frame at p[0..n). Returns its whole size (then *ret is set), 0 where more bytes are
 * needed, or -EPROTO (wrong version, unknown type, too long): the link cannot go on. */
ssize_t frame_parse(const uint8_t *p, size_t n, struct frame *ret) MUST_CHECK;

static inline void wire_put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void wire_put32(uint8_t *p, uint32_t v)
{
	wire_put16(p, (uint16_t)(v >> 16));
	wire_put16(p + 2, (uint16_t)v);
}

static inline uint16_t wire_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t wire_get32(const uint8_t *p)
{
	return (uint32_t)wire_get16(p) << 16 | wire_get16(p + 2);
}
