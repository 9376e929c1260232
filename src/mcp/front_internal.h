/* front_internal.h: shared by fronts.c and frontcontrol.c; nobody else includes it. */
#pragma once

#include "base/buf.h"
#include "base/id.h"
#include "base/list.h"
#include "mcp/fronthello.h"
#include "mcp/fronts.h"
#include "mcp/frontread.h"
#include "mcp/transport.h"

struct fronts {
	struct fronts_config config;
	int fd;
	uv_poll_t listener;
	uv_timer_t timer; /* late hellos; accepting again after a failure */
	unsigned handles;
	bool leaving;
	struct list fronts;
	unsigned n_connected, n_live, n_waiting;
	uint8_t chunk[FRONTREAD_CHUNK];
};

struct control;

struct front {
	struct list link;
	struct fronts *all;
	struct mcp_transport transport;
	int fd;
	uv_poll_t poll;
	int events;  /* that it is polled for */
	bool broken; /* nothing can be sent or received any more; the loop closes it */
	bool greeted;
	bool ending;       /* it said BYE: what is queued goes out, then it is closed */
	uint64_t since_us; /* CLOCK_MONOTONIC, of the connection */
	char principal[32];
	enum front_kind kind;
	uint8_t id[DELIVERY_FRONT];
	char session[ID_TEXT_SIZE]; /* its default session; "": none */
	struct front_hello *hello;  /* until its provider is known, and it is greeted; else NULL */
	struct provider_wait provider;
	struct mcp_conn *conn;     /* NULL: a control connection, or not greeted */
	struct vault_giver *giver; /* of secrets; NULL: it is not asked for any */
	uint64_t asked_us;         /* CLOCK_MONOTONIC; 0: never */
	struct control *control;   /* a CONTROL that is not answered yet */
	struct buf in, out;
};

/* One frame out: head and then p[0..n), and a newline where that is wanted. */
void front_send(
	struct front *f, const uint8_t *head, size_t head_n, const char *p, size_t n, bool newline);
void front_send_json(struct front *f, enum front_type type, const json_t *o);

/* The timer looks again in a second. */
void fronts_tick_later(struct fronts *a);

/* ---- frontgive.c ---- */

/* It has said hello, and has a conn: it is asked. */
void front_secrets_begin(struct front *f, const struct front_hello *h);
/* A SECRET frame. False where it is none. */
bool front_secrets_take(struct front *f, const struct front_frame *frame);
/* It has gone. */
void front_secrets_end(struct front *f);
/* Does it owe an answer still? One that is stopped must not hold up others for ever. */
bool front_secrets_owed(struct front *f, uint64_t now_us);

/* A CONTROL frame; answers it now or later. */
void front_control(struct front *f, const char *p, size_t n);
/* The connection ends before the answer. */
void front_control_forget(struct control *c);
