/* base64.c: see base64.h. */
#include "mcp/base64.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

json_t *base64_json(const void *p, size_t n)
{
	/* EVP_EncodeBlock() also writes a NUL */
	_cleanup_free_ unsigned char *text = xmalloc((n + 2) / 3 * 4 + 1);
	int len = EVP_EncodeBlock(text, p, (int)n);
	return json_stringn_nocheck((const char *)text, (size_t)len);
}

/* EVP_DecodeBlock() forgives blanks around the text and "=" inside it; this does not. */
static bool alphabet_ok(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char c = text[i];
		bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
			      (c >= '0' && c <= '9') || c == '+' || c == '/';
		bool padding = c == '=' && i + 2 >= n && (i + 1 == n || text[n - 1] == '=');
		if (!letter && !padding)
			return false;
	}
	return true;
}

int base64_decode(const char *text, size_t n, struct buf *out)
{
	if (n % 4 != 0 || !alphabet_ok(text, n))
		return -EINVAL;
	if (n == 0)
		return 0;
	size_t padding = text[n - 1] != '=' ? 0 : text[n - 2] != '=' ? 1 : 2;
	size_t before = n - 4; /* the last four letters may be fewer than three bytes */
	unsigned char last[3];
	int r = buf_reserve(out, n / 4 * 3 - padding);
	if (r < 0)
		return r;
	const unsigned char *letters = (const unsigned char *)text;
	if (EVP_DecodeBlock(out->data + out->len, letters, (int)before) < 0 ||
		EVP_DecodeBlock(last, letters + before, 4) < 0)
		return -EINVAL;
	out->len += before / 4 * 3;
	return buf_append(out, last, sizeof(last) - padding);
}
