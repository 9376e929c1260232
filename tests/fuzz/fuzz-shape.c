/* Raw output as text: valid UTF-8 within its bounds, nothing that steers a terminal, exact counts.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "exec/shape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct shape_text *t, size_t max, uint64_t total)
{
	size_t len = strlen(t->text);
	CHECK(str_utf8_valid(t->text, len));
	CHECK(len <= max + SHAPE_NOTE);
	CHECK(t->omitted <= total && t->replaced <= total - t->omitted);
	for (const uint8_t *c = (const uint8_t *)t->text; *c; c++) {
		CHECK(*c >= 0x20 || *c == '\n' || *c == '\t');
		CHECK(*c != 0x7F && !(*c == 0xC2 && c[1] < 0xA0));
	}
}

/* The first four bytes choose the bounds, where head ends and how large the gap is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	size_t max = (size_t)data[0] << (data[1] & 7);
	size_t n = size - 4, split = n * data[2] / 255;
	uint64_t gap = data[3] & 1 ? data[3] : 0;
	struct exec_output o = {.total = n + gap,
		.head = {(uint8_t *)data + 4, split, split, split},
		.tail = {(uint8_t *)data + 4 + split, n - split, n - split, n - split}};
	struct shape_text t;
	shape_output(&o, max, &t);
	check(&t, max, o.total);
	CHECK(t.omitted >= gap);
	free(t.text);
	shape_bytes(data + 4, n, max, &t);
	check(&t, max, n);
	free(t.text);
	return 0;
}
