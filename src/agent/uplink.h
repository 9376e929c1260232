/* uplink.h: the agent's end of the link: accepts brokers on a listening socket, or one after the
 * other on the one stream that there is, lets in the one that shows the key (wire/auth.h), reads
 * its frames and queues what goes back.
 *
 * There is one link at a time: an authenticated newcomer replaces the old one. Nothing here blocks:
 * what the broker does not take waits in a queue of at most LIMIT_LINK_OUT_QUEUE, and a broker that
 * lets it overflow, or breaks the protocol, loses the link. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/config.h"
#include "base/buf.h"
#include "wire/frame.h"

struct uplink_events {
	void (*up)(void);   /* HELLO is queued */
	void (*down)(void); /* not called where a newcomer takes over: then up() alone */
	/* A frame of the authenticated broker. False: it breaks the protocol. */
	bool (*frame)(const struct frame *f);
	void (*replaced)(void); /* the old link is gone; up() follows */
	void (*closed)(void);   /* of two pipes, the one that brokers come by has ended */
	void (*drained)(void);  /* uplink_room() has become greater than 0 again */
};

/* Descriptors that may come with one frame of the authenticated broker, over a unix socket
 * (SCM_RIGHTS). HELLO says so by the feature "adopt". */
#define UPLINK_FDS 4

/* Takes listen_fd, and the key out of c (which is wiped there: a forked child never has it).
 * features ends with NULL; borrowed. 0, or a negative errno. */
int uplink_listen(struct config *c, int listen_fd, const char *const *features,
	const struct uplink_events *events) MUST_CHECK;
/* The same over one stream (a socket, a character device, or a pipe each way) that other brokers,
 * one after the other, hold the other end of: it tears, but never ends. What begins a link is found
 * among whatever bytes it carries. */
int uplink_stream(struct config *c, int in_fd, int out_fd, const char *const *features,
	const struct uplink_events *events) MUST_CHECK;
bool uplink_is_up(void);
/* Queues a frame; without a link it is dropped. Goes out with uplink_flush(). */
void uplink_send(uint8_t type, uint16_t flags, uint32_t stream, const void *payload, size_t len);
/* The same for END and EVENT, whose payload is a number and TLVs. */
void uplink_send_numbered(
	uint8_t type, uint32_t stream, uint16_t number, const void *tlvs, size_t len);
/* Hands over, CLOEXEC, the descriptors that came with the frame being handled: exactly n, or none
 * and false. Whatever is not taken is closed. Only from inside frame(). */
bool uplink_take_fds(int *ret, size_t n);
/* EVENT, on stream 0. tlvs may be NULL. */
void uplink_event(enum wire_event event, const struct buf *tlvs);
/* Bytes that may be queued before senders of bulk should wait for drained(). */
size_t uplink_room(void);
/* Once a round, before the loop sleeps: writes what is queued, in one write where it can. */
void uplink_flush(void);
