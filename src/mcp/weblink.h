/* weblink.h: links to presented files: who has one may fetch that file until it expires, without a
 * token. Pure.
 *
 *   BASE/outputs/o-…/NAME?for=PRINCIPAL&until=SECONDS&key=MAC
 *
 * What stands behind /outputs/ is the rest of the file's resource:// URI. MAC is 128 bits of
 * HMAC-SHA-256 over principal, URI and time, with a key that the broker keeps (RFC 2104, 5): a link
 * cannot be made from another one, nor made to last longer. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define WEBLINK_KEY 32
/* Of one link: an URI of a longest name, and a principal. */
#define WEBLINK_MAX 4096

/* Where a connection's links lead. */
struct weblink_place {
	const uint8_t *key; /* WEBLINK_KEY bytes */
	const char *base;   /* "https://scb.example.com" */
};
/* until_s: since 1970. Owned by the caller. */
char *weblink_make(const struct weblink_place *place, const char *principal, const char *uri,
	uint64_t until_s);

struct weblink {
	char *uri;       /* of the file */
	char *principal; /* NULL: it is not signed */
	uint64_t until_s;
	bool valid; /* its MAC is right; whether it has expired is not looked at */
};
/* target: of a request, "/outputs/…". -EINVAL where it is none; else weblink_done() is needed. */
int weblink_read(
	const uint8_t key[static WEBLINK_KEY], const char *target, struct weblink *ret) MUST_CHECK;
void weblink_done(struct weblink *l);

/* A value of a query, percent-decoded; NULL where it holds a NUL or half an escape. Owned by the
 * caller. */
char *weblink_decode(const char *p, size_t n);
