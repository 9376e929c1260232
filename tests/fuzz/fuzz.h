/* fuzz.h: what fuzz targets share: input read piece by piece, and an agent made of input. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "link/link.h"

/* libFuzzer's entry point; input that makes it return anything but normally is a finding. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p;
	size_t n;
};

static inline uint8_t input_u8(struct input *in)
{
	if (in->n == 0)
		return 0;
	in->n--;
	return *in->p++;
}

static inline uint16_t input_u16(struct input *in)
{
	uint16_t high = input_u8(in);
	return (uint16_t)(high << 8 | input_u8(in));
}

/* At most n bytes; *ret_n says how many there were. */
static inline const uint8_t *input_bytes(struct input *in, size_t n, size_t *ret_n)
{
	const uint8_t *p = in->p;
	*ret_n = MIN(n, in->n);
	in->p += *ret_n;
	in->n -= *ret_n;
	return p;
}

/* Frames in a form that mutations keep well-formed: type, stream, be16 length, payload; with
 * FUZZ_TLVS in the type the payload is tag, be16 length, bytes, … and becomes TLVs (after two
 * bytes of status or operation where the type has them). One frame appended to out; false at the
 * end of the input. */
#define FUZZ_TLVS 0x80
bool fuzz_frame(struct input *in, struct buf *out);

/* A link whose peer has shown its key and said hello; what it says next is input. */
struct fuzz_link {
	uv_loop_t loop;
	struct link *link;
	int peer;
};
void fuzz_link_open(struct fuzz_link *f);
/* Runs the loop until nothing happens at once, throwing away what the broker sends. */
void fuzz_link_turn(struct fuzz_link *f);
/* All of in as frames, in pieces whose sizes are input too. */
void fuzz_link_feed(struct fuzz_link *f, struct input *in);
/* The link must have been closed; ends the loop, and finds what keeps it busy. */
void fuzz_link_close(struct fuzz_link *f);
