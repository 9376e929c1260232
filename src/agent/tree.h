/* tree.h: ending a tree of processes that does not want to end: setsid, double forks, processes
 * that fork on and on. Needs the caller to be a subreaper (or PID 1), so that every orphan of the
 * tree comes back to it.
 *
 * One pass stops every descendant that it finds (parents before their children, so that they make
 * no more of them) and then kills them all; the caller reaps and repeats until none is left. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/limits.h"

/* Found in one pass at most; the rest waits for the next. */
#define TREE_PASS 4096

/* A process below the caller that stays untouched, with everything below it. NULL: none does. */
typedef bool (*tree_keep_fn)(pid_t pid);

/* Processes that count as children of the caller although they are not, or not surely. */
struct tree_roots {
	size_t n;
	pid_t pid[LIMIT_KERNELS];
};

/* Calls kill(2) with SIGSTOP and then SIGKILL; the number of processes found. more may be NULL. */
size_t tree_kill_pass(tree_keep_fn keep, const struct tree_roots *more);
/* Sends sig to each; the number found. Signal 0 counts. */
size_t tree_signal(tree_keep_fn keep, int sig);
/* Counts the threads of all descendants: what RLIMIT_NPROC counts. */
size_t tree_threads(const struct tree_roots *more);
