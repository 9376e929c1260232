/* hosted_connect.c: finding a sandbox that an earlier broker made. See hosted.h.
 *
 * The record in the runtime directory says what there is of it. That it lives is said by the
 * record's lock, which its agent holds, and by the start times of its processes: a number alone
 * could be another's by now. */
#include "provider/hosted.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "provider/process.h"

int hosted_parse_ref(
	const struct provider *p, const char *ref, char ret_id[static ID_TEXT_SIZE], char **ret_dir)
{
	char name[32], boot[64];
	int at = 0;
	static_assert(ID_TEXT_SIZE == 35, "the width below");
	if (sscanf(ref, "%31s %63s %34s %n", name, boot, ret_id, &at) != 3 || at == 0 ||
		ref[at] != '/' || strcmp(name, p->name) != 0 || !id_valid('x', ret_id))
		return -EINVAL;
	*ret_dir = xstrdup(ref + at);
	return strcmp(boot, record_boot_id()) == 0 ? 0 : -ESTALE;
}

/* A zombie holds nothing any more. */
static bool has_ended(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	return poll(&p, 1, 0) != 0;
}

/* Opens what lives of the two. bubblewrap may have been killed while its child, the agent, was
 * not, and a broker may have died before it learnt of that child. */
static int open_processes(struct hosted *h, const struct record_facts *f)
{
	h->pid = f->first.pid;
	if (f->first.pid)
		h->pidfd = process_open(f->first.pid, f->first.start);
	struct record_process init = f->init;
	bool wraps = strcmp(h->base.provider->name, "local") != 0;
	if (!init.pid && h->pidfd >= 0 && wraps)
		init.pid = process_child(h->pid);
	if (init.pid)
		h->init_pidfd = process_open(init.pid, init.start);
	if (h->pidfd >= 0 && h->init_pidfd >= 0 && has_ended(h->pidfd))
		fd_closep(&h->pidfd); /* nobody has reaped it yet */
	if (h->pidfd < 0) {
		h->pidfd = TAKE_FD(h->init_pidfd);
		h->pid = init.pid;
	} else {
		h->wrapped = wraps;
	}
	return h->pidfd < 0 ? -ESRCH : 0;
}

static void take_facts(struct hosted *h, struct record_facts *f)
{
	h->socket_path = TAKE_PTR(f->socket);
	h->workdir = TAKE_PTR(f->workdir);
	h->base.kernels_dir = TAKE_PTR(f->kernels_dir);
	h->base.workspace = TAKE_PTR(f->workspace);
	h->base.caps = f->caps;
	cgroup_box_found(f->cgroups, f->n_cgroups, &h->groups);
}

/* Everything is there but a link. */
static int find(struct hosted *h, const char *dir, struct err *err)
{
	CLEANUP(record_facts_done) struct record_facts f = {0};
	int r = record_open(dir, h->id, &h->record, &f, err);
	if (r < 0)
		return r;
	take_facts(h, &f);
	r = open_processes(h, &f);
	if (r < 0)
		return err_set(err, ERR_SANDBOX_LOST, ESRCH, "its processes have ended");
	/* Where nothing of it lives the uid may be another sandbox's: what lives afterwards held it
	 * all the time. */
	if (f.uid && geteuid() == 0)
		r = uids_share(f.uid, &h->uid, err);
	if (r < 0)
		return r;
	if (has_ended(h->pidfd)) {
		uids_release(&h->uid);
		fd_closep(&h->pidfd);
		return err_set(err, ERR_SANDBOX_LOST, ESRCH, "its processes have ended");
	}
	if (!f.same_boot || !h->socket_path || !h->base.workspace || !h->base.kernels_dir)
		return err_set(err, ERR_SANDBOX_LOST, EBADMSG, "its record is not complete");
	return 0;
}

/* What find() could not find whole. */
static void remove_rest(struct hosted *h)
{
	if (h->pidfd >= 0 && hosted_watch(h) == 0) {
		h->started = true;
		hosted_destroy(&h->base, NULL, NULL);
		return;
	}
	/* Whoever still holds the record's lock is a broker that hangs. */
	(void)cgroup_box_kill(&h->groups);
	hosted_abort(h);
}

int hosted_connect(const struct hosted_wish *wish, uv_loop_t *loop, const char *ref,
	const struct sandbox_events *events, void *user, struct sandbox **ret, struct err *err)
{
	const struct provider *p = wish->provider;
	char id[ID_TEXT_SIZE];
	_cleanup_free_ char *dir = NULL;
	int boot = hosted_parse_ref(p, ref, id, &dir);
	if (!dir)
		return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"\"%.100s\" names no sandbox of %s", ref, p->name);
	struct hosted *h = hosted_allocate(wish, loop, id, events, user);
	h->base.ref = xstrdup(ref);
	int r = find(h, dir, err);
	if (r < 0 || boot < 0) {
		remove_rest(h);
		return boot < 0 ? err_set(err, ERR_SANDBOX_LOST, ESTALE,
					  "the machine was started anew")
				: r;
	}
	r = hosted_watch(h);
	if (r < 0) {
		hosted_abort(h);
		return err_set(
			err, ERR_INTERNAL, -r, "cannot watch the sandbox: %s", uv_strerror(r));
	}
	h->started = true;
	r = hosted_link(h);
	if (r < 0) {
		hosted_destroy(&h->base, NULL, NULL);
		return err_set(
			err, ERR_SANDBOX_LOST, -r, "its agent cannot be reached: %s", strerror(-r));
	}
	*ret = &h->base;
	return 0;
}
