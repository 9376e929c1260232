/* scan.c: see scan.h. */
#include "agent/scan.h"

#include <string.h>
#include <unistd.h>

#include "agent/walk.h"
#include "base/fd.h"
#include "base/limits.h"

#define WINDOW      (128 * KIB)
#define BINARY_LOOK (8 * KIB)

struct scan {
	int fd;
	const uint8_t *pattern;
	size_t pattern_len;
	uint64_t at;       /* window[0] in the file */
	uint64_t line;     /* of window[0], from 1 */
	uint64_t hit_line; /* the last one sent */
	size_t kept;       /* at the window's start: of the piece before, not yet searched */
	bool begun;
	struct buf path;
	uint8_t window[WINDOW];
};

struct scan *scan_new(
	int fd, const void *path, size_t path_len, const uint8_t *pattern, size_t pattern_len)
{
	struct scan *x = xmalloc(sizeof(*x)); /* the window need not be cleared */
	x->fd = fd;
	x->pattern = pattern;
	x->pattern_len = pattern_len;
	x->at = 0;
	x->line = 1;
	x->hit_line = 0;
	x->kept = 0;
	x->begun = false;
	x->path = BUF_INIT(2 * LIMIT_PATH);
	CHECK(buf_append(&x->path, path, path_len) == 0);
	return x;
}

void scan_free(struct scan *x)
{
	if (!x)
		return;
	fd_closep(&x->fd);
	buf_done(&x->path);
	free(x);
}

static uint64_t count_lines(const uint8_t *p, const uint8_t *end)
{
	uint64_t n = 0;
	for (; (p = memchr(p, '\n', (size_t)(end - p))); p++)
		n++;
	return n;
}

/* Sends the line around hit, cut to WALK_LINE_TEXT bytes. The end of the line (or of what is known
 * of it). */
static const uint8_t *send_hit(
	struct scan *x, struct stream *s, const uint8_t *hit, const uint8_t *end)
{
	const uint8_t *from = memrchr(x->window, '\n', (size_t)(hit - x->window));
	from = from ? from + 1 : x->window;
	const uint8_t *to = memchr(hit, '\n', (size_t)(end - hit));
	const uint8_t *line_end = to ? to : end;
	to = line_end;
	if (hit - from > WALK_LINE_TEXT / 3)
		from = hit - WALK_LINE_TEXT / 3;
	if (to - from > WALK_LINE_TEXT)
		to = from + WALK_LINE_TEXT;
	_cleanup_buf_ struct buf b = BUF_INIT(2 * LIMIT_PATH);
	CHECK(tlv_bytes(&b, TAG_PATH, x->path.data, x->path.len) == 0 &&
		tlv_u64(&b, TAG_LINE, x->line) == 0 &&
		tlv_u64(&b, TAG_OFFSET, x->at + (uint64_t)(hit - x->window)) == 0 &&
		tlv_bytes(&b, TAG_LINE_TEXT, from, (size_t)(to - from)) == 0);
	stream_msg(s, &b);
	return line_end;
}

size_t scan_step(struct scan *x, struct stream *s, uint32_t limit, uint64_t *count, bool *ret_more)
{
	ssize_t r = read(x->fd, x->window + x->kept, WINDOW - x->kept);
	if (r < 0)
		return 0;
	size_t n = x->kept + (size_t)r;
	if (!x->begun && memchr(x->window, 0, MIN(n, BINARY_LOOK)))
		return 0;
	x->begun = true;
	/* Whole lines are searched; where a line fills the window, what there is of it, keeping
	 * what could be the first part of a match. */
	const uint8_t *nl = r ? memrchr(x->window, '\n', n) : NULL;
	if (r && !nl && n < WINDOW) {
		x->kept = n;
		return (size_t)r;
	}
	size_t len = nl ? (size_t)(nl - x->window) + 1 : n;
	size_t keep = nl ? n - len : r ? x->pattern_len - 1 : 0;
	const uint8_t *p = x->window, *end = x->window + len, *hit;
	while (p < end && (hit = memmem(p, (size_t)(end - p), x->pattern, x->pattern_len))) {
		x->line += count_lines(p, hit);
		p = hit;
		if (x->line != x->hit_line) {
			if (*count == limit) {
				*ret_more = true;
				return (size_t)r;
			}
			x->hit_line = x->line;
			p = send_hit(x, s, hit, end);
			++*count;
		} else {
			p = memchr(hit, '\n', (size_t)(end - hit));
			p = p ? p : end;
		}
	}
	if (p < end)
		x->line += count_lines(p, end);
	memmove(x->window, x->window + n - keep, keep);
	x->at += n - keep;
	x->kept = keep;
	return (size_t)r;
}
