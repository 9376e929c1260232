/* fuzz-wire.c: bytes as frames and as messages: never read beyond them, and written again they are
 * the same. */
#include "fuzz.h"

#include "base/str.h"
#include "wire/frame.h"
#include "wire/tlv.h"

static void read_tlvs(const uint8_t *p, size_t n)
{
	struct tlv_reader r = tlv_reader(p, n);
	struct buf again = BUF_INIT(LIMIT_FRAME_PAYLOAD);
	for (struct tlv t; tlv_next(&r, &t);) {
		uint64_t v;
		CHECK(t.p >= p && t.n <= n && t.p + t.n <= p + n);
		if (tlv_get_u64(&t, &v) == 0)
			CHECK(t.n >= 1 && t.n <= 8);
		char *text = tlv_dup_str(&t);
		if (text)
			CHECK(strlen(text) == t.n && tlv_is(&t, text));
		free(text);
		CHECK(tlv_bytes(&again, t.tag, t.p, t.n) == 0);
	}
	CHECK(again.len <= n && memcmp(again.data ? again.data : p, p, again.len) == 0);
	CHECK(r.bad == (again.len != n));
	buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame f;
	size_t at = 0;
	for (ssize_t n; at < size && (n = frame_parse(data + at, size - at, &f)) > 0;
		at += (size_t)n) {
		struct buf again = BUF_INIT(FRAME_HEADER + LIMIT_FRAME_PAYLOAD);
		CHECK((size_t)n == FRAME_HEADER + f.len && (size_t)n <= size - at);
		CHECK(f.type >= 1 && f.type <= FRAME_TYPE_MAX_ && f.len <= LIMIT_FRAME_PAYLOAD);
		CHECK(frame_append(&again, f.type, f.flags, f.stream, f.payload, f.len) == 0);
		CHECK(again.len == (size_t)n && memcmp(again.data, data + at, again.len) == 0);
		buf_done(&again);
		read_tlvs(f.payload, f.len);
	}
	if (size <= LIMIT_FRAME_PAYLOAD)
		read_tlvs(data, size);
	return 0;
}
