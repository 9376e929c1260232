/* sha256.c: see sha256.h. */
#include "wire/sha256.h"

#include <string.h>

#include "base/mem.h"
#include "wire/frame.h"

static const uint32_t K[64] = {
	0x428a2f98,
	0x71374491,
	0xb5c0fbcf,
	0xe9b5dba5,
	0x3956c25b,
	0x59f111f1,
	0x923f82a4,
	0xab1c5ed5,
	0xd807aa98,
	0x12835b01,
	0x243185be,
	0x550c7dc3,
	0x72be5d74,
	0x80deb1fe,
	0x9bdc06a7,
	0xc19bf174,
	0xe49b69c1,
	0xefbe4786,
	0x0fc19dc6,
	0x240ca1cc,
	0x2de92c6f,
	0x4a7484aa,
	0x5cb0a9dc,
	0x76f988da,
	0x983e5152,
	0xa831c66d,
	0xb00327c8,
	0xbf597fc7,
	0xc6e00bf3,
	0xd5a79147,
	0x06ca6351,
	0x14292967,
	0x27b70a85,
	0x2e1b2138,
	0x4d2c6dfc,
	0x53380d13,
	0x650a7354,
	0x766a0abb,
	0x81c2c92e,
	0x92722c85,
	0xa2bfe8a1,
	0xa81a664b,
	0xc24b8b70,
	0xc76c51a3,
	0xd192e819,
	0xd6990624,
	0xf40e3585,
	0x106aa070,
	0x19a4c116,
	0x1e376c08,
	0x2748774c,
	0x34b0bcb5,
	0x391c0cb3,
	0x4ed8aa4a,
	0x5b9cca4f,
	0x682e6ff3,
	0x748f82ee,
	0x78a5636f,
	0x84c87814,
	0x8cc70208,
	0x90befffa,
	0xa4506ceb,
	0xbef9a3f7,
	0xc67178f2,
};

static uint32_t ror(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void compress(struct sha256 *s, const uint8_t *block)
{
	uint32_t w[64], v[8];
	for (size_t i = 0; i < 16; i++)
		w[i] = wire_get32(block + 4 * i);
	for (size_t i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		w[i] = w[i - 16] + (ror(a, 7) ^ ror(a, 18) ^ a >> 3) + w[i - 7] +
		       (ror(b, 17) ^ ror(b, 19) ^ b >> 10);
	}
	memcpy(v, s->state, sizeof(v));
	for (size_t i = 0; i < 64; i++) {
		/* The words a to h stay where they are; their names move on by one a round. */
		uint32_t a = v[-i & 7], b = v[(1 - i) & 7], c = v[(2 - i) & 7];
		uint32_t e = v[(4 - i) & 7], f = v[(5 - i) & 7], g = v[(6 - i) & 7];
		uint32_t t1 = v[(7 - i) & 7] + (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) +
			      ((e & f) ^ (~e & g)) + K[i] + w[i];
		uint32_t t2 = (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
		v[(3 - i) & 7] += t1;
		v[(7 - i) & 7] = t1 + t2;
	}
	for (size_t i = 0; i < 8; i++)
		s->state[i] += v[i];
}

void sha256_init(struct sha256 *s)
{
	static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	memcpy(s->state, start, sizeof(start));
	s->total = 0;
}

void sha256_update(struct sha256 *s, const void *data, size_t n)
{
	const uint8_t *p = data;
	while (n) {
		size_t at = s->total % 64, take = MIN(64 - at, n);
		if (at == 0 && n >= 64) {
			compress(s, p);
			take = 64;
		} else {
			memcpy(s->block + at, p, take);
			if (at + take == 64)
				compress(s, s->block);
		}
		s->total += take;
		p += take;
		n -= take;
	}
}

void sha256_final(struct sha256 *s, uint8_t ret_digest[static SHA256_SIZE])
{
	uint64_t bits = s->total * 8;
	uint8_t pad[72] = {0x80};
	size_t n = (s->total % 64 < 56 ? 56 : 120) - s->total % 64;
	wire_put32(pad + n, (uint32_t)(bits >> 32));
	wire_put32(pad + n + 4, (uint32_t)bits);
	sha256_update(s, pad, n + 8);
	for (size_t i = 0; i < 8; i++)
		wire_put32(ret_digest + 4 * i, s->state[i]);
}

void sha256_hmac(const void *key, size_t key_len, const struct hmac_part *parts, size_t n_parts,
	uint8_t ret_mac[static SHA256_SIZE])
{
	uint8_t pad[64] = {0}, inner[SHA256_SIZE];
	struct sha256 s;
	CHECK(key_len <= sizeof(pad));
	memcpy(pad, key, key_len);
	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] ^= 0x36;
	sha256_init(&s);
	sha256_update(&s, pad, sizeof(pad));
	for (size_t i = 0; i < n_parts; i++)
		sha256_update(&s, parts[i].p, parts[i].n);
	sha256_final(&s, inner);
	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] ^= 0x36 ^ 0x5c;
	sha256_init(&s);
	sha256_update(&s, pad, sizeof(pad));
	sha256_update(&s, inner, sizeof(inner));
	sha256_final(&s, ret_mac);
	explicit_bzero(pad, sizeof(pad));
}
