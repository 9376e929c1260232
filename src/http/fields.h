/* fields.h: values of the header fields that files are served with. Pure.
 *
 * Source: RFC 9110, 8.8.3, 13.1, 14.1 and 14.2; RFC 6266; RFC 8187. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

enum http_range_kind {
	HTTP_RANGE_WHOLE, /* no range, one that is none, several: the field does not count */
	HTTP_RANGE_PART,
	HTTP_RANGE_OUTSIDE, /* 416 */
};
struct http_range {
	uint64_t first, length;
};
/* field: of Range, NULL where there is none; size: of the whole. *ret is set for HTTP_RANGE_PART.
 */
enum http_range_kind http_range(const char *field, uint64_t size, struct http_range *ret);

/* Is etag (with its quotes) among those of If-None-Match, weak ones counted? "*" is any. */
bool http_etag_listed(const char *field, const char *etag);

/* Content-Disposition for any file name, in two forms where it is not plain ASCII; what could be
 * taken for a path or a quote is "_". Owned by the caller. */
char *http_disposition(bool attachment, const char *name);
