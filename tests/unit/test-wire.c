/* Frames, TLVs, SHA-256 and the link's authentication. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "base/id.h"
#include "wire/auth.h"
#include "wire/frame.h"
#include "wire/tlv.h"

static void frame_round_trip(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf b = BUF_INIT(MIB);
	assert_int_equal(frame_append(&b, FRAME_DATA, FRAME_FLAG_FIN, 7, "hello", 5), 0);
	assert_int_equal(b.len, FRAME_HEADER + 5);
	struct frame f;
	for (size_t n = 0; n < b.len; n++)
		assert_int_equal(frame_parse(b.data, n, &f), 0);
	assert_int_equal(frame_parse(b.data, b.len, &f), b.len);
	assert_int_equal(f.type, FRAME_DATA);
	assert_int_equal(f.flags, FRAME_FLAG_FIN);
	assert_int_equal(f.stream, 7);
	assert_memory_equal(f.payload, "hello", 5);
}

static void frame_refuses(void **state)
{
	(void)state;
	struct frame f;
	uint8_t h[FRAME_HEADER];
	frame_header(h, FRAME_DATA, 0, 1, LIMIT_FRAME_PAYLOAD + 1);
	assert_int_equal(frame_parse(h, sizeof(h), &f), -EPROTO);
	h[0] = 2;
	assert_int_equal(frame_parse(h, 1, &f), -EPROTO);
	h[0] = FRAME_VERSION;
	h[1] = FRAME_TYPE_MAX_ + 1;
	assert_int_equal(frame_parse(h, 2, &f), -EPROTO);
}

static void tlv_round_trip(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	const uint64_t numbers[] = {0, 1, 255, 256, 65536, UINT32_MAX, UINT64_MAX};
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		assert_int_equal(tlv_u64(&b, (uint16_t)i, numbers[i]), 0);
	assert_int_equal(tlv_str(&b, 99, "text"), 0);
	struct tlv_reader r = tlv_reader(b.data, b.len);
	struct tlv t;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		uint64_t v;
		assert_true(tlv_next(&r, &t));
		assert_int_equal(t.tag, i);
		assert_int_equal(tlv_get_u64(&t, &v), 0);
		assert_true(v == numbers[i]);
	}
	assert_true(tlv_next(&r, &t));
	assert_true(tlv_is(&t, "text"));
	assert_false(tlv_next(&r, &t));
	assert_false(r.bad);
	r = tlv_reader(b.data, b.len - 1);
	while (tlv_next(&r, &t))
		;
	assert_true(r.bad);
}

static void digest_is(const char *text, size_t repeat, const char *hex)
{
	struct sha256 s;
	uint8_t digest[SHA256_SIZE];
	char got[2 * SHA256_SIZE + 1];
	sha256_init(&s);
	for (size_t i = 0; i < repeat; i++)
		sha256_update(&s, text, strlen(text));
	sha256_final(&s, digest);
	id_hex(digest, sizeof(digest), got);
	assert_string_equal(got, hex);
}

/* FIPS 180-4 example values, and RFC 4231 test case 2. */
static void sha256_vectors(void **state)
{
	(void)state;
	digest_is("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	digest_is("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	digest_is("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
		"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	digest_is("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	uint8_t mac[SHA256_SIZE];
	char got[2 * SHA256_SIZE + 1];
	struct hmac_part parts[] = {{"what do ya want ", 16}, {"for nothing?", 12}};
	sha256_hmac("Jefe", 4, parts, 2, mac);
	id_hex(mac, sizeof(mac), got);
	assert_string_equal(
		got, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void auth_directions_differ(void **state)
{
	(void)state;
	uint8_t key[AUTH_KEY] = {1}, a[AUTH_NONCE] = {2}, b[AUTH_NONCE] = {2}, x[SHA256_SIZE],
		y[SHA256_SIZE];
	auth_agent_mac(key, b, a, x);
	auth_broker_mac(key, a, b, y);
	assert_memory_not_equal(x, y, sizeof(x)); /* a reflected proof is no proof */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frame_round_trip),
		cmocka_unit_test(frame_refuses),
		cmocka_unit_test(tlv_round_trip),
		cmocka_unit_test(sha256_vectors),
		cmocka_unit_test(auth_directions_differ),
	};
	return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
