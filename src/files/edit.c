/* edit.c: see edit.h. */
#include "files/edit.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

int edit_replace(const struct buf *in, const char *old_text, const char *new_text, bool all,
	struct buf *out, struct err *err)
{
	size_t n_old = strlen(old_text), n_new = strlen(new_text);
	int places = 0, r = 0;
	if (n_old == 0)
		return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"old_text is empty; to add text write with offset or append");
	const uint8_t *p = in->data, *end = p + in->len, *hit;
	while (!r && p < end && (hit = memmem(p, (size_t)(end - p), old_text, n_old))) {
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
