/* kernel.h: live interpreters that run cells one after the other (docs/agent-protocol.md,
 * "Kernels").
 *
 * A kernel is a program under a supervisor, as a command is, with one more descriptor: a socket
 * over which it is given cells and says how they ended. What comes over it is hostile input: a
 * kernel that breaks the protocol is killed.
 *
 * kernel.c has its life and its cells, kernelfork.c its twins, kernelops.c the operations. */
#pragma once

#include "agent/config.h"
#include "agent/job.h"
#include "agent/jobstart.h"
#include "agent/proc.h"
#include "wire/frame.h"

enum kernel_state {
	KERNEL_DOWN,     /* never started, or ended */
	KERNEL_STARTING, /* until READY */
	KERNEL_UP,
	KERNEL_ENDING, /* told to stop, or killed; until the last process of its tree is gone */
};

/* What a kernel that died said of itself, or READY did; short texts. */
#define KERNEL_TEXT 64

struct kernel {
	struct list node;
	char *name;
	struct text_list argv, env;
	char *cwd;
	enum kernel_state state;
	uint32_t generation;
	pid_t pid;
	char language[KERNEL_TEXT], engine[KERNEL_TEXT], version[KERNEL_TEXT];

	struct proc *proc;
	int control;          /* the socket's descriptor, owned; -1: none */
	struct source socket; /* of it, as long as something can come */
	uint8_t *in;
	size_t in_len;
	struct buf out;

	struct job *current;
	struct job *speaker; /* whose output it is: current, or the last one */
	struct list queue;
	size_t n_queued;
	struct timer ladder; /* of current, being interrupted; of a start that takes long */
	unsigned ladder_step;
	bool broke_protocol, start_took_long, stop_asked, interrupted;
	/* Both, and it is up; a kernel started here is supervised from the beginning. */
	bool ready, supervised;
	bool forks;       /* READY said so: it understands FORK … */
	bool expects;     /* … and EXPECT */
	unsigned signals; /* on their way to it: no cell begins that they are not meant for */

	/* kernelfork.c: a twin is being made of it, and no cell begins; it is such a twin, and not
	 * up yet */
	struct kernel_fork *fork, *birth;

	struct list stops; /* streams of OP_KERNEL_STOP that wait for its end */
};

/* c is kept. Call once. */
void kernels_init(const struct config *c);
struct kernel *kernel_find(const char *name);
struct list *kernels_all(void);
/* A new one, KERNEL_DOWN, with the given parts (taken). NULL where there are LIMIT_KERNELS. */
struct kernel *kernel_define(
	const char *name, struct text_list *argv, struct text_list *env, char **cwd);
bool kernels_full(void);
/* The kernel's parts for the given ones; only while it is down. */
void kernel_swap_definition(
	struct kernel *k, struct text_list *argv, struct text_list *env, char **cwd);
/* From KERNEL_DOWN to KERNEL_STARTING; where it cannot be, its queue is told. */
void kernel_start(struct kernel *k);
/* The same for one that runs already (agent/proc.h). Takes the descriptors where it succeeds. 0, or
 * a negative errno: then it is as it was. parent: forked from it; NULL: from a template. */
int kernel_adopt(struct kernel *k, struct proc_ends *ends, const struct kernel *parent) MUST_CHECK;
/* What runs is given the session's variables; it sets them before its next cell. */
void kernel_tell_env(struct kernel *k);
/* One SIGINT to its process group, where a cell runs. */
void kernel_interrupt(struct kernel *k);
/* Ends its tree and cancels its cells. */
void kernel_stop(struct kernel *k);

/* ---- for jobs ---- */

/* Puts a cell (its CELL frame's payload, copied) behind those that wait in the kernel of that
 * name, and starts the kernel where it is not running. WIRE_OK, WIRE_NOT_FOUND or WIRE_LIMIT. */
enum wire_status kernel_queue_cell(struct job *j, const struct tlv *name, const struct buf *cell);
/* Place of a queued cell, 1: next. */
uint32_t kernel_queue_position(const struct job *j);
/* By the ladder of j->cause; a queued cell is taken out at once. */
void kernel_cancel_cell(struct job *j);
/* A signal to the group of the kernel, where j runs in it. */
void kernel_signal_cell(struct job *j, int sig);
/* Bytes of standard input for a cell (n ≤ KERNEL_INPUT). False where it does not run yet, or its
 * kernel has not read the last ones: try again after a moment. */
#define KERNEL_INPUT (64 * KIB)
bool kernel_input(struct job *j, const uint8_t *p, size_t n, bool fin);
/* The record is about to be freed. */
void kernel_forget_job(struct job *j);

/* EXPECT has come: the kernel that the last cell ran in is told, if it is free. */
void kernels_expect(void);
/* Gives the next cell to a kernel that is free for it. */
void kernel_run_next(struct kernel *k);

/* kernelfork.c */
/* OP_KERNEL_FORK of k to a new kernel of that name; NULL: one is chosen. */
void kernelfork_open(struct stream *s, struct kernel *k, const char *name);
/* FORKED has come. False where that breaks the protocol. */
bool kernelfork_answered(struct kernel *k, const struct frame *f);
/* k is up, and has a birth. */
void kernelfork_up(struct kernel *k);
/* k has ended, and with it what was going on. */
void kernelfork_ended(struct kernel *k);

/* kernelops.c */
void kernel_tell_stopped(struct kernel *k);
extern const struct stream_handler kernel_handlers[];
