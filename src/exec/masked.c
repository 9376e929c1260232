/* masked.c: see masked.h. */
#include "exec/masked.h"

#include <string.h>

#include "base/limits.h"
#include "base/str.h"

/* Texts of less than that come whole: nobody on their way cuts what is so short. */
#define CUT_FROM 200

static void mask_text(char *text, const struct redacting *w)
{
	size_t n = text ? strlen(text) : 0;
	redact_text(w->redactor, text, n, false, n >= CUT_FROM, w->hits);
	redact_shortened(w->redactor, text, n); /* as kernels do with what is long */
}

static void mask_texts(char **texts, size_t n, const struct redacting *w)
{
	for (size_t i = 0; i < n; i++)
		mask_text(texts[i], w);
}

static void mask_output(struct exec_output *o, bool done, const struct redacting *w)
{
	if (o->total > o->head.len + o->tail.len) {
		redact_piece(w->redactor, o->head.data, o->head.len, false, true, w->hits);
		redact_piece(w->redactor, o->tail.data, o->tail.len, true, !done, w->hits);
		return;
	}
	if (o->tail.len == 0) {
		redact_piece(w->redactor, o->head.data, o->head.len, false, !done, w->hits);
		return;
	}
	_cleanup_buf_ struct buf whole = BUF_INIT(o->head.len + o->tail.len);
	CHECK(buf_append(&whole, o->head.data, o->head.len) == 0 &&
		buf_append(&whole, o->tail.data, o->tail.len) == 0);
	if (redact_piece(w->redactor, whole.data, whole.len, false, !done, w->hits) || !done) {
		if (o->head.len)
			memcpy(o->head.data, whole.data, o->head.len);
		memcpy(o->tail.data, whole.data + o->head.len, o->tail.len);
	}
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && strcmp(s + n - m, end) == 0;
}

bool exec_mime_is_json(const char *type)
{
	return ends_with(type, "json");
}

static void mask_bundle(struct exec_bundle *b, const struct redacting *w)
{
	for (size_t i = 0; i < b->n_mimes; i++) {
		struct exec_mime *m = &b->mimes[i];
		mask_text(m->type, w);
		if (!exec_mime_is_json(m->type) && str_utf8_valid(m->data, m->n))
			mask_text((char *)m->data, w);
	}
	mask_texts(b->skipped, b->n_skipped, w);
}

void exec_status_mask(struct exec_status *s, const struct redacting *w)
{
	if (!w || !w->redactor)
		return;
	bool done = s->state == JOB_DONE;
	mask_output(&s->out, done, w);
	mask_output(&s->err, done, w);
	for (size_t i = 0; i < s->n_results; i++)
		mask_bundle(&s->results[i], w);
	mask_texts(s->notes, s->n_notes, w);
	mask_text(s->error_name, w);
	mask_text(s->error_message, w);
	mask_text(s->traceback, w);
	mask_text(s->kernel, w);
	mask_text(s->command, w);
}
