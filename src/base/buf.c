/* buf.c: see buf.h. */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
	*b = BUF_INIT(max);
}

void buf_done(struct buf *b)
{
	if (b->wipe && b->data)
		explicit_bzero(b->data, b->cap);
	free(b->data);
	*b = (struct buf){.max = b->max, .wipe = b->wipe};
}

static void grow(struct buf *b, size_t cap)
{
	uint8_t *old = b->data;
	if (b->wipe && old) {
		b->data = xmalloc(cap);
		memcpy(b->data, old, b->len);
		explicit_bzero(old, b->cap);
		free(old);
	} else {
		b->data = xrealloc(old, cap);
	}
	b->cap = cap;
}

int buf_reserve(struct buf *b, size_t n)
{
	if (n > b->max || b->len > b->max - n)
		return -ENOBUFS;
	size_t need = b->len + n;
	if (need <= b->cap)
		return 0;
	size_t cap = b->cap ? b->cap : 256;
	while (cap < need)
		cap *= 2;
	grow(b, MIN(cap, MAX(b->max, need)));
	return 0;
}

int buf_append(struct buf *b, const void *p, size_t n)
{
	int r = buf_reserve(b, n);
	if (r < 0)
		return r;
	if (n)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	return 0;
}

int buf_append_str(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

/* What does not fit into the room that is there is formatted once more. */
int buf_printf(struct buf *b, const char *fmt, ...)
{
	size_t room = b->cap - b->len;
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(room ? (char *)b->data + b->len : NULL, room, fmt, ap);
	va_end(ap);
	int r = n < 0 ? -EINVAL : 0;
	if (r == 0 && (size_t)n < room) {
		b->len += (size_t)n;
	} else if (r == 0) {
		_cleanup_free_ char *text =
			xmalloc((size_t)n + 1); /* its NUL may be one too much for b */
		(void)vsnprintf(text, (size_t)n + 1, fmt, again);
		r = buf_append(b, text, (size_t)n);
	}
	va_end(again);
	return r;
}

void buf_consume(struct buf *b, size_t n)
{
	CHECK(n <= b->len);
	b->len -= n;
	if (b->len && n)
		memmove(b->data, b->data + n, b->len);
	if (b->wipe && n)
		explicit_bzero(b->data + b->len, n);
}

void buf_clear(struct buf *b)
{
	b->len = 0;
}

char *buf_steal_str(struct buf *b)
{
	b->data = xrealloc(b->data, b->len + 1);
	b->data[b->len] = 0;
	char *s = (char *)b->data;
	b->data = NULL;
	b->len = b->cap = 0;
	return s;
}
