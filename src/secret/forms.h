/* forms.h: the forms in which a secret may stand in what leaves.
 *
 * Raw, also as text in which what is no UTF-8 has been replaced; hexadecimal in lower and upper
 * case; base64 (RFC 4648 §4 and §5) wherever the value stands in what was encoded; percent-encoded
 * (RFC 3986 §2.1), every byte or those that an encoder leaves no choice about; escaped as in a JSON
 * string (RFC 8259 §7), or in HTML. What is long also in lines: base64 of the value alone at 76 and
 * 64 characters, hexadecimal at 60.
 *
 * Of base64 only characters that the value alone determines belong to a form: beside it up to four
 * bits of its first and its last byte can stay in a character that its neighbour shares. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* p is gone after the call. */
typedef void (*form_fn)(void *user, const uint8_t *p, size_t n);

/* Each form of the value, some of them more than once; none is shorter than the value. */
void forms_each(const uint8_t *value, size_t n, form_fn fn, void *user);
