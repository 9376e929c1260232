/* render.c: see render.h. */
#include "mcp/render.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "exec/masked.h"
#include "exec/shape.h"
#include "mcp/base64.h"
#include "mcp/jsonrpc.h"
#include "mcp/redaction.h"
#include "mcp/remedy.h"

#define PUT(...) (void)!buf_printf(text, __VA_ARGS__)

/* Of one answer, beside stdout and stderr: */
#define RESULT_TEXT_MAX   (8 * KIB)  /* text form of one result */
#define RESULTS_TEXT_MAX  (16 * KIB) /* all of them */
#define TRACEBACK_MAX     (8 * KIB)
#define INLINE_MIME_MAX   (32 * KIB)   /* one MIME value in structured content */
#define INLINE_MIMES_MAX  (128 * KIB)  /* all of them */
#define IMAGES_MAX        (500 * 1000) /* raw bytes of all image blocks: 667 KB in base64 */
#define ERROR_MESSAGE_MAX (2 * KIB)

static const struct field mime_fields[] = {{"mime", "object", true, NULL}, {0}};
static const struct field exit_fields[] = {
	{"reason", "string", true, NULL},
	{"signal", "string", false, NULL},
	{"evidence", "string", false, NULL},
	{"notes", "[string]", false, NULL},
	{"remedy", "string", false, NULL},
	{0},
};
static const struct field omitted_fields[] = {
	{"stdout", "integer", false, NULL}, {"stderr", "integer", false, NULL}, {0}};
static const struct field error_fields[] = {
	{"name", "string", false, NULL},
	{"message", "string", false, NULL},
	{"traceback", "string", false, NULL},
	{0},
};
const struct field render_fields[] = {
	{"session", "string", true, NULL},
	{"job", "string", true, NULL},
	{"status", "string", true, NULL},
	{"exitCode", "integer", false, NULL},
	{"exit", "object", false, exit_fields},
	{"stdout", "string", false, NULL},
	{"stderr", "string", false, NULL},
	{"omitted", "object", false, omitted_fields},
	{"results", "[object]", false, mime_fields},
	{"error", "object", false, error_fields},
	{"kernel", "string", false, NULL},
	{"durationMs", "number", false, NULL},
	{0},
};

/* The same, without what stands within: a list of tools costs its reader a little for every word.
 */
const struct field render_brief_fields[] = {
	{"session", "string", true, NULL},
	{"job", "string", true, NULL},
	{"status", "string", true, NULL},
	{"exitCode", "integer", false, NULL},
	{"exit", "object", false, NULL},
	{"stdout", "string", false, NULL},
	{"stderr", "string", false, NULL},
	{"omitted", "object", false, NULL},
	{"durationMs", "number", false, NULL},
	{0},
};

static void set_text(json_t *o, const char *key, const char *value)
{
	if (value)
		json_object_set_new(o, key, jsonrpc_text(value));
}

void render_signal(int signal, char *ret_text, size_t size)
{
	const char *name = sigabbrev_np(signal);
	if (name)
		(void)snprintf(ret_text, size, "SIG%s", name);
	else
		(void)snprintf(ret_text, size, "signal %d", signal);
}

/* ---- stdout and stderr ---- */

/* An eighth of it or more is no text. A stray NUL (/proc/PID/cmdline, find -print0) is shown. */
static bool is_binary(const struct exec_output *o, size_t replaced)
{
	size_t shown = o->head.len + o->tail.len, odd = replaced;
	for (size_t i = 0; i < o->head.len; i++)
		odd += o->head.data[i] == '\0';
	return odd > 16 && odd * 8 > MIN(shown, LIMIT_ANSWER_TEXT);
}

/* How stdout and stderr share the answer: each has half for sure, and what the other leaves. */
static size_t share(const struct exec_output *other)
{
	size_t half = LIMIT_ANSWER_TEXT / 2;
	return other->total < half ? (size_t)(LIMIT_ANSWER_TEXT - other->total) : half;
}

static void render_output(const struct exec_status *s, const struct render_context *ctx,
	bool is_stderr, struct buf *text, json_t *structured, json_t *omitted)
{
	const char *name = is_stderr ? "stderr" : "stdout";
	const struct exec_output *o = is_stderr ? &s->err : &s->out;
	if (o->total == 0) {
		set_text(structured, name, "");
		return;
	}
	struct shape_text shaped = {0};
	shape_output(o, share(is_stderr ? &s->out : &s->err), ctx->redacting, &shaped);
	if (is_binary(o, shaped.replaced)) {
		free(shaped.text);
		PUT("%s: %llu bytes that are not text; read them with job action=read job=%s "
		    "stream=%s encoding=base64\n",
			name, (unsigned long long)o->total, s->job, name);
		set_text(structured, name, "");
		json_object_set_new(omitted, name, json_integer((json_int_t)o->total));
		return;
	}
	size_t n = strlen(shaped.text);
	bool newline = n > 0 && shaped.text[n - 1] == '\n';
	PUT("%s:\n%s%s", name, shaped.text, newline ? "" : "\n");
	if (shaped.omitted > 0) {
		PUT("(%llu byte%s of %s left out: job=%s with action=search pattern=…, or "
		    "action=read stream=%s offset=…)\n",
			(unsigned long long)shaped.omitted, str_plural(shaped.omitted), name,
			s->job, name);
		json_object_set_new(omitted, name, json_integer((json_int_t)shaped.omitted));
	}
	if (shaped.replaced > 0)
		PUT("(%zu byte%s of %s not UTF-8 and shown as \xef\xbf\xbd)\n", shaped.replaced,
			str_plural(shaped.replaced), name);
	json_object_set_new(structured, name, json_string(shaped.text));
	free(shaped.text);
}

/* ---- results of a cell ---- */

struct results {
	struct buf *text;
	json_t *blocks;
	size_t text_left, inline_left, images_left;
	unsigned figures;
	const struct redacting *redacting;
};

static bool is_image(const char *type)
{
	return str_starts(type, "image/") && strcmp(type, "image/svg+xml") != 0;
}

static json_t *mime_left_out(size_t n)
{
	return json_pack("{s:I}", "bytes", (json_int_t)n);
}

/* A figure for the model to look at: an image block, named in structured content by its place. */
static json_t *mime_image(const struct exec_mime *m, struct results *r)
{
	struct buf *text = r->text;
	char size[STR_SIZE_TEXT];
	str_size(m->n, size);
	r->figures++;
	if (strcmp(m->type, "image/png") != 0 || m->n > LIMIT_IMAGE_BLOCK ||
		m->n > r->images_left) {
		PUT("figure %u: %s, %s: too large to show here; save it to a file and use "
		    "present_output\n",
			r->figures, m->type, size);
		return mime_left_out(m->n);
	}
	const char *secret =
		r->redacting ? redact_find(r->redacting->redactor, m->data, m->n) : NULL;
	if (secret) {
		PUT("figure %u: %s, %s: not shown, the secret %s stands in its bytes\n", r->figures,
			m->type, size, secret);
		return mime_left_out(m->n);
	}
	r->images_left -= m->n;
	json_t *block = json_object();
	json_object_set_new(block, "type", json_string("image"));
	json_object_set_new(block, "data", base64_json(m->data, m->n));
	json_object_set_new(block, "mimeType", json_string("image/png"));
	json_array_append_new(r->blocks, block);

	char ref[32];
	(void)snprintf(ref, sizeof(ref), "content[%zu]", json_array_size(r->blocks));
	PUT("figure %u: image/png, %s, attached\n", r->figures, size);
	json_t *o = mime_left_out(m->n);
	json_object_set_new(o, "ref", json_string(ref));
	return o;
}

static json_t *mime_value(const struct exec_mime *m, struct results *r)
{
	if (is_image(m->type))
		return mime_image(m, r);
	if (m->n > INLINE_MIME_MAX || m->n > r->inline_left || !str_utf8_valid(m->data, m->n))
		return mime_left_out(m->n);
	r->inline_left -= m->n;
	if (!exec_mime_is_json(m->type))
		return jsonrpc_text_n(m->data, m->n);
	json_t *v = NULL;
	if (m->n > 0 && !jsonrpc_too_deep((const char *)m->data, m->n, LIMIT_JSON_DEPTH / 2))
		v = json_loadb((const char *)m->data, m->n,
			JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
	if (!v)
		return jsonrpc_text_n(m->data, m->n);
	return r->redacting ? redaction_mask_data(v, r->redacting) : v;
}

static const struct exec_mime *find_mime(const struct exec_bundle *b, const char *type)
{
	for (size_t i = 0; i < b->n_mimes; i++)
		if (strcmp(b->mimes[i].type, type) == 0)
			return &b->mimes[i];
	return NULL;
}

static bool has_image(const struct exec_bundle *b)
{
	for (size_t i = 0; i < b->n_mimes; i++)
		if (is_image(b->mimes[i].type))
			return true;
	return false;
}

/* "<IPython.core.display.HTML object>": what IPython says of what has a better form. */
static bool is_object_repr(const struct exec_mime *m)
{
	static const char before[] = "<IPython.core.display.";
	return m->n >= sizeof(before) - 1 && memcmp(m->data, before, sizeof(before) - 1) == 0;
}

/* Text for a bundle that has none of its own. */
static const struct exec_mime *other_text(const struct exec_bundle *b)
{
	const struct exec_mime *m = find_mime(b, "text/markdown");
	return m ? m : find_mime(b, "text/latex");
}

static void print_bundle(const struct exec_bundle *b, struct results *r)
{
	struct buf *text = r->text;
	const struct exec_mime *plain = find_mime(b, "text/plain");
	const struct exec_mime *html = find_mime(b, "text/html");
	const char *kind = b->is_result ? "result" : "display";
	if (!plain || is_object_repr(plain)) {
		plain = other_text(b) ? other_text(b) : html ? NULL : plain;
		if (html && !plain)
			PUT("%s: (HTML, %zu byte%s, in structured content)\n", kind, html->n,
				str_plural(html->n));
	}
	if (plain && !has_image(b)) { /* "<Figure size 640x480 …>" says nothing */
		struct shape_text shaped = {0};
		shape_bytes(plain->data, plain->n, MIN(RESULT_TEXT_MAX, r->text_left), r->redacting,
			&shaped);
		r->text_left -= MIN(strlen(shaped.text), r->text_left);
		PUT("%s:\n%s\n", kind, shaped.text);
		free(shaped.text);
	}
	for (size_t i = 0; i < b->n_skipped; i++)
		PUT("left out, too large: %s bytes; save it to a file and use present_output\n",
			b->skipped[i]);
}

static json_t *bundle_json(const struct exec_bundle *b, struct results *r)
{
	json_t *mime = json_object();
	for (size_t i = 0; i < b->n_mimes; i++)
		json_object_set_new(mime, b->mimes[i].type, mime_value(&b->mimes[i], r));
	for (size_t i = 0; i < b->n_skipped; i++) {
		char type[128];
		uint64_t n = 0;
		const char *space = strrchr(b->skipped[i], ' ');
		if (!space || (size_t)(space - b->skipped[i]) >= sizeof(type) ||
			str_to_u64(space + 1, INT64_MAX, &n) < 0)
			continue;
		(void)snprintf(
			type, sizeof(type), "%.*s", (int)(space - b->skipped[i]), b->skipped[i]);
		json_object_set_new(mime, type, mime_left_out(n));
	}
	return json_pack("{s:o}", "mime", mime);
}

static void render_results(const struct exec_status *s, const struct render_context *ctx,
	struct buf *text, json_t *structured, json_t *blocks)
{
	if (s->n_results == 0)
		return;
	struct results r = {.text = text,
		.blocks = blocks,
		.text_left = RESULTS_TEXT_MAX,
		.inline_left = INLINE_MIMES_MAX,
		.images_left = IMAGES_MAX,
		.redacting = ctx->redacting};
	json_t *list = json_array();
	for (size_t i = 0; i < s->n_results; i++) {
		print_bundle(&s->results[i], &r);
		json_array_append_new(list, bundle_json(&s->results[i], &r));
	}
	json_object_set_new(structured, "results", list);
}

static void render_error(const struct exec_status *s, const struct render_context *ctx,
	struct buf *text, json_t *structured)
{
	if (!s->error_name)
		return;
	struct shape_text message = {0}, traceback = {0};
	shape_bytes(s->error_message, s->error_message ? strlen(s->error_message) : 0,
		ERROR_MESSAGE_MAX, ctx->redacting, &message);
	shape_bytes(s->traceback, s->traceback ? strlen(s->traceback) : 0, TRACEBACK_MAX,
		ctx->redacting, &traceback);

	json_t *error = json_object();
	set_text(error, "name", s->error_name);
	json_object_set_new(error, "message", json_string(message.text));
	if (*traceback.text) {
		PUT("%s\n", traceback.text);
		json_object_set_new(error, "traceback", json_string(traceback.text));
	} else {
		PUT("%s: %s\n", s->error_name, message.text);
	}
	json_object_set_new(structured, "error", error);
	free(message.text);
	free(traceback.text);
}

/* ---- the whole ---- */

static json_t *render_notes(
	const struct exec_status *s, const struct render_context *ctx, struct buf *text)
{
	json_t *list = json_array();
	for (size_t i = 0; i < s->n_notes; i++) {
		_cleanup_buf_ struct buf note = BUF_INIT(512);
		remedy_note(s->notes[i], &note);
		json_array_append_new(list, jsonrpc_text_n(note.data, note.len));
	}
	if (s->kernel_restarted)
		json_array_append_new(list,
			json_string(
				"the interpreter had ended before, so this ran in a new one: the "
				"state was lost, variables and imports must be made again"));
	_cleanup_buf_ struct buf missing = BUF_INIT(1024);
	remedy_missing(s, ctx, &missing);
	if (missing.len > 0) /* pip's failure names the network too */
		json_array_append_new(list, jsonrpc_text_n(missing.data, missing.len));
	else if (remedy_wants_network(s))
		json_array_append_new(list, json_string(remedy_no_network));

	size_t i;
	json_t *note;
	json_array_foreach (list, i, note)
		PUT("note: %s\n", json_string_value(note));
	return list;
}

static void render_exit(const struct exec_status *s, const struct render_context *ctx,
	struct buf *text, json_t *structured)
{
	json_t *exit = json_object();
	if (s->has_exit_code)
		json_object_set_new(structured, "exitCode", json_integer(s->exit_code));
	set_text(exit, "reason", exec_reason_name(s->reason));
	if (s->signal) {
		char name[16];
		render_signal(s->signal, name, sizeof(name));
		set_text(exit, "signal", name);
	}
	set_text(exit, "evidence", exec_evidence_name(s->evidence));

	json_t *notes = render_notes(s, ctx, text);
	if (json_array_size(notes) > 0)
		json_object_set(exit, "notes", notes);
	json_decref(notes);

	_cleanup_buf_ struct buf advice = BUF_INIT(1024);
	remedy_advice(s, ctx, &advice);
	if (advice.len > 0) {
		PUT("what to do: %.*s\n", (int)advice.len, (const char *)advice.data);
		json_object_set_new(exit, "remedy", jsonrpc_text_n(advice.data, advice.len));
	}
	json_object_set_new(structured, "exit", exit);
}

static double milliseconds(uint64_t us)
{
	return (double)(us / 10) / 100.0; /* two decimals */
}

static void render_headline(
	const struct exec_status *s, const struct render_context *ctx, struct buf *text)
{
	if (s->state == JOB_QUEUED) {
		PUT("queued (position %u): the interpreter is busy. Get the result with job "
		    "action=wait job=%s\n",
			s->queue_position, s->job);
		return;
	}
	if (s->unheard) {
		PUT("no word from the sandbox in time. Ask again with job action=wait job=%s, or "
		    "close the session\n",
			s->job);
		return;
	}
	if (s->state == JOB_RUNNING) {
		PUT("still running. Get the result with job action=wait job=%s\n", s->job);
		return;
	}
	_cleanup_buf_ struct buf ending = BUF_INIT(512);
	remedy_ending(s, ctx, &ending);
	PUT("%.*s (%.2f s, job %s)\n", (int)ending.len, (const char *)ending.data,
		(double)s->duration_us / (double)USEC_PER_SEC, s->job);
}

static const char *state_name(enum wire_job_state state)
{
	return state == JOB_QUEUED ? "queued" : state == JOB_RUNNING ? "running" : "done";
}

void render_status(const struct exec_status *s, const struct render_context *ctx, struct buf *text,
	json_t *structured, json_t *blocks)
{
	set_text(structured, "job", s->job);
	set_text(structured, "status", state_name(s->state));
	render_headline(s, ctx, text);

	size_t before = text->len;
	json_t *omitted = json_object();
	if (s->state == JOB_DONE || s->out.total > 0 || s->err.total > 0) {
		render_output(s, ctx, false, text, structured, omitted);
		render_output(s, ctx, true, text, structured, omitted);
	}
	if (json_object_size(omitted) > 0)
		json_object_set(structured, "omitted", omitted);
	json_decref(omitted);
	render_results(s, ctx, text, structured, blocks);
	render_error(s, ctx, text, structured);
	if (s->state == JOB_DONE && text->len == before)
		PUT("(no output)\n");

	if (s->state == JOB_DONE)
		render_exit(s, ctx, text, structured);
	set_text(structured, "kernel", s->kernel);
	if (s->duration_us > 0)
		json_object_set_new(
			structured, "durationMs", json_real(milliseconds(s->duration_us)));
}

void render_job_line(const struct exec_status *s, struct buf *text)
{
	_cleanup_buf_ struct buf command = BUF_INIT(1024);
	if (s->command)
		(void)!str_utf8_repair(&command, s->command, MIN(strlen(s->command), 200), NULL);
	for (size_t i = 0; i < command.len; i++)
		if (command.data[i] == '\n' || command.data[i] == '\r' || command.data[i] == '\t')
			command.data[i] = ' ';
	PUT("%s  %s", s->job, state_name(s->state));
	if (s->state == JOB_DONE)
		PUT(" (%s%s)", exec_reason_name(s->reason),
			s->has_exit_code && s->exit_code != 0 ? ", non-zero" : "");
	PUT("  %.2f s  %s  %.*s\n", (double)s->duration_us / (double)USEC_PER_SEC,
		s->kernel ? s->kernel : "command", (int)command.len, (const char *)command.data);
}

json_t *render_job_json(const struct exec_status *s)
{
	json_t *o = json_object();
	set_text(o, "job", s->job);
	set_text(o, "status", state_name(s->state));
	if (s->state == JOB_DONE) {
		if (s->has_exit_code)
			json_object_set_new(o, "exitCode", json_integer(s->exit_code));
		set_text(o, "reason", exec_reason_name(s->reason));
	}
	if (s->duration_us)
		json_object_set_new(o, "durationMs", json_real(milliseconds(s->duration_us)));
	set_text(o, "kernel", s->kernel);
	if (s->command)
		json_object_set_new(
			o, "command", jsonrpc_text_n(s->command, MIN(strlen(s->command), 200)));
	return o;
}
