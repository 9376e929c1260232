/* fuzz-audit.c: bytes as an audit log: whatever stands in it, it is called whole exactly where each
 * line has the next number and the hash of the one before; and as lines for people and programs. */
#include "fuzz.h"

#include <jansson.h>

#include "audit/check.h"
#include "audit/ocsf.h"

struct naive {
	uint64_t seq;
	uint8_t hash[HASH_SIZE];
	bool any, wrong;
};

static void follow(struct naive *v, const char *p, size_t n)
{
	struct entry e;
	if (entry_parse(p, n, &e) < 0) {
		v->wrong = true;
		return;
	}
	if (v->any && (e.seq != v->seq + 1 || memcmp(e.prev, v->hash, HASH_SIZE) != 0))
		v->wrong = true;
	v->wrong = v->wrong || entry_is(e.event, "audit.gap");
	v->any = true;
	v->seq = e.seq;
	hash_bytes(p, n, v->hash);
}

static void as_json(const char *p, size_t n)
{
	struct entry e;
	json_t *o = json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL);
	if (o && entry_parse(p, n, &e) == 0)
		CHECK((uint64_t)json_integer_value(json_object_get(o, "seq")) == e.seq);
	json_decref(o);
	o = ocsf_event(p, n, "host", "0");
	if (o) {
		const char *raw = json_string_value(json_object_get(o, "raw_data"));
		CHECK(raw && strlen(raw) == n && memcmp(raw, p, n) == 0);
	}
	json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct check c; /* large */
	struct naive naive = {0};
	const char *p = (const char *)data, *end = p + size, *stop;
	c = (struct check){0};
	check_file(&c, "audit.jsonl");
	for (; p < end && (stop = memchr(p, '\n', (size_t)(end - p))); p = stop + 1) {
		check_line(&c, p, (size_t)(stop - p));
		follow(&naive, p, (size_t)(stop - p));
		as_json(p, (size_t)(stop - p));
	}
	check_end(&c);
	CHECK(c.n_findings <= CHECK_FINDINGS);
	CHECK((c.n_wrong > 0) == naive.wrong);
	return 0;
}
