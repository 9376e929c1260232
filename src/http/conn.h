/* conn.h: one connection of a server (server.h); between conn.c, answer.c and server.c alone. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "http/peers.h"
#include "http/server.h"
#include "http/tls.h"

/* One write to the socket: its end is a sign of life. */
#define HTTP_WRITE_PIECE (256 * KIB)
/* Fields that an exchange has beside those of its answer. */
#define HTTP_ALWAYS 4

struct http_server {
	struct http_server_config config;
	uv_tcp_t listener;
	struct list conns;
	size_t n_conns, n_handles;
	struct http_stats stats;
	struct tls_context *tls; /* NULL: plain */
	struct peers *peers;
	size_t bodies;    /* bytes of all that are held */
	size_t max_conns; /* at once */
	bool closing;
	void (*done)(void *user);
	void *done_user;
};

enum http_phase { HTTP_READING, HTTP_ANSWERING, HTTP_LINGERING, HTTP_CLOSED };

struct http_exchange {
	const struct http_head *head;
	bool begun, chunked, ended, asked; /* asked: request() was called */
	bool close;                        /* the connection goes with it */
	struct http_field always[HTTP_ALWAYS];
	size_t n_always;
	const struct http_watcher *watcher; /* NULL: nobody wants to know */
	void *user;
};

struct http_conn {
	struct list link;
	struct http_server *server;
	uv_tcp_t tcp;
	uv_timer_t timer;
	uv_write_t write;
	uv_shutdown_t shutdown;
	unsigned handles;
	enum http_phase phase;
	bool reading, writing, advancing;
	bool broken;                      /* to be closed, from a later turn */
	uint64_t read_by_ms, write_by_ms; /* of the loop's clock; 0: nothing is waited for */
	struct http_parser *parser;
	struct http_exchange x;
	struct tls *tls;                              /* NULL: plain */
	struct buf body, ahead, out, wire, in_flight; /* wire: of out, encrypted */
	struct peer_address peer;
	bool counted; /* at its address */
	size_t lingered;
};

/* Takes a connection that waits at the listener. */
void http_conn_accept(struct http_server *s);
/* Closes it: gone() for an open exchange. */
void http_conn_close(struct list *node);
/* A handle of the server's has been closed. */
void http_server_handle_closed(struct http_server *s);

struct http_conn *http_conn_of(const struct http_exchange *x);
void http_conn_drop_body(struct http_conn *c);
/* Queues bytes; where it has not read for long, it is cut off, from a later turn. */
void http_conn_put(struct http_conn *c, const void *p, size_t n);
/* Writes what the socket takes. */
void http_conn_flush(struct http_conn *c);
/* The answer is whole: what comes next, or the end. */
void http_conn_answered(struct http_conn *c);
void http_conn_break_off(struct http_conn *c);
/* Bytes that have not gone yet. */
size_t http_conn_queued(const struct http_conn *c);
