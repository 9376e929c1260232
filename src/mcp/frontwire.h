/* frontwire.h: the bytes between a front and its broker (SPEC.md, "Front protocol"). Sans-I/O.
 *
 * A frame: be32 length of what follows it, u8 type, payload. Both peers are hostile input to each
 * other: a frame of an unknown type, of the wrong direction or of more than its type's maximum is
 * the end of the connection. Frames and control connections stay as they are for ever, so that any
 * two builds can at least say goodbye. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

enum front_type {
	/* front to broker */
	FRONT_HELLO = 1,   /* JSON: front_hello.h */
	FRONT_MESSAGE = 2, /* be64 number, u8 flags, be32 age in ms, one line without its end */
	FRONT_BYE = 3,     /* empty: the host is done */
	FRONT_CONTROL = 4, /* JSON */
	FRONT_SECRET = 5,  /* frontsecret.h: one answer to SECRETS */
	/* broker to front */
	FRONT_WELCOME = 65,        /* JSON */
	FRONT_REFUSED = 66,        /* JSON; the end */
	FRONT_ANSWER = 67,         /* be64 number, a line with its newline */
	FRONT_NOTE = 68,           /* a notification's line with its newline */
	FRONT_DONE = 69,           /* be64 number: dealt with, no answer comes */
	FRONT_SESSION = 70,        /* the default session's handle, or nothing */
	FRONT_LEAVING = 71,        /* empty: this broker goes; reconnect */
	FRONT_CONTROL_ANSWER = 72, /* JSON */
	FRONT_SECRETS = 73,        /* JSON: what is wanted; to fronts whose HELLO says so */
};

enum front_flag {
	FRONT_REPLAYED = 1, /* an earlier broker may have had it */
	FRONT_TOO_LONG = 2, /* the line was longer than LIMIT_MCP_LINE and thrown away */
};

enum front_side { FRONT_FROM_FRONT, FRONT_FROM_BROKER };

#define FRONT_HEAD         5                        /* length and type */
#define FRONT_NUMBER_HEAD  (FRONT_HEAD + 8)         /* of ANSWER and DONE */
#define FRONT_MESSAGE_HEAD (FRONT_HEAD + 8 + 1 + 4) /* of MESSAGE */

struct front_frame {
	enum front_type type;
	uint64_t number; /* MESSAGE, ANSWER, DONE */
	uint8_t flags;   /* MESSAGE */
	uint32_t age_ms; /* MESSAGE: since the line came */
	const char *p;   /* the rest of the payload; borrowed from the input */
	size_t n;
};

/* The frame at the start of p[0..n). 1: *ret is it and *ret_size how many bytes it takes; 0: it is
 * not all there yet, and *ret_size is what it will take (0: not known); -EPROTO: the peer breaks
 * the protocol. */
int frontwire_next(enum front_side from, const uint8_t *p, size_t n, struct front_frame *ret,
	size_t *ret_size) MUST_CHECK;

/* The heads; n is the length of what comes after them. */
void frontwire_head(enum front_type type, size_t n, uint8_t ret[static FRONT_HEAD]);
void frontwire_number_head(
	enum front_type type, uint64_t number, size_t n, uint8_t ret[static FRONT_NUMBER_HEAD]);
void frontwire_message_head(uint64_t number, uint8_t flags, uint32_t age_ms, size_t n,
	uint8_t ret[static FRONT_MESSAGE_HEAD]);
