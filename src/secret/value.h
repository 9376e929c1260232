/* value.h: one secret's value with its name.
 *
 * It stands in pages of its own: locked (never in swap), in no core file (MADV_DONTDUMP), not
 * copied to a child by fork(2) (MADV_DONTFORK: there it must not be touched), wiped when the last
 * holder lets it go. No text that this module makes has the value in it. Not for several threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct secret_value;

/* Copies p[0..n): LIMIT_SECRET_MIN_BYTES … LIMIT_SECRET_BYTES bytes without NUL, since it is to
 * stand in an environment. 0; ERR_SECRET_UNAVAILABLE with the reason: too short (masking it would
 * mask ordinary text), too long, or no memory could be locked. The name is a valid one. */
int secret_value_new(const char *name, const void *p, size_t n, struct secret_value **ret,
	struct err *err) MUST_CHECK;
struct secret_value *secret_value_ref(struct secret_value *v);
/* NULL is allowed. */
void secret_value_unref(struct secret_value *v);
#define _cleanup_secret_ CLEANUP(secret_value_unrefp)
static inline void secret_value_unrefp(struct secret_value **v)
{
	secret_value_unref(*v);
}

const char *secret_value_name(const struct secret_value *v);
/* Not NUL-terminated. */
const uint8_t *secret_value_bytes(const struct secret_value *v, size_t *ret_n);
/* Same name, same bytes. In time that depends on the lengths alone. */
bool secret_value_equal(const struct secret_value *a, const struct secret_value *b);

/* Of a secret: up to LIMIT_SECRET_NAME letters, digits, "_", "-" and "."; "." or "-" not first. */
bool secret_name_valid(const char *name);
/* Of an environment variable that a secret may be given as: letters, digits and "_", no digit
 * first, at most LIMIT_SECRET_NAME; none that the dynamic linker, the shell or an interpreter acts
 * on. */
bool secret_variable_valid(const char *name);
