/* provider.h: what can boot a sandbox with the agent in it and hand over the stream (SPEC.md).
 *
 * The rest of the broker meets a back-end only through this. create() must not block beyond the few
 * system calls that start a process; what takes time is told by callbacks from the loop. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"
#include "wire/auth.h"
#include "wire/proto.h"

struct sandbox_mount {
	const char *name;   /* appears at /mnt/NAME, read-only */
	const char *source; /* real path on the host */
};

/* What a sandbox shall be. All sizes in bytes. Borrowed for the time of the call. */
struct sandbox_spec {
	const char *id; /* the sandbox's own id, "x-…": names of cgroups, sockets, directories */
	const char *runtime_dir; /* 0700 directory for sockets and records; exists */
	const char *agent_path;  /* scb-agent on the host */
	const char *kernels_dir; /* kernels/ on the host */
	uint64_t memory_max, workspace_size, tmp_size, shm_size;
	uint32_t cpus, pids_max;
	const struct sandbox_mount *mounts;
	size_t n_mounts;
	/* Of an image that is unpacked on this host, whose system the sandbox sees instead of the
	 * host's; NULL: none. */
	const char *root;
	uint32_t lease_ms;
	/* See BOOT_ORPHAN_MS. 0: the sandbox ends with the process that makes it; else a later one
	 * finds it by connect(). */
	uint32_t orphan_ms;
	const uint8_t *key; /* AUTH_KEY random bytes, its maker's own; NULL: some are made */
};

/* RLIMIT_DATA: not what many processes have together, nor files in a tmpfs, nor shared memory. */
#define CAPABILITY_RLIMIT_MEMORY "rlimit: per process, heap only"

/* How each limit is held; NULL texts never. */
struct capabilities {
	const char
		*isolation_level; /* "subprocess" | "container" | "container+gvisor" | "microvm" */
	const char *memory;    /* "cgroup2" | "cgroup1" | CAPABILITY_RLIMIT_MEMORY | "none" | … */
	const char *pids;      /* "cgroup2" | "cgroup1" | "rlimit" | "none" */
	const char *cpu;       /* "cgroup2" | "cgroup1" | "none" */
	const char *disk;      /* "tmpfs" | "none" */
	const char *inodes;    /* "memory" (bounded by the memory limit) | "none" */
	const char *kill_tree; /* "cgroup.kill" (the sandbox) | "pid1" | "subreaper" */
	const char *egress;    /* "none: no network device" | "not enforced" */
	const char *agent_apart;    /* "user namespace" | "not enforced" */
	const char *seccomp;        /* "allow-list" | "not enforced" */
	const char *read_only_root; /* "yes" | "not enforced" */
	const char *host_uid;       /* "dedicated" | "own" */
};

struct provider_probe {
	bool usable;
	char reason[480]; /* not usable: why, and what to do about it; usable: version and what is
			     enforced */
};

struct sandbox; /* a running sandbox of some provider */

struct sandbox_events {
	/* The sandbox is gone although nobody destroyed it, or never came up; the text has the
	 * reason as far as it is known (what the launcher printed; of a sandbox that an earlier
	 * process made, not even the exit status). Called once, from the loop. destroy() is still
	 * needed. */
	void (*exited)(void *user, const struct err *why);
};

struct template; /* a preloaded interpreter, see below */

/* The ends of a forked kernel that the agent is to have (OP_KERNEL_ADOPT): its supervisor's socket,
 * its control socket, the reading ends of its stdout and stderr; taken by who is called. NULL:
 * there is no kernel, and err says why. */
typedef void (*kernel_forked_fn)(void *user, int ends[4], const struct err *err);

/* Who waits until it is known what can be had; caller's memory, zeroed, done and user set. */
struct provider_wait {
	struct list link;
	void (*done)(void *user);
	void *user;
	bool waits;
	void (*cancel)(struct provider_wait *w); /* the provider's */
};

struct provider {
	const char *name;
	bool own_image; /* its sandboxes have an image's system, never this host's */
	/* An optional ability; NULL: nothing has to be asked. What provider_select(), create() and
	 * capabilities() go by may have to be asked of an engine, which takes time. False: it is
	 * known, or known not to be had. True: done is called from the loop, once, within 15 s. */
	bool (*await)(uv_loop_t *loop, struct provider_wait *w);
	/* Really tries, may take seconds and block: for `scb doctor`, never on the broker's loop. 0
	 * even where not usable. */
	int (*probe)(struct provider_probe *ret, struct err *err);
	/* Starts a sandbox. Returns at once; the link's descriptor is connected but nobody may
	 * answer yet. */
	int (*create)(uv_loop_t *loop, const struct sandbox_spec *spec,
		const struct sandbox_events *events, void *user, struct sandbox **ret,
		struct err *err);
	/* The ref that create() will give its sandbox for this spec, so that it can be written down
	 * before. The caller frees. */
	char *(*ref)(const struct sandbox_spec *spec);
	/* Finds a sandbox that an earlier process made, with a new link to it; key is left to the
	 * caller. Whoever else is connected to it loses its link once this one shows the key.
	 * ERR_SANDBOX_LOST where it has ended, was another boot's, or cannot be reached: then it
	 * and what it left are removed (from the loop, where that takes time), unless create() is
	 * called with its id before the loop goes on: the new one then takes its place. */
	int (*connect)(uv_loop_t *loop, const char *ref, const struct sandbox_events *events,
		void *user, struct sandbox **ret, struct err *err);
	/* Lets go of it without ending it: a later process will connect() to it (orphan_ms > 0). No
	 * event after this call. Frees the sandbox. */
	void (*leave)(struct sandbox *s);
	/* Ends it and leaves nothing: no process, mount, directory, cgroup, socket. No event after
	 * this call. done (may be NULL) is called from the loop once everything is gone; leftovers
	 * holds what could not be removed, or NULL. Frees the sandbox. Of one that connect() has
	 * found and whose link tears create() may take the place, as there. */
	void (*destroy)(
		struct sandbox *s, void (*done)(void *user, const char *leftovers), void *user);
	/* An optional ability; NULL: kernels start plainly. Forks a kernel from a template that can
	 * fork into a sandbox whose agent has said hello. touch: the kernel also runs what makes
	 * its first cell fast. done is called once, from the loop, unless the sandbox is destroyed
	 * before. One at a time. */
	int (*fork_kernel)(struct sandbox *s, struct template *t, bool touch, kernel_forked_fn done,
		void *user, struct err *err);
	/* True for what create() would make with this spec here and now. */
	void (*capabilities)(const struct sandbox_spec *spec, struct capabilities *ret);
};

/* A provider's own struct begins with this. */
struct sandbox {
	const struct provider *provider;
	char *ref;                /* text to find it again, with the boot id */
	int link_fd;              /* taken by the caller with TAKE_FD */
	bool link_tears;          /* see link_tears() of link/link.h */
	uint32_t explain_ms;      /* see link_explained_within() there; 0: as usual */
	uint32_t hello_ms;        /* see link_answers_within() there; 0: as usual */
	uint8_t key[AUTH_KEY];    /* of create() */
	char *kernels_dir;        /* as code inside sees it */
	char *workspace;          /* the same */
	struct capabilities caps; /* of this one */
};

/* ---- the template: kernels/python/template.py, running (provider/template.h) ---- */

struct template_spec {
	const char *runtime_dir; /* 0700; socket and record are there */
	const char *kernels_dir; /* kernels/ on this host */
};

enum template_state {
	TEMPLATE_STARTING, /* loading its libraries, for about a second */
	TEMPLATE_FORKS,    /* can fork */
	TEMPLATE_OVER,     /* ended, or what it has loaded was changed: start another */
	TEMPLATE_REFUSED,  /* cannot be had on this host */
};

/* Finds one that an earlier broker of the same build left in runtime_dir, or starts one: returns at
 * once. changed is called from the loop with every new state. */
int template_start(uv_loop_t *loop, const struct template_spec *spec, void (*changed)(void *user),
	void *user, struct template **ret, struct err *err) MUST_CHECK;
enum template_state template_state(const struct template *t);
/* Lets go of it, waits a little for its end, calls done (may be NULL) from the loop, and frees.
 * Where kernels that were forked from it may live (in_use) it goes on until they have ended; else
 * it is killed. No callback of changed. Every fork has called back or was cancelled before. */
void template_close(struct template *t, bool in_use, void (*done)(void *user), void *user);

extern const struct provider provider_local;
extern const struct provider provider_bubblewrap;
extern const struct provider provider_docker;

/* By name, or NULL. */
const struct provider *provider_by_name(const char *name);
/* The providers in the order that "auto" tries, NULL at the end; `local` is not among them. */
extern const struct provider *const provider_auto_order[];
/* The one that BROKER_PROVIDER (value may be NULL: "auto") asks for, by cheap checks only, and by
 * what provider_await() has learnt: real faults show at create() or in probe().
 * ERR_PROVIDER_UNUSABLE with what to install where none can be. */
int provider_select(const char *value, const struct provider **ret, struct err *err) MUST_CHECK;
/* Is there something to wait for before provider_select() is asked the same? As struct provider's
 * await. */
bool provider_await(uv_loop_t *loop, const char *value, struct provider_wait *w);
/* No callback any more. Also where it does not wait. */
void provider_wait_cancel(struct provider_wait *w);
/* Waits, blocking: where no loop of this process runs yet. */
void provider_await_now(const char *value);
/* Removes what sandboxes of dead brokers left under runtime_dir (and cgroups, uid locks). Blocking,
 * quick (4 s where an engine does not answer); the number removed. */
int provider_sweep(const char *runtime_dir);
/* scb-agent and kernels/ beside this program, else where they are installed; SCB_AGENT and
 * SCB_KERNELS override. The caller frees. */
char *provider_agent_path(void);
char *provider_kernels_dir(void);
/* Another file that stands there. */
char *provider_beside(const char *name);
