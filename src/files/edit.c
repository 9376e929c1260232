/* edit.c: see edit.h. */
#include "files/edit.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "secret/redact.h"

/* A copy with what is secret masked; NULL: nothing is. */
static uint8_t *masked(const struct buf *in, const struct redactor *redactor)
{
	if (!redact_find(redactor, in->data, in->len))
		return NULL;
	uint8_t *p = xmemdup(in->data, in->len);
	redact_bytes(redactor, p, in->len, NULL);
	return p;
}

/* Where text stands in in[from..), and in the masked copy, too. */
static const uint8_t *find_place(
	const struct buf *in, size_t from, const uint8_t *mask, const char *text, size_t n)
{
	const uint8_t *hit;
	while ((hit = memmem(in->data + from, in->len - from, text, n)) && mask &&
		memcmp(mask + (hit - in->data), text, n) != 0)
		from = (size_t)(hit - in->data) + 1;
	return hit;
}

int edit_replace(const struct buf *in, const char *old_text, const char *new_text, bool all,
	const struct redactor *redactor, struct buf *out, struct err *err)
{
	_cleanup_free_ uint8_t *mask = masked(in, redactor);
	size_t n_old = strlen(old_text), n_new = strlen(new_text);
	int places = 0, r = 0;
	if (n_old == 0)
		return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"old_text is empty; to add text write with offset or append");
	const uint8_t *p = in->data, *end = p + in->len, *hit;
	while (!r && p < end &&
		(hit = find_place(in, (size_t)(p - in->data), mask, old_text, n_old))) {
		r = buf_append(out, p, (size_t)(hit - p));
		if (!r)
			r = buf_append(out, new_text, n_new);
		p = hit + n_old;
		places++;
	}
	if (places == 0)
		return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"old_text does not occur in the file; read it and give the text exactly as "
			"it stands there, blanks and line ends included");
	if (places > 1 && !all)
		return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"old_text occurs %d times; give more of the text around the place, or pass "
			"\"all\": true to replace each",
			places);
	if (!r && p < end)
		r = buf_append(out, p, (size_t)(end - p));
	if (r < 0)
		return err_set(err, ERR_LIMIT_REACHED, EFBIG,
			"the edited file would be larger than %zu bytes", out->max);
	return places;
}
