/* hosted.c: life and death of a sandbox that runs on this host. See hosted.h.
 *
 * Death: the first process is killed (and with it, where there is a PID namespace, everything),
 * reaped when its pidfd says so (by whoever is its parent), the groups are removed as soon as the
 * kernel has let go of them, then working directory, socket, record and uid. */
#include "provider/hosted.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "provider/boot.h"
#include "provider/explain.h"
#include "provider/process.h"

/* After so much the pipe is closed: an agent that floods it shall not keep the broker busy. */
#define SAID_TOTAL_MAX (1 * MIB)
/* A process that was killed is gone within milliseconds; a stuck one is asked again and then
 * reported. 1 + 2 + 4 … ms, 100 ms each later on: about 10 s. */
#define END_TRIES 105
/* So often a bubblewrap that was stopped is looked at for a child: 31 ms in all. */
#define LOOKS 5

static void proceed(struct hosted *h);

/* ---- what is printed ---- */

/* Keeps up to the buffer's maximum, drops the rest. False at the end of the stream. */
static bool drain(int fd, struct buf *keep, size_t *total)
{
	for (;;) {
		char chunk[4096];
		ssize_t n = read(fd, chunk, sizeof(chunk));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 && errno == EAGAIN;
		size_t room = keep->max - keep->len;
		CHECK(buf_append(keep, chunk, MIN((size_t)n, room)) == 0);
		*total += (size_t)n;
		if (*total > SAID_TOTAL_MAX)
			return false;
	}
}

static void on_stderr(uv_poll_t *p, int status, int events)
{
	(void)events;
	struct hosted *h = p->data;
	/* The descriptor stays open until after uv_close(): libuv then takes its number out of the
	 * epoll set, whoever has it by that time. */
	if (status < 0 || !drain(h->stderr_fd, &h->said, &h->said_total))
		(void)uv_poll_stop(p);
}

/* ---- --info-fd: {"child-pid": N, …}, written before the sandbox's own code runs ---- */

static void take_init(struct hosted *h, pid_t pid)
{
	struct process p;
	int fd = process_open(pid, 0);
	/* The number could have been reused; the pidfd and then the parent say it was not. */
	if (fd < 0 || !process_read(pid, &p) || p.parent != h->pid) {
		fd_closep(&fd);
		return;
	}
	h->init_pid = pid;
	h->init_pidfd = fd;
	int r = record_add_process(&h->record, "init", pid);
	if (r < 0)
		log_warning("the record of sandbox %s is not complete: %s", h->id, strerror(-r));
}

static void learn_init(struct hosted *h)
{
	static const char key[] = "\"child-pid\":";
	if (buf_append(&h->info, "", 1) < 0)
		return;
	const char *at = strstr((const char *)h->info.data, key);
	int pid = 0;
	if (at && sscanf(at + strlen(key), "%d", &pid) == 1 && pid > 1)
		take_init(h, pid);
}

static void on_info(uv_poll_t *p, int status, int events)
{
	(void)events;
	struct hosted *h = p->data;
	size_t total = 0;
	if (status == 0 && drain(h->info_fd, &h->info, &total) &&
		!memchr(h->info.data ? h->info.data : (uint8_t *)"", '}', h->info.len))
		return;
	(void)uv_poll_stop(p); /* not closed: see on_stderr() */
	h->info_read = true;
	learn_init(h);
	if (h->destroying)
		proceed(h);
}

/* ---- the end ---- */

static void reap(struct hosted *h)
{
	siginfo_t info = {0};
	struct pollfd p = {.fd = h->pidfd, .events = POLLIN};
	if (h->exited)
		return;
	if (waitid(P_PIDFD, (id_t)h->pidfd, &info, WEXITED | WNOHANG) == 0) {
		h->exited = info.si_pid != 0;
		h->exit_status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
	} else if (errno == ECHILD && poll(&p, 1, 0) == 1) {
		h->exited = true; /* an earlier broker's child */
		h->exit_status = EXIT_UNKNOWN;
	}
}

static void on_exit_(uv_poll_t *p, int status, int events)
{
	(void)status;
	(void)events;
	struct hosted *h = p->data;
	reap(h);
	if (!h->exited)
		return;
	(void)uv_poll_stop(p);
	if (h->destroying) {
		proceed(h);
		return;
	}
	if (h->stderr_fd >= 0)
		(void)drain(h->stderr_fd, &h->said, &h->said_total);
	struct err why;
	explain_exit(h->base.provider->name, &h->said, h->exit_status, &why);
	if (h->events.exited)
		h->events.exited(h->user, &why);
}

static void free_hosted(struct hosted *h)
{
	cgroup_box_done(&h->groups);
	/* Still set: it was left, and its names stay. */
	free(h->record.path);
	fd_closep(&h->record.shared_fd);
	fd_closep(&h->record.guard_fd);
	fd_closep(&h->uid.shared_fd);
	fd_closep(&h->uid.guard_fd);
	fd_closep(&h->base.link_fd);
	fd_closep(&h->listen_fd);
	fd_closep(&h->lifeline_fd);
	fd_closep(&h->pidfd);
	fd_closep(&h->init_pidfd);
	fd_closep(&h->stderr_fd);
	fd_closep(&h->info_fd);
	buf_done(&h->said);
	buf_done(&h->info);
	buf_done(&h->kernel_config);
	explicit_bzero(h->base.key, sizeof(h->base.key));
	free(h->base.ref);
	free(h->base.kernels_dir);
	free(h->base.workspace);
	free(h->agent);
	free(h->id);
	free(h->socket_path);
	free(h->workdir);
	free(h->leftovers);
	free(h);
}

static void on_closed(uv_handle_t *handle)
{
	struct hosted *h = handle->data;
	if (--h->handles)
		return;
	if (h->done)
		h->done(h->done_user, h->leftovers);
	free_hosted(h);
}

static void leave_over(struct hosted *h, const char *what, const char *which, int r)
{
	char *more = xasprintf("%s%s%s %s: %s", h->leftovers ? h->leftovers : "",
		h->leftovers ? "; " : "", what, which, strerror(-r));
	log_warning("sandbox %s: %s %s stays behind: %s", h->id, what, which, strerror(-r));
	free(h->leftovers);
	h->leftovers = more;
}

/* The names on this host; groups and working directory are gone by now. */
static void remove_names(struct hosted *h)
{
	if (h->socket_path && unlink(h->socket_path) < 0 && errno != ENOENT)
		leave_over(h, "socket", h->socket_path, -errno);
	/* The record stays where something else does: a sweep tries again. */
	if (h->leftovers) {
		free(h->record.path);
		h->record.path = NULL;
	}
	record_remove(&h->record);
	uids_release(&h->uid);
}

static void close_handles(struct hosted *h)
{
	uv_close((uv_handle_t *)&h->exit_poll, on_closed);
	if (h->stderr_poll.data)
		uv_close((uv_handle_t *)&h->stderr_poll, on_closed);
	if (h->info_poll.data)
		uv_close((uv_handle_t *)&h->info_poll, on_closed);
	uv_close((uv_handle_t *)&h->timer, on_closed);
}

static void close_all(struct hosted *h)
{
	remove_names(h);
	close_handles(h);
}

static void remove_workdir(uv_work_t *work)
{
	struct hosted *h = work->data;
	h->work_result = record_remove_tree(h->workdir);
}

static void workdir_removed(uv_work_t *work, int status)
{
	struct hosted *h = work->data;
	int r = status < 0 ? status : h->work_result;
	if (r < 0)
		leave_over(h, "directory", h->workdir, r);
	close_all(h);
}

static void finish(struct hosted *h)
{
	h->finishing = true;
	(void)uv_timer_stop(&h->timer);
	if (!h->workdir) {
		close_all(h);
		return;
	}
	/* Code may have put any number of files there: not on the loop. */
	h->work.data = h;
	int r = uv_queue_work(h->loop, &h->work, remove_workdir, workdir_removed);
	if (r < 0)
		workdir_removed(&h->work, r);
}

static void on_timer(uv_timer_t *t)
{
	proceed(t->data);
}

static void again_later(struct hosted *h)
{
	uint64_t ms = h->tries < 7 ? 1ULL << h->tries : 100;
	h->tries++;
	(void)uv_timer_start(&h->timer, on_timer, ms, 0);
}

/* Of one that an earlier broker began, or whose bubblewrap has not spoken: killed with its child
 * not yet known, or not yet there, it would leave that child behind. Stopped it makes none any
 * more. True: it may still have one. */
static bool look_for_init(struct hosted *h)
{
	if (!h->wrapped || h->init_pidfd >= 0 || h->looks++ >= LOOKS)
		return false;
	(void)process_signal(h->pidfd, SIGSTOP);
	pid_t child = process_child(h->pid);
	if (child)
		take_init(h, child);
	if (h->init_pidfd >= 0)
		(void)process_signal(h->pidfd, SIGCONT);
	return h->init_pidfd < 0;
}

static void kill_first(struct hosted *h)
{
	bool groups = h->groups.kill_path;
	bool will_say = h->info_fd >= 0 && !h->info_read && h->tries < 10;
	if (!groups && !will_say && look_for_init(h))
		return;
	if (h->init_pidfd >= 0 && h->tries < 10) {
		/* Its death ends the PID namespace; bubblewrap, its parent, reaps it and ends. */
		(void)process_signal(h->init_pidfd, SIGKILL);
	} else if (will_say && !groups) {
		/* bubblewrap is about to say who its child is. */
	} else {
		(void)cgroup_box_kill(&h->groups);
		(void)process_signal(h->pidfd, SIGKILL);
	}
}

/* One step of the ending, from the loop; comes back by pidfd or timer until all is done. */
static void proceed(struct hosted *h)
{
	if (h->finishing)
		return;
	reap(h);
	if (!h->exited) {
		if (h->tries >= END_TRIES) {
			leave_over(h, "process", h->base.ref, -ETIMEDOUT);
			finish(h);
			return;
		}
		if (h->end_tree)
			h->end_tree(h);
		kill_first(h);
		again_later(h);
		return;
	}
	int r = cgroup_box_remove(&h->groups);
	if (r == -EBUSY && h->tries < END_TRIES) {
		(void)cgroup_box_kill(&h->groups);
		again_later(h);
		return;
	}
	if (r < 0)
		leave_over(h, "cgroup", h->groups.dirs[h->groups.n_dirs - 1], r);
	finish(h);
}

void hosted_destroy(struct sandbox *s, void (*done)(void *user, const char *leftovers), void *user)
{
	struct hosted *h = container_of(s, struct hosted, base);
	CHECK(!h->destroying);
	h->destroying = true;
	h->done = done;
	h->done_user = user;
	hosted_fork_cancel(h);
	fd_closep(&h->base.link_fd);
	if (h->exited && h->end_tree)
		h->end_tree(h);
	proceed(h);
}

void hosted_leave(struct sandbox *s)
{
	struct hosted *h = container_of(s, struct hosted, base);
	CHECK(!h->destroying);
	h->destroying = h->finishing = true;
	hosted_fork_cancel(h);
	close_handles(h);
}

/* ---- the beginning ---- */

static int give(struct launch *l, int fd)
{
	return fd >= 0 ? launch_give(l, fd) : -1;
}

int hosted_prepare(struct hosted *h, struct boot *b, struct launch *l, struct err *err)
{
	l->uid = h->uid.uid;
	l->join = h->groups.agent_join;
	l->n_join = h->groups.n_agent_join;
	l->cgroup2_fd = h->groups.v2_fd;
	(void)launch_give(l, h->listen_fd);
	/* The configuration comes second but names the numbers of those after it. */
	(void)launch_give(l, h->listen_fd);
	int r = boot_kernel_config(b, &h->kernel_config);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "the kernel's configuration is too large");
	int join[CGROUP_JOIN];
	for (size_t i = 0; i < h->groups.n_code_join; i++)
		join[i] = launch_give(l, h->groups.code_join[i]);
	b->key = h->base.key;
	b->join_fds = join;
	b->n_join_fds = h->groups.n_code_join;
	b->oom_fd = give(l, h->groups.oom_fd);
	b->pids_events_fd = give(l, h->groups.pids_events_fd);
	b->memory_fd = give(l, h->groups.memory_fd);
	b->pids_fd = give(l, h->groups.pids_fd);
	b->hold_fds[0] = give(l, h->uid.shared_fd);
	b->hold_fds[1] = give(l, h->record.shared_fd);
	b->lifeline_fd = -1;
	if (b->spec->orphan_ms == 0) {
		int lifeline[2];
		if (pipe2(lifeline, O_CLOEXEC) < 0)
			return err_set(err, ERR_INTERNAL, errno, "pipe: %s", strerror(errno));
		b->lifeline_fd = launch_give_owned(l, lifeline[0]);
		h->lifeline_fd = lifeline[1];
	}
	int config = boot_config(b);
	b->join_fds = NULL;
	if (config < 0)
		return err_set(err, ERR_INTERNAL, -config,
			"cannot write the agent's configuration: %s", strerror(-config));
	l->fds[1] = config;
	l->owned[1] = true;
	return 0;
}

static int watch(struct hosted *h, uv_poll_t *p, int fd, uv_poll_cb cb)
{
	int r = uv_poll_init(h->loop, p, fd);
	if (r < 0)
		return r;
	p->data = h;
	h->handles++;
	return uv_poll_start(p, UV_READABLE, cb);
}

int hosted_watch(struct hosted *h)
{
	int r = watch(h, &h->exit_poll, h->pidfd, on_exit_);
	if (r < 0)
		return r;
	if (h->stderr_fd >= 0)
		CHECK(watch(h, &h->stderr_poll, h->stderr_fd, on_stderr) == 0);
	if (h->info_fd >= 0)
		CHECK(watch(h, &h->info_poll, h->info_fd, on_info) == 0);
	CHECK(uv_timer_init(h->loop, &h->timer) == 0);
	h->timer.data = h;
	h->handles++;
	return 0;
}

/* The process waits at its gate, and something of ours failed. */
static int give_up(struct hosted *h, int r, const char *what, struct err *err)
{
	siginfo_t info;
	(void)process_signal(h->pidfd, SIGKILL);
	while (waitid(P_PIDFD, (id_t)h->pidfd, &info, WEXITED) < 0 && errno == EINTR)
		;
	return err_set(err, ERR_INTERNAL, -r, "cannot %s the sandbox: %s", what, strerror(-r));
}

/* Starts the process, writes down which it is, and only then lets it begin. */
static int start_noted(struct hosted *h, struct launch *l, struct err *err)
{
	int gate[2], said[2];
	if (pipe2(gate, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "pipe: %s", strerror(errno));
	_cleanup_close_ int gate_reader = gate[0], gate_writer = gate[1];
	if (pipe2(said, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "pipe: %s", strerror(errno));
	h->stderr_fd = said[0];
	_cleanup_close_ int said_writer = said[1];
	l->stderr_fd = said_writer;
	l->gate = gate_reader;
	l->gate_writer = gate_writer;
	h->pid = launch_start(l, &h->pidfd, err);
	if (h->pid < 0)
		return h->pid;
	int r = record_add_inside(
		&h->record, h->base.kernels_dir, h->base.workspace, &h->base.caps);
	if (r == 0)
		r = record_add_process(&h->record, "first", h->pid);
	if (r < 0)
		return give_up(h, r, "write the record of", err);
	r = hosted_watch(h);
	if (r < 0)
		return give_up(h, r, "watch", err);
	CHECK(write(gate_writer, "", 1) == 1);
	return 0;
}

int hosted_start(struct hosted *h, struct launch *l, int info_fd, struct err *err)
{
	h->info_fd = info_fd;
	h->wrapped = info_fd >= 0;
	int r = start_noted(h, l, err);
	if (r < 0) {
		hosted_abort(h);
		return r;
	}
	h->started = true;
	/* Only launcher and agent need them. */
	cgroup_box_close(&h->groups);
	fd_closep(&h->listen_fd);
	fd_closep(&h->uid.shared_fd);
	fd_closep(&h->record.shared_fd);
	return 0;
}

void hosted_abort(struct hosted *h)
{
	if (h->workdir)
		(void)record_remove_tree(h->workdir);
	int r = cgroup_box_remove(&h->groups);
	for (int tries = 0; r == -EBUSY && tries < 20; tries++) {
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		r = cgroup_box_remove(&h->groups);
	}
	remove_names(h);
	free_hosted(h);
}
