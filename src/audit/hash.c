/* hash.c: see hash.h. */
#define OPENSSL_SUPPRESS_DEPRECATED /* the calls without EVP, whose first one takes 2 ms */
#include "audit/hash.h"

#include <dlfcn.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

#define LIBRARY        "libcrypto.so.3"
#define HASH_OWN_BYTES (64 * KIB) /* 150 lines, 0.4 ms */
#define BLOCK          64

static struct {
	bool tried;
	uint64_t own_bytes;
	__typeof__(SHA256_Init) *init; /* NULL: not loaded */
	__typeof__(SHA256_Update) *update;
	__typeof__(SHA256_Final) *final;
} ssl;

struct hash {
	union {
		SHA256_CTX ssl;
		struct sha256 own;
	} ctx;
	bool by_ssl;
};

void hash_load(void)
{
	if (ssl.tried)
		return;
	ssl.tried = true;
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); /* for the life of the process */
	void *init = library ? dlsym(library, "SHA256_Init") : NULL;
	void *update = library ? dlsym(library, "SHA256_Update") : NULL;
	void *final = library ? dlsym(library, "SHA256_Final") : NULL;
	if (!init || !update || !final) {
		log_info("OpenSSL cannot be loaded for the audit log, which is hashed more slowly");
		return;
	}
	*(void **)&ssl.update = update; /* dlsym(3): POSIX' way to a function */
	*(void **)&ssl.final = final;
	*(void **)&ssl.init = init;
}

static void begin(struct hash *h)
{
	if (ssl.own_bytes > HASH_OWN_BYTES)
		hash_load();
	h->by_ssl = ssl.init;
	if (h->by_ssl)
		(void)ssl.init(&h->ctx.ssl);
	else
		sha256_init(&h->ctx.own);
}

void hash_update(struct hash *h, const void *p, size_t n)
{
	if (h->by_ssl) {
		(void)ssl.update(&h->ctx.ssl, p, n);
		return;
	}
	ssl.own_bytes += n;
	sha256_update(&h->ctx.own, p, n);
}

static void finish(struct hash *h, uint8_t ret[static HASH_SIZE])
{
	if (h->by_ssl)
		(void)ssl.final(ret, &h->ctx.ssl);
	else
		sha256_final(&h->ctx.own, ret);
}

struct hash *hash_new(void)
{
	struct hash *h = xcalloc(1, sizeof(*h));
	begin(h);
	return h;
}

void hash_end(struct hash *h, uint8_t *ret)
{
	uint8_t hash[HASH_SIZE];
	if (!h)
		return;
	finish(h, hash);
	if (ret)
		memcpy(ret, hash, sizeof(hash));
	free(h);
}

void hash_bytes(const void *p, size_t n, uint8_t ret[static HASH_SIZE])
{
	struct hash h;
	begin(&h);
	hash_update(&h, p, n);
	finish(&h, ret);
}

/* RFC 2104; the key is shorter than a block. */
void hash_mac(const uint8_t key[static HASH_KEY_SIZE], const void *p, size_t n,
	uint8_t ret[static HASH_SIZE])
{
	uint8_t pad[BLOCK], inner[HASH_SIZE];
	struct hash h;
	for (int outer = 0; outer < 2; outer++) {
		memset(pad, outer ? 0x5c : 0x36, sizeof(pad));
		for (size_t i = 0; i < HASH_KEY_SIZE; i++)
			pad[i] ^= key[i];
		begin(&h);
		hash_update(&h, pad, sizeof(pad));
		hash_update(&h, outer ? inner : p, outer ? sizeof(inner) : n);
		finish(&h, outer ? ret : inner);
	}
}
