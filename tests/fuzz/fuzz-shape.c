/* fuzz-shape.c: a program's raw output as text for a model: always valid, always bounded. */
#include "fuzz.h"

#include "base/limits.h"
#include "base/str.h"
#include "exec/shape.h"

/* The remark about what was left out, at most. */
#define REMARK 400

static void check(struct shape_text *t, size_t max)
{
	size_t n = strlen(t->text);
	CHECK(str_utf8_valid(t->text, n));
	CHECK(n <= max + REMARK);
	free(t->text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	size_t max = 64 + input_u16(&in);
	struct shape_text t;
	shape_bytes(in.p, in.n, max, &t);
	check(&t, max);

	struct exec_output o = {.head = BUF_INIT(MIB), .tail = BUF_INIT(MIB)};
	size_t n;
	uint64_t middle = input_u16(&in);
	const uint8_t *p = input_bytes(&in, input_u16(&in), &n);
	CHECK(buf_append(&o.head, p, n) == 0 && buf_append(&o.tail, in.p, in.n) == 0);
	o.total = o.head.len + o.tail.len + middle;
	o.lost = middle / 2;
	shape_output(&o, max, &t);
	check(&t, max);
	buf_done(&o.head);
	buf_done(&o.tail);
	return 0;
}
