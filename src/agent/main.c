/* main.c: scb-agent, the program inside each sandbox (docs/agent-protocol.md).
 *
 *   scb-agent listen:FD CONFIGFD
 *   scb-agent stream:FD CONFIGFD
 *   scb-agent fetch:PATH
 *   scb-agent stdio
 *   scb-agent supervise PID          (agent/supervise.h: what a forked kernel brings with it)
 *
 * FD is a listening unix socket that the broker connects to, or a stream that ends at it; CONFIGFD
 * holds the configuration (enum wire_boot). With fetch both come over the unix socket PATH, as
 * descriptors: a listening one, and the configuration's. With stdio the stream is standard input
 * and output, and the configuration comes first, behind its length (be32). Everything else that was
 * inherited is closed. Exit status 0 after an orderly end, 1 where it could not start, 2 for wrong
 * arguments. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/child.h"
#include "agent/config.h"
#include "agent/evidence.h"
#include "agent/job.h"
#include "agent/jobstart.h"
#include "agent/kernel.h"
#include "agent/lease.h"
#include "agent/loop.h"
#include "agent/proc.h"
#include "agent/sessionenv.h"
#include "agent/streams.h"
#include "agent/uplink.h"
#include "agent/workspace.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

/* Three descriptors a job, five a kernel, and those of files and links. */
#define WANTED_DESCRIPTORS 4096

static struct config config;
static const char *features[CHILD_FEATURES];

static const struct stream_handler *const tables[] = {
	job_handlers,
	kernel_handlers,
	workspace_handlers,
	lease_handlers,
	sessionenv_handlers,
	NULL,
};

static void on_down(void)
{
	streams_close_all();
	lease_link_down();
}

NORETURN static void on_closed(void)
{
	lease_end("no broker can reach it any more");
}

static const struct uplink_events link_events = {
	.up = lease_link_up,
	.down = on_down,
	.frame = streams_frame,
	.replaced = streams_close_all,
	.closed = on_closed,
	.drained = streams_writable,
};

static void before_sleep(void)
{
	uplink_flush();
	lease_end_if_due();
}

static const struct loop_hooks hooks = {.children = proc_reap, .before_sleep = before_sleep};

/* How the broker is reached, and where the configuration stands. */
struct way {
	bool listens;
	int in, out; /* one, but for stdio */
	int config;
};

/* Closes everything that is not standard, the link, or named in the configuration. */
static void close_others(const struct way *w)
{
	int keep[CONFIG_JOIN_FDS + CONFIG_HOLD_FDS + LIMIT_MOUNTS + 9] = {STDERR_FILENO, w->in,
		w->out, config.workspace_fd, config.oom_fd, config.pids_events_fd, config.memory_fd,
		config.pids_fd, config.lifeline_fd};
	size_t n = 9;
	for (size_t i = 0; i < config.n_join_fds; i++)
		keep[n++] = config.join_fds[i];
	for (size_t i = 0; i < config.n_hold_fds; i++)
		keep[n++] = config.hold_fds[i];
	for (size_t i = 0; i < config.n_mounts; i++)
		keep[n++] = config.mounts[i].fd;
	int highest = 0;
	for (size_t i = 0; i < n; i++)
		highest = MAX(highest, keep[i]);
	for (int fd = 3; fd < highest; fd++) {
		bool kept = false;
		for (size_t i = 0; i < n; i++)
			kept |= keep[i] == fd;
		if (!kept)
			(void)close(fd);
	}
	(void)fd_close_from(highest + 1);
}

/* Descriptors 0 to 2 are open, so that no other ever gets such a number. */
static int open_standard(void)
{
	int fd;
	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		return -errno;
	/* Nothing is read from outside, and nothing said on stdout. */
	int r = dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 ? -errno : 0;
	(void)close(fd);
	return r;
}

static void set_up_process(void)
{
	(void)setsid();
	(void)umask(022);
	if (getpid() != 1)
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < WANTED_DESCRIPTORS) {
		r.rlim_cur = MIN(r.rlim_max, (rlim_t)WANTED_DESCRIPTORS);
		(void)setrlimit(RLIMIT_NOFILE, &r);
	}
}

static int start(const struct way *w)
{
	int r = open_standard();
	if (r == 0)
		r = config_read(w->config, w->config == w->in, &config);
	if (r < 0)
		return r;
	close_others(w);
	set_up_process();
	r = child_init(&config);
	if (r < 0)
		return r;
	child_features(&config, features);
	jobs_init(&config);
	jobstart_init(&config);
	kernels_init(&config);
	evidence_init(&config);
	workspace_init(&config);
	streams_init(tables);
	r = loop_init();
	if (r == 0)
		r = fd_set_cloexec(w->in, true);
	if (r == 0)
		r = proc_init(&config);
	if (r == 0)
		r = lease_init(&config);
	if (r == 0 && w->listens)
		r = uplink_listen(&config, w->in, features, &link_events);
	else if (r == 0)
		r = uplink_stream(&config, w->in, w->out, features, &link_events);
	return r;
}

static int parse_fd(const char *text)
{
	uint64_t v;
	return str_to_u64(text, INT32_MAX, &v) < 0 ? -1 : (int)v;
}

/* Both descriptors, from whoever listens there. */
static bool fetch(const char *path, struct way *w)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fds[2];
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(fds))];
	} control;
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		recvmsg(fd, &m, MSG_CMSG_CLOEXEC) != 1 ||
		m.msg_controllen < CMSG_LEN(sizeof(fds))) {
		log_error("no broker at %s: %s", path, strerror(errno));
		return false;
	}
	memcpy(fds, CMSG_DATA(&control.align), sizeof(fds));
	w->in = w->out = fds[0];
	w->config = fds[1];
	return true;
}

int main(int argc, char **argv)
{
	/* Before anything else: nobody looks into this process. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	uint64_t leader;
	if (argc == 3 && strcmp(argv[1], "supervise") == 0 &&
		str_to_u64(argv[2], INT32_MAX, &leader) == 0 && leader > 1)
		supervise_adopted((pid_t)leader);
	/* Who read what is said on stderr may be gone. */
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGPIPE, &ignore, NULL);
	struct way w = {.listens = argc == 3 && str_starts(argv[1], "listen:"), .in = -1};
	if (w.listens || (argc == 3 && str_starts(argv[1], "stream:"))) {
		w.in = w.out = parse_fd(strchr(argv[1], ':') + 1);
		w.config = parse_fd(argv[2]);
	} else if (argc == 2 && str_starts(argv[1], "fetch:")) {
		w.listens = true;
		if (!fetch(argv[1] + 6, &w))
			return 1;
	} else if (argc == 2 && strcmp(argv[1], "stdio") == 0) {
		w.in = w.config = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		w.out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	}
	if (w.in <= STDERR_FILENO || w.config <= STDERR_FILENO ||
		(w.in == w.config && w.in == w.out)) {
		(void)fprintf(stderr,
			"usage: scb-agent listen:FD|stream:FD CONFIGFD|fetch:PATH|stdio   (version "
			"%s)\n",
			SCB_VERSION);
		return 2;
	}
	int r = start(&w);
	if (r < 0) {
		log_error("the agent cannot start: %s", strerror(-r));
		return 1;
	}
	loop_run(&hooks);
}
