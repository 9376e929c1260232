/* kernel.c: see kernel.h. */
#include "agent/kernel.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/segments.h"
#include "agent/sessionenv.h"
#include "agent/uplink.h"
#include "base/fd.h"
#include "wire/frame.h"
#include "wire/tlv.h"

/* From start to READY: importing IPython on a busy machine takes seconds. */
#define START_PATIENCE_US (60 * USEC_PER_SEC)
#define INPUT_SIZE        (FRAME_HEADER + LIMIT_FRAME_PAYLOAD)
/* A CELL and some of its input wait here while the kernel does not read. */
#define OUTPUT_MAX (2 * LIMIT_FRAME_PAYLOAD)
/* A supervisor that code has stopped holds up no cell for longer. */
#define SIGNAL_PATIENCE_US USEC_PER_SEC
/* What a kernel says of an error: name, message and traceback together fit into END beside the
 * output (4 × LIMIT_INLINE_OUTPUT). */
#define ERROR_TEXT (24 * KIB)

static struct list kernels = LIST_INIT(kernels);
static size_t n_kernels;
static struct kernel *latest; /* that a cell ran in; NULL: none yet */

void kernels_init(const struct config *c)
{
	(void)c;
}

struct list *kernels_all(void)
{
	return &kernels;
}

static struct kernel *find_named(const struct tlv *name)
{
	list_for_each (k, next, &kernels, struct kernel, node)
		if (tlv_is(name, k->name))
			return k;
	return NULL;
}

struct kernel *kernel_find(const char *name)
{
	return find_named(&(struct tlv){.p = (const uint8_t *)name, .n = strlen(name)});
}

static void on_ladder(struct timer *t);

bool kernels_full(void)
{
	return n_kernels == LIMIT_KERNELS;
}

void kernel_swap_definition(
	struct kernel *k, struct text_list *argv, struct text_list *env, char **cwd)
{
	struct text_list old_argv = k->argv, old_env = k->env;
	char *old_cwd = k->cwd;
	CHECK(k->state == KERNEL_DOWN);
	k->argv = *argv;
	k->env = *env;
	k->cwd = *cwd;
	*argv = old_argv;
	*env = old_env;
	*cwd = old_cwd;
}

struct kernel *kernel_define(
	const char *name, struct text_list *argv, struct text_list *env, char **cwd)
{
	if (kernels_full())
		return NULL;
	struct kernel *k = xcalloc(1, sizeof(*k));
	k->name = xstrdup(name);
	k->argv = *argv;
	k->env = *env;
	k->cwd = *cwd;
	*argv = *env = (struct text_list){0};
	*cwd = NULL;
	k->control = k->socket.fd = -1;
	buf_init(&k->out, OUTPUT_MAX);
	list_init(&k->queue);
	list_init(&k->stops);
	timer_init(&k->ladder, on_ladder);
	list_append(&kernels, &k->node);
	n_kernels++;
	return k;
}

/* ---- the queue ---- */

static void dequeue(struct job *j)
{
	if (list_empty(&j->queue_node))
		return;
	list_remove(&j->queue_node);
	j->kernel->n_queued--;
}

uint32_t kernel_queue_position(const struct job *j)
{
	uint32_t n = 1;
	if (!j->kernel)
		return n;
	list_for_each (other, next, &j->kernel->queue, struct job, queue_node) {
		if (other == j)
			break;
		n++;
	}
	return n;
}

static void flush(struct kernel *k)
{
	(void)!fd_send(k->socket.fd, &k->out); /* gone: end of file comes */
	loop_change(&k->socket, k->out.len ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void run_cell(struct kernel *k, struct job *j, const struct buf *cell)
{
	timer_cancel(&k->ladder);
	k->current = k->speaker = j;
	latest = k;
	j->generation = k->generation;
	job_begin(j);
	CHECK(frame_append(&k->out, FRAME_CELL, 0, 0, cell->data, cell->len) == 0);
	flush(k);
}

static bool is_free(const struct kernel *k)
{
	return k->state == KERNEL_UP && !k->current && !k->fork;
}

void kernels_expect(void)
{
	struct kernel *k = latest;
	if (!k || !k->expects || !is_free(k) || k->signals || !list_empty(&k->queue) || k->out.len)
		return;
	CHECK(frame_append(&k->out, FRAME_EXPECT, 0, 0, NULL, 0) == 0);
	flush(k);
}

void kernel_run_next(struct kernel *k)
{
	if (!is_free(k) || list_empty(&k->queue))
		return;
	if (k->signals) {
		if (!timer_is_set(&k->ladder))
			timer_set(&k->ladder, SIGNAL_PATIENCE_US);
		return;
	}
	struct job *j = container_of(k->queue.next, struct job, queue_node);
	dequeue(j);
	run_cell(k, j, &j->cell);
	buf_done(&j->cell);
}

enum wire_status kernel_queue_cell(struct job *j, const struct tlv *name, const struct buf *cell)
{
	struct kernel *k = find_named(name);
	if (!k)
		return WIRE_NOT_FOUND;
	if (k->n_queued == LIMIT_KERNEL_QUEUE)
		return WIRE_LIMIT;
	j->kernel = k;
	if (is_free(k) && !k->signals && list_empty(&k->queue)) {
		run_cell(k, j, cell);
		return WIRE_OK;
	}
	CHECK(buf_append(&j->cell, cell->data, cell->len) == 0);
	list_append(&k->queue, &j->queue_node);
	k->n_queued++;
	if (k->state == KERNEL_DOWN) {
		j->kernel_created = k->generation > 0;
		kernel_start(k);
	} else {
		kernel_run_next(k);
	}
	return WIRE_OK;
}

/* ---- a cell's end ---- */

static void cell_over(struct kernel *k, enum wire_reason reason, enum wire_evidence evidence)
{
	struct job *j = k->current;
	k->current = NULL;
	timer_cancel(&k->ladder);
	k->ladder_step = 0;
	k->interrupted = false;
	proc_drain(k->proc); /* so that nothing of it is late */
	job_finish(j, reason, evidence);
}

static int clip(struct buf *b, const struct tlv *t, size_t max)
{
	return tlv_bytes(b, t->tag, t->p, MIN(t->n, max));
}

static bool on_done(struct kernel *k, const struct frame *f)
{
	struct job *j = k->current;
	if (!j)
		return false;
	uint64_t status = UINT64_MAX, code = 0;
	bool has_code = false;
	int r = 0;
	struct tlv_reader body = tlv_reader(f->payload, f->len);
	for (struct tlv t; tlv_next(&body, &t);) {
		if (t.tag == TAG_CELL_STATUS) {
			r |= tlv_get_u64(&t, &status);
		} else if (t.tag == TAG_EXIT_CODE) {
			r |= tlv_get_u64(&t, &code);
			has_code = true;
		} else if (t.tag == TAG_ERROR_NAME) {
			r |= clip(&j->error, &t, 256);
		} else if (t.tag == TAG_ERROR_MESSAGE || t.tag == TAG_TRACEBACK) {
			r |= clip(&j->error, &t, ERROR_TEXT);
		}
	}
	if (r || body.bad || status > CELL_INTERRUPTED || code > 255 ||
		j->error.len > 3 * ERROR_TEXT)
		return false;
	j->has_exit_code = true;
	j->exit_code = has_code ? (int)code : status == CELL_OK ? 0 : 1;
	bool interrupted = status == CELL_INTERRUPTED && k->interrupted;
	cell_over(k, interrupted ? REASON_CANCELLED : REASON_EXIT,
		interrupted ? EVIDENCE_MEASURED : EVIDENCE_REPORTED);
	kernel_run_next(k);
	return true;
}

static void copy_text(char ret[static KERNEL_TEXT], const struct tlv *t)
{
	size_t n = MIN(t->n, KERNEL_TEXT - 1);
	memcpy(ret, t->p, n);
	ret[n] = '\0';
}

static void check_up(struct kernel *k)
{
	if (k->state != KERNEL_STARTING || !k->ready || !k->supervised)
		return;
	timer_cancel(&k->ladder);
	k->state = KERNEL_UP;
	if (k->birth)
		kernelfork_up(k);
	kernel_run_next(k);
}

static bool on_ready(struct kernel *k, const struct frame *f)
{
	if (k->state != KERNEL_STARTING || k->ready)
		return k->state == KERNEL_ENDING; /* told to stop before it was ready */
	struct tlv_reader body = tlv_reader(f->payload, f->len);
	for (struct tlv t; tlv_next(&body, &t);) {
		if (t.tag == TAG_LANGUAGE)
			copy_text(k->language, &t);
		else if (t.tag == TAG_ENGINE)
			copy_text(k->engine, &t);
		else if (t.tag == TAG_VERSION)
			copy_text(k->version, &t);
		else if (t.tag == TAG_FEATURE && tlv_is(&t, "fork"))
			k->forks = true;
		else if (t.tag == TAG_FEATURE && tlv_is(&t, "expect"))
			k->expects = true;
	}
	k->ready = true;
	check_up(k);
	return !body.bad;
}

static bool on_display(struct kernel *k, const struct frame *f)
{
	/* It goes to the broker as it is, which ends the link where it is broken. */
	struct tlv_reader body = tlv_reader(f->payload, f->len);
	for (struct tlv t; tlv_next(&body, &t);)
		;
	if (!k->current || body.bad)
		return false;
	/* The kernel bounds this itself; where it does not, what is too much is left out. */
	if (job_add_result(k->current, f->payload, f->len))
		job_tell_waiters(k->current);
	else if (k->current->n_notes < JOB_NOTES / 2)
		job_note(k->current, "result_dropped:%u", f->len);
	return true;
}

static bool take_frame(struct kernel *k, const struct frame *f)
{
	switch (f->type) {
	case FRAME_READY:
		return on_ready(k, f);
	case FRAME_DISPLAY:
		return on_display(k, f);
	case FRAME_DONE:
		return on_done(k, f);
	case FRAME_FORKED:
		return kernelfork_answered(k, f);
	default:
		return false;
	}
}

/* False at the end of what there is to read, for good or for now. */
static bool read_frames(struct kernel *k)
{
	ssize_t n = recv(k->socket.fd, k->in + k->in_len, INPUT_SIZE - k->in_len, MSG_DONTWAIT);
	if (n < 0 && errno == EINTR)
		return true;
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			loop_remove(&k->socket); /* the process's end tells the rest */
		return false;
	}
	k->in_len += (size_t)n;
	size_t at = 0;
	while (at < k->in_len) {
		struct frame f;
		ssize_t r = frame_parse(k->in + at, k->in_len - at, &f);
		if (r == 0)
			break;
		if (r < 0 || !take_frame(k, &f)) {
			k->broke_protocol = true;
			k->in_len = 0;
			loop_remove(&k->socket);
			proc_kill(k->proc);
			return false;
		}
		at += (size_t)r;
	}
	k->in_len -= at;
	if (k->in_len && at)
		memmove(k->in, k->in + at, k->in_len);
	return true;
}

static void on_socket(struct source *s, uint32_t events)
{
	struct kernel *k = container_of(s, struct kernel, socket);
	if (events & EPOLLOUT)
		flush(k);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		(void)read_frames(k);
}

/* ---- the process ---- */

static void on_started(void *user, pid_t pid)
{
	((struct kernel *)user)->pid = pid;
}

static void on_supervised(void *user)
{
	struct kernel *k = user;
	k->supervised = true;
	check_up(k);
}

static void on_signalled(void *user)
{
	struct kernel *k = user;
	if (k->signals)
		k->signals--;
	kernel_run_next(k);
}

static void on_output(void *user, int stream, const uint8_t *p, size_t n)
{
	struct kernel *k = user;
	if (k->speaker)
		job_output(k->speaker, stream, p, n);
}

static void close_socket(struct kernel *k)
{
	loop_remove(&k->socket);
	fd_closep(&k->control);
	free(k->in);
	k->in = NULL;
	k->in_len = 0;
	buf_done(&k->out);
}

static void on_failed(void *user, enum supervise_step step, int errnum, const char *name)
{
	struct kernel *k = user;
	k->state = KERNEL_ENDING;
	kernelfork_ended(k);
	while (!list_empty(&k->queue)) {
		struct job *j = container_of(k->queue.next, struct job, queue_node);
		dequeue(j);
		job_start_failed(j, step, errnum, name, k->argv.v[0]);
	}
}

static void tell_exit(struct kernel *k, int wait_status)
{
	struct job scratch = {0};
	_cleanup_buf_ struct buf b = BUF_INIT(1024);
	(void)job_take_status(&scratch, wait_status);
	int r = tlv_bytes(&b, TAG_KERNEL, k->name, MIN(strlen(k->name), 256));
	r |= tlv_u64(&b, TAG_GENERATION, k->generation);
	if (scratch.has_exit_code)
		r |= tlv_u64(&b, TAG_EXIT_CODE, (uint64_t)scratch.exit_code);
	if (scratch.signal)
		r |= tlv_u64(&b, TAG_SIGNAL, (uint64_t)scratch.signal);
	CHECK(r == 0);
	uplink_event(EVENT_KERNEL_EXIT, &b);
}

/* What a cell, or the first of those that wait for a start, is told of the kernel's death. */
static void blame(struct kernel *k, struct job *j, int wait_status)
{
	(void)job_take_status(j, wait_status);
	if (wait_status < 0)
		job_note(j, "exit_status_lost");
	if (k->broke_protocol)
		job_note(j, "kernel_broke_protocol");
	if (k->start_took_long)
		job_note(j, "kernel_start_timeout");
	if (k->ladder_step > 2)
		job_note(j, "kernel_killed");
	if (k->stop_asked) {
		job_note(j, "kernel_stopped");
		if (j->cause == CAUSE_NONE)
			j->cause = CAUSE_CANCELLED;
	}
}

static enum wire_evidence evidence_of_end(const struct kernel *k, int wait_status)
{
	if (wait_status < 0)
		return EVIDENCE_INFERRED;
	/* The supervisor of a fork is within reach of the code. */
	return proc_adopted(k->proc) ? EVIDENCE_REPORTED : EVIDENCE_MEASURED;
}

static void on_ended(void *user, int wait_status, unsigned left)
{
	struct kernel *k = user;
	(void)left;
	while (k->socket.fd >= 0 && read_frames(k))
		; /* its last words */
	k->pid = 0;
	bool was_starting = k->state == KERNEL_STARTING;
	k->state = KERNEL_ENDING;
	timer_cancel(&k->ladder);
	kernelfork_ended(k);
	if (k->current) {
		struct job *j = k->current;
		blame(k, j, wait_status);
		cell_over(k, REASON_INTERPRETER_DIED, evidence_of_end(k, wait_status));
	} else if (was_starting && !list_empty(&k->queue) && !k->stop_asked) {
		/* It will not be better with the others, but each tries for itself. */
		struct job *j = container_of(k->queue.next, struct job, queue_node);
		dequeue(j);
		blame(k, j, wait_status);
		job_finish(j, REASON_INTERPRETER_DIED, evidence_of_end(k, wait_status));
	} else if (!k->stop_asked) {
		tell_exit(k, wait_status);
	}
	/* What it started ends with it: its successor begins with nothing. */
	proc_kill(k->proc);
}

static void on_gone(void *user)
{
	struct kernel *k = user;
	k->proc = NULL;
	k->pid = 0;
	k->state = KERNEL_DOWN;
	close_socket(k);
	segments_sweep(); /* a fresh kernel shall have room */
	kernel_tell_stopped(k);
	if (list_empty(&k->queue))
		return;
	struct job *first = container_of(k->queue.next, struct job, queue_node);
	first->kernel_created = true;
	kernel_start(k);
}

static const struct proc_ops kernel_ops = {
	.started = on_started,
	.supervised = on_supervised,
	.signalled = on_signalled,
	.failed = on_failed,
	.output = on_output,
	.ended = on_ended,
	.gone = on_gone,
};

static void begin(struct kernel *k)
{
	CHECK(k->state == KERNEL_DOWN);
	k->broke_protocol = k->start_took_long = k->stop_asked = k->interrupted = false;
	k->ready = k->supervised = k->forks = k->expects = false;
	k->signals = 0;
	k->ladder_step = 0;
	k->speaker = NULL;
}

/* It has a process; control is its socket. */
static void begun(struct kernel *k, int control)
{
	k->control = control;
	k->socket.ready = on_socket;
	int r = loop_add(&k->socket, control, EPOLLIN);
	CHECK(r == 0);
	k->in = xmalloc(INPUT_SIZE);
	k->state = KERNEL_STARTING;
	k->generation++;
	timer_set(&k->ladder, START_PATIENCE_US);
}

int kernel_adopt(struct kernel *k, struct proc_ends *ends, const struct kernel *parent)
{
	begin(k);
	int r = proc_adopt(ends, parent ? parent->proc : NULL, &kernel_ops, k, &k->proc);
	if (r < 0)
		return r;
	begun(k, TAKE_FD(ends->control));
	if (!parent) /* a twin has what its parent has */
		kernel_tell_env(k);
	return 0;
}

void kernel_start(struct kernel *k)
{
	begin(k);
	_cleanup_free_ char *fd_name = xstrdup("SCB_KERNEL_FD=3");
	struct text_list env = {0};
	env.v = xcalloc(k->env.n + 2, sizeof(*env.v));
	for (; env.n < k->env.n; env.n++)
		env.v[env.n] = k->env.v[env.n];
	env.v[env.n] = fd_name;
	char **all = jobstart_environment(env.v);
	free(env.v);
	struct proc_spec spec = {
		.argv = k->argv.v, .env = all, .cwd = k->cwd, .want_control = true};
	int control = -1;
	int r = proc_start(&spec, &kernel_ops, k, &k->proc, NULL, &control);
	for (char **p = all; *p; p++)
		free(*p);
	free(all);
	if (r == 0) {
		begun(k, control);
		k->supervised = true;
		return;
	}
	while (!list_empty(&k->queue)) {
		struct job *j = container_of(k->queue.next, struct job, queue_node);
		dequeue(j);
		job_start_failed(j, STEP_FORK, -r, "", k->argv.v[0]);
	}
}

void kernel_tell_env(struct kernel *k)
{
	if (k->state != KERNEL_STARTING && k->state != KERNEL_UP)
		return;
	for (size_t i = 0; i < sessionenv_count(); i++) {
		_cleanup_buf_ struct buf b = BUF_INIT(TLV_HEADER + LIMIT_ARG_BYTES);
		if (tlv_str(&b, TAG_ENV, sessionenv_all()[i]) < 0 ||
			frame_append(&k->out, FRAME_ENV, 0, 0, b.data, b.len) < 0)
			break; /* more than the queue holds: those that start later have it */
	}
	flush(k);
}

/* ---- interrupting ---- */

static void send_signal(struct kernel *k, int sig)
{
	/* Where the kernel has not begun the cell yet it swallows SIGINT, and looks for this. */
	if (sig == SIGINT && frame_append(&k->out, FRAME_INTERRUPT, 0, 0, NULL, 0) == 0)
		flush(k);
	if (proc_signal(k->proc, sig))
		k->signals++;
}

/* SIGINT; SIGINT once more; the end of the kernel. */
static void ladder_up(struct kernel *k)
{
	k->ladder_step++;
	if (k->ladder_step > 2) {
		proc_kill(k->proc);
		return;
	}
	send_signal(k, SIGINT);
	timer_set(&k->ladder, k->ladder_step == 1 ? LIMIT_INTERRUPT_GRACE_US : LIMIT_KILL_GRACE_US);
}

static void on_ladder(struct timer *t)
{
	struct kernel *k = container_of(t, struct kernel, ladder);
	if (k->state == KERNEL_STARTING) {
		k->start_took_long = true;
		proc_kill(k->proc);
	} else if (k->current) {
		ladder_up(k);
	} else {
		k->signals = 0;
		kernel_run_next(k);
	}
}

void kernel_cancel_cell(struct job *j)
{
	struct kernel *k = j->kernel;
	if (k->current == j) {
		if (k->ladder_step == 0)
			ladder_up(k);
		return;
	}
	dequeue(j);
	job_finish(j, REASON_CANCELLED, EVIDENCE_MEASURED);
}

void kernel_interrupt(struct kernel *k)
{
	/* Only with a cell: an idle kernel swallows it, but need not be asked to. */
	if (k->current) {
		k->interrupted = true;
		send_signal(k, SIGINT);
	}
}

void kernel_signal_cell(struct job *j, int sig)
{
	if (j->kernel->current == j)
		send_signal(j->kernel, sig);
}

void kernel_stop(struct kernel *k)
{
	k->stop_asked = true;
	while (!list_empty(&k->queue)) {
		struct job *j = container_of(k->queue.next, struct job, queue_node);
		job_note(j, "kernel_stopped");
		j->cause = CAUSE_CANCELLED;
		kernel_cancel_cell(j);
	}
	if (!k->proc)
		return;
	k->state = KERNEL_ENDING; /* what is asked from now on is for the next one */
	proc_kill(k->proc);
}

bool kernel_input(struct job *j, const uint8_t *p, size_t n, bool fin)
{
	struct kernel *k = j->kernel;
	if (k->current != j || k->out.len)
		return false;
	CHECK(frame_append(&k->out, FRAME_DATA, fin ? FRAME_FLAG_FIN : 0, 0, p, n) == 0);
	flush(k);
	return true;
}

void kernel_forget_job(struct job *j)
{
	if (!j->kernel)
		return;
	dequeue(j);
	if (j->kernel->speaker == j)
		j->kernel->speaker = NULL;
}
