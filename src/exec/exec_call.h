/* exec_call.h: one operation of exec on its way: from the request to the one callback. Shared by
 * the files of exec; nobody else includes it. */
#pragma once

#include "base/list.h"
#include "exec/exec.h"
#include "link/link.h"

struct exec {
	struct link *link;
	char *kernels_dir, *workspace;
	struct list calls;   /* those that have not called back; the oldest first */
	struct list kernels; /* of struct exec_kernel_ref */
	struct exec_spawner spawner;
	struct exec_kernel_ref *spawning; /* every call waits for it: their order stays */
	bool warm;                        /* nobody waits for the kernel that is started next */
	uv_timer_t timer; /* due at once when a call has failed before it reached the link, else
			     when the first of them is late */
};

/* What is known here of a kernel, to start it once and to notice that it was replaced. */
struct exec_language;
struct exec_kernel_ref {
	struct list kernels;
	char *name;
	const struct exec_language *language; /* NULL: not known here */
	bool started;                         /* KERNEL_START was sent and has not failed */
	bool restart_asked;                   /* the next generation is no surprise */
	uint32_t generation;                  /* the highest seen; 0: none */
	char restarted_for[ID_TEXT_SIZE]; /* the job that found this generation instead of the old
					     one; "": that was no surprise */
	struct err *start_err;            /* why it could not be started */
};

/* What a kind of call does with what comes; members may be NULL. 0, or a negative errno where it
 * makes no sense: the call then ends with ERR_PROTOCOL. */
struct exec_call_type {
	int (*msg)(struct exec_call *c, struct tlv_reader msg);
	int (*data)(struct exec_call *c, const uint8_t *p, size_t n);
	int (*end)(struct exec_call *c, struct tlv_reader msg);
	void (*writable)(struct exec_call *c);
	/* An END that is no error for this kind of call; end() is not called then. */
	bool (*forgives)(const struct exec_call *c, enum wire_status status);
	/* The deadline has passed without an answer; instead of finish(). NULL: that is an error
	 * (ERR_TIMEOUT). */
	void (*late)(struct exec_call *c);
	/* Once; err is NULL where all went well. Calls the user back. lost: the link went while the
	 * call was on its way. */
	void (*finish)(struct exec_call *c, const struct err *err, bool lost);
	/* Frees what the call holds, not the call. */
	void (*done)(struct exec_call *c);
};

/* The first member of every kind of call. */
struct exec_call {
	struct list calls;
	struct exec *exec;
	const struct exec_call_type *type;
	struct link_stream *stream; /* NULL: held, or failed and about to say so */
	struct buf held;            /* the request that waits, op != 0 */
	uint16_t held_op;
	struct err *err;      /* why */
	uint64_t deadline_us; /* CLOCK_MONOTONIC; 0: the answer may take any time */
	bool bad;             /* the agent said what makes no sense */
	const char *what;     /* for errors: "job", static, … */
	char name[41];        /* … and of which name; "": it needs none */
};

/* A call of size bytes (at least struct exec_call), zeroed, in the list. what is static; name
 * (NULL: it has none) is cut to fit. */
void *exec_call_new(struct exec *x, const struct exec_call_type *type, size_t size,
	const char *what, const char *name);
/* "job j-…". */
#define EXEC_CALL_TEXT 96
void exec_call_text(const struct exec_call *c, char ret_text[static EXEC_CALL_TEXT]);
/* Sends the request, now or once a kernel on its way has come; where it cannot be sent, the call
 * fails. body_result: what building body gave;
 * negative: it is too large. */
void exec_call_open(struct exec_call *c, uint16_t op, const struct buf *body, int body_result);
/* The same with descriptors: 0, or what link_open_with_fds() says; then nothing was sent, and the
 * call is to be abandoned. */
int exec_call_open_with_fds(struct exec_call *c, uint16_t op, const struct buf *body,
	const int *fds, size_t n_fds) MUST_CHECK;
/* The call will end with this error, from the loop. */
void exec_call_fail(struct exec_call *c, enum err_code code, int errnum, const char *fmt, ...)
	PRINTF_LIKE(4, 5);

/* The agent is hostile or may hang: the caller is answered when so long has passed since now, and
 * EXEC_GRACE_US. The time does not run while the sandbox still starts. */
void exec_call_within(struct exec_call *c, uint64_t us);
#define EXEC_GRACE_US (2 * USEC_PER_SEC)
/* For what an agent answers at once; a kernel needs LIMIT_KILL_GRACE_US and more to be ended. */
#define EXEC_ANSWER_US (10 * USEC_PER_SEC)

/* Room for a request: an OPEN frame has two bytes of operation before it. */
#define EXEC_BODY_MAX (LIMIT_FRAME_PAYLOAD - 2)
/* Appends JOB. */
int exec_body_job(struct buf *b, const char *job) MUST_CHECK;
/* Appends DELIVERY; nothing where tag is NULL. */
int exec_body_tag(struct buf *b, const uint8_t *tag) MUST_CHECK;

/* The record of the kernel with that name, made where there is none. NULL: there are too many, or
 * it is no name. */
struct exec_kernel_ref *exec_kernel_named(struct exec *x, const char *name);
bool exec_kernel_name_valid(const char *name);
/* The record of the kernel that is to run a cell. language NULL: that of the kernel; name NULL: the
 * language's own. NULL and err where they do not fit. */
struct exec_kernel_ref *exec_kernel_ref(
	struct exec *x, const char *language, const char *name, struct err *err);
/* Sends KERNEL_START where that is still to be done, or asks the spawner. */
void exec_kernel_start(struct exec *x, struct exec_kernel_ref *k);
/* Sends what waited for a kernel. */
void exec_call_send_held(struct exec *x);
/* Compares a status with what is known of its kernel; sets s->kernel_restarted. */
void exec_kernel_seen(struct exec_kernel_ref *k, struct exec_status *s);
