/* fuzz-shape.c: a program's raw output as text for a model: always valid, always bounded, with
 * nothing in it that steers a terminal. */
#include "fuzz.h"

#include "base/limits.h"
#include "base/str.h"
#include "exec/shape.h"

static void check(struct shape_text *t, size_t max, uint64_t total)
{
	size_t n = strlen(t->text);
	CHECK(str_utf8_valid(t->text, n));
	CHECK(n <= max + SHAPE_NOTE);
	CHECK(t->omitted <= total && t->replaced <= total - t->omitted);
	for (const uint8_t *c = (const uint8_t *)t->text; *c; c++) {
		CHECK(*c >= 0x20 || *c == '\n' || *c == '\t');
		CHECK(*c != 0x7F && !(*c == 0xC2 && c[1] < 0xA0));
	}
	free(t->text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	size_t max = input_u16(&in);
	struct shape_text t;
	shape_bytes(in.p, in.n, max, NULL, &t);
	check(&t, max, in.n);

	struct exec_output o = {.head = BUF_INIT(MIB), .tail = BUF_INIT(MIB)};
	size_t n;
	uint64_t middle = input_u16(&in);
	const uint8_t *p = input_bytes(&in, input_u16(&in), &n);
	CHECK(buf_append(&o.head, p, n) == 0 && buf_append(&o.tail, in.p, in.n) == 0);
	o.total = o.head.len + o.tail.len + middle;
	o.lost = middle / 2;
	shape_output(&o, max, NULL, &t);
	CHECK(t.omitted >= middle);
	check(&t, max, o.total);
	buf_done(&o.head);
	buf_done(&o.tail);
	return 0;
}
