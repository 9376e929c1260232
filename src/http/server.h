/* server.h: an HTTP/1.1 server on a libuv loop: connections, deadlines, limits. What is asked and
 * answered is for its user; requests of one connection come one after the other.
 *
 * Limits: LIMIT_HTTP_* of base/limits.h. A malformed request is answered with its status and the
 * connection closed. Deadlines are absolute: a peer that sends or reads slowly gains nothing by
 * sending or reading a byte now and then. */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "http/parse.h"

struct http_server;
struct peers;
struct peer_address;
struct tls_context;
struct http_exchange; /* one request and its answer */

struct http_server_config {
	uv_loop_t *loop;
	void *user;
	/* A head has come. Not 0: that status is answered and the connection closed, before the
	 * body is read. May answer by itself (http_answer()) and return 0: the body is read and
	 * thrown away. */
	unsigned (*head)(void *user, struct http_exchange *x);
	/* The request is whole. Answered now or later, from the loop; who does it later watches
	 * (http_watch()). */
	void (*request)(void *user, struct http_exchange *x);
	struct tls_context *tls; /* taken, also where it fails; NULL: plain */
};

/* host: a numeric IPv4 or IPv6 address; port 0: any. Listens at once. ERR_IO with words. */
int http_server_new(const struct http_server_config *config, const char *host, uint16_t port,
	struct http_server **ret, struct err *err) MUST_CHECK;
uint16_t http_server_port(const struct http_server *s);

/* What it has done. */
#define HTTP_STATUSES 28
struct http_stats {
	uint64_t accepted, refused; /* connections; of those, closed at once: too many */
	uint64_t tls_failed;        /* handshakes */
	uint64_t bytes_in, bytes_out;
	uint64_t by_status[HTTP_STATUSES]; /* answers; see http_status_at() */
};
/* For connections from now on; taken. It was one with TLS before. */
void http_server_set_tls(struct http_server *s, struct tls_context *tls);
/* Who connects, and who fails (peers.h). */
struct peers *http_server_peers(struct http_server *s);
const struct http_stats *http_server_stats(const struct http_server *s);
size_t http_server_connections(const struct http_server *s);
/* The status of that place; 0, the last one: any other. */
unsigned http_status_at(size_t i);
/* Closes everything, with gone() for whatever is open; done (may be NULL) from a later turn. */
void http_server_close(struct http_server *s, void (*done)(void *user), void *user);

/* ---- an exchange: valid from head() to the end of its answer or gone() ---- */

const struct http_head *http_head(const struct http_exchange *x);
/* Is it being answered, or has it been? */
bool http_begun(const struct http_exchange *x);
/* Who asks. */
const struct peer_address *http_peer(const struct http_exchange *x);
/* From request() on. */
const void *http_body(const struct http_exchange *x, size_t *ret_n);
/* It has been read, and need not be held for as long as the request is worked on. */
void http_body_done(struct http_exchange *x);
/* Whoever answers later, from request() on. */
struct http_watcher {
	/* The peer has gone, or the server closes, before the answer was whole: x is gone with this
	 * call. */
	void (*gone)(void *user);
	/* All that was written has been taken, after some of it had to wait. May be NULL. */
	void (*drained)(void *user);
};
void http_watch(struct http_exchange *x, const struct http_watcher *watcher, void *user);
/* A field of whatever answer it gets; both texts are borrowed for as long. Four at most. Every
 * answer has "x-content-type-options: nosniff". */
void http_always(struct http_exchange *x, const char *name, const char *value);

/* The whole answer. type: its Content-Type, NULL: no body. fields: further ones, whose values hold
 * no control characters. To a HEAD request the body is not sent, its length is. */
void http_answer(struct http_exchange *x, unsigned status, const char *type,
	const struct http_field *fields, size_t n_fields, const void *body, size_t n);
/* An answer in pieces: the head, with length bytes to come or (HTTP_UNKNOWN) as many as there will
 * be. */
#define HTTP_UNKNOWN UINT64_MAX
void http_begin(struct http_exchange *x, unsigned status, const char *type,
	const struct http_field *fields, size_t n_fields, uint64_t length);
/* Copies. */
void http_write(struct http_exchange *x, const void *p, size_t n);
/* Bytes that the peer has not taken yet. */
size_t http_queued(const struct http_exchange *x);
void http_end(struct http_exchange *x);
/* What was begun cannot be ended: the connection is cut, from a later turn, so that the peer does
 * not take it for whole. x is gone. */
void http_abort(struct http_exchange *x);
const char *http_reason(unsigned status);
