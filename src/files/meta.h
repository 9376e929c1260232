/* meta.h: what is kept about a presented file, as JSON. Pure. */
#pragma once

#include "files/outputs.h"

#define META_MAX (32 * 1024)

#define META_URI "resource://scb/"
/* "resource://scb/ID/NAME", with NAME percent-encoded; owned by the caller. */
char *meta_uri(const char *id, const char *name);
/* SHA-256 of the principal's name, in hex. */
void meta_principal(const char *principal, char ret_hex[static 2 * SHA256_SIZE + 1]);
/* The record's text, owned by the caller. */
char *meta_write(const char *principal, const struct output *o);
/* -EPROTO where it is no such record, or of another principal than the one given (NULL: any). Sets
 * all of *ret but host_path. */
int meta_read(const char *text, size_t n, const char *principal, struct output *ret) MUST_CHECK;
