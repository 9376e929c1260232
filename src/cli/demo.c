/* demo.c: `scb demo`: the example's dashboard on a broker of its own, in the browser.
 *
 * The broker is `scb serve --http` as a child, in a process group of its own: Ctrl-C is for this
 * process, which ends the sessions first, so that nothing is left. Its state is a directory that
 * goes with it, unless --state names one. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/paths.h"
#include "cli/settings.h"
#include "cli/web.h"

#define CODE "examples/dashboard/strikes.py"
#define DATA "examples/data"
/* What the broker says, in its state directory; shown where it does not start. */
#define LOG     "demo.log"
#define LOG_MAX (64 * KIB)
/* A broker listens after some milliseconds; on a machine that is busy otherwise, later. */
#define START_US (30 * USEC_PER_SEC)
#define LOOK_MS  20
/* Then it is killed. */
#define END_US (20 * USEC_PER_SEC)

struct demo {
	struct settings settings;
	uint64_t port;
	bool no_open;
	char *state;     /* absolute */
	bool state_goes; /* with this process */
	pid_t broker;
};

/* ---- options ---- */

static int set_port(void *user, const char *value, struct err *err)
{
	if (str_to_u64(value, UINT16_MAX, &((struct demo *)user)->port) < 0)
		return err_set(
			err, ERR_INVALID_ARGUMENT, 0, "option --port takes a number up to 65535");
	return 0;
}

static int set_no_open(void *user, const char *value, struct err *err)
{
	(void)value;
	(void)err;
	((struct demo *)user)->no_open = true;
	return 0;
}

static const struct option_def own_options[] = {
	{"--port", "PORT", set_port}, {"--no-open", NULL, set_no_open}, {0}};

/* ---- the broker ---- */

static volatile sig_atomic_t told_to_end;

static void on_signal(int number)
{
	(void)number;
	told_to_end = 1;
}

static int make_state(struct demo *d, struct err *err)
{
	char path[] = "/tmp/scb-demo-XXXXXX";
	if (d->settings.state)
		return paths_state(d->settings.state, &d->state, err);
	if (!mkdtemp(path))
		return err_set(err, ERR_IO, errno, "%s: %s", path, strerror(errno));
	d->state = xstrdup(path);
	d->state_goes = true;
	d->settings.state = d->state;
	if (!d->settings.outputs)
		d->settings.outputs = xasprintf("%s/outputs", path);
	return 0;
}

static int add_data(struct demo *d, struct err *err)
{
	_cleanup_free_ char *path = provider_beside(DATA);
	char *real = realpath(path, NULL);
	if (!real)
		return err_set(err, ERR_NO_SUCH_FILE, errno, "the example's data, %.300s: %s", path,
			strerror(errno));
	if (d->settings.n_mounts == ARRAY_SIZE(d->settings.mounts)) {
		free(real);
		return err_set(err, ERR_INVALID_ARGUMENT, 0, "too many folders with --mount");
	}
	d->settings.mounts[d->settings.n_mounts++] =
		(struct sandbox_mount){.name = xstrdup("data"), .source = real};
	return 0;
}

static int start_broker(struct demo *d, struct err *err)
{
	_cleanup_arglist_ struct arglist argv = {0};
	_cleanup_free_ char *address = xasprintf("127.0.0.1:%llu", (unsigned long long)d->port);
	arglist_add(&argv, "/proc/self/exe");
	arglist_add(&argv, "serve");
	settings_args(&d->settings, &argv);
	arglist_add_option(&argv, "--http", address);
	_cleanup_free_ char *path = xasprintf("%s/" LOG, d->state);
	_cleanup_close_ int log =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (log < 0)
		return err_set(err, ERR_IO, errno, "%.300s: %s", path, strerror(errno));
	pid_t self = getpid();
	d->broker = fork();
	if (d->broker < 0)
		return err_set(err, ERR_INTERNAL, errno, "fork: %s", strerror(errno));
	if (d->broker == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
			dup2(log, STDERR_FILENO) < 0 || setpgid(0, 0) < 0 ||
			prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != self)
			_exit(70);
		(void)execv(argv.v[0], argv.v);
		_exit(70);
	}
	return 0;
}

/* True: it has ended by itself; *ret_status is why. */
static bool has_ended(struct demo *d, int *ret_status)
{
	int status;
	if (waitpid(d->broker, &status, WNOHANG) != d->broker)
		return false;
	d->broker = 0;
	*ret_status = WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 70;
	return true;
}

static void show_log(const struct demo *d)
{
	_cleanup_free_ char *path = xasprintf("%s/" LOG, d->state);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char text[LOG_MAX];
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text));
	if (n > 0)
		(void)!fd_write_full(STDERR_FILENO, text, (size_t)n);
}

/* Until the page has an address. *ret_status: the broker has said why it has none. */
static int await_url(struct demo *d, char **ret, int *ret_status, struct err *err)
{
	uint64_t until_us = clock_monotonic_us() + START_US;
	while (!told_to_end) {
		*ret = web_url(d->state);
		if (*ret)
			return 0;
		if (has_ended(d, ret_status)) {
			show_log(d);
			return -ECHILD;
		}
		if (clock_monotonic_us() > until_us)
			return err_set(err, ERR_INTERNAL, ETIMEDOUT, "the broker does not start");
		(void)poll(NULL, 0, LOOK_MS);
	}
	return -EINTR;
}

/* Says nothing. */
static void run_to_end(char *const *argv)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	if (posix_spawn_file_actions_init(&actions) != 0)
		return;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		(void)posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
	if (posix_spawn(&pid, argv[0], &actions, NULL, argv, environ) == 0)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	(void)posix_spawn_file_actions_destroy(&actions);
}

/* Sessions first: a broker that is told to end while it has some leaves them for the next one. */
static void end_broker(struct demo *d)
{
	char *const argv[] = {
		"/proc/self/exe", "sessions", "close", "--all", "--state", d->state, NULL};
	uint64_t until_us = clock_monotonic_us() + END_US;
	int status;
	if (d->broker <= 0)
		return;
	if (d->state_goes)
		run_to_end(argv);
	(void)kill(d->broker, SIGTERM);
	while (!has_ended(d, &status)) {
		if (clock_monotonic_us() > until_us)
			(void)kill(d->broker, SIGKILL);
		(void)poll(NULL, 0, LOOK_MS);
	}
}

/* ---- the dashboard ---- */

static int read_code(char **ret, struct err *err)
{
	_cleanup_free_ char *path = provider_beside(CODE);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, ERR_NO_SUCH_FILE, errno, "%.300s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > LIMIT_CODE)
		return err_set(err, ERR_NO_SUCH_FILE, EINVAL, "%.300s is no program", path);
	char *text = xcalloc(1, (size_t)st.st_size + 1);
	if (fd_read_full(fd, text, (size_t)st.st_size) < 0) {
		free(text);
		return err_set(err, ERR_IO, EIO, "%.300s cannot be read", path);
	}
	*ret = text;
	return 0;
}

/* As a model does it, through a front of that broker. */
static int show(struct client *c, char **ret_id, struct err *err)
{
	_cleanup_free_ char *code = NULL;
	json_t *opened = NULL, *made = NULL;
	int r = read_code(&code, err);
	if (r == 0)
		r = client_call(c, "session", json_pack("{s:s}", "action", "open"), &opened, err);
	if (r == 0)
		r = client_call(c, "data_dashboard",
			json_pack("{s:s, s:O}", "code", code, "session",
				json_object_get(
					json_object_get(opened, "structuredContent"), "session")),
			&made, err);
	const char *id = json_string_value(
		json_object_get(json_object_get(made, "structuredContent"), "dashboard"));
	if (r == 0 && !id)
		r = err_set(err, ERR_PROTOCOL, 0, "the broker made no dashboard");
	if (r == 0)
		*ret_id = xstrdup(id);
	json_decref(opened);
	json_decref(made);
	return r;
}

static int make_dashboard(struct demo *d, char **ret_id, int *ret_status, struct err *err)
{
	_cleanup_arglist_ struct arglist argv = {0};
	struct client *c = NULL;
	arglist_add(&argv, "/proc/self/exe");
	arglist_add(&argv, "serve");
	settings_args(&d->settings, &argv);
	int r = client_start(argv.v, &c, ret_status, err);
	if (r == 0)
		r = show(c, ret_id, err);
	(void)client_close(c);
	return r;
}

/* ---- the browser ---- */

/* Only where a person sits: on a terminal, with a screen. */
static bool has_screen(void)
{
	const char *x = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY");
	return isatty(STDOUT_FILENO) && ((x && *x) || (wayland && *wayland));
}

/* Where there is no xdg-open the address stands on the terminal all the same. */
static void open_browser(const struct demo *d, const char *id)
{
	struct err err;
	_cleanup_free_ char *url = web_once(d->state, id, &err);
	pid_t pid = url ? fork() : -1;
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (setsid() < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
			dup2(null, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0)
			_exit(1);
		(void)execlp("xdg-open", "xdg-open", url, NULL);
		_exit(1);
	}
}

/* ---- the whole ---- */

/* Until a signal comes, or the broker has gone: then its status. */
static int serve_on(struct demo *d)
{
	sigset_t set, before;
	int status = 0;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, &before);
	while (!told_to_end && !has_ended(d, &status))
		if (sigwaitinfo(&set, NULL) != SIGCHLD)
			told_to_end = 1;
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return status;
}

static void say_where(const struct demo *d, const char *url, const char *id)
{
	(void)printf(
		"\n  Bird strikes, a dashboard that a model could have written, on 10,000 real "
		"reports:\n\n    %s%s%s\n\n  It runs in a sandbox on this machine; nothing is "
		"fetched from anywhere. Ctrl-C ends it%s.\n",
		url, strchr(url, '?') ? "&show=" : "#", id,
		d->state_goes ? ", and nothing is left" : "");
	(void)fflush(stdout);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	(void)remove(path);
	return 0;
}

static int demo(struct demo *d, int *ret_status, struct err *err)
{
	_cleanup_free_ char *url = NULL, *id = NULL;
	int r = make_state(d, err);
	if (r == 0)
		r = add_data(d, err);
	if (r == 0)
		r = settings_check(&d->settings, err);
	if (r == 0)
		r = start_broker(d, err);
	if (r == 0)
		r = await_url(d, &url, ret_status, err);
	if (r == 0)
		r = make_dashboard(d, &id, ret_status, err);
	if (r == 0) {
		say_where(d, url, id);
		if (!d->no_open && has_screen())
			open_browser(d, id);
		*ret_status = serve_on(d);
	}
	end_broker(d);
	if (d->state_goes)
		(void)nftw(d->state, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return r;
}

int cli_demo(int argc, char **argv)
{
	struct demo d = {0};
	struct err err = {0};
	int status = 0;
	const struct sigaction action = {.sa_handler = on_signal};
	const struct option_table tables[] = {
		{own_options, &d}, {settings_options, &d.settings}, {0}};
	if (options_want_help(argc, argv, tables))
		return cli_help();
	settings_init(&d.settings);
	int r = options_parse(argc, argv, tables, NULL, &err);
	if (r == 0 && d.settings.solo)
		r = err_set(&err, ERR_INVALID_ARGUMENT, 0, "--solo is not for `scb demo`");
	if (r == 0)
		r = settings_find_image(&d.settings, &err);
	if (r == 0) {
		(void)sigaction(SIGINT, &action, NULL);
		(void)sigaction(SIGTERM, &action, NULL);
		(void)sigaction(SIGHUP, &action, NULL);
		r = demo(&d, &status, &err);
	}
	settings_done(&d.settings);
	free(d.state);
	if (told_to_end)
		return 0;
	if (status > 0) /* the broker has said why */
		return status;
	return r < 0 ? cli_failed(&err) : 0;
}
