/* job.c: see job.h. */
#include "agent/job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/jobinput.h"
#include "agent/jobstart.h"
#include "agent/jobweigh.h"
#include "agent/kernel.h"
#include "agent/segments.h"
#include "agent/uplink.h"
#include "base/clock.h"
#include "wire/tlv.h"

/* After the leader's end, while something else holds its pipes and goes on writing: a step, and how
 * many of them. */
#define DRAIN_STEP_US (10 * USEC_PER_MSEC)
#define CROWDED_US    (700 * USEC_PER_MSEC)
#define DRAIN_STEPS   5

static const struct config *config;
static struct list jobs = LIST_INIT(jobs);
static struct list by_id[256]; /* by the first byte of the id, which is random */
static size_t n_jobs, n_busy;

/* What can wait until a job's answer has left and nothing else has come. */
#define TIDY_US USEC_PER_MSEC
static struct timer tidy;
static struct job *dropped; /* a record that nobody finds any more, to be freed then */
static struct job *spare;   /* the next record, made then */

/* ---- records ---- */

static void drop_results(struct job *j)
{
	for (struct result *r = j->results, *next; r; r = next) {
		next = r->next;
		free(r);
	}
	spool_uncharge(j->results_bytes);
	j->results = NULL;
	j->results_end = &j->results;
	j->n_results = j->results_bytes = 0;
}

static void strv_free(char **v)
{
	for (char **p = v; v && *p; p++)
		free(*p);
	free(v);
}

/* Nobody finds it any more, and its output is gone. */
static void job_unlink(struct job *j)
{
	CHECK(!j->users && !j->proc);
	kernel_forget_job(j);
	spool_free(TAKE_PTR(j->spool));
	spool_uncharge(j->results_bytes);
	j->results_bytes = 0;
	list_remove(&j->node);
	list_remove(&j->id_node);
	n_jobs--;
}

/* The rest of it. */
static void job_free(struct job *j)
{
	if (!j)
		return;
	timer_cancel(&j->timeout);
	timer_cancel(&j->crowded);
	timer_cancel(&j->drain);
	drop_results(j);
	free(j->room);
	strv_free(j->argv);
	strv_free(j->env);
	free(j->cwd);
	free(j->fail_text);
	buf_done(&j->cell);
	buf_done(&j->error);
	for (size_t i = 0; i < j->n_notes; i++)
		free(j->notes[i]);
	free(j);
}

/* Memory for output is short: finished jobs give theirs first, the oldest before the others; then
 * whoever keeps most gives the oldest of its tail. */
static bool reclaim(void)
{
	list_for_each (j, next, &jobs, struct job, node) {
		if (j->state != JOB_DONE || j->users || !(spool_size(j->spool) || j->results_bytes))
			continue;
		if (j->n_results)
			job_note(j, "results_dropped:%zu", j->n_results);
		drop_results(j);
		spool_drop(j->spool);
		return true;
	}
	struct job *largest = NULL;
	list_for_each (j, next, &jobs, struct job, node)
		if (!largest || spool_size(j->spool) > spool_size(largest->spool))
			largest = j;
	return largest && spool_shed(largest->spool);
}

static void on_tidy(struct timer *t);

void jobs_init(const struct config *c)
{
	config = c;
	timer_init(&tidy, on_tidy);
	for (size_t i = 0; i < ARRAY_SIZE(by_id); i++)
		list_init(&by_id[i]);
	spool_init(c->spool_head, c->spool_tail, c->spool_session, reclaim);
}

struct list *jobs_all(void)
{
	return &jobs;
}

size_t jobs_busy(void)
{
	return n_busy;
}

struct job *job_find(const uint8_t id[static JOB_ID])
{
	list_for_each (j, next, &by_id[id[0]], struct job, id_node)
		if (memcmp(j->id, id, JOB_ID) == 0)
			return j;
	return NULL;
}

static bool drop_oldest(void)
{
	list_for_each (j, next, &jobs, struct job, node) {
		if (j->state == JOB_DONE && !j->users && !j->proc) {
			job_unlink(j);
			job_free(dropped);
			dropped = j;
			return true;
		}
	}
	return false;
}

static void on_timeout(struct timer *t)
{
	job_cancel(container_of(t, struct job, timeout), CAUSE_TIMEOUT);
}

/* Shells repeat a refused fork for a quarter of a minute. A command that needs none (`pkill sleep`)
 * is over by now; this one is told what it waits for. */
static void on_crowded(struct timer *t)
{
	struct job *j = container_of(t, struct job, crowded);
	if (evidence_crowded())
		job_cancel(j, CAUSE_CROWDED);
}

static void on_drain(struct timer *t);

static struct job *record_new(void)
{
	struct job *j = xcalloc(1, sizeof(*j));
	j->state = JOB_QUEUED;
	j->results_end = &j->results;
	j->room = xmalloc(sizeof(*j->room) + RESULT_ROOM);
	j->stdin_source.fd = -1;
	j->stdin_fd = -1;
	list_init(&j->waiters);
	list_init(&j->queue_node);
	buf_init(&j->cell, LIMIT_FRAME_PAYLOAD);
	buf_init(&j->error, LIMIT_FRAME_PAYLOAD);
	timer_init(&j->timeout, on_timeout);
	timer_init(&j->crowded, on_crowded);
	timer_init(&j->drain, on_drain);
	return j;
}

static void on_tidy(struct timer *t)
{
	(void)t;
	if (n_busy) /* its end comes here again */
		return;
	jobstart_settle();
	job_free(TAKE_PTR(dropped));
	if (!spare)
		spare = record_new();
	evidence_renew();
}

struct job *job_new(const uint8_t id[static JOB_ID], enum wire_job_kind kind)
{
	if (n_jobs == LIMIT_JOBS && !drop_oldest())
		return NULL;
	struct job *j = spare ? TAKE_PTR(spare) : record_new();
	memcpy(j->id, id, JOB_ID);
	j->kind = kind;
	list_append(&jobs, &j->node);
	list_append(&by_id[id[0]], &j->id_node);
	n_jobs++;
	n_busy++;
	return j;
}

void job_discard(struct job *j)
{
	CHECK(j->state == JOB_QUEUED);
	n_busy--;
	job_unlink(j);
	job_free(j);
}

void job_note(struct job *j, const char *fmt, ...)
{
	if (j->n_notes == JOB_NOTES)
		return;
	char text[128];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	j->notes[j->n_notes++] = xstrdup(text);
}

bool job_add_result(struct job *j, const uint8_t *p, size_t n)
{
	if (j->n_results == LIMIT_RESULTS || n > LIMIT_RESULT_BYTES - j->results_bytes ||
		!spool_charge(n))
		return false;
	struct result *r = n <= RESULT_ROOM ? TAKE_PTR(j->room) : NULL;
	if (!r)
		r = xmalloc(sizeof(*r) + n);
	*r = (struct result){.n = n};
	memcpy(r->bytes, p, n);
	*j->results_end = r;
	j->results_end = &r->next;
	j->n_results++;
	j->results_bytes += n;
	return true;
}

/* ---- running ---- */

void job_begin(struct job *j)
{
	j->state = JOB_RUNNING;
	j->started_us = clock_monotonic_us();
	j->started_real_us = clock_realtime_us();
	if (j->kind == JOB_KIND_CELL)
		evidence_recent(&j->before);
	else
		evidence_read(&j->before);
	if (j->timeout_us)
		timer_set(&j->timeout, j->timeout_us);
}

void job_output(struct job *j, int stream, const uint8_t *p, size_t n)
{
	uint64_t now = clock_monotonic_us();
	if (!j->spool)
		j->spool = spool_new();
	spool_add(j->spool, stream, p, n, j->started_us ? now - j->started_us : 0);
}

static void job_ended(struct job *j)
{
	j->state = JOB_DONE;
	n_busy--;
	if (j->started_us)
		j->duration_us = clock_monotonic_us() - j->started_us;
	timer_cancel(&j->timeout);
	timer_cancel(&j->crowded);
	timer_cancel(&j->drain);
	strv_free(TAKE_PTR(j->argv));
	strv_free(TAKE_PTR(j->env));
	buf_done(&j->cell);
	jobinput_close(j);
	if (list_empty(&j->waiters)) {
		_cleanup_buf_ struct buf b = BUF_INIT(64);
		CHECK(tlv_bytes(&b, TAG_JOB, j->id, JOB_ID) == 0);
		uplink_event(EVENT_JOB_DONE, &b);
	}
	job_tell_waiters(j);
	timer_set(&tidy, TIDY_US);
}

void job_fail(struct job *j, enum wire_status status, int errnum, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char text[400];
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	j->fail = status;
	j->fail_errno = errnum;
	j->fail_text = xstrdup(text);
	j->reason = REASON_EXIT;
	j->evidence = EVIDENCE_MEASURED;
	j->has_exit_code = true;
	j->exit_code = 127;
	job_ended(j);
}

void job_start_failed(struct job *j, enum supervise_step step, int errnum, const char *step_name,
	const char *what)
{
	const char *why = strerror(errnum);
	if (errnum == EAGAIN) {
		job_finish(j, REASON_TOO_MANY_PROCESSES, EVIDENCE_MEASURED);
	} else if (step == STEP_CWD) {
		/* WIRE_NOT_FOUND would say that there is no such job */
		enum wire_status s = errnum == ENOENT || errnum == ENOTDIR ? WIRE_NOT_DIRECTORY
				     : errnum == EACCES                    ? WIRE_DENIED
									   : WIRE_IO;
		job_fail(j, s, errnum, "working directory %.200s: %s",
			j->cwd ? j->cwd : config->workspace, why);
	} else if (step == STEP_EXEC && errnum != E2BIG) {
		job_fail(j, WIRE_NO_INTERPRETER, errnum, "%.200s: %s", what, why);
	} else if (step == STEP_EXEC) {
		job_fail(j, WIRE_LIMIT, errnum, "arguments and environment are too long: %s", why);
	} else {
		job_fail(j, WIRE_IO, errnum, "no process could be set up%s%s: %s",
			step_name[0] ? " at " : "", step_name, why);
	}
}

enum wire_reason job_take_status(struct job *j, int wait_status)
{
	if (wait_status >= 0 && WIFSIGNALED(wait_status)) {
		j->signal = WTERMSIG(wait_status);
		return REASON_SIGNAL;
	}
	if (wait_status >= 0) {
		j->has_exit_code = true;
		j->exit_code = WEXITSTATUS(wait_status);
	}
	return REASON_EXIT;
}

void job_finish(struct job *j, enum wire_reason reason, enum wire_evidence evidence)
{
	if (j->state == JOB_RUNNING)
		job_weigh(j, &reason, &evidence);
	if (j->cause == CAUSE_CROWDED) {
		reason = REASON_TOO_MANY_PROCESSES;
		evidence = EVIDENCE_INFERRED;
	} else if (j->cause != CAUSE_NONE) {
		reason = j->cause == CAUSE_TIMEOUT ? REASON_TIMEOUT : REASON_CANCELLED;
		evidence = EVIDENCE_MEASURED;
	}
	j->reason = reason;
	j->evidence = evidence;
	if (reason == REASON_OUT_OF_MEMORY)
		segments_sweep();
	job_ended(j);
}

/* ---- commands ---- */

static void command_finish(struct job *j)
{
	enum wire_reason reason = job_take_status(j, j->wait_status);
	if (j->left)
		job_note(j, "children_left:%u", j->left);
	if (j->wait_status < 0)
		job_note(j, "exit_status_lost");
	job_finish(j, reason, j->wait_status < 0 ? EVIDENCE_INFERRED : EVIDENCE_MEASURED);
}

static void on_failed(void *user, enum supervise_step step, int errnum, const char *name)
{
	struct job *j = user;
	job_start_failed(j, step, errnum, name, j->argv[0]);
}

static void on_output(void *user, int stream, const uint8_t *p, size_t n)
{
	job_output(user, stream, p, n);
}

static void on_ended(void *user, int wait_status, unsigned left)
{
	struct job *j = user;
	j->wait_status = wait_status;
	j->left = left;
	if (proc_killing(j->proc))
		return; /* gone() is near, and then nothing of the tree is left */
	if (!proc_has_output(j->proc))
		command_finish(j);
	else
		timer_set(&j->drain, DRAIN_STEP_US);
}

static void on_drain(struct timer *t)
{
	struct job *j = container_of(t, struct job, drain);
	uint64_t before =
		spool_total(j->spool, CHANNEL_STDOUT) + spool_total(j->spool, CHANNEL_STDERR);
	proc_drain(j->proc);
	uint64_t now =
		spool_total(j->spool, CHANNEL_STDOUT) + spool_total(j->spool, CHANNEL_STDERR);
	if (proc_has_output(j->proc) && now != before && ++j->drains < DRAIN_STEPS)
		timer_set(&j->drain, DRAIN_STEP_US);
	else
		command_finish(j);
}

static void on_gone(void *user)
{
	struct job *j = user;
	j->proc = NULL;
	if (j->state != JOB_DONE) {
		j->left = 0;
		command_finish(j);
	}
}

static void on_started(void *user, pid_t pid)
{
	(void)user;
	(void)pid;
}

static const struct proc_ops command_ops = {
	.started = on_started,
	.failed = on_failed,
	.output = on_output,
	.ended = on_ended,
	.gone = on_gone,
};

void job_start_command(struct job *j)
{
	job_begin(j);
	if (evidence_crowded())
		timer_set(&j->crowded, CROWDED_US);
	struct proc_spec spec = {
		.argv = j->argv, .env = j->env, .cwd = j->cwd, .want_stdin = j->want_stdin};
	int r = proc_start(&spec, &command_ops, j, &j->proc, &j->stdin_fd, NULL);
	if (r == -EAGAIN || r == -ENOMEM)
		job_finish(j, REASON_TOO_MANY_PROCESSES, EVIDENCE_MEASURED);
	else if (r < 0)
		job_fail(j, WIRE_LIMIT, -r, "no process can be started: %s", strerror(-r));
}

void job_cancel(struct job *j, enum job_cause cause)
{
	if (j->state == JOB_DONE) {
		if (j->proc)
			proc_kill(j->proc);
		return;
	}
	if (j->cause == CAUSE_NONE)
		j->cause = cause;
	if (j->kind == JOB_KIND_CELL)
		kernel_cancel_cell(j);
	else if (j->proc)
		proc_kill(j->proc);
}
