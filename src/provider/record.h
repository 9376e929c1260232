/* record.h: the note about a running sandbox in the runtime directory, by which a later broker
 * finds it, or removes what a dead one left. Lines "key value", written before what they name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "confine/cgroup.h"
#include "provider/provider.h"

struct record {
	char *path;
	/* Locked (shared). The sandbox inherits one, the broker keeps the other: whoever gets the
	 * exclusive lock knows that both are gone. */
	int shared_fd, guard_fd;
};
#define RECORD_NONE ((struct record){.shared_fd = -1, .guard_fd = -1})

struct record_process {
	pid_t pid;      /* 0: not known */
	uint64_t start; /* see struct process */
};

/* What a record says. Texts are owned; NULL: not said. */
struct record_facts {
	bool same_boot;
	char *cgroups[CGROUP_DIRS]; /* in the order they were made */
	size_t n_cgroups;
	char *socket;
	char *workdir; /* a directory to remove with all that is in it */
	uid_t uid;     /* claimed for it; 0: none */
	/* A container, by engine and name: it lives on its own, whoever holds the record's lock. */
	char *endpoint, *container;
	struct record_process first, init;
	char *kernels_dir, *workspace; /* as code inside sees them */
	struct capabilities caps;      /* texts that live as long as the process */
};
void record_facts_done(struct record_facts *f);

/* Writes ID.box under dir with what of f is known before the sandbox has a process: groups, socket,
 * workdir, uid. */
int record_create(const char *dir, const char *id, const struct record_facts *f, struct record *ret,
	struct err *err) MUST_CHECK;
/* Adds the process (key "first" or "init"); then, with the first, what code sees and what holds it.
 * 0, or a negative errno. */
int record_add_process(struct record *r, const char *key, pid_t pid) MUST_CHECK;
int record_add_inside(struct record *r, const char *kernels_dir, const char *workspace,
	const struct capabilities *caps) MUST_CHECK;
/* Written so recently that an engine which was asked for its container may still make it. */
bool record_is_fresh(const struct record *r);
void record_remove(struct record *r);

/* Finds the record of a sandbox that an earlier broker made, and shares its lock. -ENOENT: there is
 * none; -ESRCH: nobody holds it (any more), and all that it names has been removed. */
int record_open(const char *dir, const char *id, struct record *ret, struct record_facts *ret_facts,
	struct err *err) MUST_CHECK;
/* See provider_sweep(). */
int record_sweep(const char *dir);

/* Removes a directory and everything in it, of any depth, following nothing, in a bounded number of
 * descriptors. 0, or the first negative errno. Blocking. */
int record_remove_tree(const char *path);
/* This boot's id, as text; static. */
const char *record_boot_id(void);
