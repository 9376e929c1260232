/* peers.h: what each address does: connections it has, and wrong tokens it has tried. Pure.
 *
 * Bounded: LIMIT_HTTP_CONNECTIONS addresses with connections, LIMIT_HTTP_PEERS without. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/mem.h"

/* An IPv4 address, or the first 64 bits of an IPv6 one: the rest is its owner's to choose. */
struct peer_address {
	uint8_t bytes[16];
	bool local; /* this machine itself */
};
void peer_address(const struct sockaddr_storage *a, struct peer_address *ret);
/* The same from "192.0.2.1" or "2001:db8::1". False where it is none. */
bool peer_address_parse(const char *text, struct peer_address *ret);

struct peers;
struct peers *peers_new(void);
void peers_free(struct peers *p);
/* A connection has come. False: the address has as many as it may (a local one may have any
 * number); else peers_leave() when it has gone. */
bool peers_enter(struct peers *p, const struct peer_address *a) MUST_CHECK;
void peers_leave(struct peers *p, const struct peer_address *a);
/* A wrong token, at now_us (CLOCK_MONOTONIC). */
void peers_failed(struct peers *p, const struct peer_address *a, uint64_t now_us);
/* 0, or after so many µs its next token is looked at. */
uint64_t peers_wait_us(const struct peers *p, const struct peer_address *a, uint64_t now_us);
