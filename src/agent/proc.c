/* proc.c: see proc.h. */
#include "agent/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/proc_internal.h"
#include "agent/tree.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "wire/proto.h"

/* A supervisor that has not ended its tree after so long is killed, and the agent does it. */
#define KILL_PATIENCE_US (USEC_PER_SEC)
/* How long the agent's own loop may be kept by passes over a tree. */
#define ORPHANS_US (200 * USEC_PER_MSEC)
#define END_ALL_US (USEC_PER_SEC)
/* A program that fills its pipe gets a larger one: fewer wake-ups (measured: a third less). */
#define PIPE_LARGE (256 * KIB)
#define READ_SIZE  (64 * KIB)

static struct list procs = LIST_INIT(procs);
static uint8_t read_buffer[READ_SIZE];

static void close_source(struct source *s)
{
	int fd = s->fd;
	loop_remove(s);
	if (fd >= 0)
		(void)close(fd);
}

void proc_free(struct proc *p)
{
	timer_cancel(&p->patience);
	fd_closep(&p->supervisor_fd);
	fd_closep(&p->leader_fd);
	close_source(&p->socket);
	for (int i = 0; i < 2; i++)
		close_source(&p->pipes[i].source);
	list_remove(&p->node);
	free(p);
}

/* ---- output ---- */

/* At most limit bytes. False at the end of file. */
static bool read_pipe(struct pipe_end *e, size_t limit)
{
	while (limit) {
		size_t want = MIN(limit, sizeof(read_buffer));
		ssize_t n = read(e->source.fd, read_buffer, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n <= 0)
			return false;
		if ((size_t)n == sizeof(read_buffer) && !e->enlarged) {
			e->enlarged = true;
			(void)fcntl(e->source.fd, F_SETPIPE_SZ, (int)PIPE_LARGE);
		}
		limit -= (size_t)n;
		if (e->proc->ops)
			e->proc->ops->output(e->proc->user, e->stream, read_buffer, (size_t)n);
		if ((size_t)n < want)
			return true;
	}
	return true;
}

static void leader_ended(struct proc *p, int wait_status, unsigned left);

/* Frees p where all of it is over. */
static void check_gone(struct proc *p)
{
	if (!p->socket_closed || p->supervisor)
		return;
	/* A supervisor that was killed between reaping its leader and telling so. */
	if (p->leader && kill(p->leader, 0) < 0 && errno == ESRCH)
		leader_ended(p, -1, 0);
	if (p->leader || proc_has_output(p))
		return;
	if (p->ops) {
		const struct proc_ops *ops = p->ops;
		if (!p->ended)
			ops->ended(p->user, -1, 0);
		ops->gone(p->user);
	}
	proc_free(p);
}

static void on_pipe(struct source *s, uint32_t events)
{
	(void)events;
	struct pipe_end *e = container_of(s, struct pipe_end, source);
	if (read_pipe(e, sizeof(read_buffer)))
		return;
	struct proc *p = e->proc;
	close_source(&e->source);
	check_gone(p);
}

void proc_drain(struct proc *p)
{
	struct pollfd at[2];
	for (int i = 0; i < 2; i++)
		at[i] = (struct pollfd){.fd = p->pipes[i].source.fd, .events = POLLIN};
	/* Most cells print nothing: one call finds that out for both. */
	if (poll(at, 2, 0) <= 0)
		return;
	for (int i = 0; i < 2; i++) {
		struct pipe_end *e = &p->pipes[i];
		int waiting = 0;
		if (!(at[i].revents & POLLIN) || e->source.fd < 0 ||
			ioctl(e->source.fd, FIONREAD, &waiting) < 0 || waiting <= 0)
			continue;
		/* Only what is there now: another writer may never stop. */
		(void)read_pipe(e, (size_t)waiting);
	}
}

bool proc_has_output(const struct proc *p)
{
	return p->pipes[0].source.fd >= 0 || p->pipes[1].source.fd >= 0;
}

/* ---- supervisors that the agent did not start ---- */

static void send_kept(struct proc *p, uint8_t kind, int value, int left)
{
	struct supervise_msg m = {.kind = kind, .value = value, .left = left};
	if (p->socket.fd >= 0)
		(void)send(p->socket.fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void send_msg(struct proc *p, uint8_t kind, int value)
{
	send_kept(p, kind, value, 0);
}

/* False where the sender is no process that could be it, or it is known already. */
static bool adopt_pid(pid_t *pid, int *pidfd, pid_t sender)
{
	if (*pid || sender <= 1 || sender == getpid())
		return false;
	*pid = sender;
	*pidfd = (int)syscall(SYS_pidfd_open, sender, 0U);
	return true;
}

/* By pidfd, so that a number that was given anew is never hit; by number only on kernels without.
 */
static void kill_adopted(pid_t pid, int pidfd)
{
	if (pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0U);
	else if (pid)
		(void)kill(pid, SIGKILL);
}

/* Whose trees it might be taken for a part of: it may be, or become, a child of any of them. */
static void tell_family(const struct proc *p, bool here)
{
	list_for_each (other, next, &procs, struct proc, node)
		if (other != p && other->family == p->family)
			send_kept(other, SUPERVISE_KEEP, p->supervisor, here);
}

/* The supervisor is gone, or is treated so: what it leaves behind ends, and nobody tells how. */
static void adopted_lost(struct proc *p)
{
	bool told = p->ended;
	if (p->supervisor)
		tell_family(p, false);
	p->supervisor = 0;
	fd_closep(&p->supervisor_fd);
	if (!told) {
		kill_adopted(p->leader, p->leader_fd);
		leader_ended(p, -1, 0);
	}
	if (p->killing || !told)
		proc_kill_orphans();
}

/* ---- the supervisor's words ---- */

static void leader_started(struct proc *p)
{
	p->started = true;
	if (p->ops)
		p->ops->started(p->user, p->leader);
}

/* Closes the pipes that nobody holds any more, so that nobody waits for them. */
static void leader_ended(struct proc *p, int wait_status, unsigned left)
{
	if (p->leader && !p->started && !p->ended)
		leader_started(p); /* its code was faster than the supervisor, and killed it */
	p->leader = 0;
	if (p->ended)
		return;
	p->ended = true;
	proc_drain(p);
	for (int i = 0; i < 2; i++) {
		struct pollfd at = {.fd = p->pipes[i].source.fd, .events = POLLIN};
		if (at.fd >= 0 && poll(&at, 1, 0) == 1 && at.revents == POLLHUP)
			close_source(&p->pipes[i].source);
	}
	if (p->ops)
		p->ops->ended(p->user, wait_status, left);
}

static void take_msg(struct proc *p, const struct supervise_msg *m, pid_t sender)
{
	switch (m->kind) {
	case SUPERVISE_BORN:
		if (!p->adopted && !p->ended)
			p->leader = m->value;
		break;
	case SUPERVISE_STARTED:
		if (p->adopted && !adopt_pid(&p->leader, &p->leader_fd, sender))
			break;
		if (!p->adopted)
			p->leader = m->value;
		leader_started(p);
		break;
	case SUPERVISE_HERE:
		if (!p->adopted || !adopt_pid(&p->supervisor, &p->supervisor_fd, sender))
			break;
		tell_family(p, true);
		if (p->ops && p->ops->supervised)
			p->ops->supervised(p->user);
		break;
	case SUPERVISE_SIGNALLED:
		if (p->ops && p->ops->signalled)
			p->ops->signalled(p->user);
		break;
	case SUPERVISE_FAILED:
		p->ended = true;
		p->leader = 0;
		if (p->ops)
			p->ops->failed(p->user, m->step, m->value, m->name);
		break;
	case SUPERVISE_ENDED:
		leader_ended(p, m->value, (unsigned)m->left);
		break;
	default:
		break;
	}
}

/* As recv(2); *ret_sender is 0 where the kernel did not say who sent it. Descriptors that come with
 * a message find no room here and are closed. */
static ssize_t receive(int fd, struct supervise_msg *m, pid_t *ret_sender)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec iov = {m, sizeof(*m)};
	struct msghdr h = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	*ret_sender = 0;
	const struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&h);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS &&
		c->cmsg_len == CMSG_LEN(sizeof(struct ucred)))
		*ret_sender = ((const struct ucred *)CMSG_DATA(c))->pid;
	return n;
}

static void on_socket(struct source *s, uint32_t events)
{
	(void)events;
	struct proc *p = container_of(s, struct proc, socket);
	struct supervise_msg m;
	pid_t sender;
	ssize_t n = receive(s->fd, &m, &sender);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == sizeof(m)) {
		m.name[sizeof(m.name) - 1] = '\0';
		take_msg(p, &m, sender);
		return;
	}
	close_source(s);
	p->socket_closed = true;
	if (p->adopted)
		adopted_lost(p);
	else if (p->leader && !p->started)
		leader_started(p); /* as in leader_ended() */
	proc_reap();
}

/* What is said of leaders that are not known yet, before it is asked whose child has ended. */
static void hear_of_leaders(void)
{
	struct supervise_msg m;
	pid_t sender;
	list_for_each (p, next, &procs, struct proc, node)
		while (!p->leader && !p->ended && p->socket.fd >= 0 &&
			receive(p->socket.fd, &m, &sender) == sizeof(m)) {
			m.name[sizeof(m.name) - 1] = '\0';
			take_msg(p, &m, sender);
		}
}

static bool keep_supervisors(pid_t child)
{
	list_for_each (p, next, &procs, struct proc, node)
		if (p->supervisor == child)
			return true;
	return false;
}

/* The last resort: its tree comes to the agent, which kills every orphan that it has. */
static void on_patience(struct timer *t)
{
	struct proc *p = container_of(t, struct proc, patience);
	if (p->adopted) {
		kill_adopted(p->supervisor, p->supervisor_fd);
		kill_adopted(p->leader, p->leader_fd);
		close_source(&p->socket);
		p->socket_closed = true;
		adopted_lost(p);
	} else {
		if (p->supervisor)
			(void)kill(p->supervisor, SIGKILL);
		proc_kill_orphans();
	}
	/* Pipes that something unkillable still holds are not waited for. */
	for (int i = 0; i < 2; i++)
		close_source(&p->pipes[i].source);
	if (!p->supervisor)
		check_gone(p);
}

void proc_kill(struct proc *p)
{
	if (p->killing)
		return;
	p->killing = true;
	send_msg(p, SUPERVISE_KILL, 0);
	timer_set(&p->patience, KILL_PATIENCE_US);
	if (!p->supervisor)
		proc_kill_orphans();
}

bool proc_killing(const struct proc *p)
{
	return p->killing;
}

bool proc_signal(struct proc *p, int sig)
{
	if (p->socket.fd >= 0)
		send_msg(p, SUPERVISE_SIGNAL, sig);
	else if (p->leader)
		(void)kill(-p->leader, sig);
	return p->socket.fd >= 0;
}

void proc_abandon(struct proc *p)
{
	p->ops = NULL;
	p->user = NULL;
}

/* ---- making ---- */

struct proc *proc_new(const struct proc_ops *ops, void *user)
{
	static unsigned families;
	struct proc *p = xcalloc(1, sizeof(*p));
	p->ops = ops;
	p->user = user;
	p->supervisor_fd = p->leader_fd = -1;
	p->family = ++families;
	timer_init(&p->patience, on_patience);
	list_init(&p->node);
	return p;
}

int proc_watch(struct proc *p, int *socket, int *out, int *err)
{
	int *fds[] = {out, err};
	for (int i = 0; i < 2; i++) {
		struct pipe_end *e = &p->pipes[i];
		*e = (struct pipe_end){.source = {.fd = -1, .ready = on_pipe},
			.proc = p,
			.stream = i == 0 ? CHANNEL_STDOUT : CHANNEL_STDERR};
	}
	p->socket = (struct source){.fd = -1, .ready = on_socket};
	int r = loop_add(&p->socket, *socket, EPOLLIN);
	if (r < 0)
		return r;
	*socket = -1;
	for (int i = 0; i < 2; i++) {
		r = loop_add(&p->pipes[i].source, *fds[i], EPOLLIN);
		if (r < 0)
			return r;
		*fds[i] = -1;
	}
	return 0;
}

void proc_add(struct proc *p)
{
	list_append(&procs, &p->node);
}

/* ---- children of the agent ---- */

static void child_ended(pid_t pid, int status)
{
	hear_of_leaders();
	list_for_each (p, next, &procs, struct proc, node) {
		if (p->supervisor == pid) {
			if (p->adopted) /* it came here with its own one's end; its socket tells */
				return;
			p->supervisor = 0;
			if (p->killing)
				proc_kill_orphans();
			return;
		}
		if (p->leader == pid) { /* its supervisor was killed */
			leader_ended(p, status, 0);
			return;
		}
	}
}

void proc_reap(void)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		child_ended(pid, status);
	list_for_each (p, next, &procs, struct proc, node)
		check_gone(p);
}

static void adopted_roots(struct tree_roots *ret)
{
	ret->n = 0;
	list_for_each (p, next, &procs, struct proc, node)
		if (p->adopted && p->supervisor && ret->n < ARRAY_SIZE(ret->pid))
			ret->pid[ret->n++] = p->supervisor;
}

/* Passes until nothing but what keep() names is left, or the time is up. */
static void kill_passes(tree_keep_fn keep, const struct tree_roots *more, uint64_t for_us)
{
	uint64_t until = clock_monotonic_us() + for_us;
	while (tree_kill_pass(keep, more) && clock_monotonic_us() < until) {
		int status;
		pid_t pid;
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			child_ended(pid, status);
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
	}
}

void proc_kill_orphans(void)
{
	static bool inside; /* child_ended() may lead here again */
	if (inside)
		return;
	inside = true;
	kill_passes(keep_supervisors, NULL, ORPHANS_US);
	inside = false;
}

size_t proc_count_threads(void)
{
	struct tree_roots more;
	adopted_roots(&more);
	return tree_threads(&more);
}

void proc_end_all(void)
{
	list_for_each (p, next, &procs, struct proc, node)
		proc_abandon(p);
	struct tree_roots more;
	adopted_roots(&more);
	kill_passes(NULL, &more, END_ALL_US);
}
