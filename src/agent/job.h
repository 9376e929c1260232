/* job.h: one run of a command or a cell, from its request to the end of its record.
 *
 * A job is known by the broker's 16 bytes and is never run twice: the agent's record is the truth.
 * Records stay until LIMIT_JOBS pushes out the oldest finished one. job.c has their life,
 * jobops.c the operations of the protocol, jobstatus.c what is told about them; cells are run by
 * kernel.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/evidence.h"
#include "agent/loop.h"
#include "agent/proc.h"
#include "agent/spool.h"
#include "agent/stream.h"
#include "base/list.h"
#include "wire/sha256.h"

#define JOB_ID           16
#define JOB_COMMAND_TEXT 200 /* of what runs, for lists */
#define JOB_NOTES        8

struct kernel;
struct job_input;

/* The agent's own act that ended a job. */
enum job_cause { CAUSE_NONE, CAUSE_TIMEOUT, CAUSE_CANCELLED, CAUSE_CROWDED };

/* A MIME bundle of a cell. */
struct result {
	struct result *next;
	size_t n;
	uint8_t bytes[];
};
/* Most cells answer with one that is small. */
#define RESULT_ROOM 128

struct job {
	struct list node;    /* all jobs, oldest first */
	struct list id_node; /* those whose id begins with the same byte */
	uint8_t id[JOB_ID];
	uint8_t digest[SHA256_SIZE]; /* of the request, without how it is waited for */
	enum wire_job_kind kind;
	enum wire_job_state state;
	unsigned users; /* streams that stand on it; a record in use is not dropped */
	uint64_t timeout_us;
	struct list waiters;
	bool want_stdin, input_closed;
	struct job_input *input;

	/* a cell */
	struct kernel *kernel;
	struct list queue_node; /* in its kernel's queue */
	struct buf cell;        /* payload of its CELL frame, while it waits in the queue */
	uint32_t generation;
	bool kernel_created;
	struct buf error; /* TLVs of the error that the cell raised */
	struct result *results, **results_end;
	struct result *room; /* for RESULT_ROOM bytes, made with the record; NULL: used */
	size_t n_results, results_bytes;

	/* running, and after it */
	struct spool *spool; /* made by the first output */
	struct evidence before;
	uint64_t started_us, started_real_us, duration_us; /* started: CLOCK_MONOTONIC, _REALTIME */
	struct timer timeout;
	enum job_cause cause;

	/* the end */
	enum wire_status fail; /* it never ran: what every waiter is told, with fail_text */
	int fail_errno;
	char *fail_text;
	enum wire_reason reason;
	enum wire_evidence evidence;
	bool has_exit_code;
	int exit_code, signal;
	char *notes[JOB_NOTES];
	size_t n_notes;

	/* a command */
	char **argv, **env;
	char *cwd;
	struct proc *proc; /* lives until the last process of its tree is gone */
	int stdin_fd;      /* to the program, -1: none or closed */
	struct source stdin_source;
	int wait_status;
	unsigned left;
	unsigned drains;
	struct timer drain;
	struct timer crowded; /* it began when no process could be made */

	char command[JOB_COMMAND_TEXT + 1];
};

/* c is kept. Call once. */
void jobs_init(const struct config *c);
struct job *job_find(const uint8_t id[static JOB_ID]);
/* All of them, oldest first: struct job by node. */
struct list *jobs_all(void);
/* Jobs that are queued or run: what makes an agent busy. */
size_t jobs_busy(void);
/* A new record, state JOB_QUEUED. NULL where LIMIT_JOBS are in use. */
struct job *job_new(const uint8_t id[static JOB_ID], enum wire_job_kind kind);
/* Takes a record out that never began. */
void job_discard(struct job *j);

/* Starts a command. What goes wrong is in the record. */
void job_start_command(struct job *j);
/* Cancels by the ladder: a queued cell is taken out, a running one interrupted, a command's tree
 * killed; of a finished command, what it left behind. */
void job_cancel(struct job *j, enum job_cause cause);

/* For the one who runs it: the state is JOB_RUNNING and the clock of timeout_us runs. */
void job_begin(struct job *j);
void job_output(struct job *j, int stream, const uint8_t *p, size_t n);
/* It could not be started. The text is copied. */
void job_fail(struct job *j, enum wire_status status, int errnum, const char *fmt, ...)
	PRINTF_LIKE(4, 5);
/* Why a program did not start, as a status or as reason "too many processes". what names it. */
void job_start_failed(struct job *j, enum supervise_step step, int errnum, const char *step_name,
	const char *what);
/* It is over, for this reason if nothing speaks for a better one (cause, counters). */
void job_finish(struct job *j, enum wire_reason reason, enum wire_evidence evidence);
void job_note(struct job *j, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Reads a wait status into exit_code and signal; the reason. */
enum wire_reason job_take_status(struct job *j, int wait_status);
/* A MIME bundle of a cell. Copied; false where a maximum is reached. */
bool job_add_result(struct job *j, const uint8_t *p, size_t n);

/* jobstatus.c: TLVs of the status (docs/agent-protocol.md); inline_bytes of head and of tail of
 * each stream. */
void job_status(const struct job *j, size_t inline_bytes, struct buf *ret);

/* jobops.c: tells everybody who waits for it what results there are, and its end. */
void job_tell_waiters(struct job *j);
extern const struct stream_handler job_handlers[];
