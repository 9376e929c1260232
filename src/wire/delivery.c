/* delivery.c: see delivery.h. */
#include "wire/delivery.h"

#include <string.h>

#include "wire/frame.h"

static void derive(
	const struct delivery *d, const char *label, unsigned step, uint8_t ret[static SHA256_SIZE])
{
	struct sha256 s;
	uint8_t number[4];
	wire_put32(number, step);
	sha256_init(&s);
	sha256_update(&s, label, strlen(label) + 1);
	sha256_update(&s, d->root, sizeof(d->root));
	sha256_update(&s, number, sizeof(number));
	sha256_final(&s, ret);
}

void delivery_make(const uint8_t front[static DELIVERY_FRONT], uint64_t number, bool replayed,
	struct delivery *ret)
{
	static const char label[] = "scb delivery";
	struct sha256 s;
	uint8_t bytes[8];
	wire_put32(bytes, (uint32_t)(number >> 32));
	wire_put32(bytes + 4, (uint32_t)number);
	*ret = (struct delivery){.given = true, .replayed = replayed};
	sha256_init(&s);
	sha256_update(&s, label, sizeof(label));
	sha256_update(&s, front, DELIVERY_FRONT);
	sha256_update(&s, bytes, sizeof(bytes));
	sha256_final(&s, ret->root);
}

void delivery_id(const struct delivery *d, char prefix, char ret_text[static ID_TEXT_SIZE])
{
	uint8_t bytes[SHA256_SIZE];
	char label[] = "scb id ?";
	if (!d->given) {
		id_new(prefix, ret_text);
		return;
	}
	label[sizeof(label) - 2] = prefix;
	derive(d, label, 0, bytes);
	ret_text[0] = prefix;
	ret_text[1] = '-';
	id_hex(bytes, ID_BYTES, ret_text + 2);
}

void delivery_tag(const struct delivery *d, unsigned step, uint8_t ret[static DELIVERY_TAG])
{
	uint8_t bytes[SHA256_SIZE];
	if (!d->given) {
		id_random(ret, DELIVERY_TAG);
		return;
	}
	derive(d, "scb tag", step, bytes);
	memcpy(ret, bytes, DELIVERY_TAG);
}

void delivery_text(const struct delivery *d, char ret_text[static DELIVERY_TEXT])
{
	uint8_t bytes[SHA256_SIZE];
	ret_text[0] = '\0';
	if (!d->given)
		return;
	derive(d, "scb audit", 0, bytes);
	id_hex(bytes, DELIVERY_TEXT / 2, ret_text);
}
