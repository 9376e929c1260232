/* client.h: one HTTP/1.1 request and its answer, on a connection of its own, over a unix socket,
 * TCP or TLS; or a stream that begins with one (RFC 9110, 7.8: 101, Switching Protocols).
 *
 * Nothing blocks. The answer is hostile input: http/parse.h, and at most answer_max bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

struct tls_context;

struct http_place {
	const char *socket;      /* path of a unix socket; NULL: host and port */
	const char *host, *port; /* host is the Host field, too; of IPv6: in brackets */
};

/* Copied by http_client_start(). */
struct http_client_request {
	struct http_place place;
	struct tls_context *tls; /* of a client; NULL: without. The caller's, and needed no more */
	const char *method, *target; /* of ours: no control characters, "/…" */
	const char *body;            /* JSON; NULL: none */
	size_t body_n;
	bool upgrade;        /* asks for a stream */
	uint64_t timeout_us; /* for all of it */
	size_t answer_max;
};

struct http_client_answer {
	unsigned status;
	/* Of the fields Server and Api-Version: "" where there is none; cut where it is longer. */
	char server[64], api[16];
	char *body; /* of a stream: bytes that have come already; NUL-terminated behind n */
	size_t n;
	int stream_fd; /* status 101: the connection, nonblocking, taken with TAKE_FD; else -1 */
};

/* a: NULL where none came, and err says why: errnum is that of connecting, where that failed; what
 * TLS found wrong begins with "TLS: ". */
typedef void (*http_client_fn)(void *user, struct http_client_answer *a, const struct err *err);

struct http_client;
/* Calls back once, from the loop, and is gone then. */
struct http_client *http_client_start(
	uv_loop_t *loop, const struct http_client_request *req, http_client_fn done, void *user);
/* No callback any more. NULL is fine. */
void http_client_cancel(struct http_client *c);
