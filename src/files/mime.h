/* mime.h: what a file is, from its name, its first bytes and whether all of it is UTF-8. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* So many first bytes are looked at. */
#define MIME_HEAD 4096

struct mime {
	const char *type; /* static */
	bool text;        /* UTF-8, of a kind that is read as text */
	bool runs; /* opening it would run something: programs, scripts, pages, macros, … */
};
/* utf8: the whole file is valid UTF-8 without NUL. mode: as in the sandbox. What the bytes say
 * counts more than what the name says; an executable kind is one by either. */
struct mime mime_of(const char *name, const void *head, size_t n_head, bool utf8, mode_t mode);
/* The static text equal to type; "application/octet-stream" where the table has none. */
const char *mime_intern(const char *type);

/* What the first bytes say of a file whose contents are packed, so that no text can be found in it
 * as it is: "zip", "gzip", …; NULL: it is none. */
const char *mime_packed(const uint8_t *head, size_t n);
