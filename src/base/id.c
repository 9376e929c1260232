/* id.c: see id.h. */
#include "base/id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"

void id_random(void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = getrandom((char *)p + done, n - done, 0);
		CHECK(r > 0 || errno == EINTR);
		if (r > 0)
			done += (size_t)r;
	}
}

void id_hex(const void *p, size_t n, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *b = p;
	for (size_t i = 0; i < n; i++) {
		ret_text[2 * i] = digits[b[i] >> 4];
		ret_text[2 * i + 1] = digits[b[i] & 15];
	}
	ret_text[2 * n] = '\0';
}

static int nibble(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

int id_unhex(const char *text, void *ret_bytes, size_t n)
{
	uint8_t *b = ret_bytes;
	if (strnlen(text, 2 * n + 1) != 2 * n)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		int hi = nibble(text[2 * i]), lo = nibble(text[2 * i + 1]);
		if (hi < 0 || lo < 0)
			return -EINVAL;
		b[i] = (uint8_t)(hi << 4 | lo);
	}
	return 0;
}

void id_new(char prefix, char ret_text[static ID_TEXT_SIZE])
{
	uint8_t raw[ID_BYTES];
	id_random(raw, sizeof(raw));
	ret_text[0] = prefix;
	ret_text[1] = '-';
	id_hex(raw, sizeof(raw), ret_text + 2);
}

bool id_valid(char prefix, const char *text)
{
	uint8_t raw[ID_BYTES];
	return text[0] == prefix && text[1] == '-' && id_unhex(text + 2, raw, sizeof(raw)) == 0;
}

bool id_equal(const void *a, const void *b, size_t n)
{
	const volatile uint8_t *x = a, *y = b;
	uint8_t diff = 0;
	for (size_t i = 0; i < n; i++)
		diff |= (uint8_t)(x[i] ^ y[i]);
	return diff == 0;
}
