/* process.h: processes of this host by number: what /proc says of one, and one that a note of an
 * earlier broker means, not another that has got its number since. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t pid, parent;
	bool dead;      /* a zombie */
	uint64_t start; /* in clock ticks since the boot; 0: not known */
};

/* False where there is none of that number, or nothing may be known of it. */
bool process_read(pid_t pid, struct process *ret);
/* The processes of this machine, malloc()ed; their number. */
size_t process_list(struct process **ret);
/* A pidfd of the one with that number and start (0: any), or a negative errno: -ESRCH where it has
 * ended. */
int process_open(pid_t pid, uint64_t start);
/* 0, or a negative errno. */
int process_signal(int pidfd, int sig);
/* A living child, or 0. */
pid_t process_child(pid_t parent);
