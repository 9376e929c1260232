/* buf.h: a byte buffer that cannot outgrow the maximum it was born with. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
	size_t max; /* never exceeded: appending beyond it gives -ENOBUFS and changes nothing */
	bool wipe;  /* set by who fills it with secrets: what is moved or freed is overwritten */
};

#define BUF_INIT(max_bytes) ((struct buf){.max = (max_bytes)})
void buf_init(struct buf *b, size_t max);
/* Frees the bytes; the buffer is empty and usable again, with the same maximum. */
void buf_done(struct buf *b);
#define _cleanup_buf_ CLEANUP(buf_done)

/* 0, or -ENOBUFS. */
int buf_append(struct buf *b, const void *p, size_t n) MUST_CHECK;
int buf_append_str(struct buf *b, const char *s) MUST_CHECK;
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_CHECK;
/* Room for n more bytes at data+len; the caller then adds to len what it wrote. */
int buf_reserve(struct buf *b, size_t n) MUST_CHECK;
/* Removes the first n bytes (n ≤ len). */
void buf_consume(struct buf *b, size_t n);
void buf_clear(struct buf *b);
/* The bytes as a NUL-terminated string that the caller owns (NULs inside stay); empties the buffer.
 */
char *buf_steal_str(struct buf *b);
