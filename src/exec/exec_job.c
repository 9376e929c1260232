/* exec_job.c: jobs: run, wait, read, input, list; see exec.h. */
#include "exec/exec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "exec/exec_call.h"
#include "exec/exec_parse.h"

static uint64_t to_ms(uint64_t us)
{
	return us / USEC_PER_MSEC + (us % USEC_PER_MSEC != 0);
}

/* ---- run and wait: both answer the job's status ---- */

struct job_call {
	struct exec_call call;
	char job[ID_TEXT_SIZE];
	enum wire_job_kind kind;        /* 0: not known (wait) */
	struct exec_kernel_ref *kernel; /* of a cell that is run */
	uint64_t asked_us;
	struct exec_status status;
	struct exec_bundle *results; /* come before the status */
	size_t n_results;
	void (*shown)(void *user, const struct exec_bundle *b);
	exec_done_fn done;
	void *user;
};

static int job_msg(struct exec_call *c, struct tlv_reader msg)
{
	struct job_call *j = (struct job_call *)c;
	if (j->n_results >= LIMIT_RESULTS)
		return -EPROTO;
	j->results = xrealloc(j->results, (j->n_results + 1) * sizeof(*j->results));
	int r = exec_parse_bundle(msg, &j->results[j->n_results]);
	if (r < 0)
		return r;
	j->n_results++;
	if (j->shown)
		j->shown(j->user, &j->results[j->n_results - 1]);
	return 0;
}

static int job_end(struct exec_call *c, struct tlv_reader msg)
{
	struct job_call *j = (struct job_call *)c;
	struct exec_status *s = &j->status;
	int r = exec_parse_status(msg, s);
	if (r < 0)
		return r;
	if (s->job[0] && strcmp(s->job, j->job) != 0)
		return -EPROTO;
	if (j->kind && s->kind != j->kind)
		return -EPROTO;
	memcpy(s->job, j->job, sizeof(s->job));
	if (s->state == JOB_DONE) { /* else whoever asks again gets them again */
		s->results = TAKE_PTR(j->results);
		s->n_results = j->n_results;
		j->n_results = 0;
	}
	struct exec_kernel_ref *k = j->kernel;
	if (!k && s->kernel)
		k = exec_kernel_named(c->exec, s->kernel);
	if (k)
		exec_kernel_seen(k, s);
	return 0;
}

void exec_status_lost(
	struct exec_status *ret, const char *job, enum wire_job_kind kind, const char *why)
{
	*ret = (struct exec_status){
		.kind = kind ? kind : JOB_KIND_COMMAND,
		.state = JOB_DONE,
		.reason = REASON_SANDBOX_LOST,
		.evidence = EVIDENCE_MEASURED,
		.notes = xmalloc(sizeof(*ret->notes)),
		.n_notes = 1,
	};
	str_copy(ret->job, sizeof(ret->job), job);
	ret->notes[0] = xstrdup(why);
}

/* The sandbox went while the job was asked for: that is how the job ended. */
static void job_lost(struct job_call *j, const char *why)
{
	struct exec_status *s = &j->status;
	exec_status_lost(s, j->job, j->kind, why);
	s->kernel = j->kernel ? xstrdup(j->kernel->name) : NULL;
	s->duration_us = clock_monotonic_us() - j->asked_us;
	j->done(j->user, s, NULL);
}

static void job_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct job_call *j = (struct job_call *)c;
	const struct link *l = c->exec->link;
	if (lost && link_was_ready(l))
		job_lost(j, link_lost_reason(l)->text);
	else if (j->kernel && j->kernel->start_err)
		j->done(j->user, NULL, j->kernel->start_err); /* the cause of whatever came back */
	else
		j->done(j->user, err ? NULL : &j->status, err);
}

/* No word within wait_us: as far as anybody knows the job runs. */
static void job_late(struct exec_call *c)
{
	struct job_call *j = (struct job_call *)c;
	struct exec_status *s = &j->status;
	memcpy(s->job, j->job, sizeof(s->job));
	s->kind = j->kind ? j->kind : JOB_KIND_COMMAND;
	s->state = JOB_RUNNING;
	s->unheard = true;
	s->kernel = j->kernel ? xstrdup(j->kernel->name) : NULL;
	s->duration_us = clock_monotonic_us() - j->asked_us;
	j->done(j->user, s, NULL);
}

static void job_done(struct exec_call *c)
{
	struct job_call *j = (struct job_call *)c;
	exec_status_done(&j->status);
	for (size_t i = 0; i < j->n_results; i++)
		exec_bundle_done(&j->results[i]);
	free(j->results);
}

static const struct exec_call_type job_type = {
	.msg = job_msg,
	.end = job_end,
	.finish = job_finish,
	.late = job_late,
	.done = job_done,
};

static struct job_call *job_new(
	struct exec *x, const char *what, const char *job, exec_done_fn done, void *user)
{
	struct job_call *j = exec_call_new(x, &job_type, sizeof(*j), what, job);
	if (id_valid('j', job))
		memcpy(j->job, job, sizeof(j->job));
	else
		exec_call_fail(&j->call, ERR_NO_SUCH_JOB, EINVAL, "\"%.40s\" is no job", job);
	j->asked_us = clock_monotonic_us();
	j->done = done;
	j->user = user;
	return j;
}

struct exec_call *exec_wait(
	struct exec *x, const char *job, uint64_t wait_us, exec_done_fn done, void *user)
{
	struct job_call *j = job_new(x, "job", job, done, user);
	if (j->call.err)
		return &j->call;
	_cleanup_buf_ struct buf b = BUF_INIT(EXEC_BODY_MAX);
	int r = exec_body_job(&b, job);
	r = r ? r : tlv_u64(&b, TAG_WAIT_MS, to_ms(wait_us));
	r = r ? r : tlv_u64(&b, TAG_INLINE, LIMIT_INLINE_OUTPUT);
	exec_call_open(&j->call, OP_JOB_WAIT, &b, r);
	exec_call_within(&j->call, wait_us);
	return &j->call;
}

/* The working directory as code in the sandbox sees it. */
static int body_cwd(struct exec *x, struct buf *b, const char *cwd)
{
	if (!cwd || !cwd[0])
		return tlv_str(b, TAG_CWD, x->workspace);
	if (cwd[0] == '/')
		return tlv_str(b, TAG_CWD, cwd);
	_cleanup_free_ char *path = xasprintf("%s/%s", x->workspace, cwd);
	return tlv_str(b, TAG_CWD, path);
}

static int body_command(struct exec *x, struct buf *b, const struct exec_request *req)
{
	int r = req->shell_text ? tlv_str(b, TAG_SHELL_TEXT, req->shell_text) : 0;
	for (size_t i = 0; r == 0 && !req->shell_text && i < req->n_argv; i++)
		r = tlv_str(b, TAG_ARGV, req->argv[i]);
	for (size_t i = 0; r == 0 && i < req->n_env; i++)
		r = tlv_str(b, TAG_ENV, req->env[i]);
	return r ? r : body_cwd(x, b, req->cwd);
}

static int body_cell(struct buf *b, const struct exec_request *req, const char *kernel)
{
	int r = tlv_str(b, TAG_KERNEL, kernel);
	if (r || !req->mode)
		return r ? r : tlv_str(b, TAG_CODE, req->code);
	_cleanup_buf_ struct buf code = BUF_INIT(LIMIT_CODE);
	r = buf_append(&code, req->mode, strlen(req->mode) + 1); /* with its NUL */
	r = r ? r : buf_append_str(&code, req->code);
	return r ? r : tlv_bytes(b, TAG_CODE, code.data, code.len);
}

static bool fits_arguments(const struct exec_request *req)
{
	if (req->n_argv > LIMIT_ARGS || req->n_env > LIMIT_ARGS)
		return false;
	if (req->shell_text && strlen(req->shell_text) >= LIMIT_ARG_BYTES)
		return false;
	for (size_t i = 0; i < req->n_argv; i++)
		if (strlen(req->argv[i]) >= LIMIT_ARG_BYTES)
			return false;
	for (size_t i = 0; i < req->n_env; i++)
		if (strlen(req->env[i]) >= LIMIT_ARG_BYTES)
			return false;
	return true;
}

/* False: the request is none, and the call will say so. */
static bool check_request(struct job_call *j, const struct exec_request *req)
{
	struct exec *x = j->call.exec;
	if (req->kind == JOB_KIND_COMMAND) {
		CHECK(req->shell_text || req->n_argv);
		if (fits_arguments(req))
			return true;
		exec_call_fail(&j->call, ERR_LIMIT_REACHED, E2BIG,
			"a command may have %d arguments and as many variables, each of %d KB at "
			"most: write what is long to a file (the files tool) and run that",
			LIMIT_ARGS, (int)(LIMIT_ARG_BYTES / KIB));
		return false;
	}
	CHECK(req->kind == JOB_KIND_CELL && req->code);
	struct err err;
	j->kernel = exec_kernel_ref(x, req->language, req->kernel, &err);
	if (!j->kernel)
		exec_call_fail(&j->call, err.code, err.errnum, "%s", err.text);
	return j->kernel;
}

struct exec_call *exec_run(
	struct exec *x, const struct exec_request *req, exec_done_fn done, void *user)
{
	const char *what = req->kind == JOB_KIND_CELL ? "cell" : "job";
	struct job_call *j = job_new(x, what, req->job, done, user);
	j->kind = req->kind;
	j->shown = req->shown;
	if (j->call.err || !check_request(j, req))
		return &j->call;
	bool has_stdin = req->stdin_len || req->stdin_open;
	_cleanup_buf_ struct buf b = BUF_INIT(EXEC_BODY_MAX);
	int r = exec_body_job(&b, req->job);
	r = r ? r : tlv_u64(&b, TAG_JOB_KIND, req->kind);
	if (r == 0)
		r = j->kernel ? body_cell(&b, req, j->kernel->name) : body_command(x, &b, req);
	r = r ? r : tlv_u64(&b, TAG_STDIN, has_stdin ? STDIN_OPEN : STDIN_EMPTY);
	r = r ? r : tlv_u64(&b, TAG_TIMEOUT_MS, to_ms(req->timeout_us));
	r = r ? r : tlv_u64(&b, TAG_WAIT_MS, to_ms(req->wait_us));
	r = r ? r : tlv_u64(&b, TAG_INLINE, LIMIT_INLINE_OUTPUT);
	if (r == 0 && j->kernel)
		exec_kernel_start(x, j->kernel);
	exec_call_open(&j->call, OP_JOB_START, &b, r);
	exec_call_within(&j->call, req->wait_us);
	if (!j->call.err && req->stdin_len)
		(void)exec_input(x, req->job, req->stdin_data, req->stdin_len, !req->stdin_open,
			req->stdin_tag, NULL, NULL);
	return &j->call;
}

/* ---- input ---- */

struct input_call {
	struct exec_call call;
	uint8_t *bytes;
	size_t n, sent;
	uint64_t accepted;
	exec_input_fn done; /* NULL: given with the job, nobody asks */
	void *user;
};

static void input_pump(struct exec_call *c)
{
	struct input_call *i = (struct input_call *)c;
	i->sent += link_write(c->stream, i->bytes + i->sent, i->n - i->sent, true);
}

static int input_end(struct exec_call *c, struct tlv_reader msg)
{
	struct input_call *i = (struct input_call *)c;
	for (struct tlv t; tlv_next(&msg, &t);)
		if (t.tag == TAG_LENGTH && tlv_get_u64(&t, &i->accepted) < 0)
			return -EPROTO;
	return i->accepted <= i->n ? 0 : -EPROTO;
}

static void input_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct input_call *i = (struct input_call *)c;
	(void)lost;
	if (i->done)
		i->done(i->user, err ? 0 : i->accepted, err);
}

static void input_late(struct exec_call *c)
{
	struct input_call *i = (struct input_call *)c;
	char what[EXEC_CALL_TEXT];
	struct err err;
	exec_call_text(c, what);
	(void)err_set(&err, ERR_TIMEOUT, ETIMEDOUT,
		"%s: not all of it was taken in time; a program that does not read its stdin takes "
		"64 KB",
		what);
	i->done(i->user, 0, &err);
}

static void input_done(struct exec_call *c)
{
	free(((struct input_call *)c)->bytes);
}

static const struct exec_call_type input_type = {
	.end = input_end,
	.writable = input_pump,
	.finish = input_finish,
	.late = input_late,
	.done = input_done,
};

struct exec_call *exec_input(struct exec *x, const char *job, const void *p, size_t n,
	bool close_after, const uint8_t *tag, exec_input_fn done, void *user)
{
	struct input_call *i = exec_call_new(x, &input_type, sizeof(*i), "input of", job);
	i->done = done;
	i->user = user;
	_cleanup_buf_ struct buf b = BUF_INIT(EXEC_BODY_MAX);
	if (exec_body_job(&b, job) < 0) {
		exec_call_fail(&i->call, ERR_NO_SUCH_JOB, EINVAL, "\"%.40s\" is no job", job);
		return &i->call;
	}
	if (n > LIMIT_STDIN) {
		exec_call_fail(&i->call, ERR_LIMIT_REACHED, EMSGSIZE,
			"input of one call may have %d MiB; write it to a file (the files tool) "
			"and let the program read that",
			(int)(LIMIT_STDIN / MIB));
		return &i->call;
	}
	if (done) /* what is given with a job is read whenever the program reads */
		exec_call_within(&i->call, EXEC_ANSWER_US);
	i->bytes = xmemdup(p, n);
	i->n = n;
	int r = exec_body_tag(&b, tag);
	exec_call_open(&i->call, OP_JOB_INPUT, &b, r ? r : tlv_u64(&b, TAG_CLOSE, close_after));
	if (i->call.stream)
		input_pump(&i->call);
	return &i->call;
}

/* ---- reading output ---- */

struct read_call {
	struct exec_call call;
	struct exec_read read;
	size_t room_pieces;
	exec_read_fn done;
	void *user;
};

static int read_data(struct exec_call *c, const uint8_t *p, size_t n)
{
	return buf_append(&((struct read_call *)c)->read.bytes, p, n);
}

static int read_msg(struct exec_call *c, struct tlv_reader msg)
{
	struct read_call *r = (struct read_call *)c;
	struct exec_piece piece;
	if (exec_parse_piece(msg, &piece) < 0 || buf_append(&r->read.bytes, piece.p, piece.n) < 0)
		return -EPROTO;
	if (r->read.n_pieces == r->room_pieces) {
		r->room_pieces = r->room_pieces ? 2 * r->room_pieces : 16;
		r->read.pieces = xrealloc(r->read.pieces, r->room_pieces * sizeof(*r->read.pieces));
	}
	r->read.pieces[r->read.n_pieces++] = piece;
	return 0;
}

static int read_end(struct exec_call *c, struct tlv_reader msg)
{
	return exec_parse_read(msg, &((struct read_call *)c)->read);
}

static void read_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct read_call *r = (struct read_call *)c;
	const uint8_t *p = r->read.bytes.data;
	(void)lost;
	for (size_t i = 0; i < r->read.n_pieces; p += r->read.pieces[i++].n)
		r->read.pieces[i].p = p; /* the buffer has its last place now */
	r->done(r->user, err ? NULL : &r->read, err);
}

static void read_done(struct exec_call *c)
{
	struct read_call *r = (struct read_call *)c;
	buf_done(&r->read.bytes);
	free(r->read.pieces);
}

static const struct exec_call_type read_type = {
	.msg = read_msg,
	.data = read_data,
	.end = read_end,
	.finish = read_finish,
	.done = read_done,
};

struct exec_call *exec_read(struct exec *x, const char *job, enum wire_channel channel,
	uint64_t offset, uint64_t length, exec_read_fn done, void *user)
{
	struct read_call *r = exec_call_new(x, &read_type, sizeof(*r), "job", job);
	CHECK(length <= LIMIT_READ_TEXT);
	exec_call_within(&r->call, EXEC_ANSWER_US);
	buf_init(&r->read.bytes, length);
	r->done = done;
	r->user = user;
	_cleanup_buf_ struct buf b = BUF_INIT(EXEC_BODY_MAX);
	if (exec_body_job(&b, job) < 0) {
		exec_call_fail(&r->call, ERR_NO_SUCH_JOB, EINVAL, "\"%.40s\" is no job", job);
		return &r->call;
	}
	int e = tlv_u64(&b, TAG_CHANNEL, channel);
	e = e ? e : tlv_u64(&b, TAG_OFFSET, offset);
	e = e ? e : tlv_u64(&b, TAG_LENGTH, length);
	exec_call_open(&r->call, OP_JOB_READ, &b, e);
	return &r->call;
}

/* ---- listing ---- */

struct list_call {
	struct exec_call call;
	struct exec_status *jobs;
	size_t n;
	exec_list_fn done;
	void *user;
};

static int list_msg(struct exec_call *c, struct tlv_reader msg)
{
	struct list_call *l = (struct list_call *)c;
	if (l->n >= LIMIT_JOBS)
		return -EPROTO;
	l->jobs = xrealloc(l->jobs, (l->n + 1) * sizeof(*l->jobs));
	int r = exec_parse_status(msg, &l->jobs[l->n]);
	if (r == 0 && l->jobs[l->n++].job[0] == '\0')
		return -EPROTO;
	return r;
}

static void list_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct list_call *l = (struct list_call *)c;
	(void)lost;
	l->done(l->user, err ? NULL : l->jobs, err ? 0 : l->n, err);
}

static void list_done(struct exec_call *c)
{
	struct list_call *l = (struct list_call *)c;
	for (size_t i = 0; i < l->n; i++)
		exec_status_done(&l->jobs[i]);
	free(l->jobs);
}

static const struct exec_call_type list_type = {
	.msg = list_msg, .finish = list_finish, .done = list_done};

struct exec_call *exec_list(struct exec *x, exec_list_fn done, void *user)
{
	struct list_call *l = exec_call_new(x, &list_type, sizeof(*l), "jobs", NULL);
	exec_call_within(&l->call, EXEC_ANSWER_US);
	l->done = done;
	l->user = user;
	exec_call_open(&l->call, OP_JOB_LIST, NULL, 0);
	return &l->call;
}
