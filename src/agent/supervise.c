/* supervise.c: see supervise.h. */
#include "agent/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/child.h"
#include "agent/tree.h"
#include "base/fd.h"
#include "base/sig.h"

/* Between two passes over a tree that is being killed. */
#define PASS_PAUSE_MS 1
/* First number for descriptors on their way to 0…4. */
#define FD_STAGE 64

static pid_t leader;
static bool leader_lives;
static int agent_socket;
/* Processes below with trees of their own. What is written over is not lost to anybody: the agent
 * keeps fewer kernels than this. */
static pid_t kept[2 * LIMIT_KERNELS];
static size_t next_kept;

static bool is_kept(pid_t child)
{
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (kept[i] == child)
			return true;
	return false;
}

static void forget_kept(pid_t child)
{
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (kept[i] == child)
			kept[i] = 0;
}

static void keep(pid_t child, bool on)
{
	forget_kept(child);
	if (on && child > 1)
		kept[next_kept++ % ARRAY_SIZE(kept)] = child;
}

static void tell(const struct supervise_msg *m)
{
	/* Where the agent does not take it, it is gone; the poll loop sees that. */
	(void)send(agent_socket, m, sizeof(*m), MSG_NOSIGNAL);
}

/* ---- the leader, between fork and exec ---- */

static void leader_fail(int error_fd, enum supervise_step step, int errnum, const char *name)
{
	struct supervise_msg m = {.kind = SUPERVISE_FAILED, .step = (uint8_t)step, .value = errnum};
	(void)snprintf(m.name, sizeof(m.name), "%s", name ? name : "");
	(void)!write(error_fd, &m, sizeof(m));
	_exit(127);
}

/* Puts the descriptors in their places and closes all others. Returns the new error descriptor. */
static int leader_descriptors(const struct supervise_spec *spec, int error_fd)
{
	int from[5] = {
		spec->stdin_fd, spec->stdout_fd, spec->stderr_fd, spec->control_fd, error_fd};
	int n = 0;
	for (int i = 0; i < 5; i++)
		if (from[i] >= 0)
			from[n++] = fcntl(from[i], F_DUPFD_CLOEXEC, FD_STAGE);
	for (int i = 0; i < n; i++)
		if (from[i] < 0 || dup3(from[i], i, i == n - 1 ? O_CLOEXEC : 0) < 0)
			leader_fail(from[n - 1], STEP_FORK, errno, NULL);
	(void)fd_close_from(n);
	return n - 1;
}

NORETURN static void leader_main(const struct supervise_spec *spec, int error_fd)
{
	(void)setsid();
	const struct supervise_msg born = {.kind = SUPERVISE_BORN, .value = getpid()};
	tell(&born);
	sig_reset();
	const char *name = NULL;
	int r = child_confine(spec->config, &name);
	if (r < 0)
		leader_fail(error_fd, STEP_CONFINE, -r, name);
	const char *cwd = spec->cwd ? spec->cwd : ".";
	if (chdir(spec->config->workspace) < 0 || chdir(cwd) < 0)
		leader_fail(error_fd, STEP_CWD, errno, NULL);
	error_fd = leader_descriptors(spec, error_fd);
	environ = (char **)spec->env;
	/* execvp looks a bare name up in the PATH of the environment just set. */
	(void)execvp(spec->argv[0], spec->argv);
	leader_fail(error_fd, STEP_EXEC, errno, NULL);
	_exit(127);
}

/* ---- the supervisor ---- */

/* Forks the leader and waits until it has become the program. Does not return where it has not. */
static void start_leader(const struct supervise_spec *spec)
{
	int p[2];
	struct supervise_msg m = {.kind = SUPERVISE_FAILED, .step = STEP_FORK};
	leader = -1;
	if (pipe2(p, O_CLOEXEC) == 0)
		leader = fork();
	if (leader < 0) {
		m.value = errno;
		tell(&m);
		_exit(1);
	}
	if (leader == 0) {
		(void)close(p[0]);
		leader_main(spec, p[1]);
	}
	(void)close(p[1]);
	if (fd_read_full(p[0], &m, sizeof(m)) == 0) {
		(void)waitpid(leader, NULL, 0);
		tell(&m);
		_exit(1);
	}
	(void)close(p[0]);
	leader_lives = true;
	m = (struct supervise_msg){.kind = SUPERVISE_STARTED, .value = leader};
	tell(&m);
}

/* Is nothing below but what is kept? Reads /proc: only asked where something is. */
static bool only_kept(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (kept[i])
			return tree_signal(is_kept, 0) == 0;
	return false;
}

/* Everything that has ended. Exits with the last process of the tree; what is kept goes to the next
 * subreaper then, which knows it too. */
static void reap(void)
{
	int status;
	pid_t pid;
	struct supervise_msg m = {0};
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		forget_kept(pid);
		if (pid == leader && leader_lives) {
			leader_lives = false;
			m = (struct supervise_msg){.kind = SUPERVISE_ENDED, .value = status};
		}
	}
	bool none_left = (pid < 0 && errno == ECHILD) || (!leader_lives && only_kept());
	if (m.kind) {
		if (!none_left)
			m.left = (int32_t)tree_signal(is_kept, 0);
		tell(&m);
	}
	if (none_left)
		_exit(0);
}

static void on_sigchld(int sig)
{
	(void)sig;
}

static void send_signal(int sig)
{
	if (leader_lives)
		(void)kill(-leader, sig);
	else
		(void)tree_signal(is_kept, sig);
	const struct supervise_msg m = {.kind = SUPERVISE_SIGNALLED, .value = sig};
	tell(&m);
}

NORETURN static void watch(void)
{
	bool killing = false;
	sigset_t mask;
	(void)sigfillset(&mask);
	(void)sigdelset(&mask, SIGCHLD);
	for (;;) {
		reap();
		if (killing)
			(void)tree_kill_pass(is_kept, NULL);
		struct pollfd p = {.fd = agent_socket, .events = POLLIN};
		struct timespec pause = {.tv_nsec = PASS_PAUSE_MS * 1000000L};
		int n = ppoll(
			&p, killing && agent_socket < 0 ? 0 : 1, killing ? &pause : NULL, &mask);
		if (n <= 0)
			continue;
		struct supervise_msg m;
		ssize_t len = recv(agent_socket, &m, sizeof(m), MSG_DONTWAIT);
		if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR)) {
			killing = true; /* the agent is gone */
			fd_closep(&agent_socket);
		}
		if (len != sizeof(m))
			continue;
		if (m.kind == SUPERVISE_KILL)
			killing = true;
		else if (m.kind == SUPERVISE_KEEP)
			keep(m.value, m.left != 0);
		else if (m.kind == SUPERVISE_SIGNAL)
			send_signal(m.value);
	}
}

static void set_up(void)
{
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	(void)prctl(PR_SET_NAME, "scb-supervisor", 0, 0, 0);
	sigset_t all;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	struct sigaction sa = {.sa_handler = on_sigchld};
	(void)sigaction(SIGCHLD, &sa, NULL);
}

NORETURN void supervise_run(const struct supervise_spec *spec, int socket)
{
	agent_socket = socket;
	set_up();
	start_leader(spec);
	child_drop();
	if (agent_socket != 0) {
		(void)dup3(agent_socket, 0, O_CLOEXEC);
		agent_socket = 0;
	}
	(void)fd_close_from(1);
	watch();
}

NORETURN void supervise_adopted(pid_t leader_pid)
{
	agent_socket = 0;
	leader = leader_pid;
	leader_lives = true;
	set_up();
	child_drop();
	(void)fd_close_from(1);
	const struct supervise_msg m = {.kind = SUPERVISE_HERE};
	tell(&m);
	watch();
}
