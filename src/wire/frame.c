/* frame.c: see frame.h. */
#include "wire/frame.h"

#include <errno.h>
#include <sys/types.h>

void frame_header(
	uint8_t h[static FRAME_HEADER], uint8_t type, uint16_t flags, uint32_t stream, uint32_t len)
{
	h[0] = FRAME_VERSION;
	h[1] = type;
	wire_put16(h + 2, flags);
	wire_put32(h + 4, stream);
	wire_put32(h + 8, len);
}

int frame_append(struct buf *out, uint8_t type, uint16_t flags, uint32_t stream,
	const void *payload, size_t len)
{
	CHECK(len <= LIMIT_FRAME_PAYLOAD);
	uint8_t h[FRAME_HEADER];
	frame_header(h, type, flags, stream, (uint32_t)len);
	int r = buf_reserve(out, FRAME_HEADER + len);
	if (r < 0)
		return r;
	r = buf_append(out, h, sizeof(h));
	return r < 0 ? r : buf_append(out, payload, len);
}

ssize_t frame_parse(const uint8_t *p, size_t n, struct frame *ret)
{
	/* A wrong first byte is told at once, not after a length that means nothing. */
	if (n >= 1 && p[0] != FRAME_VERSION)
		return -EPROTO;
	if (n >= 2 && (p[1] == 0 || p[1] > FRAME_TYPE_MAX_))
		return -EPROTO;
	if (n < FRAME_HEADER)
		return 0;
	uint32_t len = wire_get32(p + 8);
	if (len > LIMIT_FRAME_PAYLOAD)
		return -EPROTO;
	if (n - FRAME_HEADER < len)
		return 0;
	*ret = (struct frame){
		.type = p[1],
		.flags = wire_get16(p + 2),
		.stream = wire_get32(p + 4),
		.payload = p + FRAME_HEADER,
		.len = len,
	};
	return (ssize_t)(FRAME_HEADER + len);
}
