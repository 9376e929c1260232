/* fuzz-docker.c: what an engine attaches, in pieces of any size: unpacked the same as in single
 * bytes. The first byte says how long the pieces are. */
#include "fuzz.h"

#include "base/limits.h"
#include "provider/docker_stream.h"

/* 0 or -EPROTO; out: kind and byte of all that came. */
static int unpack(const uint8_t *p, size_t n, size_t step, struct buf *out)
{
	struct docker_stream s = {0};
	while (n) {
		enum docker_stream_kind kind = DOCKER_STDOUT;
		const uint8_t *piece = NULL;
		size_t n_piece = 0, give = MIN(step, n);
		ssize_t used = docker_stream_next(&s, p, give, &kind, &piece, &n_piece);
		if (used < 0)
			return (int)used;
		CHECK(used > 0 && (size_t)used <= give);
		CHECK(n_piece == 0 || (piece >= p && piece + n_piece <= p + used));
		for (size_t i = 0; i < n_piece; i++) {
			const uint8_t both[] = {(uint8_t)kind, piece[i]};
			CHECK(buf_append(out, both, sizeof(both)) == 0);
		}
		p += used;
		n -= (size_t)used;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	size_t step = input_u8(&in) + 2U;
	_cleanup_buf_ struct buf a = BUF_INIT(8 * MIB), b = BUF_INIT(8 * MIB);
	int one = unpack(in.p, in.n, step, &a), other = unpack(in.p, in.n, 1, &b);
	CHECK(one == other);
	CHECK(one < 0 || (a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0)));
	return 0;
}
