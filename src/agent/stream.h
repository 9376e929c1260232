/* stream.h: the agent's side of the link's streams. A stream is one operation that the broker
 * opened; whoever serves it answers with messages and bytes and ends it exactly once.
 *
 * One thread, one loop; nothing here blocks. When the link goes away every stream is closed; the
 * work behind it (a job) may go on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "wire/proto.h"
#include "wire/tlv.h"

struct stream;

struct stream_ops {
	/* Bytes from the broker; whoever takes them gives credit back with stream_consumed(). */
	void (*data)(struct stream *s, const uint8_t *p, size_t n, bool fin);
	/* stream_room() has become greater than 0 again. */
	void (*writable)(struct stream *s);
	/* The broker forgot the stream, or the link is gone. The last call; not made after
	 * stream_end(). */
	void (*closed)(struct stream *s);
	/* A delivery (TAG_DELIVERY) needs no further bytes: without the link it goes on to its end,
	 * which its repetition is told. */
	bool goes_on;
};

/* ops must outlive the stream; members may be NULL. */
void stream_serve(struct stream *s, const struct stream_ops *ops, void *user);
void *stream_user(const struct stream *s);

/* How many bytes of DATA may be sent now: credit, and room in the queue. */
size_t stream_room(const struct stream *s);
/* Whether a sender of many messages should go on now or wait for writable(). Messages need no
 * credit, but room in the queue. */
bool stream_may_send(const struct stream *s);
/* n ≤ stream_room(s). Copied. */
void stream_data(struct stream *s, const void *p, size_t n, bool fin);
/* A message (≤ LIMIT_FRAME_PAYLOAD). */
void stream_msg(struct stream *s, const struct buf *tlvs);
void stream_consumed(struct stream *s, size_t n);
/* Of a delivery whose link ended in the middle: how many bytes of DATA its first part has taken.
 * The broker sends all of them again. */
uint64_t stream_taken_before(const struct stream *s);
/* For closed(): so many bytes count, those taken before included. */
void stream_note_taken(struct stream *s, uint64_t taken);
/* The last word; the stream is freed. tlvs may be NULL. */
void stream_end(struct stream *s, enum wire_status status, const struct buf *tlvs);
/* END with TEXT, and ERRNO where errnum is not 0. */
void stream_fail(struct stream *s, enum wire_status status, int errnum, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/* An operation's first function: it has read the message when it returns (bytes are gone then),
 * and has called stream_serve(), stream_end() or stream_fail(). */
typedef void (*stream_open_fn)(struct stream *s, struct tlv_reader body);
struct stream_handler {
	uint16_t op;
	stream_open_fn open;
};
