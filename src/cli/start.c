/* start.c: see start.h.
 *
 * front ── fork ── setsid, fork ── exec systemd-run, or scb broker
 *
 * The second child is nobody's: not of the front's process group, terminal or session, and its
 * parent is init (or the nearest subreaper). Readiness, or the reason of a failure, comes back over
 * a pipe. */
#include "cli/start.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

#define SYSTEMD_RUN "/usr/bin/systemd-run"

/* What a broker gets of its starter's environment: what places, languages, time and the user's
 * systemd are found by. Everything else may be a secret of the host. */
static const char *const passed[] = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL",
	"LC_CTYPE", "TZ", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR",
	"DBUS_SESSION_BUS_ADDRESS", "SCB_AGENT", "SCB_KERNELS", "SCB_UID_RANGE", "SCB_AUDIT_KEY",
	"DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "BROKER_IMAGE", "BROKER_RUNTIME",
	"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"};

struct starting {
	const char *state;
	const struct arglist *options;
	int lock, ready[2], null, log;
	struct arglist argv;
	char *env[ARRAY_SIZE(passed) + 1];
};

bool start_has_scope(void)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	if (geteuid() == 0 || !run || access(SYSTEMD_RUN, X_OK) < 0)
		return false;
	_cleanup_free_ char *manager = xasprintf("%s/systemd/private", run);
	return access(manager, F_OK) == 0;
}

char *start_program(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	path[n > 0 ? n : 0] = '\0';
	char *deleted = strstr(path, " (deleted)");
	if (deleted)
		*deleted = '\0';
	return access(path, X_OK) == 0 ? xstrdup(path) : xasprintf("/proc/%d/exe", (int)getpid());
}

void start_scope_args(struct arglist *a)
{
	static const char *const args[] = {SYSTEMD_RUN, "--user", "--scope", "--quiet", "--collect",
		"-p", "Delegate=yes", "--description=Sandbox Compute Broker", "--"};
	for (size_t i = 0; i < ARRAY_SIZE(args); i++)
		arglist_add(a, args[i]);
}

static void make_argv(struct starting *s, bool scope)
{
	_cleanup_free_ char *self = start_program();
	if (scope)
		start_scope_args(&s->argv);
	arglist_add(&s->argv, self);
	arglist_add(&s->argv, "broker");
	arglist_add_option(&s->argv, "--state", s->state);
	for (size_t i = 0; i < s->options->n; i++)
		arglist_add(&s->argv, s->options->v[i]);
}

static void make_env(struct starting *s)
{
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
		const char *value = getenv(passed[i]);
		if (value)
			s->env[n++] = xasprintf("%s=%s", passed[i], value);
	}
}

/* In the second child. Only what is safe after a fork, and no return. */
NORETURN static void become_broker(struct starting *s)
{
	/* out of the way of the numbers that they are to have */
	int lock = fcntl(s->lock, F_DUPFD, 16), ready = fcntl(s->ready[1], F_DUPFD, 16);
	int null = fcntl(s->null, F_DUPFD, 16), log = fcntl(s->log, F_DUPFD, 16);
	if (lock < 0 || ready < 0 || null < 0 || log < 0 || dup2(null, STDIN_FILENO) < 0 ||
		dup2(null, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0 ||
		dup2(lock, START_LOCK_FD) < 0 || dup2(ready, START_READY_FD) < 0 ||
		fd_close_from(START_READY_FD + 1) < 0 || chdir("/") < 0)
		_exit(1);
	(void)execve(s->argv.v[0], s->argv.v, s->env);
	_exit(1);
}

static int spawn(struct starting *s)
{
	pid_t child = fork();
	if (child < 0)
		return -errno;
	if (child == 0) {
		if (setsid() < 0)
			_exit(1);
		pid_t broker = fork();
		if (broker == 0)
			become_broker(s);
		_exit(broker < 0);
	}
	int status = 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status == 0 ? 0 : -EAGAIN;
}

/* What comes over the pipe until its end, or until enough. */
static size_t read_report(int fd, char *p, size_t size)
{
	size_t n = 0;
	uint64_t end = clock_monotonic_us() + LIMIT_BROKER_START_US;
	while (n < size) {
		uint64_t now = clock_monotonic_us();
		struct pollfd ready = {.fd = fd, .events = POLLIN};
		if (now >= end)
			break;
		int r = poll(&ready, 1, (int)((end - now) / USEC_PER_MSEC) + 1);
		if (r < 0 && errno == EINTR)
			continue;
		ssize_t got = r > 0 ? read(fd, p + n, size - n) : 0;
		if (got <= 0)
			break;
		n += (size_t)got;
		if (p[0] == '+')
			break;
	}
	return n;
}

/* 0: it is up. -EAGAIN: it has ended without a word. */
static int wait_ready(struct starting *s, struct err *err)
{
	char report[2 + sizeof(err->text)] = "";
	fd_closep(&s->ready[1]);
	size_t n = read_report(s->ready[0], report, sizeof(report) - 1);
	if (n > 0 && report[0] == '+')
		return 0;
	if (n > 2 && report[0] == '-' && report[1] > ERR_NONE && report[1] < ERR_CODE_MAX_) {
		str_make_printable(report + 2);
		return err_set(err, (enum err_code)report[1], 0, "%s", report + 2);
	}
	(void)err_set(err, ERR_INTERNAL, EAGAIN,
		"the broker ended as it started; %.200s/broker.log may say why", s->state);
	return -EAGAIN;
}

static int open_files(struct starting *s, struct err *err)
{
	_cleanup_free_ char *log = xasprintf("%s/broker.log", s->state);
	s->null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (s->null < 0)
		return err_set(err, ERR_IO, errno, "/dev/null: %s", strerror(errno));
	s->log = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->log < 0)
		return err_set(
			err, ERR_IO, errno, "%.300s cannot be written: %s", log, strerror(errno));
	return 0;
}

static int try_start(struct starting *s, bool scope, struct err *err)
{
	if (pipe2(s->ready, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "no pipe: %s", strerror(errno));
	make_argv(s, scope);
	int r = spawn(s);
	if (r < 0)
		(void)err_set(
			err, ERR_INTERNAL, -r, "the broker cannot be started: %s", strerror(-r));
	else
		r = wait_ready(s, err);
	fd_closep(&s->ready[0]);
	fd_closep(&s->ready[1]);
	arglist_done(&s->argv);
	return r;
}

int start_broker(const char *state, const struct arglist *options, int lock_fd, struct err *err)
{
	struct starting s = {.state = state,
		.options = options,
		.lock = lock_fd,
		.ready = {-1, -1},
		.null = -1,
		.log = -1};
	int r = open_files(&s, err);
	make_env(&s);
	if (r == 0) {
		bool scope = start_has_scope();
		r = try_start(&s, scope, err);
		if (r == -EAGAIN && scope) { /* the manager would not: better without than not */
			log_info("systemd-run gives the broker no scope; it starts without");
			r = try_start(&s, false, err);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(s.env); i++)
		free(s.env[i]);
	fd_closep(&s.null);
	fd_closep(&s.log);
	return r;
}

/* ---- the broker's side ---- */

void start_ready(void)
{
	(void)!write(START_READY_FD, "+", 1);
	(void)close(START_READY_FD);
}

void start_failed(const struct err *err)
{
	char report[2 + sizeof(err->text)];
	int n = snprintf(report, sizeof(report), "-%c%s", (char)err->code, err->text);
	(void)!write(START_READY_FD, report, MIN((size_t)n, sizeof(report) - 1));
	(void)close(START_READY_FD);
}
