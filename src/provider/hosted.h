/* hosted.h: what `bubblewrap` and `local` have in common: a sandbox whose first process is a child
 * of this broker or of an earlier one, with a uid, control groups, a listening socket and a record
 * on this host. */
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "base/id.h"
#include "confine/cgroup.h"
#include "confine/uids.h"
#include "provider/launch.h"
#include "provider/provider.h"
#include "provider/record.h"
#include "provider/template.h"

/* What is kept of what launcher, bubblewrap and agent print: reasons are in the first lines. */
#define SAID_MAX       (8 * KIB)
#define INFO_MAX       (4 * KIB)
#define HOSTED_BACKLOG 8    /* as many peers as the agent holds before one has shown the key */
#define EXIT_UNKNOWN   (-1) /* its parent has been told, and that is another process */
/* Half of what a request to the template may have. */
#define KERNEL_CONFIG_MAX (32 * KIB)

struct hosted {
	struct sandbox base;
	uv_loop_t *loop;
	struct sandbox_events events;
	void *user;

	char *id, *socket_path;
	char *workdir; /* removed with all that is in it; NULL: none */
	struct uid_claim uid;
	struct cgroup_box groups;
	struct record record;
	int listen_fd;
	int lifeline_fd; /* the writing end of BOOT_LIFELINE_FD: broken by this process's death */

	pid_t pid; /* bubblewrap, or the agent itself */
	int pidfd;
	bool wrapped; /* it is bubblewrap */
	pid_t init_pid;
	int init_pidfd; /* the agent, where bubblewrap stands in between; -1: not known (yet) */
	int stderr_fd, info_fd; /* the reading ends */
	bool info_read;         /* what there was to learn from info_fd */
	uv_poll_t exit_poll, stderr_poll, info_poll;
	uv_timer_t timer;
	struct buf said; /* what launcher, bubblewrap and agent printed */
	struct buf info; /* bubblewrap's --info-fd */
	size_t said_total;

	char *agent; /* scb-agent, as code inside sees it; NULL: no kernel can be forked into it */
	struct buf kernel_config; /* boot_kernel_config() */
	struct hosted_fork *fork; /* on its way; NULL: none */

	/* Ends what the first process left running; NULL: nothing can be left. Blocks for
	 * milliseconds. */
	void (*end_tree)(struct hosted *h);
	bool started, exited, destroying, finishing;
	int exit_status; /* as from waitpid; EXIT_UNKNOWN */
	unsigned tries, looks;
	unsigned handles; /* open uv handles */
	void (*done)(void *user, const char *leftovers);
	void *done_user;
	char *leftovers;
	uv_work_t work; /* removing workdir */
	int work_result;
};

/* How a provider wants its host side made. */
struct hosted_wish {
	const struct provider *provider;
	struct cgroup_host groups; /* which control groups to use; borrowed members */
	bool workdir; /* a directory ID.d in the runtime directory, of the sandbox's uid */
	void (*end_tree)(struct hosted *h); /* see struct hosted */
};

/* Does the spec make sense, are its folders what they were, do its tmpfs fit into its memory? */
int hosted_check_spec(const struct sandbox_spec *spec, struct err *err) MUST_CHECK;
/* Can a uid that is not the broker's own read this folder? Warns of files that it cannot. */
int hosted_check_readable(const struct sandbox_mount *m, struct err *err) MUST_CHECK;
/* Checks the spec, makes key, uid (root), groups, record and listening socket, and connects to it.
 * On failure nothing is left. */
int hosted_new(const struct hosted_wish *wish, uv_loop_t *loop, const struct sandbox_spec *spec,
	const struct sandbox_events *events, void *user, struct hosted **ret,
	struct err *err) MUST_CHECK;
/* The agent's arguments: numbers that hosted_prepare() gives. */
#define HOSTED_AGENT_ARGS "listen:3", "4"

struct boot;
/* The launch that every hosted sandbox begins with: uid, groups, 3 (the listening socket), 4 (the
 * agent's configuration, written from *b; the numbers of descriptors are filled in), then
 * descriptors of groups, uid and record. */
int hosted_prepare(struct hosted *h, struct boot *b, struct launch *l, struct err *err) MUST_CHECK;
/* Starts it and the watching. info_fd: the reading end of --info-fd, taken; -1: none. On failure
 * frees h. */
int hosted_start(struct hosted *h, struct launch *l, int info_fd, struct err *err) MUST_CHECK;
/* provider.ref and provider.connect. A sandbox that ended is removed; so is one that cannot be
 * reached, from the loop. */
char *hosted_ref(const struct provider *p, const struct sandbox_spec *spec);
/* "bubblewrap BOOT x-… /run/user/1000/scb/b-…": 0, or -ESTALE where that was another boot. *ret_dir
 * is set where it makes sense; the caller frees. */
int hosted_parse_ref(const struct provider *p, const char *ref, char ret_id[static ID_TEXT_SIZE],
	char **ret_dir);
int hosted_connect(const struct hosted_wish *wish, uv_loop_t *loop, const char *ref,
	const struct sandbox_events *events, void *user, struct sandbox **ret,
	struct err *err) MUST_CHECK;

/* ---- among the files of hosted ---- */

struct hosted *hosted_allocate(const struct hosted_wish *wish, uv_loop_t *loop, const char *id,
	const struct sandbox_events *events, void *user);
/* Watches first process and output, as far as there are descriptors. 0, or libuv's error, and
 * nothing is watched. */
int hosted_watch(struct hosted *h) MUST_CHECK;
/* Connects link_fd to socket_path. 0, or a negative errno. */
int hosted_link(struct hosted *h) MUST_CHECK;
/* Undoes hosted_new() where it does not come to hosted_start(). */
void hosted_abort(struct hosted *h);
/* provider.leave and provider.destroy */
void hosted_leave(struct sandbox *s);
void hosted_destroy(struct sandbox *s, void (*done)(void *user, const char *leftovers), void *user);

/* provider.fork_kernel, for sandboxes with namespaces of their own. */
int hosted_fork_kernel(struct sandbox *s, struct template *t, bool touch, kernel_forked_fn done,
	void *user, struct err *err) MUST_CHECK;
/* No callback any more. */
void hosted_fork_cancel(struct hosted *h);
