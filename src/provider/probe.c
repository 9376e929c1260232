/* probe.c: see probe.h. */
#include "provider/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/str.h"
#include "provider/bubblewrap.h"
#include "wire/frame.h"

struct probing {
	uv_loop_t loop;
	uv_poll_t link;
	uv_timer_t timer;
	struct sandbox *sandbox;
	uint8_t nonce[AUTH_NONCE];
	uint8_t key[AUTH_KEY];
	int fd;
	struct buf in;
	bool answered;
	struct err why;
	char leftovers[200];
};

static void give_up(struct probing *p, const char *why)
{
	if (!p->why.code)
		(void)err_set(&p->why, ERR_PROVIDER_UNUSABLE, EPROTO, "%s", why);
	uv_stop(&p->loop);
}

static void on_exited(void *user, const struct err *why)
{
	struct probing *p = user;
	p->why = *why;
	uv_stop(&p->loop);
}

static void on_timeout(uv_timer_t *t)
{
	give_up(t->data, "a sandbox starts, but its agent did not answer in 20 seconds: is the "
			 "machine overloaded?");
}

static void check_proof(struct probing *p, const struct frame *f)
{
	uint8_t mac[SHA256_SIZE];
	if (f->type != FRAME_PROOF || f->len != AUTH_PROOF) {
		give_up(p, "the sandbox's agent answered out of protocol: do scb and scb-agent "
			   "belong together?");
		return;
	}
	auth_agent_mac(p->key, p->nonce, f->payload, mac);
	p->answered = id_equal(mac, f->payload + AUTH_NONCE, sizeof(mac));
	if (!p->answered)
		give_up(p, "the sandbox's agent does not know its key");
	uv_stop(&p->loop);
}

static void on_link(uv_poll_t *poll, int status, int events)
{
	(void)events;
	struct probing *p = poll->data;
	struct frame f;
	CHECK(buf_reserve(&p->in, 512) == 0);
	ssize_t n = status < 0 ? -1 : read(p->fd, p->in.data + p->in.len, 512);
	if (n <= 0) {
		/* The reason comes with on_exited(). */
		if (n == 0 || errno != EAGAIN)
			(void)uv_poll_stop(poll);
		return;
	}
	p->in.len += (size_t)n;
	ssize_t size = frame_parse(p->in.data, p->in.len, &f);
	if (size < 0 || (size == 0 && p->in.len > FRAME_HEADER + AUTH_PROOF))
		give_up(p, "the sandbox's agent answered out of protocol");
	else if (size > 0)
		check_proof(p, &f);
}

static int challenge(struct probing *p)
{
	uint8_t payload[AUTH_CHALLENGE];
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	id_random(p->nonce, sizeof(p->nonce));
	memcpy(payload, auth_sync, AUTH_SYNC);
	memcpy(payload + AUTH_SYNC, p->nonce, AUTH_NONCE);
	int r = frame_append(&b, FRAME_CHALLENGE, 0, 0, payload, sizeof(payload));
	/* Fits any socket buffer. */
	return r < 0 ? r : fd_write_full(p->fd, b.data, b.len);
}

static void on_destroyed(void *user, const char *leftovers)
{
	struct probing *p = user;
	if (leftovers)
		str_copy(p->leftovers, sizeof(p->leftovers), leftovers);
	uv_stop(&p->loop);
}

static void run(struct probing *p)
{
	p->fd = TAKE_FD(p->sandbox->link_fd);
	memcpy(p->key, p->sandbox->key, sizeof(p->key));
	p->link.data = p->timer.data = p;
	bool watched = uv_poll_init(&p->loop, &p->link, p->fd) == 0;
	CHECK(uv_timer_init(&p->loop, &p->timer) == 0);
	(void)uv_timer_start(&p->timer, on_timeout, LIMIT_HELLO_US / USEC_PER_MSEC, 0);
	if (watched && challenge(p) == 0) {
		(void)uv_poll_start(&p->link, UV_READABLE, on_link);
		(void)uv_run(&p->loop, UV_RUN_DEFAULT);
	}
	if (watched)
		uv_close((uv_handle_t *)&p->link, NULL);
	uv_close((uv_handle_t *)&p->timer, NULL);
	p->sandbox->provider->destroy(TAKE_PTR(p->sandbox), on_destroyed, p);
	(void)uv_run(&p->loop, UV_RUN_DEFAULT); /* until destroyed */
	(void)uv_run(&p->loop, UV_RUN_DEFAULT); /* handles that are still closing */
	fd_closep(&p->fd);
}

/* Beside this program (a build directory), else where `make install` puts it: SCB_LIBEXECDIR, from
 * the program's folder where it is relative. */
char *provider_beside(const char *name)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[n > 0 ? n : 0] = '\0';
	char *slash = strrchr(exe, '/');
	if (slash)
		*slash = '\0';
	char *path = xasprintf("%s/%s", exe, name);
	if (access(path, F_OK) == 0)
		return path;
	free(path);
	_cleanup_free_ char *place = SCB_LIBEXECDIR[0] == '/'
					     ? xstrdup(SCB_LIBEXECDIR)
					     : xasprintf("%s/%s", exe, SCB_LIBEXECDIR);
	/* without "..": sandboxes are told of it */
	char *real = realpath(place, NULL);
	path = xasprintf("%s/%s", real ? real : place, name);
	free(real);
	return path;
}

char *provider_agent_path(void)
{
	const char *set = getenv("SCB_AGENT");
	return set ? xstrdup(set) : provider_beside("scb-agent");
}

char *provider_kernels_dir(void)
{
	const char *set = getenv("SCB_KERNELS");
	return set ? xstrdup(set) : provider_beside("kernels");
}

/* First line of `bwrap --version`, or "". */
static void bubblewrap_version(char *ret, size_t size)
{
	char *const argv[] = {"bwrap", "--version", NULL};
	char *const env[] = {NULL};
	int fds[2];
	pid_t pid = 0;
	posix_spawn_file_actions_t actions;
	ret[0] = '\0';
	if (!bubblewrap_program() || pipe2(fds, O_CLOEXEC) < 0)
		return;
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	int r = posix_spawn(&pid, bubblewrap_program(), &actions, NULL, argv, env);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(fds[1]);
	ssize_t n = r ? 0 : read(fds[0], ret, size - 1);
	ret[n > 0 ? n : 0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	(void)close(fds[0]);
	while (r == 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void say_usable(
	const struct provider *p, const struct sandbox_spec *spec, struct provider_probe *ret)
{
	struct capabilities c;
	char version[64] = "";
	if (p == &provider_bubblewrap)
		bubblewrap_version(version, sizeof(version));
	p->capabilities(spec, &c);
	ret->usable = true;
	(void)snprintf(ret->reason, sizeof(ret->reason),
		"%s%sisolation: %s; memory: %s, processes: %s, cpu: %s, disk: %s; network: %s; "
		"system calls: %s; agent apart from code: %s; host uid: %s",
		version, version[0] ? "; " : "", c.isolation_level, c.memory, c.pids, c.cpu, c.disk,
		c.egress, c.seccomp, c.agent_apart, c.host_uid);
}

int probe_hosted(const struct provider *p, struct provider_probe *ret, struct err *err)
{
	char dir[] = "/tmp/scb-probe-XXXXXX", id[ID_TEXT_SIZE];
	_cleanup_free_ char *agent = provider_agent_path();
	_cleanup_free_ char *kernels = provider_kernels_dir();
	id_new('x', id);
	*ret = (struct provider_probe){0};
	if (access(agent, X_OK) < 0) {
		(void)snprintf(ret->reason, sizeof(ret->reason),
			"scb-agent is missing (%.200s): build it with `make`, or install scb again",
			agent);
		return 0;
	}
	if (!mkdtemp(dir))
		return err_set(err, ERR_INTERNAL, errno, "mkdtemp %s: %s", dir, strerror(errno));
	const struct sandbox_spec spec = {
		.id = id,
		.runtime_dir = dir,
		.agent_path = agent,
		.kernels_dir = kernels,
		.memory_max = DEFAULT_MEMORY,
		.workspace_size = DEFAULT_WORKSPACE,
		.tmp_size = DEFAULT_TMP,
		.shm_size = DEFAULT_SHM,
		.cpus = DEFAULT_CPUS,
		.pids_max = DEFAULT_PIDS,
	};
	const struct sandbox_events events = {.exited = on_exited};
	struct probing probing = {.fd = -1, .in = BUF_INIT(4 * KIB)};
	CHECK(uv_loop_init(&probing.loop) == 0);
	int r = p->create(&probing.loop, &spec, &events, &probing, &probing.sandbox, &probing.why);
	if (r == 0)
		run(&probing);
	(void)uv_loop_close(&probing.loop);
	buf_done(&probing.in);
	(void)rmdir(dir);
	if (probing.answered && !probing.leftovers[0])
		say_usable(p, &spec, ret);
	else
		(void)snprintf(ret->reason, sizeof(ret->reason), "%.270s%s",
			probing.answered ? "leaves things behind: " : probing.why.text,
			probing.leftovers);
	return 0;
}
