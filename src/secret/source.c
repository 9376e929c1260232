/* source.c: see source.h. */
#include "secret/source.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"

static int unavailable(struct err *err, const char *name, const char *why)
{
	return err_set(
		err, ERR_SECRET_UNAVAILABLE, 0, "the secret \"%s\" cannot be read: %s", name, why);
}

/* One byte more than a value may have, and a newline. */
#define READ_MAX (LIMIT_SECRET_BYTES + 2)

/* p is wiped. */
static int take(const char *name, uint8_t *p, size_t n, struct secret_value **ret, struct err *err)
{
	size_t m = n;
	if (m > 0 && p[m - 1] == '\n')
		m--;
	if (m < n && m > 0 && p[m - 1] == '\r')
		m--;
	int r = secret_value_new(name, p, m, ret, err);
	explicit_bzero(p, n);
	return r;
}

/* ---- a file ---- */

/* Its owner can read it anyway; nobody else may. */
static int check_file(const char *name, const char *path, const struct stat *st, struct err *err)
{
	if (!S_ISREG(st->st_mode))
		return err_set(err, ERR_SECRET_UNAVAILABLE, 0,
			"the secret \"%s\" cannot be read: %.200s is no regular file", name, path);
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return err_set(err, ERR_SECRET_UNAVAILABLE, 0,
			"the secret \"%s\" cannot be read: %.200s belongs to uid %u; it must be "
			"your "
			"own or root's",
			name, path, st->st_uid);
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return err_set(err, ERR_SECRET_UNAVAILABLE, 0,
			"the secret \"%s\" is not used: %.200s can be read by others (mode %04o); "
			"chmod 600 %.200s",
			name, path, st->st_mode & 07777, path);
	return 0;
}

int source_file(const char *name, const char *path, struct secret_value **ret, struct err *err)
{
	struct stat st;
	uint8_t bytes[READ_MAX];
	size_t n = 0;
	ssize_t got = 0;
	if (path[0] != '/')
		return unavailable(err, name, "its path is not absolute");
	/* O_NONBLOCK: a FIFO in its place must not hold up the broker */
	_cleanup_close_ int fd =
		open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, ERR_SECRET_UNAVAILABLE, errno,
			"the secret \"%s\" cannot be read: %.200s: %s", name, path,
			errno == ELOOP ? "it is a symbolic link" : strerror(errno));
	if (fstat(fd, &st) < 0)
		return unavailable(err, name, strerror(errno));
	int r = check_file(name, path, &st, err);
	if (r < 0)
		return r;
	while (n < sizeof(bytes)) {
		got = read(fd, bytes + n, sizeof(bytes) - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	if (got < 0) {
		r = unavailable(err, name, strerror(errno));
		explicit_bzero(bytes, sizeof(bytes));
		return r;
	}
	return take(name, bytes, n, ret, err);
}

/* ---- a variable ---- */

int source_env(const char *name, const char *variable, struct secret_value **ret, struct err *err)
{
	char *text = getenv(variable);
	if (!text)
		return err_set(err, ERR_SECRET_UNAVAILABLE, 0,
			"the secret \"%s\" cannot be read: the variable %.64s is not set where scb "
			"was "
			"started; set it in the configuration of the program that starts scb",
			name, variable);
	size_t n = strlen(text);
	int r = secret_value_new(name, text, n, ret, err);
	explicit_bzero(text, n);
	(void)unsetenv(variable);
	return r;
}

/* ---- a program ---- */

struct source_exec {
	char *name;
	pid_t pid;
	int out;   /* of its stdout; -1: it has ended */
	int pidfd; /* readable once it has exited */
	uint64_t deadline_us;
	size_t n;
	uint8_t bytes[READ_MAX];
};

/* Of this process, without what is hidden. The strings are borrowed. */
static char **environment(const char *const *hidden, size_t n_hidden)
{
	size_t n = 0, kept = 0;
	while (environ[n])
		n++;
	char **v = xcalloc(n + 1, sizeof(*v));
	for (size_t i = 0; i < n; i++) {
		bool hide = false;
		for (size_t j = 0; j < n_hidden && !hide; j++) {
			size_t len = strlen(hidden[j]);
			hide = strncmp(environ[i], hidden[j], len) == 0 && environ[i][len] == '=';
		}
		if (!hide)
			v[kept++] = environ[i];
	}
	return v;
}

static int spawn(const char *const *argv, char **env, int out, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t all, none;
	(void)sigfillset(&all);
	(void)sigemptyset(&none);
	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&attr) != 0) {
		(void)posix_spawn_file_actions_destroy(&actions);
		return -ENOMEM;
	}
	int r = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	r = r ? r
	      : posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	r = r ? r : posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
	r = r ? r : posix_spawnattr_setsigdefault(&attr, &all);
	r = r ? r : posix_spawnattr_setsigmask(&attr, &none);
	r = r ? r
	      : posix_spawnattr_setflags(
			&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	r = r ? r : posix_spawnp(ret_pid, argv[0], &actions, &attr, (char *const *)argv, env);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)posix_spawnattr_destroy(&attr);
	return -r;
}

int source_exec_start(const char *name, const char *const *argv, const char *const *hidden,
	size_t n_hidden, struct source_exec **ret, struct err *err)
{
	int ends[2];
	if (!argv[0] || !argv[0][0] || (argv[0][0] != '/' && strchr(argv[0], '/')))
		return unavailable(err, name,
			"its program is neither an absolute path nor a name to be looked for in "
			"PATH");
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return unavailable(err, name, strerror(errno));
	_cleanup_close_ int out = ends[0], in = ends[1];
	/* the program's end blocks, as programs expect */
	if (fd_set_nonblock(in, false) < 0)
		return unavailable(err, name, strerror(errno));
	_cleanup_free_ char **env = environment(hidden, n_hidden);
	pid_t pid;
	int r = spawn(argv, env, in, &pid);
	if (r < 0)
		return err_set(err, ERR_SECRET_UNAVAILABLE, -r,
			"the secret \"%s\" cannot be read: %.150s cannot be started: %s", name,
			argv[0], strerror(-r));
	struct source_exec *x = xcalloc(1, sizeof(*x));
	x->name = xstrdup(name);
	x->pid = pid;
	x->out = TAKE_FD(out);
	x->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	x->deadline_us = clock_monotonic_us() + LIMIT_SECRET_EXEC_S * USEC_PER_SEC;
	if (x->pidfd < 0) {
		r = unavailable(err, name, strerror(errno));
		source_exec_free(x);
		return r;
	}
	*ret = x;
	return 0;
}

struct pollfd source_exec_poll(const struct source_exec *x)
{
	return (struct pollfd){x->out >= 0 ? x->out : x->pidfd, POLLIN, 0};
}

uint64_t source_exec_deadline_us(const struct source_exec *x)
{
	return x->deadline_us;
}

const char *source_exec_name(const struct source_exec *x)
{
	return x->name;
}

/* What stands in the pipe. */
static void read_out(struct source_exec *x)
{
	while (x->out >= 0 && x->n < sizeof(x->bytes)) {
		ssize_t n = read(x->out, x->bytes + x->n, sizeof(x->bytes) - x->n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			fd_closep(&x->out);
		else
			x->n += (size_t)n;
	}
}

/* It has exited: with what it printed, or without. */
static int reap(struct source_exec *x, struct secret_value **ret, struct err *err)
{
	int status = 0;
	siginfo_t ended = {0};
	if (waitid(P_PID, (id_t)x->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && !ended.si_pid)
		return 0;
	(void)kill(
		-x->pid, SIGKILL); /* what it left behind; its number is its own until waitpid() */
	pid_t pid = waitpid(x->pid, &status, 0);
	x->pid = 0;
	if (pid < 0)
		return unavailable(err, x->name, "how its program ended is not known");
	if (WIFSIGNALED(status))
		return err_set(err, ERR_SECRET_UNAVAILABLE, 0,
			"the secret \"%s\" cannot be read: its program was ended by signal %d",
			x->name, WTERMSIG(status));
	if (WEXITSTATUS(status) != 0)
		return err_set(err, ERR_SECRET_UNAVAILABLE, 0,
			"the secret \"%s\" cannot be read: its program ended with status %d; run "
			"it "
			"yourself to see why",
			x->name, WEXITSTATUS(status));
	int r = take(x->name, x->bytes, x->n, ret, err);
	return r < 0 ? r : 1;
}

int source_exec_step(struct source_exec *x, struct secret_value **ret, struct err *err)
{
	read_out(x);
	if (x->n == sizeof(x->bytes))
		return unavailable(err, x->name, "its program prints more than 4 KiB");
	if (x->out < 0) {
		int r = reap(x, ret, err);
		if (r != 0)
			return r;
	}
	if (clock_monotonic_us() < x->deadline_us)
		return 0;
	return err_set(err, ERR_SECRET_UNAVAILABLE, ETIMEDOUT,
		"the secret \"%s\" cannot be read: its program did not end within %d s", x->name,
		LIMIT_SECRET_EXEC_S);
}

void source_exec_free(struct source_exec *x)
{
	if (!x)
		return;
	if (x->pid > 0) {
		(void)kill(-x->pid, SIGKILL);
		(void)kill(x->pid, SIGKILL); /* it may not have come to its own session yet */
		while (waitpid(x->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	fd_closep(&x->out);
	fd_closep(&x->pidfd);
	explicit_bzero(x->bytes, sizeof(x->bytes));
	free(x->name);
	free(x);
}
