/* webcookie.h: the cookie of the host page (page.h), and the query that brings the token for it.
 * Pure.
 *
 *   scb-PORT=SECONDS.MAC
 *
 * The value holds no token: MAC is HMAC-SHA-256 over principal, the token's digest and the time,
 * with the key of links (weblink.h). So it outlives the broker, and is void once its time has
 * passed, the token was changed or the key was removed. The port is in the name because browsers
 * keep no two ports of a host apart.
 *
 * A code to come in with once (`scb demo` gives it to the browser it starts, whose arguments others
 * can read) is such a value of a short time, with a MAC of its own kind: it is no cookie, nor a
 * cookie such a code.
 *
 * Source: RFC 6265, 4.2.1 and 5.4. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "mcp/weblink.h"
#include "wire/sha256.h"

/* Whose it is. */
struct webcookie_of {
	const char *principal;
	const uint8_t *token; /* SHA256_SIZE bytes: its digest */
	bool once;            /* a code to come in with, and no cookie */
};
#define WEBCOOKIE_VALUE (20 + 1 + 2 * SHA256_SIZE + 1)

void webcookie_make(const uint8_t key[static WEBLINK_KEY], const struct webcookie_of *of,
	uint64_t until_s, char ret[static WEBCOOKIE_VALUE]);
/* Was that made for him, and does it hold at now_s? In time that tells nothing of the MAC. Until
 * when is *ret_until_s (may be NULL). */
bool webcookie_holds(const uint8_t key[static WEBLINK_KEY], const struct webcookie_of *of,
	const char *value, size_t n, uint64_t now_s, uint64_t *ret_until_s);

/* The value of the cookie of that name in a Cookie field (NULL: none), and its length; NULL where
 * it is not there, or there twice. */
const char *webcookie_find(const char *field, const char *name, size_t *ret_n);

/* The value of that member of a target's query, percent-decoded; NULL where it is not there, there
 * twice, or strange. Owned by the caller. */
char *webcookie_query(const char *target, const char *name);
