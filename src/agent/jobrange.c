/* jobrange.c: see jobrange.h. */
#include "agent/jobrange.h"

#include "wire/tlv.h"

static void take(struct jobrange *q, const struct tlv *t)
{
	uint64_t *number = t->tag == TAG_CHANNEL  ? &q->channel
			   : t->tag == TAG_OFFSET ? &q->offset
			   : t->tag == TAG_LENGTH ? &q->length
			   : t->tag == TAG_LIMIT  ? &q->limit
						  : NULL;
	if (number) {
		q->bad |= tlv_get_u64(t, number) < 0 || *number > INT64_MAX;
	} else if (t->tag == TAG_JOB) {
		q->id = t->n == JOB_ID ? t->p : NULL;
	} else if (t->tag == TAG_PATTERN) {
		q->pattern = t->p;
		q->pattern_len = t->n;
	}
}

bool jobrange_read(struct stream *s, struct tlv_reader body, struct jobrange *q)
{
	*q = (struct jobrange){
		.channel = CHANNEL_STDOUT, .length = INT64_MAX, .limit = LIMIT_SEARCH_HITS};
	for (struct tlv t; tlv_next(&body, &t);)
		take(q, &t);
	if (body.bad || q->bad || !q->id || q->channel < CHANNEL_STDOUT ||
		q->channel > CHANNEL_BOTH) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "JOB is missing, or a number has no sense");
		return false;
	}
	q->job = job_find(q->id);
	if (!q->job)
		stream_fail(s, WIRE_NOT_FOUND, 0, "no such job");
	return q->job != NULL;
}
