/* tlv.c: see tlv.h. */
#include "wire/tlv.h"

#include <errno.h>
#include <string.h>

#include "wire/frame.h"

int tlv_bytes(struct buf *b, uint16_t tag, const void *p, size_t n)
{
	uint8_t h[TLV_HEADER];
	if (n > UINT32_MAX)
		return -ENOBUFS;
	wire_put16(h, tag);
	wire_put32(h + 2, (uint32_t)n);
	int r = buf_reserve(b, sizeof(h) + n);
	if (r < 0)
		return r;
	r = buf_append(b, h, sizeof(h));
	return r < 0 ? r : buf_append(b, p, n);
}

int tlv_str(struct buf *b, uint16_t tag, const char *s)
{
	return tlv_bytes(b, tag, s, strlen(s));
}

int tlv_u64(struct buf *b, uint16_t tag, uint64_t v)
{
	uint8_t bytes[8];
	size_t n = 0;
	for (int shift = 56; shift >= 0; shift -= 8) {
		uint8_t c = (uint8_t)(v >> shift);
		if (n || c || shift == 0)
			bytes[n++] = c;
	}
	return tlv_bytes(b, tag, bytes, n);
}

bool tlv_next(struct tlv_reader *r, struct tlv *ret)
{
	if (r->bad || r->n == 0)
		return false;
	if (r->n < TLV_HEADER) {
		r->bad = true;
		return false;
	}
	size_t len = wire_get32(r->p + 2);
	if (len > r->n - TLV_HEADER) {
		r->bad = true;
		return false;
	}
	*ret = (struct tlv){.tag = wire_get16(r->p), .p = r->p + TLV_HEADER, .n = len};
	r->p += TLV_HEADER + len;
	r->n -= TLV_HEADER + len;
	return true;
}

int tlv_get_u64(const struct tlv *t, uint64_t *ret)
{
	if (t->n == 0 || t->n > 8)
		return -EPROTO;
	uint64_t v = 0;
	for (size_t i = 0; i < t->n; i++)
		v = v << 8 | t->p[i];
	*ret = v;
	return 0;
}

char *tlv_dup_str(const struct tlv *t)
{
	if (t->n && memchr(t->p, '\0', t->n))
		return NULL;
	char *s = xmalloc(t->n + 1);
	if (t->n)
		memcpy(s, t->p, t->n);
	s[t->n] = '\0';
	return s;
}

bool tlv_is(const struct tlv *t, const char *s)
{
	return t->n == strlen(s) && memcmp(t->p, s, t->n) == 0;
}
