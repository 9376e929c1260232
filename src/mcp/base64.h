/* base64.h: RFC 4648 base64, strict. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"

/* As a JSON string. */
json_t *base64_json(const void *p, size_t n);
/* Appends the bytes of text[0..n) to out: padded, no blanks. 0, -EINVAL or -ENOBUFS. */
int base64_decode(const char *text, size_t n, struct buf *out) MUST_CHECK;
