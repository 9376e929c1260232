/* proc.c: see proc.h. */
#include "agent/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/loop.h"
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

struct pipe_end {
	struct source source;
	struct proc *proc;
	int stream;
	bool enlarged;
};

struct proc {
	struct list node;
	const struct proc_ops *ops; /* NULL: abandoned */
	void *user;
	pid_t supervisor; /* 0: reaped */
	pid_t leader;     /* 0: not started, or ended */
	struct source socket;
	struct pipe_end pipes[2];
	struct timer patience;
	bool ended; /* ended() or failed() has been called */
	bool killing;
	bool socket_closed;
};

static const struct config *config;
static struct list procs = LIST_INIT(procs);
static int null_fd = -1;
static uint8_t read_buffer[READ_SIZE];

int proc_init(const struct config *c)
{
	config = c;
	null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return null_fd < 0 ? -errno : 0;
}

static void close_source(struct source *s)
{
	int fd = s->fd;
	loop_remove(s);
	if (fd >= 0)
		(void)close(fd);
}

static void proc_free(struct proc *p)
{
	timer_cancel(&p->patience);
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

/* ---- the supervisor's words ---- */

/* Closes the pipes that nobody holds any more, so that nobody waits for them. */
static void leader_ended(struct proc *p, int wait_status, unsigned left)
{
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

static void take_msg(struct proc *p, const struct supervise_msg *m)
{
	switch (m->kind) {
	case SUPERVISE_STARTED:
		p->leader = m->value;
		if (p->ops)
			p->ops->started(p->user, m->value);
		break;
	case SUPERVISE_FAILED:
		p->ended = true;
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

static void on_socket(struct source *s, uint32_t events)
{
	(void)events;
	struct proc *p = container_of(s, struct proc, socket);
	struct supervise_msg m;
	ssize_t n = recv(s->fd, &m, sizeof(m), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == sizeof(m)) {
		m.name[sizeof(m.name) - 1] = '\0';
		take_msg(p, &m);
		return;
	}
	close_source(s);
	p->socket_closed = true;
	proc_reap();
}

static void send_msg(struct proc *p, uint8_t kind, int value)
{
	struct supervise_msg m = {.kind = kind, .value = value};
	if (p->socket.fd >= 0)
		(void)send(p->socket.fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL);
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
	if (p->supervisor)
		(void)kill(p->supervisor, SIGKILL);
	proc_kill_orphans();
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

void proc_signal(struct proc *p, int sig)
{
	if (p->socket.fd >= 0)
		send_msg(p, SUPERVISE_SIGNAL, sig);
	else if (p->leader)
		(void)kill(-p->leader, sig);
}

void proc_abandon(struct proc *p)
{
	p->ops = NULL;
	p->user = NULL;
}

/* ---- starting ---- */

struct plumbing {
	int out[2], err[2], in[2], control[2], sup[2];
};

static void plumbing_done(struct plumbing *pl)
{
	int *pairs[] = {pl->out, pl->err, pl->in, pl->control, pl->sup};
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		fd_closep(&pairs[i][0]);
		fd_closep(&pairs[i][1]);
	}
}

/* Index 0 is the agent's end, but for in. */
static int plumbing_make(struct plumbing *pl, const struct proc_spec *spec)
{
	*pl = (struct plumbing){{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
	int r = pipe2(pl->out, O_CLOEXEC);
	if (r == 0)
		r = pipe2(pl->err, O_CLOEXEC);
	if (r == 0)
		r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pl->sup);
	if (r == 0 && spec->want_stdin)
		r = pipe2(pl->in, O_CLOEXEC);
	if (r == 0 && spec->want_control)
		r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pl->control);
	if (r < 0)
		return -errno;
	int mine[] = {pl->out[0], pl->err[0], pl->in[1], pl->control[0]};
	for (size_t i = 0; i < ARRAY_SIZE(mine); i++) {
		r = mine[i] < 0 ? 0 : fd_set_nonblock(mine[i], true);
		if (r < 0)
			return r;
	}
	return 0;
}

static int watch_all(struct proc *p, struct plumbing *pl)
{
	int *fds[] = {&pl->out[0], &pl->err[0]};
	for (int i = 0; i < 2; i++) {
		struct pipe_end *e = &p->pipes[i];
		*e = (struct pipe_end){.source = {.fd = -1, .ready = on_pipe},
			.proc = p,
			.stream = i == 0 ? CHANNEL_STDOUT : CHANNEL_STDERR};
	}
	p->socket = (struct source){.fd = -1, .ready = on_socket};
	int r = loop_add(&p->socket, pl->sup[0], EPOLLIN);
	if (r < 0)
		return r;
	pl->sup[0] = -1;
	for (int i = 0; i < 2; i++) {
		r = loop_add(&p->pipes[i].source, *fds[i], EPOLLIN);
		if (r < 0)
			return r;
		*fds[i] = -1;
	}
	return 0;
}

int proc_start(const struct proc_spec *spec, const struct proc_ops *ops, void *user,
	struct proc **ret, int *ret_stdin, int *ret_control)
{
	CLEANUP(plumbing_done) struct plumbing pl;
	int r = plumbing_make(&pl, spec);
	if (r < 0)
		return r;
	struct proc *p = xcalloc(1, sizeof(*p));
	p->ops = ops;
	p->user = user;
	timer_init(&p->patience, on_patience);
	list_init(&p->node);
	r = watch_all(p, &pl);
	if (r == 0) {
		p->supervisor = fork();
		r = p->supervisor < 0 ? -errno : 0;
	}
	if (r < 0) {
		proc_free(p);
		return r;
	}
	if (p->supervisor == 0) {
		struct supervise_spec s = {.config = config,
			.argv = spec->argv,
			.env = spec->env,
			.cwd = spec->cwd,
			.stdin_fd = spec->want_stdin ? pl.in[0] : null_fd,
			.stdout_fd = pl.out[1],
			.stderr_fd = pl.err[1],
			.control_fd = pl.control[1]};
		supervise_run(&s, pl.sup[1]);
	}
	list_append(&procs, &p->node);
	*ret = p;
	if (spec->want_stdin)
		*ret_stdin = TAKE_FD(pl.in[1]);
	if (spec->want_control)
		*ret_control = TAKE_FD(pl.control[0]);
	return 0;
}

/* ---- children of the agent ---- */

static void child_ended(pid_t pid, int status)
{
	list_for_each (p, next, &procs, struct proc, node) {
		if (p->supervisor == pid) {
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

/* Passes until nothing but what keep() names is left, or the time is up. */
static void kill_passes(tree_keep_fn keep, uint64_t for_us)
{
	uint64_t until = clock_monotonic_us() + for_us;
	while (tree_kill_pass(keep) && clock_monotonic_us() < until) {
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
	kill_passes(keep_supervisors, ORPHANS_US);
	inside = false;
}

size_t proc_count_threads(void)
{
	return tree_threads(NULL);
}

void proc_end_all(void)
{
	list_for_each (p, next, &procs, struct proc, node)
		proc_abandon(p);
	kill_passes(NULL, END_ALL_US);
}
