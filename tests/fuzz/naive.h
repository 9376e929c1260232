/* naive.h: what a redactor must do, done the slow way: each form looked for at each place.
 * Shared by the fuzz target and the unit test. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "secret/forms.h"
#include "secret/redact.h"
#include "secret/value.h"

struct naive_forms {
	struct {
		uint8_t *p;
		size_t n;
	} forms[4096];
	size_t n, longest;
};

static inline void naive_add(void *user, const uint8_t *p, size_t n)
{
	struct naive_forms *f = user;
	for (size_t i = 0; i < f->n; i++)
		if (f->forms[i].n == n && memcmp(f->forms[i].p, p, n) == 0)
			return;
	CHECK(f->n < ARRAY_SIZE(f->forms));
	f->forms[f->n].p = xmemdup(p, n);
	f->forms[f->n++].n = n;
	f->longest = MAX(f->longest, n);
}

static inline struct naive_forms *naive_new(struct secret_value *const *values, size_t n)
{
	struct naive_forms *f = xcalloc(1, sizeof(*f));
	for (size_t i = 0; i < n; i++) {
		size_t len;
		const uint8_t *p = secret_value_bytes(values[i], &len);
		forms_each(p, len, naive_add, f);
	}
	return f;
}

static inline void naive_free(struct naive_forms *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->forms[i].p);
	free(f);
}

/* What redact_bytes() must make of p; the places at which something ends. */
static inline size_t naive_mask(
	const struct naive_forms *f, const uint8_t *p, size_t n, uint8_t *out)
{
	size_t places = 0;
	memcpy(out, p, n);
	for (size_t end = 1; end <= n; end++) {
		size_t longest = 0;
		for (size_t i = 0; i < f->n; i++)
			if (f->forms[i].n <= end && f->forms[i].n > longest &&
				memcmp(p + end - f->forms[i].n, f->forms[i].p, f->forms[i].n) == 0)
				longest = f->forms[i].n;
		memset(out + end - longest, '*', longest);
		places += longest > 0;
	}
	return places;
}

/* Where the first secret that ends begins; n: none. */
static inline size_t naive_find(const struct naive_forms *f, const uint8_t *p, size_t n)
{
	for (size_t end = 1; end <= n; end++) {
		size_t longest = 0;
		for (size_t i = 0; i < f->n; i++)
			if (f->forms[i].n <= end && f->forms[i].n > longest &&
				memcmp(p + end - f->forms[i].n, f->forms[i].p, f->forms[i].n) == 0)
				longest = f->forms[i].n;
		if (longest)
			return end - longest;
	}
	return n;
}
