/* link-fixture.h: the broker's end of a link over a socketpair whose other end, the peer, says what
 * the test wants: it plays a good agent or a hostile one. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"
#include "link/hello.h"
#include "link/link.h"
#include "wire/frame.h"

struct fixture {
	uv_loop_t loop;
	struct link *link;
	int peer;
	struct buf in; /* what the broker has sent and the peer not yet looked at */
	uint8_t key[AUTH_KEY];
	bool sealed; /* it tears: what comes behind the handshake has this */
	uint8_t seal[AUTH_SEAL];
	unsigned ready, lost, events;
	struct err why;
	struct link_hello hello;
	const char *feature; /* one more in the agent's HELLO; NULL: none */
};

/* What a stream has seen. */
struct seen {
	struct fixture *fx;
	struct link_stream *stream;
	unsigned msgs, writables, ends;
	size_t bytes;
	bool fin, keep; /* keep: gives no credit back */
	enum wire_status status;
	struct link_stream *reset_on_msg, *reset_on_data;
	bool close_on_msg, close_on_end;
};

extern const struct link_events peer_link_events;          /* user: the fixture */
extern const struct link_stream_events peer_stream_events; /* user: struct seen */

#define TEST(f) cmocka_unit_test_setup_teardown(f, peer_setup, peer_teardown)
int peer_setup(void **state);
int peer_teardown(void **state);

/* A few turns of the loop. */
void peer_turn(struct fixture *fx);
void peer_close_link(struct fixture *fx);
void peer_open_stream(struct fixture *fx, struct seen *s);
/* Until the loss is told: a link that broke by itself waits a moment for a better reason. */
void peer_turn_until_lost(struct fixture *fx);
void peer_assert_lost(struct fixture *fx, enum err_code code);

void peer_bytes(struct fixture *fx, const void *p, size_t n);
void peer_frame(
	struct fixture *fx, uint8_t type, uint16_t flags, uint32_t stream, const void *p, size_t n);
void peer_end(struct fixture *fx, uint32_t stream, uint16_t status);
void peer_credit(struct fixture *fx, uint32_t stream, uint32_t n);
/* The next frame from the broker; false where there is none. Its payload is valid until the next
 * call. */
bool peer_next(struct fixture *fx, struct frame *f);
void peer_hello_body(struct fixture *fx, struct buf *b);
/* Answers the challenge; spoil: with a proof that is wrong in one bit. */
void peer_proof(struct fixture *fx, bool spoil);
/* The whole handshake. */
void peer_up(struct fixture *fx);
