/* link.h: the broker's end of an agent: authenticates, multiplexes, keeps credit. One link a
 * sandbox.
 *
 * Callbacks come from the loop, never from inside a call to this module. After link_close() or
 * link_reset() there is no further callback. What comes from the agent is hostile input: anything
 * out of protocol loses the link. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "wire/auth.h"
#include "wire/proto.h"
#include "wire/tlv.h"

struct link;
struct link_stream;

struct link_hello {
	uint32_t protocol;
	char build[64];
	uint8_t boot_id[16];
	uint64_t uptime_ms;
	char features[256]; /* comma-separated, agent-reported */
};

struct link_events {
	/* Authenticated; streams may be opened (they may be before, too: they wait until this has
	 * returned). */
	void (*ready)(void *user, const struct link_hello *hello);
	/* Once. Every open stream has already had end() with WIRE_GONE and no message. */
	void (*lost)(void *user, const struct err *why);
	void (*event)(void *user, uint16_t event, struct tlv_reader msg);
};

/* Takes fd (a connected stream socket; closed even where this fails) and starts the handshake.
 * events is copied. *ret is freed by link_close(). */
int link_new(uv_loop_t *loop, int fd, const uint8_t key[static AUTH_KEY],
	const struct link_events *events, void *user, struct link **ret) MUST_CHECK;
void link_close(struct link *l); /* NULL is fine */
/* Right after link_new(): of a sandbox that an earlier broker has had a link to. It has been ready
 * as far as link_was_ready() is asked. */
void link_found(struct link *l);
/* Right after link_new(): over a stream that tears (attached stdio, a serial device), which may
 * carry bytes of earlier links. What comes before the answer to our challenge is thrown away. */
void link_tears(struct link *l);
/* Right after link_new(): who made the sandbox needs so long at most to say by link_fail() why the
 * link broke; until then the loss is not reported. */
void link_explained_within(struct link *l, uint32_t ms);
/* Right after link_new(): the agent may take so long to answer, instead of LIMIT_HELLO_US. */
void link_answers_within(struct link *l, uint32_t ms);
bool link_ready(const struct link *l);
/* Was it ever ready, lost since or not? */
bool link_was_ready(const struct link *l);
uv_loop_t *link_loop(const struct link *l);
/* Why it was lost, or NULL while it is not. */
const struct err *link_lost_reason(const struct link *l);
/* Loses the link for a reason known elsewhere (the sandbox's process ended): as if the peer had
 * gone. Where the link broke by itself less than 100 ms ago (2 s, where it was never ready; or
 * link_explained_within()), this still becomes the reason. */
void link_fail(struct link *l, const struct err *why);

struct link_stream_events {
	void (*msg)(void *user, struct tlv_reader msg);
	/* The receiver gives credit back with link_consumed(), now or later. p lives as long as the
	 * call. */
	void (*data)(void *user, const uint8_t *p, size_t n, bool fin);
	void (*writable)(void *user); /* credit has come after a short link_write() */
	/* The last callback; the stream is freed after it. status is WIRE_GONE where the link was
	 * lost. */
	void (*end)(void *user, enum wire_status status, struct tlv_reader msg);
};

/* Opens a stream for one operation; body holds TLVs (copied; NULL: none), as events are. Members of
 * events may be NULL; a message or bytes that nobody takes break the protocol. -ENOBUFS where
 * LIMIT_STREAMS are open or the queue is full, -ENOTCONN where the link's loss was reported (before
 * that, end() comes with WIRE_GONE), -EMSGSIZE where body does not fit a frame, -EINVAL where
 * the link tears and body holds the sync marker. */
int link_open(struct link *l, uint16_t op, const struct buf *body,
	const struct link_stream_events *events, void *user, struct link_stream **ret) MUST_CHECK;
/* The same with descriptors (SCM_RIGHTS; they stay the caller's), at once or not at all: -EAGAIN
 * where the link is not ready, something is queued, or the socket does not take it; then nothing
 * was sent. Only where link_has(l, "adopt"). */
int link_open_with_fds(struct link *l, uint16_t op, const struct buf *body, const int *fds,
	size_t n_fds, const struct link_stream_events *events, void *user,
	struct link_stream **ret) MUST_CHECK;
/* Did the agent's hello name this feature? false before it came. */
bool link_has(const struct link *l, const char *feature);
/* An operation is about to be opened: whoever will run it is woken, and readies itself meanwhile.
 * Nothing happens where a stream is open, or an agent does not know of this. */
void link_expect(struct link *l);
/* Sends as much of p[0..n) as credit allows, copied; fin goes out with the last byte (or alone).
 * The number taken: less than n means wait for writable(). */
size_t link_write(struct link_stream *s, const void *p, size_t n, bool fin);
void link_consumed(struct link_stream *s, size_t n);
/* Forgets the stream on both sides: a waiting ends, a transfer stops. From inside its own end() it
 * does nothing. */
void link_reset(struct link_stream *s);
/* For tests and metrics. */
struct link_stats {
	uint64_t bytes_in, bytes_out, frames_in, frames_out;
	uint64_t queued; /* bytes that wait for the agent to read */
};
void link_stats(const struct link *l, struct link_stats *ret);
