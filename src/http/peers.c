/* peers.c: see peers.h. */
#include "http/peers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/list.h"

#define SLOTS 4096

struct peer {
	struct list slot;
	struct list idle; /* without a connection; the one that failed first is the first */
	struct peer_address address;
	uint32_t connections;
	/* A bucket (GCRA): when it would be empty of failures. 0: there were none. */
	uint64_t full_us;
};

struct peers {
	struct list slots[SLOTS];
	struct list idle;
	size_t n_idle;
	uint64_t seed; /* so that nobody can choose addresses of one slot */
};

/* ---- addresses ---- */

void peer_address(const struct sockaddr_storage *a, struct peer_address *ret)
{
	static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
	static const uint8_t loopback6[16] = {[15] = 1};
	*ret = (struct peer_address){.local = false};
	if (a->ss_family == AF_INET6) {
		const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
		bool is_v4 = memcmp(v6, mapped, sizeof(mapped)) == 0;
		ret->local = memcmp(v6, loopback6, 16) == 0;
		memcpy(ret->bytes, v6, is_v4 || ret->local ? 16 : 8);
	} else {
		memcpy(ret->bytes, mapped, sizeof(mapped));
		memcpy(ret->bytes + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
	}
	ret->local |= memcmp(ret->bytes, mapped, sizeof(mapped)) == 0 && ret->bytes[12] == 127;
}

bool peer_address_parse(const char *text, struct peer_address *ret)
{
	struct sockaddr_storage a = {.ss_family = AF_INET};
	if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&a)->sin_addr) != 1) {
		a.ss_family = AF_INET6;
		if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&a)->sin6_addr) != 1)
			return false;
	}
	peer_address(&a, ret);
	return true;
}

/* ---- the table ---- */

static size_t slot_of(const struct peers *p, const struct peer_address *a)
{
	uint64_t h = p->seed, part;
	for (size_t i = 0; i < sizeof(a->bytes); i += sizeof(part)) {
		memcpy(&part, a->bytes + i, sizeof(part));
		h = (h ^ part) * 0xff51afd7ed558ccdULL;
		h ^= h >> 33;
	}
	return h % SLOTS;
}

static struct peer *find(const struct peers *p, const struct peer_address *a)
{
	list_for_each (e, next, &p->slots[slot_of(p, a)], struct peer, slot)
		if (memcmp(e->address.bytes, a->bytes, sizeof(a->bytes)) == 0)
			return e;
	return NULL;
}

static void forget(struct peers *p, struct peer *e)
{
	if (e->connections == 0)
		p->n_idle--;
	list_remove(&e->idle);
	list_remove(&e->slot);
	free(e);
}

/* It has no connection (any more). */
static void set_idle(struct peers *p, struct peer *e)
{
	list_append(&p->idle, &e->idle);
	p->n_idle++;
	if (p->n_idle > LIMIT_HTTP_PEERS)
		forget(p, container_of(p->idle.next, struct peer, idle));
}

static struct peer *get(struct peers *p, const struct peer_address *a)
{
	struct peer *e = find(p, a);
	if (e)
		return e;
	e = xcalloc(1, sizeof(*e));
	e->address = *a;
	list_init(&e->idle);
	list_append(&p->slots[slot_of(p, a)], &e->slot);
	return e;
}

/* ---- connections ---- */

bool peers_enter(struct peers *p, const struct peer_address *a)
{
	struct peer *e = get(p, a);
	if (!a->local && e->connections == LIMIT_HTTP_CONNECTIONS_PEER)
		return false;
	if (e->connections++ == 0 && !list_empty(&e->idle)) {
		list_remove(&e->idle);
		p->n_idle--;
	}
	return true;
}

void peers_leave(struct peers *p, const struct peer_address *a)
{
	struct peer *e = find(p, a);
	CHECK(e && e->connections > 0);
	if (--e->connections > 0)
		return;
	p->n_idle++; /* as forget() counts it */
	if (e->full_us == 0) {
		forget(p, e);
	} else {
		p->n_idle--;
		set_idle(p, e);
	}
}

/* ---- wrong tokens ---- */

void peers_failed(struct peers *p, const struct peer_address *a, uint64_t now_us)
{
	struct peer *e = get(p, a);
	bool fresh = e->connections == 0 && list_empty(&e->idle);
	e->full_us = MAX(e->full_us, now_us) + LIMIT_HTTP_FAILURE_US;
	if (fresh)
		set_idle(p, e);
}

uint64_t peers_wait_us(const struct peers *p, const struct peer_address *a, uint64_t now_us)
{
	static const uint64_t room_us = LIMIT_HTTP_FAILURES * LIMIT_HTTP_FAILURE_US;
	const struct peer *e = find(p, a);
	return e && e->full_us > now_us + room_us - LIMIT_HTTP_FAILURE_US
		       ? e->full_us - now_us - (room_us - LIMIT_HTTP_FAILURE_US)
		       : 0;
}

/* ---- life ---- */

struct peers *peers_new(void)
{
	struct peers *p = xcalloc(1, sizeof(*p));
	for (size_t i = 0; i < SLOTS; i++)
		list_init(&p->slots[i]);
	list_init(&p->idle);
	id_random(&p->seed, sizeof(p->seed));
	return p;
}

void peers_free(struct peers *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < SLOTS; i++)
		list_for_each (e, next, &p->slots[i], struct peer, slot)
			free(e);
	free(p);
}
