/* exec.h: running commands and cells in one sandbox, over its link: jobs, kernels, results.
 *
 * Each call starts one operation and calls back once, from the loop: with a status, or with an
 * error. The agent holds the truth about jobs; this module asks it, checks what it says, and keeps
 * no output.
 *
 * tag, where something is changed: what the agent has done under it once is not done again, and is
 * answered as it was then (wire/delivery.h). NULL: done each time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "wire/delivery.h"
#include "wire/proto.h"

struct link;
struct exec;
struct exec_call;

/* The strings are copied. kernels_dir and workspace as code in the sandbox sees them. */
struct exec *exec_new(struct link *l, const char *kernels_dir, const char *workspace);
/* Abandons every call. The link is not closed. */
void exec_free(struct exec *x);

/* Kernels that were started, as far as is known here. */
size_t exec_kernels_known(const struct exec *x);

/* Who has kernels by another way than starting their program in the sandbox (a template). */
struct exec_spawner {
	/* Asked before the first start of the default kernel. 0: exec_kernel_spawned() will be
	 * called, from the loop; every call waits for that. Negative: start it plainly. */
	int (*spawn)(void *user);
	void *user;
};
void exec_set_spawner(struct exec *x, const struct exec_spawner *s);
/* The answer: ends as exec_kernel_adopt() takes them, or NULL: it is started plainly. */
void exec_kernel_spawned(struct exec *x, int ends[4]);

struct exec_bundle;
struct exec_request {
	enum wire_job_kind kind;
	const char *job; /* "j-…", made by the caller with id_new('j') */
	/* a command: text for the sandbox's shell, or an argument list */
	const char *shell_text;
	const char *const *argv;
	size_t n_argv;
	const char *const *env; /* NAME=value, added to the base environment */
	size_t n_env;
	const char *cwd; /* NULL: the workspace */
	/* a cell */
	const char *language; /* of exec_languages; NULL: that of the kernel, else the first */
	const char *kernel;   /* name; NULL: the language's own, called like it */
	const char *code;
	/* NULL: code is code. Else the name of who takes it in the kernel ("dashboard"), and code
	 * is the request to it, JSON; such a cell is queued, interrupted and answered as any other.
	 */
	const char *mode;
	/* both */
	const char *stdin_data; /* NULL: none given */
	size_t stdin_len;
	const uint8_t *stdin_tag; /* DELIVERY_TAG bytes, for stdin_data */
	bool stdin_open;          /* stays open after stdin_data for exec_input() */
	uint64_t timeout_us;      /* from the start of running; 0: none */
	uint64_t wait_us;         /* answer "running" or "queued" after so long */
	/* Each of the cell's results as it comes, before the answer, which has them too once the
	 * cell has ended; borrowed, with the user of exec_run(). NULL: only the answer. */
	void (*shown)(void *user, const struct exec_bundle *b);
};

/* Raw bytes of one output stream of a job. Where total > head.len + tail.len the middle is left out
 * here. */
struct exec_output {
	uint64_t total; /* bytes that the job has written */
	uint64_t lost;  /* of these, no longer kept by the agent */
	struct buf head, tail;
};

struct exec_mime {
	char *type;
	uint8_t *data;
	size_t n;
};

struct exec_bundle {
	bool is_result; /* the value of the cell's last expression */
	struct exec_mime *mimes;
	size_t n_mimes;
	char **skipped; /* "image/png 1234567": too large to send */
	size_t n_skipped;
};

struct exec_status {
	char job[ID_TEXT_SIZE];
	enum wire_job_kind kind;
	enum wire_job_state state;
	uint32_t queue_position; /* 1: next */
	/* state JOB_DONE: */
	enum wire_reason reason;
	enum wire_evidence evidence;
	bool has_exit_code;
	int exit_code;
	int signal; /* 0: none */
	char **notes;
	size_t n_notes;
	struct exec_output out, err;
	struct exec_bundle *results;
	size_t n_results;
	char *error_name, *error_message, *traceback; /* NULL: the cell raised nothing */
	char *kernel;                                 /* NULL: not a cell */
	uint32_t generation;                          /* of the kernel */
	bool kernel_restarted; /* this call found its kernel dead and started a new one: state was
				  lost */
	uint64_t started_us;   /* CLOCK_REALTIME; 0: not started */
	uint64_t duration_us;
	char *command; /* the first bytes of what runs; lists only */
	bool unheard;  /* JOB_RUNNING only because the sandbox did not answer in time */
};
void exec_status_done(struct exec_status *s);
/* Its results and the bytes of its output, where nobody will read them; how many there were stays.
 */
void exec_status_drop_output(struct exec_status *s);
#define _cleanup_status_ CLEANUP(exec_status_done)
/* The status of a job whose sandbox is gone: it ended with it, or nobody can know any more how. why
 * becomes a note. */
void exec_status_lost(
	struct exec_status *ret, const char *job, enum wire_job_kind kind, const char *why);

/* Called at the latest 2 s after wait_us, whatever the agent does, once the sandbox has started.
 * status is NULL where err is not, and is gone after the call (members may be taken with TAKE_PTR).
 * A sandbox that is lost while a job runs is a status with REASON_SANDBOX_LOST. */
typedef void (*exec_done_fn)(void *user, struct exec_status *status, const struct err *err);

/* The call's handle lives until its callback. */
struct exec_call *exec_run(
	struct exec *x, const struct exec_request *req, exec_done_fn done, void *user);
struct exec_call *exec_wait(
	struct exec *x, const char *job, uint64_t wait_us, exec_done_fn done, void *user);
/* No callback any more. The job goes on. */
void exec_abandon(struct exec_call *c);

typedef void (*exec_simple_fn)(void *user, const struct err *err);
/* Interrupts a cell (by the ladder), ends a command's whole tree, takes a queued cell out of the
 * queue; fine where the job has ended already. done may be NULL. */
void exec_cancel(
	struct exec *x, const char *job, const uint8_t *tag, exec_simple_fn done, void *user);
/* signal 1 to 64, to the job's process group. */
void exec_signal(struct exec *x, const char *job, int signal, const uint8_t *tag,
	exec_simple_fn done, void *user);
/* How what was done under that tag ended: known, and then with err or without. Not known: it was
 * not done, as far as the agent remembers. */
typedef void (*exec_recall_fn)(void *user, bool known, const struct err *err);
struct exec_call *exec_recall(
	struct exec *x, const uint8_t tag[static DELIVERY_TAG], exec_recall_fn done, void *user);

struct exec_piece {
	enum wire_channel channel;
	uint64_t offset;  /* in its stream */
	uint64_t time_us; /* since the job's start; CHANNEL_BOTH only */
	const uint8_t *p;
	size_t n;
};
struct exec_read {
	uint64_t offset; /* where the bytes begin: later than asked for where those are no longer
			    kept */
	uint64_t total;  /* of that channel so far */
	uint64_t lost_offset, lost_len; /* a hole in what is kept; lost_len 0: none */
	bool ended;                     /* the job is done: total is final */
	struct buf bytes;               /* CHANNEL_STDOUT, CHANNEL_STDERR */
	struct exec_piece *pieces;      /* CHANNEL_BOTH: in order of arrival */
	size_t n_pieces;
};
typedef void (*exec_read_fn)(void *user, struct exec_read *r, const struct err *err);
/* length ≤ LIMIT_READ_TEXT. For CHANNEL_BOTH offset counts the bytes of both in order of arrival.
 */
struct exec_call *exec_read(struct exec *x, const char *job, enum wire_channel channel,
	uint64_t offset, uint64_t length, exec_read_fn done, void *user);

struct exec_hit {
	enum wire_channel channel;
	uint64_t offset; /* of the pattern, in its stream */
	char *text;      /* the line around it, as far as it was sent */
};
struct exec_found {
	struct exec_hit *hits;
	size_t n;
	bool more; /* LIMIT was reached: go on in next_channel at next_offset */
	enum wire_channel next_channel;
	uint64_t next_offset;
};
typedef void (*exec_search_fn)(void *user, const struct exec_found *f, const struct err *err);
/* Looks for literal bytes (1 to LIMIT_PATTERN of them) in what is kept of a job's output, one hit a
 * line, at most limit (≤ LIMIT_SEARCH_HITS). offset: where to begin in the first of the streams. */
struct exec_call *exec_search(struct exec *x, const char *job, enum wire_channel channel,
	uint64_t offset, const char *pattern, uint64_t limit, exec_search_fn done, void *user);

typedef void (*exec_input_fn)(void *user, uint64_t accepted, const struct err *err);
struct exec_call *exec_input(struct exec *x, const char *job, const void *p, size_t n,
	bool close_after, const uint8_t *tag, exec_input_fn done, void *user);

typedef void (*exec_list_fn)(void *user, struct exec_status *jobs, size_t n, const struct err *err);
struct exec_call *exec_list(struct exec *x, exec_list_fn done, void *user);

struct exec_kernel {
	char *name, *language, *engine;
	uint32_t generation;
	bool alive, busy;
	bool stopped; /* it ended because that was asked for */
	uint32_t queued;
};
typedef void (*exec_kernels_fn)(
	void *user, const struct exec_kernel *kernels, size_t n, const struct err *err);
struct exec_call *exec_kernels(struct exec *x, exec_kernels_fn done, void *user);
/* Hands the agent a kernel that already runs in the sandbox (OP_KERNEL_ADOPT): fds are its
 * supervisor's socket (with SO_PASSCRED since before its other end was given away), its control
 * socket, and the reading ends of its stdout and stderr; they are closed whatever comes of it.
 * kernel NULL: the default one. 0, and done is called; or a negative errno where it cannot be tried
 * now (-EAGAIN, -EOPNOTSUPP) or that kernel was started (-EEXIST): then the next cell starts one
 * plainly, as it does where done brings an error. */
int exec_kernel_adopt(
	struct exec *x, const char *kernel, int fds[4], exec_simple_fn done, void *user) MUST_CHECK;
/* Starts the default kernel before any cell needs it. */
void exec_kernel_prepare(struct exec *x);
/* A kernel that an earlier broker has started, as exec_kernels() tells of it: it is not started
 * again, and its next generation is a surprise unless it was stopped. */
void exec_kernel_found(struct exec *x, const struct exec_kernel *k);
/* kernel NULL: the default one. Interrupting an idle kernel is 0. */
void exec_kernel_interrupt(
	struct exec *x, const char *kernel, const uint8_t *tag, exec_simple_fn done, void *user);
/* Ends the kernel with its children (fine where there is none); the next cell starts a new one
 * (without the "state was lost" note). */
void exec_kernel_restart(
	struct exec *x, const char *kernel, const uint8_t *tag, exec_simple_fn done, void *user);

struct exec_twin {
	char *kernel; /* its name */
	uint32_t generation;
	/* "shared_file:PATH", "shared_files_more:N", "shared_sockets:N", "shared_pipes:N": what
	 * both have open; agent-reported */
	char **notes;
	size_t n_notes;
};
typedef void (*exec_twin_fn)(void *user, const struct exec_twin *twin, const struct err *err);
/* A second kernel with the variables of one that is idle (OP_KERNEL_FORK): where a cell runs or
 * waits there, or it has threads, that is an error with the reason. kernel NULL: the default one;
 * name NULL: the agent chooses one. */
struct exec_call *exec_kernel_fork(struct exec *x, const char *kernel, const char *name,
	const uint8_t *tag, exec_twin_fn done, void *user);

struct exec_usage {
	uint64_t memory, memory_max, pids, pids_max, disk_total, disk_free, spool; /* 0: unknown */
};
typedef void (*exec_usage_fn)(void *user, const struct exec_usage *u, const struct err *err);
struct exec_call *exec_usage(struct exec *x, exec_usage_fn done, void *user);

/* Languages that this build has a kernel for; NULL at the end. */
extern const char *const exec_languages[];
/* The language that a cell would run in which names none; kernel may be NULL. */
const char *exec_language_of(const struct exec *x, const char *kernel);
/* "exit", "timeout", …; "measured", … */
const char *exec_reason_name(enum wire_reason r);
const char *exec_evidence_name(enum wire_evidence e);
/* A wire status as an error with words for the caller; what is the thing asked for ("job j-…",
 * "file x"). */
int exec_wire_error(
	enum wire_status status, const char *what, const char *agent_text, struct err *err);
