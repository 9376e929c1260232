/* jobstart.c: see jobstart.h. */
#include "agent/jobstart.h"

#include <string.h>
#include <unistd.h>

#include "agent/kernel.h"
#include "agent/sessionenv.h"
#include "base/id.h"
#include "wire/tlv.h"

/* What a buffer may keep from one start to the next. */
#define KEPT (16 * KIB)

static const struct config *config;

void jobstart_init(const struct config *c)
{
	config = c;
}

bool text_list_add(struct text_list *l, const struct tlv *t)
{
	if (l->n == LIMIT_ARGS || t->n >= LIMIT_ARG_BYTES)
		return false;
	char *s = tlv_dup_str(t);
	if (!s)
		return false;
	l->v = xrealloc(l->v, (l->n + 2) * sizeof(*l->v));
	l->v[l->n++] = s;
	l->v[l->n] = NULL;
	return true;
}

void text_list_copy(struct text_list *ret, const struct text_list *l)
{
	*ret = (struct text_list){.v = xcalloc(l->n + 1, sizeof(*l->v)), .n = l->n};
	for (size_t i = 0; i < l->n; i++)
		ret->v[i] = xstrdup(l->v[i]);
}

void text_list_done(struct text_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct text_list){0};
}

static bool is_assignment(const char *text)
{
	const char *eq = strchr(text, '=');
	return eq && eq != text;
}

static void environment_set(char **v, size_t *n, const char *text)
{
	size_t name = (size_t)(strchrnul(text, '=') - text) + 1;
	for (size_t i = 0; i < *n; i++) {
		if (strncmp(v[i], text, name) == 0) {
			free(v[i]);
			v[i] = xstrdup(text);
			return;
		}
	}
	v[(*n)++] = xstrdup(text);
}

char **jobstart_environment(char *const *more)
{
	size_t n_more = 0, n = 0, n_session = sessionenv_count();
	char *const *session = sessionenv_all();
	while (more && more[n_more])
		n_more++;
	char **v = xcalloc(config->n_env + n_session + n_more + 1, sizeof(*v));
	for (size_t i = 0; i < config->n_env; i++)
		if (is_assignment(config->env[i]))
			environment_set(v, &n, config->env[i]);
	for (size_t i = 0; i < n_session; i++)
		environment_set(v, &n, session[i]);
	for (size_t i = 0; i < n_more; i++)
		environment_set(v, &n, more[i]);
	return v;
}

struct start {
	const uint8_t *id;
	uint64_t kind, timeout_ms, stdin_mode, wait_ms, inline_bytes;
	struct text_list argv, env;
	char *shell_text, *cwd;
	struct tlv kernel; /* its name; p NULL: none given */
	const uint8_t *code;
	size_t code_len;
	const char *bad; /* what has no sense */
};

static void start_done(struct start *q)
{
	text_list_done(&q->argv);
	text_list_done(&q->env);
	free(q->shell_text);
	free(q->cwd);
}

static void take_number(struct start *q, const struct tlv *t, uint64_t *ret, const char *name)
{
	if (tlv_get_u64(t, ret) < 0)
		q->bad = name;
}

static void take_text(struct start *q, const struct tlv *t, char **ret, const char *name)
{
	free(*ret);
	*ret = tlv_dup_str(t);
	if (!*ret)
		q->bad = name;
}

static void take(struct start *q, const struct tlv *t)
{
	switch (t->tag) {
	case TAG_JOB:
		q->id = t->n == JOB_ID ? t->p : NULL;
		break;
	case TAG_JOB_KIND:
		take_number(q, t, &q->kind, "JOB_KIND");
		break;
	case TAG_ARGV:
		if (!text_list_add(&q->argv, t))
			q->bad = "ARGV";
		break;
	case TAG_ENV:
		if (!text_list_add(&q->env, t) || !is_assignment(q->env.v[q->env.n - 1]))
			q->bad = "ENV";
		break;
	case TAG_SHELL_TEXT:
		take_text(q, t, &q->shell_text, "SHELL_TEXT");
		break;
	case TAG_CWD:
		take_text(q, t, &q->cwd, "CWD");
		break;
	case TAG_KERNEL:
		q->kernel = *t;
		if (memchr(t->p, '\0', t->n))
			q->bad = "KERNEL";
		break;
	case TAG_CODE:
		q->code = t->p;
		q->code_len = t->n;
		break;
	case TAG_STDIN:
		take_number(q, t, &q->stdin_mode, "STDIN");
		break;
	case TAG_TIMEOUT_MS:
		take_number(q, t, &q->timeout_ms, "TIMEOUT_MS");
		break;
	case TAG_WAIT_MS:
		take_number(q, t, &q->wait_ms, "WAIT_MS");
		break;
	case TAG_INLINE:
		take_number(q, t, &q->inline_bytes, "INLINE");
		break;
	default:
		break;
	}
}

static void read_start(struct tlv_reader body, struct start *q)
{
	*q = (struct start){.wait_ms = UINT64_MAX};
	for (struct tlv t; tlv_next(&body, &t);)
		take(q, &t);
	if (body.bad)
		q->bad = "the message";
	else if (!q->id)
		q->bad = "JOB";
	else if (q->kind == JOB_KIND_COMMAND) {
		if ((q->shell_text != NULL) == (q->argv.n > 0) || (q->argv.n && !q->argv.v[0][0]))
			q->bad = "ARGV or SHELL_TEXT (one of them)";
	} else if (q->kind != JOB_KIND_CELL)
		q->bad = "JOB_KIND";
	else if (!q->kernel.p || !q->code)
		q->bad = "KERNEL or CODE";
}

/* Of what the job with this id is to do; not of how it is waited for. */
static void content_digest(struct tlv_reader body, uint8_t ret[static SHA256_SIZE])
{
	struct sha256 h;
	sha256_init(&h);
	for (struct tlv t; tlv_next(&body, &t);)
		if (t.tag != TAG_JOB && t.tag != TAG_WAIT_MS && t.tag != TAG_INLINE)
			sha256_update(&h, t.p - TLV_HEADER, TLV_HEADER + t.n);
	sha256_final(&h, ret);
}

static void empty(struct buf *b)
{
	buf_clear(b);
	if (b->cap > KEPT)
		buf_done(b);
}

/* The last start's, whose digest is made when nobody waits, or by the next start. */
static struct {
	uint8_t id[JOB_ID];
	struct buf body; /* empty: there is none */
} unsettled = {.body.max = LIMIT_FRAME_PAYLOAD};

void jobstart_settle(void)
{
	struct buf *b = &unsettled.body;
	struct job *j = b->len ? job_find(unsettled.id) : NULL;
	if (j)
		content_digest(tlv_reader(b->data, b->len), j->digest);
	empty(b);
}

static void settle_later(const struct job *j, struct tlv_reader body)
{
	jobstart_settle();
	memcpy(unsettled.id, j->id, JOB_ID);
	CHECK(buf_append(&unsettled.body, body.p, body.n) == 0);
}

static bool is_started_with(const struct job *j, struct tlv_reader body)
{
	uint8_t digest[SHA256_SIZE];
	jobstart_settle();
	content_digest(body, digest);
	return id_equal(j->digest, digest, SHA256_SIZE);
}

static void describe(struct job *j, const char *p, size_t n)
{
	n = MIN(n, JOB_COMMAND_TEXT);
	memcpy(j->command, p, n);
	j->command[n] = '\0';
}

static void describe_argv(struct job *j, const struct text_list *argv)
{
	_cleanup_buf_ struct buf b = BUF_INIT(LIMIT_FRAME_PAYLOAD);
	for (size_t i = 0; i < argv->n && b.len < JOB_COMMAND_TEXT; i++)
		CHECK(buf_append_str(&b, i ? " " : "") == 0 && buf_append_str(&b, argv->v[i]) == 0);
	describe(j, (const char *)b.data, b.len);
}

static char **shell_argv(const char *text)
{
	static const char *shell; /* the first time looks which there is */
	if (!shell)
		shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
	char **v = xcalloc(4, sizeof(*v));
	v[0] = xstrdup(shell);
	v[1] = xstrdup("-c");
	v[2] = xstrdup(text);
	return v;
}

static void start_command(struct job *j, struct start *q)
{
	if (q->shell_text) {
		describe(j, q->shell_text, strlen(q->shell_text));
		j->argv = shell_argv(q->shell_text);
	} else {
		describe_argv(j, &q->argv);
		j->argv = TAKE_PTR(q->argv.v);
		q->argv.n = 0;
	}
	j->env = jobstart_environment(q->env.v);
	j->cwd = TAKE_PTR(q->cwd);
	job_start_command(j);
}

static enum wire_status start_cell(struct job *j, struct start *q)
{
	static struct buf cell = {.max = LIMIT_FRAME_PAYLOAD};
	describe(j, (const char *)q->code, q->code_len);
	int r = tlv_bytes(&cell, TAG_CODE, q->code, q->code_len);
	r |= tlv_u64(&cell, TAG_STDIN_MODE, q->stdin_mode);
	r |= tlv_bytes(&cell, TAG_JOB, j->id, JOB_ID);
	enum wire_status status = r ? WIRE_LIMIT : kernel_queue_cell(j, &q->kernel, &cell);
	empty(&cell);
	return status;
}

struct job *jobstart(
	struct stream *s, struct tlv_reader body, uint64_t *ret_wait_ms, uint64_t *ret_inline)
{
	CLEANUP(start_done) struct start q;
	read_start(body, &q);
	*ret_wait_ms = q.wait_ms;
	*ret_inline = q.inline_bytes;
	if (q.bad) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "%s is missing or has no sense", q.bad);
		return NULL;
	}
	struct job *j = job_find(q.id);
	if (j && is_started_with(j, body))
		return j;
	if (j) {
		stream_fail(s, WIRE_CONFLICT, 0, "this job was started with other content");
		return NULL;
	}
	if (jobs_busy() >= LIMIT_JOBS_RUNNING) {
		stream_fail(s, WIRE_LIMIT, 0, "%d jobs wait or run already", LIMIT_JOBS_RUNNING);
		return NULL;
	}
	j = job_new(q.id, (enum wire_job_kind)q.kind);
	if (!j) {
		stream_fail(s, WIRE_LIMIT, 0, "%d jobs are in use", LIMIT_JOBS);
		return NULL;
	}
	j->want_stdin = q.stdin_mode == STDIN_OPEN;
	j->timeout_us = MIN(q.timeout_ms, UINT32_MAX) * USEC_PER_MSEC;
	enum wire_status status = WIRE_OK;
	if (q.kind == JOB_KIND_COMMAND)
		start_command(j, &q);
	else
		status = start_cell(j, &q);
	if (status == WIRE_OK) {
		settle_later(j, body);
		return j;
	}
	int n = (int)MIN(q.kernel.n, 100);
	const char *name = (const char *)q.kernel.p;
	if (status == WIRE_NOT_FOUND)
		stream_fail(s, status, 0, "no kernel %.*s was ever started", n, name);
	else
		stream_fail(s, status, 0, "%d cells wait for kernel %.*s already",
			LIMIT_KERNEL_QUEUE, n, name);
	job_discard(j);
	return NULL;
}
