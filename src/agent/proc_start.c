/* proc_start.c: how a proc comes to be: see proc.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/proc_internal.h"
#include "base/fd.h"

static const struct config *config;
static int null_fd = -1;

int proc_init(const struct config *c)
{
	config = c;
	null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return null_fd < 0 ? -errno : 0;
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

int proc_start(const struct proc_spec *spec, const struct proc_ops *ops, void *user,
	struct proc **ret, int *ret_stdin, int *ret_control)
{
	CLEANUP(plumbing_done) struct plumbing pl;
	int r = plumbing_make(&pl, spec);
	if (r < 0)
		return r;
	struct proc *p = proc_new(ops, user);
	r = proc_watch(p, &pl.sup[0], &pl.out[0], &pl.err[0]);
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
	proc_add(p);
	*ret = p;
	if (spec->want_stdin)
		*ret_stdin = TAKE_FD(pl.in[1]);
	if (spec->want_control)
		*ret_control = TAKE_FD(pl.control[0]);
	return 0;
}

/* ---- adopting ---- */

void proc_ends_close(struct proc_ends *e)
{
	int *fds[] = {&e->supervisor, &e->control, &e->out, &e->err};
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fd_closep(fds[i]);
}

static bool is_socket(int fd, int type)
{
	int domain = 0, found = 0;
	socklen_t n = sizeof(int);
	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) == 0 && domain == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &found, &n) == 0 && found == type;
}

static bool is_reading_end(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) &&
	       (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
}

bool proc_ends_valid(const struct proc_ends *e)
{
	return is_socket(e->supervisor, SOCK_SEQPACKET) && is_socket(e->control, SOCK_STREAM) &&
	       is_reading_end(e->out) && is_reading_end(e->err);
}

int proc_adopt(struct proc_ends *e, const struct proc *parent, const struct proc_ops *ops,
	void *user, struct proc **ret)
{
	static const int on = 1;
	int mine[] = {e->out, e->err, e->control};
	for (size_t i = 0; i < ARRAY_SIZE(mine); i++) {
		int r = fd_set_nonblock(mine[i], true);
		if (r < 0)
			return r;
	}
	if (setsockopt(e->supervisor, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
		return -errno;
	struct proc_ends taken = *e;
	struct proc *p = proc_new(ops, user);
	p->adopted = true;
	if (parent)
		p->family = parent->family;
	int r = proc_watch(p, &taken.supervisor, &taken.out, &taken.err);
	if (r < 0) {
		proc_free(p);
		/* What proc_free() has closed is not the caller's any more. */
		*e = taken;
		return r;
	}
	e->supervisor = e->out = e->err = -1;
	proc_add(p);
	*ret = p;
	return 0;
}

bool proc_adopted(const struct proc *p)
{
	return p->adopted;
}
