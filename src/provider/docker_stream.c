/* docker_stream.c: see docker_stream.h. */
#include "provider/docker_stream.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

ssize_t docker_stream_next(struct docker_stream *s, const uint8_t *p, size_t n,
	enum docker_stream_kind *ret_kind, const uint8_t **ret_piece, size_t *ret_n)
{
	size_t used = 0;
	*ret_n = 0;
	if (s->left == 0) {
		used = MIN(n, DOCKER_STREAM_HEADER - s->have);
		memcpy(s->head + s->have, p, used);
		s->have += used;
		if (s->have < DOCKER_STREAM_HEADER)
			return (ssize_t)used;
		const uint8_t *h = s->head;
		if ((h[0] != DOCKER_STDOUT && h[0] != DOCKER_STDERR) || h[1] || h[2] || h[3])
			return -EPROTO;
		s->have = 0;
		s->left = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 | (uint32_t)h[6] << 8 | h[7];
	}
	*ret_kind = s->head[0];
	*ret_piece = p + used;
	*ret_n = MIN(n - used, s->left);
	s->left -= (uint32_t)*ret_n;
	return (ssize_t)(used + *ret_n);
}
