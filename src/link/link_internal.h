/* link_internal.h: what link.c (its life, handshake, frames) and streams.c share: inside the link
 * only.
 */
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "base/list.h"
#include "link/link.h"
#include "link/out.h"
#include "wire/auth.h"
#include "wire/frame.h"

enum link_state { LINK_PROOF, LINK_HELLO, LINK_READY };

struct link {
	uv_poll_t poll;
	uv_timer_t timer; /* the handshake's limit; once lost: due at once, to report it */
	unsigned handles; /* of these two, not yet closed by libuv */
	int fd;
	int polled; /* events that poll waits for */
	enum link_state state;
	bool tears;              /* see link_tears() */
	uint8_t seal[AUTH_SEAL]; /* tears: follows every frame but the handshake's */
	size_t skipped;
	uint32_t explain_ms; /* see link_explained_within(); 0: as usual */
	uint32_t hello_ms;   /* see link_answers_within() */
	bool found;          /* another broker's link was ready before */
	bool lost;           /* nothing goes out any more; why says why */
	bool deaf;           /* nothing that comes in counts any more */
	bool reported;       /* the streams were told, or are just being told */
	bool expects;        /* its agent understands EXPECT */
	bool closed;         /* link_close() was called: no callback any more */
	uint8_t key[AUTH_KEY];
	uint8_t nonce[AUTH_NONCE];
	struct link_events events;
	void *user;
	struct buf partial; /* the beginning of one frame */
	struct link_out out;
	struct list streams;
	unsigned n_streams;
	uint32_t last_id;  /* the highest stream ever opened */
	uint32_t reset_id; /* the highest stream that was reset from here */
	struct err why;
	struct link_stats stats;
	char features[sizeof(((struct link_hello *)0)->features)]; /* from HELLO */
};

struct link_stream {
	struct list streams;
	struct link *link;
	uint32_t id;
	struct link_stream_events events;
	void *user;
	uint32_t out_credit; /* bytes of DATA that the agent will still take */
	bool blocked;        /* a link_write() was short */
	bool out_fin, in_fin;
	bool ended;         /* detached; in its last callback */
	size_t in_credit;   /* bytes of DATA that the agent may still send */
	size_t in_unread;   /* received, not yet given back by link_consumed() */
	size_t in_owed;     /* given back, not yet told the agent */
	uint64_t msg_bytes; /* of all its MSG frames, headers included */
};

/* link.c: nothing goes out any more. Told from a later turn. */
void link_lose(struct link *l, enum err_code code, int errnum, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* The same, and nothing that comes in counts any more. */
void link_broke_protocol(struct link *l, const char *how) UNLIKELY_CALL;
/* One frame whose payload is head and body. Handshake frames go before everything that waits. */
void link_send_frame(struct link *l, uint8_t type, uint16_t flags, uint32_t stream,
	const void *head, size_t head_n, const void *body, size_t body_n);
/* What link_out_…() has returned. */
void link_check_sent(struct link *l, int r);
void link_poll_as_needed(struct link *l);

/* streams.c: MSG, DATA, CREDIT, END and RESET. */
void link_stream_frame(struct link *l, const struct frame *f);
/* The stream's last callback. The link may be closed afterwards. */
void link_end_stream(struct link_stream *s, enum wire_status status, struct tlv_reader msg);
/* Room has come in the queue: those who were short may go on, until it is full again. */
void link_wake_blocked(struct link *l);
