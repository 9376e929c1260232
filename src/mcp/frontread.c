/* frontread.c: see frontread.h. */
#include "mcp/frontread.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/limits.h"

/* The frames at the start of p[0..n); *ret_used of these bytes were worked on. */
static bool on_bytes(const struct frontread *how, const uint8_t *p, size_t n, size_t *ret_used)
{
	struct front_frame frame;
	size_t size, used = 0;
	int r;
	while ((r = frontwire_next(how->from, p + used, n - used, &frame, &size)) == 1) {
		used += size;
		if (!how->frame(how->user, &frame))
			return false;
	}
	*ret_used = used;
	return r == 0;
}

bool frontread(const struct frontread *how, int fd, struct buf *kept)
{
	bool fresh = kept->len == 0; /* then nothing is copied that is whole */
	if (!fresh && buf_reserve(kept, FRONTREAD_CHUNK) < 0)
		return false;
	uint8_t *to = fresh ? how->chunk : kept->data + kept->len;
	ssize_t n = recv(fd, to, FRONTREAD_CHUNK, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	size_t used = 0;
	if (fresh) {
		bool good = on_bytes(how, to, (size_t)n, &used) &&
			    buf_append(kept, to + used, (size_t)n - used) == 0;
		/* the beginning of a secret, perhaps; kept is wiped in its time */
		explicit_bzero(to + used, (size_t)n - used);
		return good;
	}
	kept->len += (size_t)n;
	if (!on_bytes(how, kept->data, kept->len, &used))
		return false;
	buf_consume(kept, used);
	if (kept->len == 0 && kept->cap > FRONTREAD_CHUNK)
		buf_done(kept);
	return true;
}
