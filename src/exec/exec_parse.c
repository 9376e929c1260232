/* exec_parse.c: see exec_parse.h. */
#include "exec/exec_parse.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"

/* Longest texts, in bytes of the wire; what is longer is cut. */
#define NOTE_MAX      240
#define NAME_MAX_     200
#define MESSAGE_MAX   (16 * KIB)
#define TRACEBACK_MAX (64 * KIB)
#define COMMAND_MAX   (4 * KIB)
#define LINE_MAX_     (4 * KIB)
/* Counts of what repeats. */
#define NOTES_MAX     32
#define MIMES_MAX     16
#define MIME_TYPE_MAX 100
#define SIGNAL_MAX    64
#define DURATION_MAX  (400ULL * 24 * 3600 * USEC_PER_SEC) /* sums of times must not overflow */

/* A number ≤ max; -EPROTO otherwise. */
static int number(const struct tlv *t, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	if (tlv_get_u64(t, &v) < 0 || v > max)
		return -EPROTO;
	*ret = v;
	return 0;
}

static int number32(const struct tlv *t, uint64_t max, uint32_t *ret)
{
	uint64_t v = 0;
	int r = number(t, max, &v);
	if (r == 0)
		*ret = (uint32_t)v;
	return r;
}

static int number_int(const struct tlv *t, uint64_t min, uint64_t max, int *ret)
{
	uint64_t v = 0;
	int r = number(t, max, &v);
	if (r == 0 && v < min)
		return -EPROTO;
	if (r == 0)
		*ret = (int)v;
	return r;
}

/* As valid UTF-8, cut at max bytes of the wire; owned by the caller. */
static char *text(const struct tlv *t, size_t max)
{
	size_t n = t->n > max ? str_utf8_trim(t->p, max) : t->n;
	struct buf b = BUF_INIT(3 * n + 1);
	CHECK(str_utf8_repair(&b, t->p, n, NULL) == 0); /* U+FFFD has three bytes */
	return buf_steal_str(&b);
}

/* The first of its tag counts. */
static void text_once(const struct tlv *t, size_t max, char **ret)
{
	if (!*ret)
		*ret = text(t, max);
}

static int text_repeated(
	const struct tlv *t, size_t max, size_t count_max, char ***list, size_t *n_list)
{
	if (*n_list >= count_max)
		return -EPROTO;
	*list = xrealloc(*list, (*n_list + 1) * sizeof(**list));
	(*list)[(*n_list)++] = text(t, max);
	return 0;
}

static void texts_done(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

/* ---- a job's status ---- */

static int output_bytes(const struct tlv *t, struct buf *b)
{
	if (b->len || t->n > LIMIT_INLINE_OUTPUT)
		return -EPROTO;
	return buf_append(b, t->p, t->n) < 0 ? -EPROTO : 0;
}

static int output_tag(const struct tlv *t, struct exec_status *s)
{
	switch (t->tag) {
	case TAG_STDOUT_TOTAL:
		return number(t, INT64_MAX, &s->out.total);
	case TAG_STDOUT_LOST:
		return number(t, INT64_MAX, &s->out.lost);
	case TAG_STDOUT_HEAD:
		return output_bytes(t, &s->out.head);
	case TAG_STDOUT_TAIL:
		return output_bytes(t, &s->out.tail);
	case TAG_STDERR_TOTAL:
		return number(t, INT64_MAX, &s->err.total);
	case TAG_STDERR_LOST:
		return number(t, INT64_MAX, &s->err.lost);
	case TAG_STDERR_HEAD:
		return output_bytes(t, &s->err.head);
	case TAG_STDERR_TAIL:
		return output_bytes(t, &s->err.tail);
	default:
		return 0;
	}
}

static int exit_tag(const struct tlv *t, struct exec_status *s)
{
	int v = 0, r = 0;
	switch (t->tag) {
	case TAG_REASON: /* the two after it are not an agent's to say */
		r = number_int(t, REASON_EXIT, REASON_INTERPRETER_DIED, &v);
		s->reason = (enum wire_reason)v;
		return r;
	case TAG_EVIDENCE:
		r = number_int(t, EVIDENCE_MEASURED, EVIDENCE_INFERRED, &v);
		s->evidence = (enum wire_evidence)v;
		return r;
	case TAG_EXIT_CODE:
		s->has_exit_code = true;
		return number_int(t, 0, 255, &s->exit_code);
	case TAG_SIGNAL:
		return number_int(t, 0, SIGNAL_MAX, &s->signal);
	case TAG_NOTE:
		return text_repeated(t, NOTE_MAX, NOTES_MAX, &s->notes, &s->n_notes);
	case TAG_ERROR_NAME:
		text_once(t, NAME_MAX_, &s->error_name);
		return 0;
	case TAG_ERROR_MESSAGE:
		text_once(t, MESSAGE_MAX, &s->error_message);
		return 0;
	case TAG_TRACEBACK:
		text_once(t, TRACEBACK_MAX, &s->traceback);
		return 0;
	default:
		return output_tag(t, s);
	}
}

static int status_tag(const struct tlv *t, struct exec_status *s)
{
	int v = 0, r = 0;
	switch (t->tag) {
	case TAG_JOB:
		if (t->n != ID_BYTES)
			return -EPROTO;
		s->job[0] = 'j';
		s->job[1] = '-';
		id_hex(t->p, t->n, s->job + 2);
		return 0;
	case TAG_JOB_KIND:
		r = number_int(t, JOB_KIND_COMMAND, JOB_KIND_CELL, &v);
		s->kind = (enum wire_job_kind)v;
		return r;
	case TAG_STATE:
		r = number_int(t, JOB_QUEUED, JOB_DONE, &v);
		s->state = (enum wire_job_state)v;
		return r;
	case TAG_QUEUE_POSITION:
		return number32(t, LIMIT_KERNEL_QUEUE, &s->queue_position);
	case TAG_KERNEL:
		text_once(t, NAME_MAX_, &s->kernel);
		return 0;
	case TAG_GENERATION:
		return number32(t, UINT32_MAX, &s->generation);
	case TAG_STARTED_US:
		return number(t, INT64_MAX, &s->started_us);
	case TAG_DURATION_US:
		return number(t, DURATION_MAX, &s->duration_us);
	case TAG_COMMAND:
		text_once(t, COMMAND_MAX, &s->command);
		return 0;
	default:
		return exit_tag(t, s);
	}
}

static bool output_adds_up(const struct exec_output *o)
{
	return o->head.len + o->tail.len <= o->total && o->lost <= o->total;
}

static bool status_adds_up(const struct exec_status *s)
{
	if (!s->state || !output_adds_up(&s->out) || !output_adds_up(&s->err))
		return false;
	return s->state != JOB_DONE || (s->reason && s->evidence);
}

int exec_parse_status(struct tlv_reader msg, struct exec_status *ret)
{
	struct exec_status s = {0};
	s.out.head = s.out.tail = s.err.head = s.err.tail = BUF_INIT(LIMIT_INLINE_OUTPUT);
	int r = 0;
	for (struct tlv t; r == 0 && tlv_next(&msg, &t);)
		r = status_tag(&t, &s);
	if (r < 0 || msg.bad || !status_adds_up(&s)) {
		exec_status_done(&s);
		*ret = (struct exec_status){0};
		return -EPROTO;
	}
	if (!s.kind)
		s.kind = s.kernel ? JOB_KIND_CELL : JOB_KIND_COMMAND;
	*ret = s;
	return 0;
}

void exec_status_drop_output(struct exec_status *s)
{
	buf_done(&s->out.head);
	buf_done(&s->out.tail);
	buf_done(&s->err.head);
	buf_done(&s->err.tail);
	for (size_t i = 0; i < s->n_results; i++)
		exec_bundle_done(&s->results[i]);
	free(s->results);
	s->results = NULL;
	s->n_results = 0;
}

void exec_status_done(struct exec_status *s)
{
	texts_done(s->notes, s->n_notes);
	exec_status_drop_output(s);
	free(s->error_name);
	free(s->error_message);
	free(s->traceback);
	free(s->kernel);
	free(s->command);
	*s = (struct exec_status){0};
}

/* ---- MIME bundles ---- */

/* "type/subtype", with parameters as in "text/plain; charset=utf-8". */
static bool mime_type_valid(const struct tlv *t)
{
	if (t->n == 0 || t->n > MIME_TYPE_MAX || !memchr(t->p, '/', t->n))
		return false;
	for (size_t i = 0; i < t->n; i++)
		if (t->p[i] < 0x20 || t->p[i] > 0x7e || t->p[i] == '"' || t->p[i] == '\\')
			return false;
	return true;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && strcmp(s + n - m, end) == 0;
}

/* Types whose bytes are text: they come out as valid UTF-8. */
static bool mime_is_text(const char *type)
{
	return str_starts(type, "text/") || ends_with(type, "json") || ends_with(type, "xml") ||
	       ends_with(type, "javascript");
}

static int bundle_mime(const struct tlv *type, const struct tlv *data, struct exec_bundle *b)
{
	if (b->n_mimes >= MIMES_MAX || !mime_type_valid(type))
		return -EPROTO;
	b->mimes = xrealloc(b->mimes, (b->n_mimes + 1) * sizeof(*b->mimes));
	struct exec_mime *m = &b->mimes[b->n_mimes++];
	m->type = xstrndup((const char *)type->p, type->n);
	if (mime_is_text(m->type)) {
		m->data = (uint8_t *)text(data, data->n);
		m->n = strlen((const char *)m->data);
	} else {
		m->data = xmemdup(data->p, data->n);
		m->n = data->n;
	}
	return 0;
}

int exec_parse_bundle(struct tlv_reader msg, struct exec_bundle *ret)
{
	struct exec_bundle b = {0};
	struct tlv type = {0};
	uint64_t is_result = 0;
	int r = 0;
	for (struct tlv t; r == 0 && tlv_next(&msg, &t);) {
		if (type.tag && t.tag != TAG_MIME_DATA)
			r = -EPROTO; /* a type without its data */
		else if (t.tag == TAG_MIME)
			type = t;
		else if (t.tag == TAG_MIME_DATA) {
			r = type.tag ? bundle_mime(&type, &t, &b) : -EPROTO;
			type.tag = 0;
		} else if (t.tag == TAG_IS_RESULT)
			r = number(&t, 1, &is_result);
		else if (t.tag == TAG_MIME_SKIPPED)
			r = text_repeated(&t, NOTE_MAX, MIMES_MAX, &b.skipped, &b.n_skipped);
	}
	b.is_result = is_result;
	if (r < 0 || msg.bad || type.tag) {
		exec_bundle_done(&b);
		*ret = (struct exec_bundle){0};
		return -EPROTO;
	}
	*ret = b;
	return 0;
}

void exec_bundle_done(struct exec_bundle *b)
{
	for (size_t i = 0; i < b->n_mimes; i++) {
		free(b->mimes[i].type);
		free(b->mimes[i].data);
	}
	free(b->mimes);
	texts_done(b->skipped, b->n_skipped);
	*b = (struct exec_bundle){0};
}

/* ---- kernels ---- */

int exec_parse_kernel(struct tlv_reader msg, struct exec_kernel *ret)
{
	struct exec_kernel k = {0};
	uint64_t pid = 0, busy = 0, reason = 0;
	int r = 0;
	for (struct tlv t; r == 0 && tlv_next(&msg, &t);) {
		switch (t.tag) {
		case TAG_KERNEL:
			text_once(&t, NAME_MAX_, &k.name);
			break;
		case TAG_LANGUAGE:
			text_once(&t, NAME_MAX_, &k.language);
			break;
		case TAG_ENGINE:
			text_once(&t, NAME_MAX_, &k.engine);
			break;
		case TAG_GENERATION:
			r = number32(&t, UINT32_MAX, &k.generation);
			break;
		case TAG_PID:
			r = number(&t, INT_MAX, &pid);
			break;
		case TAG_BUSY:
			r = number(&t, 1, &busy);
			break;
		case TAG_REASON:
			r = number(&t, UINT32_MAX, &reason);
			break;
		case TAG_COUNT:
			r = number32(&t, LIMIT_KERNEL_QUEUE, &k.queued);
			break;
		default:
			break;
		}
	}
	k.alive = pid > 0;
	k.busy = busy;
	k.stopped = reason == REASON_CANCELLED;
	if (r < 0 || msg.bad || !k.name) {
		exec_kernel_done(&k);
		*ret = (struct exec_kernel){0};
		return -EPROTO;
	}
	*ret = k;
	return 0;
}

void exec_kernel_done(struct exec_kernel *k)
{
	free(k->name);
	free(k->language);
	free(k->engine);
	*k = (struct exec_kernel){0};
}

int exec_parse_twin(struct tlv_reader msg, struct exec_twin *ret)
{
	struct exec_twin twin = {0};
	int r = 0;
	for (struct tlv t; r == 0 && tlv_next(&msg, &t);) {
		if (t.tag == TAG_KERNEL)
			text_once(&t, NAME_MAX_, &twin.kernel);
		else if (t.tag == TAG_GENERATION)
			r = number32(&t, UINT32_MAX, &twin.generation);
		else if (t.tag == TAG_NOTE)
			r = text_repeated(&t, NOTE_MAX, NOTES_MAX, &twin.notes, &twin.n_notes);
	}
	if (r < 0 || msg.bad || !twin.kernel || !twin.generation) {
		exec_twin_done(&twin);
		r = -EPROTO;
	}
	*ret = twin;
	return r;
}

void exec_twin_done(struct exec_twin *t)
{
	free(t->kernel);
	texts_done(t->notes, t->n_notes);
	*t = (struct exec_twin){0};
}

/* ---- reading output, usage ---- */

int exec_parse_piece(struct tlv_reader msg, struct exec_piece *ret)
{
	struct exec_piece piece = {0};
	int channel = 0, r = 0;
	for (struct tlv t; r == 0 && tlv_next(&msg, &t);) {
		switch (t.tag) {
		case TAG_CHANNEL:
			r = number_int(&t, CHANNEL_STDOUT, CHANNEL_STDERR, &channel);
			break;
		case TAG_OFFSET:
			r = number(&t, INT64_MAX, &piece.offset);
			break;
		case TAG_TIME_US:
			r = number(&t, DURATION_MAX, &piece.time_us);
			break;
		case TAG_BYTES:
			piece.p = t.p;
			piece.n = t.n;
			break;
		default:
			break;
		}
	}
	if (r < 0 || msg.bad || !channel || piece.n == 0)
		return -EPROTO;
	piece.channel = (enum wire_channel)channel;
	*ret = piece;
	return 0;
}

int exec_parse_read(struct tlv_reader msg, struct exec_read *ret)
{
	struct exec_read v = {0};
	int state = 0, r = 0;
	for (struct tlv t; r == 0 && tlv_next(&msg, &t);) {
		switch (t.tag) {
		case TAG_OFFSET:
			r = number(&t, INT64_MAX, &v.offset);
			break;
		case TAG_TOTAL:
			r = number(&t, INT64_MAX, &v.total);
			break;
		case TAG_LOST_OFFSET:
			r = number(&t, INT64_MAX, &v.lost_offset);
			break;
		case TAG_LENGTH:
			r = number(&t, INT64_MAX, &v.lost_len);
			break;
		case TAG_STATE:
			r = number_int(&t, JOB_QUEUED, JOB_DONE, &state);
			break;
		default:
			break;
		}
	}
	if (r < 0 || msg.bad)
		return -EPROTO;
	ret->offset = v.offset;
	ret->total = v.total;
	ret->lost_offset = v.lost_offset;
	ret->lost_len = v.lost_len;
	ret->ended = state == JOB_DONE;
	return 0;
}

int exec_parse_hit(struct tlv_reader msg, struct exec_hit *ret)
{
	struct exec_hit hit = {0};
	int channel = 0, r = 0;
	for (struct tlv t; r == 0 && tlv_next(&msg, &t);) {
		if (t.tag == TAG_CHANNEL)
			r = number_int(&t, CHANNEL_STDOUT, CHANNEL_STDERR, &channel);
		else if (t.tag == TAG_OFFSET)
			r = number(&t, INT64_MAX, &hit.offset);
		else if (t.tag == TAG_LINE_TEXT)
			text_once(&t, LINE_MAX_, &hit.text);
	}
	if (r < 0 || msg.bad || !channel || !hit.text) {
		free(hit.text);
		return -EPROTO;
	}
	hit.channel = (enum wire_channel)channel;
	*ret = hit;
	return 0;
}

int exec_parse_found(struct tlv_reader msg, struct exec_found *ret)
{
	uint64_t more = 0, offset = 0;
	int channel = CHANNEL_STDOUT, r = 0;
	for (struct tlv t; r == 0 && tlv_next(&msg, &t);) {
		if (t.tag == TAG_MORE)
			r = number(&t, 1, &more);
		else if (t.tag == TAG_CHANNEL)
			r = number_int(&t, CHANNEL_STDOUT, CHANNEL_STDERR, &channel);
		else if (t.tag == TAG_OFFSET)
			r = number(&t, INT64_MAX, &offset);
	}
	if (r < 0 || msg.bad)
		return -EPROTO;
	ret->more = more;
	ret->next_channel = (enum wire_channel)channel;
	ret->next_offset = offset;
	return 0;
}

int exec_parse_usage(struct tlv_reader msg, struct exec_usage *ret)
{
	static const struct {
		uint16_t tag;
		size_t offset;
	} members[] = {
		{TAG_MEMORY, offsetof(struct exec_usage, memory)},
		{TAG_MEMORY_MAX, offsetof(struct exec_usage, memory_max)},
		{TAG_PIDS, offsetof(struct exec_usage, pids)},
		{TAG_PIDS_MAX, offsetof(struct exec_usage, pids_max)},
		{TAG_DISK_TOTAL, offsetof(struct exec_usage, disk_total)},
		{TAG_DISK_FREE, offsetof(struct exec_usage, disk_free)},
		{TAG_SPOOL, offsetof(struct exec_usage, spool)},
	};
	struct exec_usage u = {0};
	int r = 0;
	for (struct tlv t; r == 0 && tlv_next(&msg, &t);)
		for (size_t i = 0; i < ARRAY_SIZE(members); i++)
			if (t.tag == members[i].tag)
				r = number(&t, INT64_MAX,
					(uint64_t *)((char *)&u + members[i].offset));
	if (r < 0 || msg.bad)
		return -EPROTO;
	*ret = u;
	return 0;
}
