/* template.c: starting, finding, holding and ending a template; see template.h. */
#include "provider/template.h"

#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "confine/uids.h"
#include "provider/address.h"
#include "provider/launch.h"
#include "provider/record.h"
#include "wire/proto.h"
#include "wire/tlv.h"

/* The interpreter that kernels are started with (exec/exec_kernel.c). */
#define PYTHON "/usr/bin/python3"
/* What the template prints: why it refuses is in its last line. */
#define SAID_MAX (8 * KIB)
/* Requests that may wait in the socket while a spare is made. */
#define BACKLOG 64
/* A fork takes some 10 ms; under load, and beside others, a hundred times as long at most. */
#define FORK_PATIENCE_MS 3000
/* From closing to going on without having seen its end. */
#define END_PATIENCE_MS 500
/* Exit status of template.py that a second try would not change. */
#define EXIT_REFUSED 3

/* To enter a user namespace and what it owns, and to have a root directory there. */
#define CAPABILITIES (1ULL << CAP_SYS_ADMIN | 1ULL << CAP_SYS_CHROOT)

struct template
{
	uv_loop_t *loop;
	void (*changed)(void *user);
	void *user;
	enum template_state state;
	char *build; /* what it is and was started with: others are not used */
	char *socket_path, *workdir;
	struct uid_claim uid;
	struct record record;
	bool ours;                              /* a child of this process */
	int pidfd, stderr_fd, lifeline_fd;      /* of ours */
	int hold_fd;                            /* the connection by which it is held */
	uv_poll_t exit_poll, stderr_poll, hold; /* open where data is set */
	uv_timer_t timer;
	unsigned handles;
	struct buf said;
	bool closing;
	void (*closed)(void *user);
	void *closed_user;
};

/* ---- the end ---- */

static void free_template(struct template *t)
{
	fd_closep(&t->pidfd);
	fd_closep(&t->stderr_fd);
	fd_closep(&t->lifeline_fd);
	fd_closep(&t->hold_fd);
	fd_closep(&t->record.shared_fd);
	fd_closep(&t->record.guard_fd);
	fd_closep(&t->uid.shared_fd);
	fd_closep(&t->uid.guard_fd);
	free(t->record.path);
	buf_done(&t->said);
	free(t->build);
	free(t->socket_path);
	free(t->workdir);
	free(t);
}

static void on_closed(uv_handle_t *h)
{
	struct template *t = h->data;
	if (--t->handles)
		return;
	void (*closed)(void *user) = t->closed;
	void *user = t->closed_user;
	free_template(t);
	if (closed)
		closed(user);
}

static void close_handle(uv_handle_t *h)
{
	if (h->data && !uv_is_closing(h))
		uv_close(h, on_closed);
}

static void close_handles(struct template *t)
{
	close_handle((uv_handle_t *)&t->exit_poll);
	close_handle((uv_handle_t *)&t->stderr_poll);
	close_handle((uv_handle_t *)&t->hold);
	close_handle((uv_handle_t *)&t->timer);
}

/* It has ended: nobody has its names any more. */
static void remove_names(struct template *t)
{
	if (t->socket_path)
		(void)unlink(t->socket_path);
	if (t->workdir)
		(void)record_remove_tree(t->workdir);
	record_remove(&t->record);
	uids_release(&t->uid);
}

static void change(struct template *t, enum template_state state)
{
	if (t->state >= TEMPLATE_OVER || t->state == state)
		return;
	t->state = state;
	if (!t->closing)
		t->changed(t->user);
}

/* What it printed last, without the newline. */
static const char *last_line(struct template *t)
{
	if (buf_append(&t->said, "", 1) < 0)
		t->said.data[t->said.len - 1] = '\0';
	char *text = (char *)t->said.data;
	size_t n = strlen(text);
	while (n && text[n - 1] == '\n')
		text[--n] = '\0';
	const char *line = strrchr(text, '\n');
	return line ? line + 1 : text;
}

static void read_said(struct template *t)
{
	char chunk[1024];
	ssize_t n;
	while ((n = read(t->stderr_fd, chunk, sizeof(chunk))) > 0) {
		if ((size_t)n > t->said.max - t->said.len)
			buf_consume(&t->said, t->said.len);
		CHECK(buf_append(&t->said, chunk, (size_t)n) == 0);
	}
	if (n == 0 || errno != EAGAIN)
		(void)uv_poll_stop(&t->stderr_poll);
}

static void on_exit_(uv_poll_t *p, int status, int events)
{
	(void)status;
	(void)events;
	struct template *t = p->data;
	siginfo_t info = {0};
	if (waitid(P_PIDFD, (id_t)t->pidfd, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
		return;
	(void)uv_poll_stop(p);
	read_said(t);
	bool refused = info.si_code == CLD_EXITED && info.si_status == EXIT_REFUSED;
	bool never_ran = t->state == TEMPLATE_STARTING;
	if (!t->closing)
		log_info("the kernel template ended (%s %d)%s%s",
			info.si_code == CLD_EXITED ? "status" : "signal", info.si_status,
			t->said.len ? ": " : "", t->said.len ? last_line(t) : "");
	remove_names(t);
	change(t, refused || never_ran ? TEMPLATE_REFUSED : TEMPLATE_OVER);
	if (t->closing)
		close_handles(t);
}

static void on_stderr(uv_poll_t *p, int status, int events)
{
	(void)events;
	if (status < 0)
		(void)uv_poll_stop(p);
	else
		read_said(p->data);
}

static void on_timer(uv_timer_t *timer)
{
	close_handles(timer->data);
}

void template_close(struct template *t, bool in_use, void (*done)(void *user), void *user)
{
	t->closing = true;
	t->closed = done;
	t->closed_user = user;
	/* Not closed: see hosted.c, on_stderr(). */
	if (t->hold_fd >= 0)
		(void)shutdown(t->hold_fd, SHUT_RDWR);
	fd_closep(&t->lifeline_fd);
	if (t->ours && !in_use)
		(void)syscall(SYS_pidfd_send_signal, t->pidfd, SIGKILL, NULL, 0);
	if (t->ours && t->state < TEMPLATE_OVER)
		(void)uv_timer_start(&t->timer, on_timer, END_PATIENCE_MS, 0);
	else
		(void)uv_timer_start(&t->timer, on_timer, 0, 0);
}

/* ---- holding ---- */

static bool is_answer(const void *p, size_t n, const char *build)
{
	struct tlv_reader r = tlv_reader(p, n);
	struct tlv t;
	return tlv_next(&r, &t) && t.tag == TEMPLATE_READY && tlv_is(&t, build);
}

static void on_hold(uv_poll_t *p, int status, int events)
{
	(void)events;
	struct template *t = p->data;
	char answer[4096];
	ssize_t n = status < 0 ? 0 : recv(t->hold_fd, answer, sizeof(answer), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && is_answer(answer, (size_t)n, t->build)) {
		change(t, TEMPLATE_FORKS);
		return;
	}
	(void)uv_poll_stop(p);
	/* Of ours the exit status tells more. */
	if (!t->ours || t->state == TEMPLATE_FORKS)
		change(t, TEMPLATE_OVER);
}

static int hold(struct template *t)
{
	_cleanup_buf_ struct buf b = BUF_INIT(64);
	CHECK(tlv_bytes(&b, TEMPLATE_HOLD, NULL, 0) == 0);
	_cleanup_close_ int fd = address_connect(t->socket_path, SOCK_SEQPACKET);
	if (fd < 0)
		return fd;
	if (send(fd, b.data, b.len, MSG_NOSIGNAL) < 0)
		return -errno;
	t->hold_fd = TAKE_FD(fd);
	return 0;
}

static void watch(struct template *t, uv_poll_t *p, int fd, uv_poll_cb cb)
{
	CHECK(uv_poll_init(t->loop, p, fd) == 0);
	p->data = t;
	t->handles++;
	CHECK(uv_poll_start(p, UV_READABLE, cb) == 0);
}

static void watch_all(struct template *t)
{
	CHECK(uv_timer_init(t->loop, &t->timer) == 0);
	t->timer.data = t;
	t->handles++;
	watch(t, &t->hold, t->hold_fd, on_hold);
	if (!t->ours)
		return;
	watch(t, &t->exit_poll, t->pidfd, on_exit_);
	watch(t, &t->stderr_poll, t->stderr_fd, on_stderr);
}

/* ---- starting ---- */

/* A listening socket under a name of its own. */
static int make_listener(struct template *t, struct err *err)
{
	struct sockaddr_un address;
	_cleanup_close_ int dir = -1;
	int r = address_of(t->socket_path, &address, &dir);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (r == 0 && (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
			      chmod(t->socket_path, 0600) < 0 || listen(fd, BACKLOG) < 0))
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, -r,
			"cannot make the template's socket: %s", strerror(-r));
	return TAKE_FD(fd);
}

static int make_workdir(struct template *t, struct err *err)
{
	if (mkdir(t->workdir, 0700) < 0 ||
		(t->uid.uid && chown(t->workdir, t->uid.uid, t->uid.uid) < 0))
		return err_set(err, ERR_PROVIDER_UNUSABLE, errno, "cannot make %.300s: %s",
			t->workdir, strerror(errno));
	return 0;
}

/* Everything that it is executed with, is visible in every kernel: nothing of the broker's. */
static int execute(struct template *t, const struct template_spec *spec, int listener, int lifeline,
	struct err *err)
{
	struct launch l = {.uid = t->uid.uid,
		.sealed = t->uid.uid != 0,
		.keep_caps = t->uid.uid ? CAPABILITIES : 0,
		.cgroup2_fd = -1,
		.program = PYTHON};
	int pipe_fds[2];
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "pipe: %s", strerror(errno));
	t->stderr_fd = pipe_fds[0];
	_cleanup_close_ int writing = pipe_fds[1];
	l.stderr_fd = writing;
	const char *home = launch_see(&l, t->workdir, true, true);
	_cleanup_free_ char *script =
		xasprintf("%s/python/template.py", launch_see(&l, spec->kernels_dir, true, false));
	char fds[2][16];
	(void)snprintf(fds[0], sizeof(fds[0]), "%d", launch_give(&l, listener));
	(void)snprintf(fds[1], sizeof(fds[1]), "%d", launch_give(&l, lifeline));
	(void)launch_give(&l, t->record.shared_fd);
	if (t->uid.shared_fd >= 0)
		(void)launch_give(&l, t->uid.shared_fd);
	char *const argv[] = {PYTHON, script, fds[0], fds[1], t->build, NULL};
	_cleanup_free_ char *env_home = xasprintf("HOME=%s", home);
	_cleanup_free_ char *env_tmp = xasprintf("TMPDIR=%s", home);
	/* One thread: a library's pool of them would not survive the fork. */
	char *const env[] = {env_home, env_tmp, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
		"PYTHONDONTWRITEBYTECODE=1", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1",
		"MKL_NUM_THREADS=1", "NUMEXPR_NUM_THREADS=1", NULL};
	l.argv = argv;
	l.env = env;
	pid_t pid = launch_start(&l, &t->pidfd, err);
	launch_done(&l);
	int r = pid < 0 ? (int)pid : fd_set_nonblock(t->stderr_fd, true);
	return r == 0 ? record_add_process(&t->record, "first", pid) : r;
}

static int start_new(struct template *t, const struct template_spec *spec, struct err *err)
{
	char id[ID_TEXT_SIZE];
	id_new('t', id);
	id[2 + 12] = '\0'; /* socket addresses are short */
	t->ours = true;
	t->socket_path = xasprintf("%s/%s.sock", spec->runtime_dir, id);
	t->workdir = xasprintf("%s/%s.d", spec->runtime_dir, id);
	int r = geteuid() == 0 ? uids_claim(&t->uid, err) : 0;
	const struct record_facts facts = {
		.socket = t->socket_path, .workdir = t->workdir, .uid = t->uid.uid};
	if (r == 0)
		r = record_create(spec->runtime_dir, id, &facts, &t->record, err);
	if (r == 0)
		r = make_workdir(t, err);
	if (r < 0)
		return r;
	_cleanup_close_ int listener = make_listener(t, err);
	int lifeline[2];
	if (listener < 0)
		return listener;
	if (pipe2(lifeline, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "pipe: %s", strerror(errno));
	t->lifeline_fd = lifeline[1];
	r = execute(t, spec, listener, lifeline[0], err);
	(void)close(lifeline[0]);
	if (r < 0)
		return r;
	fd_closep(&t->record.shared_fd);
	fd_closep(&t->uid.shared_fd);
	r = hold(t);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot reach the template: %s", strerror(-r))
		     : 0;
}

/* One that lives in the directory: held. */
static bool find(struct template *t, const struct template_spec *spec)
{
	DIR *d = opendir(spec->runtime_dir);
	bool found = false;
	for (struct dirent *e; d && !found && (e = readdir(d));) {
		size_t n = strlen(e->d_name);
		if (!str_starts(e->d_name, "t-") || n < 5 ||
			strcmp(e->d_name + n - 5, ".sock") != 0)
			continue;
		t->socket_path = xasprintf("%s/%s", spec->runtime_dir, e->d_name);
		found = hold(t) == 0;
		if (!found)
			free(TAKE_PTR(t->socket_path));
	}
	if (d)
		(void)closedir(d);
	return found;
}

int template_start(uv_loop_t *loop, const struct template_spec *spec, void (*changed)(void *user),
	void *user, struct template **ret, struct err *err)
{
	struct template *t = xcalloc(1, sizeof(*t));
	t->loop = loop;
	t->changed = changed;
	t->user = user;
	t->build = xasprintf("scb %s %s", SCB_VERSION, spec->kernels_dir);
	t->pidfd = t->stderr_fd = t->lifeline_fd = t->hold_fd = -1;
	t->uid = UID_CLAIM_NONE;
	t->record = RECORD_NONE;
	t->said = BUF_INIT(SAID_MAX);
	int r = find(t, spec) ? 0 : start_new(t, spec, err);
	if (r < 0) {
		if (t->pidfd >= 0) {
			(void)syscall(SYS_pidfd_send_signal, t->pidfd, SIGKILL, NULL, 0);
			while (waitid(P_PIDFD, (id_t)t->pidfd, &(siginfo_t){0}, WEXITED) < 0 &&
				errno == EINTR)
				;
		}
		remove_names(t);
		free_template(t);
		return r;
	}
	watch_all(t);
	*ret = t;
	return 0;
}

enum template_state template_state(const struct template *t)
{
	return t->state;
}

/* ---- forking ---- */

struct template_fork {
	int fd;
	uv_poll_t poll;
	uv_timer_t timer;
	unsigned handles;
	void (*done)(void *user, const struct err *err);
	void *user;
};

static void on_fork_closed(uv_handle_t *h)
{
	struct template_fork *f = h->data;
	if (--f->handles)
		return;
	fd_closep(&f->fd);
	free(f);
}

void template_fork_cancel(struct template_fork *f)
{
	uv_close((uv_handle_t *)&f->poll, on_fork_closed);
	uv_close((uv_handle_t *)&f->timer, on_fork_closed);
}

static void fork_end(struct template_fork *f, const struct err *err)
{
	template_fork_cancel(f);
	f->done(f->user, err);
}

static void fork_failed(struct template_fork *f, const char *text, size_t n)
{
	struct err err;
	(void)err_set(&err, ERR_PROVIDER_UNUSABLE, EIO,
		"no kernel was forked from the template: %.*s", (int)MIN(n, 300), text);
	fork_end(f, &err);
}

static void on_fork_answer(uv_poll_t *p, int status, int events)
{
	(void)events;
	struct template_fork *f = p->data;
	char answer[4096];
	ssize_t n = status < 0 ? 0 : recv(f->fd, answer, sizeof(answer), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	struct tlv_reader r = tlv_reader(answer, n > 0 ? (size_t)n : 0);
	for (struct tlv t; tlv_next(&r, &t);) {
		if (t.tag == TEMPLATE_DONE) {
			fork_end(f, NULL);
			return;
		}
		if (t.tag == TEMPLATE_ERROR) {
			fork_failed(f, (const char *)t.p, t.n);
			return;
		}
	}
	static const char gone[] = "it ended";
	if (n <= 0)
		fork_failed(f, gone, sizeof(gone) - 1);
}

static void on_fork_late(uv_timer_t *t)
{
	static const char late[] = "it took too long";
	fork_failed(t->data, late, sizeof(late) - 1);
}

static int request_body(const struct template_request *q, struct buf *b)
{
	int r = tlv_bytes(b, TEMPLATE_FORK, q->config->data, q->config->len);
	r = r ? r : tlv_u64(b, TEMPLATE_NAMESPACES, q->n_namespaces);
	r = r ? r : tlv_u64(b, TEMPLATE_JOINS, q->n_joins);
	r = r ? r : tlv_str(b, TEMPLATE_KERNELS_DIR, q->kernels_dir);
	r = r ? r : tlv_str(b, TEMPLATE_AGENT, q->agent);
	return r ? r : tlv_u64(b, TEMPLATE_TOUCH, q->touch);
}

static int send_request(int fd, const struct template_request *q)
{
	_cleanup_buf_ struct buf b = BUF_INIT(TEMPLATE_DATAGRAM);
	CHECK(q->n_fds <= TEMPLATE_FDS);
	int r = request_body(q, &b);
	if (r < 0)
		return r;
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(TEMPLATE_FDS * sizeof(int))];
	} control = {0};
	struct iovec iov = {b.data, b.len};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(q->n_fds * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
		.cmsg_len = CMSG_LEN(q->n_fds * sizeof(int))};
	memcpy(CMSG_DATA(c), q->fds, q->n_fds * sizeof(int));
	return sendmsg(fd, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int template_fork(struct template *t, const struct template_request *q,
	void (*done)(void *user, const struct err *err), void *user, struct template_fork **ret,
	struct err *err)
{
	_cleanup_close_ int fd = address_connect(t->socket_path, SOCK_SEQPACKET);
	int r = fd < 0 ? fd : send_request(fd, q);
	if (r < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, -r, "the template cannot be asked: %s",
			strerror(-r));
	struct template_fork *f = xcalloc(1, sizeof(*f));
	f->fd = TAKE_FD(fd);
	f->done = done;
	f->user = user;
	f->handles = 2;
	f->poll.data = f->timer.data = f;
	CHECK(uv_poll_init(t->loop, &f->poll, f->fd) == 0);
	CHECK(uv_timer_init(t->loop, &f->timer) == 0);
	f->poll.data = f->timer.data = f;
	CHECK(uv_poll_start(&f->poll, UV_READABLE, on_fork_answer) == 0);
	(void)uv_timer_start(&f->timer, on_fork_late, FORK_PATIENCE_MS, 0);
	*ret = f;
	return 0;
}
