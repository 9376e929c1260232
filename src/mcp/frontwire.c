/* frontwire.c: see frontwire.h. */
#include "mcp/frontwire.h"

#include <errno.h>

#include "base/limits.h"
#include "wire/frame.h"

#define NUMBER 8

/* Fixed part of a payload, and the most that may follow it. */
static const struct shape {
	enum front_type type;
	enum front_side from;
	size_t fixed, max;
} shapes[] = {
	/* every call has these two, so they are found first */
	{FRONT_MESSAGE, FRONT_FROM_FRONT, NUMBER + 1 + 4, LIMIT_MCP_LINE},
	{FRONT_ANSWER, FRONT_FROM_BROKER, NUMBER, LIMIT_MCP_RESULT + 1},
	{FRONT_HELLO, FRONT_FROM_FRONT, 0, LIMIT_FRONT_JSON},
	{FRONT_BYE, FRONT_FROM_FRONT, 0, 0},
	{FRONT_CONTROL, FRONT_FROM_FRONT, 0, LIMIT_FRONT_JSON},
	{FRONT_SECRET, FRONT_FROM_FRONT, 2, LIMIT_SECRET_NAME + LIMIT_SECRET_BYTES},
	{FRONT_WELCOME, FRONT_FROM_BROKER, 0, LIMIT_FRONT_JSON},
	{FRONT_REFUSED, FRONT_FROM_BROKER, 0, LIMIT_FRONT_JSON},
	{FRONT_NOTE, FRONT_FROM_BROKER, 0, LIMIT_MCP_RESULT + 1},
	{FRONT_DONE, FRONT_FROM_BROKER, NUMBER, 0},
	{FRONT_SESSION, FRONT_FROM_BROKER, 0, LIMIT_FRONT_HANDLE},
	{FRONT_LEAVING, FRONT_FROM_BROKER, 0, 0},
	{FRONT_CONTROL_ANSWER, FRONT_FROM_BROKER, 0, LIMIT_FRONT_CONTROL},
	{FRONT_SECRETS, FRONT_FROM_BROKER, 0, LIMIT_FRONT_JSON},
};

static const struct shape *find_shape(enum front_side from, uint8_t type)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		if (shapes[i].type == type && shapes[i].from == from)
			return &shapes[i];
	return NULL;
}

static uint64_t get64(const uint8_t *p)
{
	return (uint64_t)wire_get32(p) << 32 | wire_get32(p + 4);
}

static void put64(uint8_t *p, uint64_t v)
{
	wire_put32(p, (uint32_t)(v >> 32));
	wire_put32(p + 4, (uint32_t)v);
}

int frontwire_next(
	enum front_side from, const uint8_t *p, size_t n, struct front_frame *ret, size_t *ret_size)
{
	*ret_size = 0;
	if (n < FRONT_HEAD)
		return 0;
	size_t length = wire_get32(p);
	const struct shape *s = find_shape(from, p[4]);
	if (!s || length < 1 + s->fixed || length > 1 + s->fixed + s->max)
		return -EPROTO;
	*ret_size = 4 + length;
	if (n < 4 + length)
		return 0;

	const uint8_t *body = p + FRONT_HEAD;
	*ret = (struct front_frame){.type = s->type};
	if (s->fixed >= NUMBER)
		ret->number = get64(body);
	if (s->type == FRONT_MESSAGE) {
		ret->flags = body[NUMBER];
		ret->age_ms = wire_get32(body + NUMBER + 1);
	}
	size_t head = s->type == FRONT_SECRET ? 0 : s->fixed; /* read by frontsecret.c */
	ret->p = (const char *)body + head;
	ret->n = length - 1 - head;
	return 1;
}

void frontwire_head(enum front_type type, size_t n, uint8_t ret[static FRONT_HEAD])
{
	wire_put32(ret, (uint32_t)(1 + n));
	ret[4] = (uint8_t)type;
}

void frontwire_number_head(
	enum front_type type, uint64_t number, size_t n, uint8_t ret[static FRONT_NUMBER_HEAD])
{
	frontwire_head(type, NUMBER + n, ret);
	put64(ret + FRONT_HEAD, number);
}

void frontwire_message_head(uint64_t number, uint8_t flags, uint32_t age_ms, size_t n,
	uint8_t ret[static FRONT_MESSAGE_HEAD])
{
	frontwire_head(FRONT_MESSAGE, NUMBER + 1 + 4 + n, ret);
	put64(ret + FRONT_HEAD, number);
	ret[FRONT_HEAD + NUMBER] = flags;
	wire_put32(ret + FRONT_HEAD + NUMBER + 1, age_ms);
}
