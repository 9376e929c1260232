/* kernelops.c: the operations on kernels; see kernel.h and docs/agent-protocol.md. */
#include <string.h>

#include "agent/kernel.h"
#include "agent/uplink.h"
#include "wire/tlv.h"

struct request {
	char *name, *target, *cwd;
	struct text_list argv, env;
	bool bad;
};

static void request_free(struct request *q)
{
	free(q->name);
	free(q->target);
	free(q->cwd);
	text_list_done(&q->argv);
	text_list_done(&q->env);
}

static void take_text(struct request *q, const struct tlv *t, char **ret)
{
	free(*ret);
	*ret = t->n <= LIMIT_PATH ? tlv_dup_str(t) : NULL;
	q->bad |= !*ret;
}

/* False where the stream has been ended with the reason. */
static bool read_request(struct stream *s, struct tlv_reader body, struct request *q)
{
	*q = (struct request){0};
	for (struct tlv t; tlv_next(&body, &t);) {
		if (t.tag == TAG_KERNEL)
			take_text(q, &t, &q->name);
		else if (t.tag == TAG_TARGET)
			take_text(q, &t, &q->target);
		else if (t.tag == TAG_CWD)
			take_text(q, &t, &q->cwd);
		else if (t.tag == TAG_ARGV)
			q->bad |= !text_list_add(&q->argv, &t);
		else if (t.tag == TAG_ENV)
			q->bad |= !text_list_add(&q->env, &t);
	}
	if (!body.bad && !q->bad && q->name && q->name[0])
		return true;
	stream_fail(s, WIRE_BAD_REQUEST, 0, "KERNEL is missing, or a tag has no sense");
	return false;
}

static struct kernel *wanted(struct stream *s, const struct request *q)
{
	struct kernel *k = kernel_find(q->name);
	if (!k)
		stream_fail(s, WIRE_NOT_FOUND, 0, "no kernel %.100s was ever started", q->name);
	return k;
}

static bool same_list(const struct text_list *a, const struct text_list *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return false;
	return true;
}

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

/* The kernel as the request defines it, or NULL where the stream has been ended. */
static struct kernel *define(struct stream *s, struct request *q)
{
	struct kernel *k = kernel_find(q->name);
	if (!q->argv.n && !k) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "ARGV is missing");
		return NULL;
	}
	bool same =
		k && (!q->argv.n || (same_list(&k->argv, &q->argv) && same_list(&k->env, &q->env) &&
					    same_text(k->cwd, q->cwd)));
	if (k && !same && k->state != KERNEL_DOWN) {
		stream_fail(
			s, WIRE_CONFLICT, 0, "kernel %.100s runs with other arguments", q->name);
		return NULL;
	}
	if (k && !same)
		kernel_swap_definition(k, &q->argv, &q->env, &q->cwd);
	if (!k)
		k = kernel_define(q->name, &q->argv, &q->env, &q->cwd);
	if (!k)
		stream_fail(s, WIRE_LIMIT, 0, "there are %d kernels already", LIMIT_KERNELS);
	return k;
}

static void tell_started(struct stream *s, const struct kernel *k, bool created)
{
	_cleanup_buf_ struct buf b = BUF_INIT(128);
	int r = tlv_u64(&b, TAG_GENERATION, k->generation);
	r |= tlv_u64(&b, TAG_CREATED, created);
	if (k->pid)
		r |= tlv_u64(&b, TAG_PID, (uint64_t)k->pid);
	CHECK(r == 0);
	stream_end(s, WIRE_OK, &b);
}

static void op_start(struct stream *s, struct tlv_reader body)
{
	CLEANUP(request_free) struct request q;
	if (!read_request(s, body, &q))
		return;
	struct kernel *k = define(s, &q);
	if (!k)
		return;
	bool created = k->state == KERNEL_DOWN;
	if (created)
		kernel_start(k);
	if (k->state == KERNEL_DOWN)
		stream_fail(s, WIRE_PROCESS_LIMIT, 0, "no process can be started");
	else
		tell_started(s, k, created);
}

/* Where it cannot be adopted its definition stays, so that the next cell starts it. */
static void op_adopt(struct stream *s, struct tlv_reader body)
{
	CLEANUP(request_free) struct request q;
	int fds[UPLINK_FDS] = {-1, -1, -1, -1};
	bool came = uplink_take_fds(fds, ARRAY_SIZE(fds));
	CLEANUP(proc_ends_close)
	struct proc_ends ends = {
		.supervisor = fds[0], .control = fds[1], .out = fds[2], .err = fds[3]};
	if (!read_request(s, body, &q))
		return;
	struct kernel *k = define(s, &q);
	if (!k)
		return;
	if (!came || !proc_ends_valid(&ends)) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "the kernel's four descriptors did not come");
		return;
	}
	if (k->state != KERNEL_DOWN) {
		stream_fail(s, WIRE_EXISTS, 0, "kernel %.100s runs already", q.name);
		return;
	}
	int r = kernel_adopt(k, &ends, NULL);
	if (r < 0)
		stream_fail(s, WIRE_IO, -r, "the kernel cannot be watched");
	else
		tell_started(s, k, true);
}

static void op_fork(struct stream *s, struct tlv_reader body)
{
	CLEANUP(request_free) struct request q;
	if (!read_request(s, body, &q))
		return;
	if (q.target && !q.target[0]) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "TARGET is empty");
		return;
	}
	struct kernel *k = wanted(s, &q);
	if (k)
		kernelfork_open(s, k, q.target);
}

static void op_interrupt(struct stream *s, struct tlv_reader body)
{
	CLEANUP(request_free) struct request q;
	if (!read_request(s, body, &q))
		return;
	struct kernel *k = wanted(s, &q);
	if (!k)
		return;
	kernel_interrupt(k);
	stream_end(s, WIRE_OK, NULL);
}

/* ---- stopping: answered once the tree is gone ---- */

struct stop {
	struct list node;
	struct stream *stream;
};

static void stop_free(struct stop *w)
{
	list_remove(&w->node);
	free(w);
}

static void stop_closed(struct stream *s)
{
	stop_free(stream_user(s));
}

static const struct stream_ops stop_ops = {.closed = stop_closed, .goes_on = true};

void kernel_tell_stopped(struct kernel *k)
{
	list_for_each (w, next, &k->stops, struct stop, node) {
		stream_end(w->stream, WIRE_OK, NULL);
		stop_free(w);
	}
}

static void op_stop(struct stream *s, struct tlv_reader body)
{
	CLEANUP(request_free) struct request q;
	if (!read_request(s, body, &q))
		return;
	struct kernel *k = wanted(s, &q);
	if (!k)
		return;
	kernel_stop(k);
	if (k->state == KERNEL_DOWN) {
		stream_end(s, WIRE_OK, NULL);
		return;
	}
	struct stop *w = xcalloc(1, sizeof(*w));
	w->stream = s;
	list_append(&k->stops, &w->node);
	stream_serve(s, &stop_ops, w);
}

static void op_list(struct stream *s, struct tlv_reader body)
{
	(void)body;
	list_for_each (k, next, kernels_all(), struct kernel, node) {
		_cleanup_buf_ struct buf b = BUF_INIT(LIMIT_FRAME_PAYLOAD);
		int r = tlv_str(&b, TAG_KERNEL, k->name);
		r |= tlv_u64(&b, TAG_GENERATION, k->generation);
		r |= tlv_u64(&b, TAG_PID, (uint64_t)k->pid);
		r |= tlv_u64(&b, TAG_BUSY, k->current != NULL);
		r |= tlv_u64(&b, TAG_COUNT, k->n_queued);
		if (k->state == KERNEL_DOWN && k->stop_asked)
			r |= tlv_u64(&b, TAG_REASON, REASON_CANCELLED);
		if (k->language[0])
			r |= tlv_str(&b, TAG_LANGUAGE, k->language);
		if (k->engine[0])
			r |= tlv_str(&b, TAG_ENGINE, k->engine);
		if (k->version[0])
			r |= tlv_str(&b, TAG_VERSION, k->version);
		CHECK(r == 0);
		stream_msg(s, &b);
	}
	stream_end(s, WIRE_OK, NULL);
}

const struct stream_handler kernel_handlers[] = {
	{OP_KERNEL_START, op_start},
	{OP_KERNEL_ADOPT, op_adopt},
	{OP_KERNEL_FORK, op_fork},
	{OP_KERNEL_INTERRUPT, op_interrupt},
	{OP_KERNEL_STOP, op_stop},
	{OP_KERNEL_LIST, op_list},
	{0, NULL},
};
