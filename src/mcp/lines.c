/* lines.c: see lines.h. */
#include "mcp/lines.h"

#include <string.h>

/* What a buffer may keep between lines; one 10 MiB line shall not cost 10 MiB for ever. */
#define KEEP (256 * 1024)

void lines_init(struct lines *l, size_t max)
{
	*l = (struct lines){.part = BUF_INIT(max)};
}

void lines_done(struct lines *l)
{
	buf_done(&l->part);
}

static void emit(const char *line, size_t n, lines_fn fn, void *user)
{
	size_t blank = 0;
	while (blank < n && (line[blank] == ' ' || line[blank] == '\t' || line[blank] == '\r'))
		blank++;
	if (blank < n)
		fn(user, line, n - (line[n - 1] == '\r'));
}

static void line_ended(struct lines *l, lines_fn fn, void *user)
{
	if (l->skipping) {
		l->skipping = false;
		fn(user, NULL, 0);
	} else {
		emit((const char *)l->part.data, l->part.len, fn, user);
	}
	if (l->part.cap > KEEP)
		buf_done(&l->part);
	else
		buf_clear(&l->part);
}

void lines_feed(struct lines *l, const char *p, size_t n, lines_fn fn, void *user)
{
	while (n > 0) {
		const char *nl = memchr(p, '\n', n);
		size_t len = nl ? (size_t)(nl - p) : n;

		if (nl && l->part.len == 0 && !l->skipping && len <= l->part.max) {
			emit(p, len, fn, user); /* whole in the caller's bytes: not copied */
		} else {
			if (!l->skipping && buf_append(&l->part, p, len) < 0) {
				l->skipping = true;
				buf_done(&l->part);
			}
			if (nl)
				line_ended(l, fn, user);
		}
		p += len + (nl ? 1 : 0);
		n -= len + (nl ? 1 : 0);
	}
}

void lines_end(struct lines *l, lines_fn fn, void *user)
{
	if (l->skipping || l->part.len > 0)
		line_ended(l, fn, user);
}
