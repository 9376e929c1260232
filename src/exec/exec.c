/* exec.c: the life of a call; see exec.h and exec_call.h. */
#include "exec/exec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "exec/exec_call.h"
#include "exec/exec_parse.h"
#include "link/status.h"

/* ---- one call ---- */

void *exec_call_new(struct exec *x, const struct exec_call_type *type, size_t size,
	const char *what, const char *name)
{
	struct exec_call *c = xcalloc(1, size);
	c->what = what;
	str_copy(c->name, sizeof(c->name), name);
	c->exec = x;
	c->type = type;
	list_append(&x->calls, &c->calls);
	return c;
}

void exec_call_text(const struct exec_call *c, char ret_text[static EXEC_CALL_TEXT])
{
	(void)snprintf(ret_text, EXEC_CALL_TEXT, "%s%s%s", c->what, c->name[0] ? " " : "", c->name);
}

static void call_free(struct exec_call *c)
{
	list_remove(&c->calls);
	buf_done(&c->held);
	if (c->type->done)
		c->type->done(c);
	free(c->err);
	free(c);
}

/* The last of a call. exec may be gone afterwards. */
static void call_finish(struct exec_call *c, const struct err *err, bool lost)
{
	list_remove(&c->calls);
	c->type->finish(c, err, lost);
	call_free(c);
}

static struct exec_call *first_failed(struct exec *x)
{
	list_for_each (c, next, &x->calls, struct exec_call, calls) {
		if (c->err)
			return c;
	}
	return NULL;
}

/* A call whose deadline has passed; without one, *ret_next_us is the earliest that is to come. */
static struct exec_call *first_late(struct exec *x, uint64_t now_us, uint64_t *ret_next_us)
{
	*ret_next_us = 0;
	list_for_each (c, next, &x->calls, struct exec_call, calls) {
		if (c->deadline_us == 0)
			continue;
		if (!link_was_ready(x->link)) /* the start has a limit of its own */
			c->deadline_us = MAX(c->deadline_us, now_us + EXEC_GRACE_US);
		if (c->deadline_us <= now_us)
			return c;
		if (*ret_next_us == 0 || c->deadline_us < *ret_next_us)
			*ret_next_us = c->deadline_us;
	}
	return NULL;
}

static void call_late(struct exec_call *c)
{
	char what[EXEC_CALL_TEXT];
	struct err err;
	if (c->stream)
		link_reset(c->stream);
	c->stream = NULL;
	if (!c->type->late) {
		exec_call_text(c, what);
		(void)err_set(&err, ERR_TIMEOUT, ETIMEDOUT,
			"%s: the sandbox does not answer; try again, or close the session and open "
			"a new one",
			what);
		call_finish(c, &err, false);
		return;
	}
	list_remove(&c->calls);
	c->type->late(c);
	call_free(c);
}

static void on_timer(uv_timer_t *t)
{
	/* A callback may free exec: its memory stays until the loop has closed this timer, and its
	 * list is empty then. */
	struct exec *x = t->data;
	struct exec_call *c;
	uint64_t now_us = clock_monotonic_us(), next_us;
	while ((c = first_failed(x)))
		call_finish(c, c->err, false);
	while ((c = first_late(x, now_us, &next_us)))
		call_late(c);
	if (first_failed(x))
		next_us = now_us;
	if (next_us)
		(void)uv_timer_start(
			t, on_timer, (next_us - now_us + USEC_PER_MSEC - 1) / USEC_PER_MSEC, 0);
}

void exec_call_within(struct exec_call *c, uint64_t us)
{
	uv_timer_t *t = &c->exec->timer;
	uint64_t ms = (us + EXEC_GRACE_US) / USEC_PER_MSEC;
	c->deadline_us = clock_monotonic_us() + us + EXEC_GRACE_US;
	if (!uv_is_active((uv_handle_t *)t) || uv_timer_get_due_in(t) > ms)
		(void)uv_timer_start(t, on_timer, ms, 0);
}

void exec_call_fail(struct exec_call *c, enum err_code code, int errnum, const char *fmt, ...)
{
	char text[sizeof(c->err->text)];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!c->err)
		c->err = xcalloc(1, sizeof(*c->err));
	(void)err_set(c->err, code, errnum, "%s", text);
	(void)uv_timer_start(&c->exec->timer, on_timer, 0, 0);
}

/* Why nothing can be asked of this sandbox, told to somebody who asks something. */
static void lost_error(const struct link *l, struct err *ret)
{
	const struct err *why = link_lost_reason(l);
	if (!link_was_ready(l) && why->code != ERR_CANCELLED)
		(void)err_set(ret, ERR_PROVIDER_UNUSABLE, why->errnum,
			"the sandbox could not be started: %.400s", why->text);
	else
		(void)err_set(ret, ERR_SANDBOX_LOST, why->errnum,
			"the sandbox of this session was lost: %.360s; open a new session",
			why->text);
}

static void on_msg(void *user, struct tlv_reader msg)
{
	struct exec_call *c = user;
	if (!c->type->msg || c->type->msg(c, msg) < 0)
		c->bad = true;
}

static void on_data(void *user, const uint8_t *p, size_t n, bool fin)
{
	struct exec_call *c = user;
	(void)fin;
	if (!c->type->data || c->type->data(c, p, n) < 0)
		c->bad = true;
	link_consumed(c->stream, n);
}

static void on_writable(void *user)
{
	struct exec_call *c = user;
	if (c->type->writable)
		c->type->writable(c);
}

static void on_end(void *user, enum wire_status status, struct tlv_reader msg)
{
	struct exec_call *c = user;
	char what[EXEC_CALL_TEXT];
	struct err err;
	c->stream = NULL;
	if (status == WIRE_GONE && link_lost_reason(c->exec->link)) {
		lost_error(c->exec->link, &err);
		call_finish(c, &err, true);
		return;
	}
	bool fine = c->type->forgives && c->type->forgives(c, status);
	if (status == WIRE_OK && !c->bad && c->type->end)
		c->bad = c->type->end(c, msg) < 0;
	bool failed = c->bad || (status != WIRE_OK && !fine);
	if (failed)
		exec_call_text(c, what);
	if (c->bad) {
		(void)err_set(&err, ERR_PROTOCOL, EPROTO,
			"%s: the sandbox's agent answered with what makes no sense; close the "
			"session and open a new one",
			what);
	} else if (failed) {
		char text[LINK_STATUS_TEXT];
		link_status_text(msg, text);
		(void)exec_wire_error(status, what, text, &err);
	}
	call_finish(c, failed ? &err : NULL, false);
}

static const struct link_stream_events stream_events = {
	.msg = on_msg,
	.data = on_data,
	.writable = on_writable,
	.end = on_end,
};

/* It goes out after those that wait already. */
static void call_hold(struct exec_call *c, uint16_t op, const struct buf *body)
{
	buf_init(&c->held, EXEC_BODY_MAX);
	if (body)
		CHECK(buf_append(&c->held, body->data, body->len) == 0);
	c->held_op = op;
}

void exec_call_send_held(struct exec *x)
{
	/* Nobody is called back meanwhile: what cannot be sent says so from the timer. */
	list_for_each (c, next, &x->calls, struct exec_call, calls) {
		uint16_t op = c->held_op;
		if (!op)
			continue;
		c->held_op = 0;
		exec_call_open(c, op, &c->held, 0);
		buf_done(&c->held);
		if (c->stream && c->type->writable)
			c->type->writable(c);
	}
}

void exec_call_open(struct exec_call *c, uint16_t op, const struct buf *body, int body_result)
{
	struct err err;
	int r = body_result;
	if (r == 0 && c->exec->spawning) {
		call_hold(c, op, body);
		return;
	}
	if (r == 0)
		r = link_open(c->exec->link, op, body, &stream_events, c, &c->stream);
	else
		r = -EMSGSIZE;
	if (r == 0)
		return;
	c->stream = NULL;
	if (r == -ENOTCONN) {
		lost_error(c->exec->link, &err);
		exec_call_fail(c, err.code, err.errnum, "%s", err.text);
	} else if (r == -EMSGSIZE) {
		exec_call_fail(c, ERR_LIMIT_REACHED, EMSGSIZE,
			"a request to the sandbox may have %d KB, and this one is larger: write "
			"what is long to a file first (the files tool) and run that",
			(int)(EXEC_BODY_MAX / KIB));
	} else {
		exec_call_fail(c, ERR_LIMIT_REACHED, EBUSY,
			"too much is asked of this sandbox at once: wait until some of it is done");
	}
}

int exec_call_open_with_fds(
	struct exec_call *c, uint16_t op, const struct buf *body, const int *fds, size_t n_fds)
{
	return link_open_with_fds(
		c->exec->link, op, body, fds, n_fds, &stream_events, c, &c->stream);
}

void exec_abandon(struct exec_call *c)
{
	if (c->stream)
		link_reset(c->stream);
	call_free(c);
}

int exec_body_job(struct buf *b, const char *job)
{
	uint8_t id[ID_BYTES];
	if (!id_valid('j', job) || id_unhex(job + 2, id, sizeof(id)) < 0)
		return -EINVAL;
	return tlv_bytes(b, TAG_JOB, id, sizeof(id));
}

int exec_body_tag(struct buf *b, const uint8_t *tag)
{
	return tag ? tlv_bytes(b, TAG_DELIVERY, tag, DELIVERY_TAG) : 0;
}

/* ---- exec ---- */

struct exec *exec_new(struct link *l, const char *kernels_dir, const char *workspace)
{
	struct exec *x = xcalloc(1, sizeof(*x));
	x->link = l;
	x->kernels_dir = xstrdup(kernels_dir);
	x->workspace = xstrdup(workspace);
	list_init(&x->calls);
	list_init(&x->kernels);
	(void)uv_timer_init(link_loop(l), &x->timer);
	x->timer.data = x;
	return x;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

size_t exec_kernels_known(const struct exec *x)
{
	size_t n = 0;
	list_for_each (k, next, &x->kernels, struct exec_kernel_ref, kernels)
		n += k->started;
	return n;
}

void exec_free(struct exec *x)
{
	if (!x)
		return;
	while (!list_empty(&x->calls))
		exec_abandon(container_of(x->calls.next, struct exec_call, calls));
	list_for_each (k, next, &x->kernels, struct exec_kernel_ref, kernels) {
		free(k->name);
		free(k->start_err);
		free(k);
	}
	free(x->kernels_dir);
	free(x->workspace);
	uv_close((uv_handle_t *)&x->timer, on_closed);
}

/* ---- usage ---- */

struct usage_call {
	struct exec_call call;
	struct exec_usage usage;
	exec_usage_fn done;
	void *user;
};

static int usage_end(struct exec_call *c, struct tlv_reader msg)
{
	return exec_parse_usage(msg, &((struct usage_call *)c)->usage);
}

static void usage_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct usage_call *u = (struct usage_call *)c;
	(void)lost;
	u->done(u->user, err ? NULL : &u->usage, err);
}

static const struct exec_call_type usage_type = {.end = usage_end, .finish = usage_finish};

struct exec_call *exec_usage(struct exec *x, exec_usage_fn done, void *user)
{
	struct usage_call *u = exec_call_new(x, &usage_type, sizeof(*u), "usage", NULL);
	exec_call_within(&u->call, EXEC_ANSWER_US);
	u->done = done;
	u->user = user;
	exec_call_open(&u->call, OP_USAGE, NULL, 0);
	return &u->call;
}

/* ---- names ---- */

const char *exec_reason_name(enum wire_reason r)
{
	static const char *const names[] = {
		[REASON_EXIT] = "exit",
		[REASON_SIGNAL] = "signal",
		[REASON_TIMEOUT] = "timeout",
		[REASON_CANCELLED] = "cancelled",
		[REASON_OUT_OF_MEMORY] = "out_of_memory",
		[REASON_DISK_FULL] = "disk_full",
		[REASON_TOO_MANY_PROCESSES] = "too_many_processes",
		[REASON_OUTPUT_LIMIT] = "output_limit",
		[REASON_INTERPRETER_DIED] = "interpreter_died",
		[REASON_SANDBOX_LOST] = "sandbox_lost",
		[REASON_POLICY_DENIED] = "policy_denied",
	};
	return (size_t)r < ARRAY_SIZE(names) && names[r] ? names[r] : "unknown";
}

const char *exec_evidence_name(enum wire_evidence e)
{
	static const char *const names[] = {
		[EVIDENCE_MEASURED] = "measured",
		[EVIDENCE_REPORTED] = "reported",
		[EVIDENCE_INFERRED] = "inferred",
	};
	return (size_t)e < ARRAY_SIZE(names) && names[e] ? names[e] : "unknown";
}

int exec_wire_error(
	enum wire_status status, const char *what, const char *agent_text, struct err *err)
{
	return link_status_error(status, what, agent_text, err);
}
