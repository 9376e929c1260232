/* str.h: text: UTF-8 checked and repaired, numbers read strictly. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* True where p[0..n) is well-formed UTF-8 (RFC 3629: no surrogates, no overlong forms). */
bool str_utf8_valid(const void *p, size_t n);
/* The longest prefix of p[0..n) that does not end inside a character. */
size_t str_utf8_trim(const void *p, size_t n);
/* How many bytes to skip at the start of p[0..n) to stand at a character's first byte (0 to 3). */
size_t str_utf8_skip(const void *p, size_t n);
/* How many bytes the first character of a text has that is not empty; 1 where it begins with none.
 */
size_t str_utf8_first(const char *s);
/* Appends p[0..n) as valid UTF-8: every byte that belongs to no character becomes U+FFFD, and NUL
 * U+2400. 0 or -ENOBUFS; *ret_replaced (may be NULL) gets how many bytes were replaced. */
int str_utf8_repair(struct buf *out, const void *p, size_t n, size_t *ret_replaced) MUST_CHECK;

/* Decimal digits only, no sign, no blanks, ≤ max. 0, or -EINVAL / -ERANGE. */
int str_to_u64(const char *s, uint64_t max, uint64_t *ret_value) MUST_CHECK;
/* "512", "512K", "512M", "2G" (powers of 1,024). 0, or -EINVAL / -ERANGE. */
int str_to_size(const char *s, uint64_t *ret_bytes) MUST_CHECK;
/* In place: what a terminal or a reader of lines could take for more than text (controls, C1 too,
 * bytes that are no UTF-8, line and paragraph separators, directional overrides) becomes "?". */
void str_make_printable(char *text);
/* from (NULL: nothing) as the text to[size], cut to fit. */
void str_copy(char *to, size_t size, const char *from);
bool str_starts(const char *s, const char *prefix);
/* "" for one, else "s". */
const char *str_plural(uint64_t n);
/* "1.2 GB" and the like, for people. */
#define STR_SIZE_TEXT 16
void str_size(uint64_t bytes, char ret_text[static STR_SIZE_TEXT]);
