/* tls.h: TLS 1.2 and 1.3 of a server or a client, by OpenSSL, without I/O: bytes of the peer in,
 * bytes for the peer out. The only protocol on top is HTTP/1.1 (a server: ALPN, RFC 7301).
 *
 * The library is loaded when the first context is made: who has no TLS does not pay for it. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/* Certificate and key. */
struct tls_context;
/* PEM files: cert with the chain behind it. The key file must be this user's or root's, and not
 * readable by others. ERR_IO or ERR_INVALID_ARGUMENT with what is wrong, and where. */
int tls_context_new(
	const char *cert, const char *key, struct tls_context **ret, struct err *err) MUST_CHECK;
/* Of a client: the server must show a certificate of ca (a PEM file) and is shown cert; key as
 * above. Both NULL: it is shown none. */
int tls_client_context_new(const char *ca, const char *cert, const char *key,
	struct tls_context **ret, struct err *err) MUST_CHECK;
/* Connections keep what they have of it. NULL is fine. */
void tls_context_free(struct tls_context *c);

/* One connection. */
struct tls;
struct tls *tls_new(struct tls_context *c);
/* host: the name, or the address, that the server's certificate must be for. It begins with
 * tls_open() of no bytes. */
struct tls *tls_new_client(struct tls_context *c, const char *host);
void tls_free(struct tls *t);
/* Takes all of p[0..n); appends plain bytes to in, and what the peer is to be sent to out. 0;
 * -EPIPE: the peer has said that it ends; -EPROTO: no TLS, or broken (out may hold an alert);
 * -ENOBUFS: in or out is full. */
int tls_open(struct tls *t, const void *p, size_t n, struct buf *in, struct buf *out) MUST_CHECK;
bool tls_established(const struct tls *t);
/* Why it is broken, in OpenSSL's words; "": it is not, or nobody knows. */
const char *tls_why(const struct tls *t);
/* Appends p[0..n), encrypted, to out; once established. -EPROTO, -ENOBUFS. */
int tls_seal(struct tls *t, const void *p, size_t n, struct buf *out) MUST_CHECK;
/* The end of what is sent. */
void tls_goodbye(struct tls *t, struct buf *out);
