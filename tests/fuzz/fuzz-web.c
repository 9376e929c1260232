/* fuzz-web.c: what a browser sends to come in: a Cookie field, a target with its query, a link. The
 * first byte says which; what is found lies within what was given. */
#include "fuzz.h"

#include <stdlib.h>

#include "mcp/webcookie.h"

static const uint8_t key[WEBLINK_KEY] = "0123456789abcdef0123456789abcde";
static const uint8_t token[SHA256_SIZE] = "token";

static void cookie(const char *field)
{
	const struct webcookie_of of = {"uid:1000", token, false};
	size_t n = 0;
	const char *v = webcookie_find(field, "scb-1", &n);
	CHECK(!v || (v > field && v + n <= field + strlen(field)));
	/* nobody guesses a MAC */
	CHECK(!v || !webcookie_holds(key, &of, v, n, 1, NULL));
}

static void target(const char *text)
{
	struct weblink l;
	char *v = webcookie_query(text, "token");
	CHECK(!v || strlen(v) <= strlen(text));
	free(v);
	if (weblink_read(key, text, &l) == 0) {
		CHECK(!l.valid);
		weblink_done(&l);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint8_t how = input_u8(&in);
	char *text = xstrndup((const char *)in.p, in.n);
	if (how & 1)
		cookie(text);
	else
		target(text);
	free(text);
	return 0;
}
