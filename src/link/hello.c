/* hello.c: see hello.h. */
#include "link/hello.h"

#include <errno.h>
#include <string.h>

/* What an agent says about itself ends in logs and results: printable ASCII, cut at the size. */
static void copy_printable(char *dst, size_t size, const struct tlv *t)
{
	size_t n = MIN(t->n, size - 1);
	for (size_t i = 0; i < n; i++)
		dst[i] = t->p[i] > 0x20 && t->p[i] < 0x7f ? (char)t->p[i] : '?';
	dst[n] = '\0';
}

static void add_feature(struct link_hello *h, const struct tlv *t)
{
	char name[32];
	if (t->n == 0 || t->n >= sizeof(name))
		return;
	copy_printable(name, sizeof(name), t);
	size_t used = strlen(h->features), need = t->n + (used ? 1 : 0);
	if (strchr(name, ',') || used + need >= sizeof(h->features))
		return;
	if (used)
		h->features[used++] = ',';
	memcpy(h->features + used, name, t->n + 1);
}

int link_hello_parse(struct tlv_reader msg, struct link_hello *ret, struct err *err)
{
	struct link_hello h = {0};
	uint64_t min = 0, max = 0;
	bool boot_id = false;
	int r = 0;
	for (struct tlv t; r == 0 && tlv_next(&msg, &t);) {
		switch (t.tag) {
		case TAG_PROTOCOL_MIN:
			r = tlv_get_u64(&t, &min);
			break;
		case TAG_PROTOCOL_MAX:
			r = tlv_get_u64(&t, &max);
			break;
		case TAG_UPTIME_MS:
			r = tlv_get_u64(&t, &h.uptime_ms);
			break;
		case TAG_BUILD:
			copy_printable(h.build, sizeof(h.build), &t);
			break;
		case TAG_FEATURE:
			add_feature(&h, &t);
			break;
		case TAG_BOOT_ID:
			boot_id = t.n == sizeof(h.boot_id);
			if (boot_id)
				memcpy(h.boot_id, t.p, sizeof(h.boot_id));
			break;
		default:
			break; /* a newer agent's tag */
		}
	}
	if (r < 0 || msg.bad || !boot_id)
		return err_set(err, ERR_PROTOCOL, EPROTO,
			"the sandbox's agent sent a hello that makes no sense");
	if (min > WIRE_PROTOCOL || max < WIRE_PROTOCOL)
		return err_set(err, ERR_PROTOCOL, EPROTO,
			"the sandbox's agent speaks versions %llu to %llu of the protocol, this "
			"broker version %d; use scb and scb-agent of one build",
			(unsigned long long)min, (unsigned long long)max, WIRE_PROTOCOL);
	h.protocol = WIRE_PROTOCOL;
	*ret = h;
	return 0;
}
