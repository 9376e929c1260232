/* id.h: unguessable names, and comparing secrets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From getrandom(2); aborts where the kernel has none to give. */
void id_random(void *p, size_t n);

#define ID_BYTES 16
/* prefix letter, '-', 32 hex digits, NUL */
#define ID_TEXT_SIZE (2 + 2 * ID_BYTES + 1)
/* A new 128-bit id as text, e.g. "s-0f3c…" for prefix 's'. */
void id_new(char prefix, char ret_text[static ID_TEXT_SIZE]);
/* True for exactly the texts that id_new() makes. */
bool id_valid(char prefix, const char *text);

/* In time that depends on n alone. */
bool id_equal(const void *a, const void *b, size_t n);

/* Lower-case hex; ret_text needs 2 n + 1 bytes. */
void id_hex(const void *p, size_t n, char *ret_text);
/* 0, or -EINVAL where text is not exactly 2 n hex digits. */
int id_unhex(const char *text, void *ret_bytes, size_t n);
