/* local.c: a plain subprocess: scaffolding for tests and for machines with nothing better, never
 * chosen by itself, not a boundary, and its capabilities say so.
 *
 * A root broker's sandbox still runs as an unprivileged uid of its own; an ordinary user's as that
 * user. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "provider/boot.h"
#include "provider/hosted.h"
#include "provider/probe.h"
#include "provider/process.h"

/* A storm of forks is met by stopping first; what still lives after so many rounds is reported by
 * the groups or by nobody: not a boundary. */
#define KILL_ROUNDS 64

static void capabilities(const struct sandbox_spec *spec, struct capabilities *ret)
{
	(void)spec;
	bool root = geteuid() == 0;
	*ret = (struct capabilities){
		.isolation_level = "subprocess",
		.memory = CAPABILITY_RLIMIT_MEMORY,
		/* Counted per uid on the host: an ordinary user's own programs are in it. */
		.pids = root ? "rlimit" : "none",
		.cpu = "none",
		.disk = "none",
		.inodes = "none",
		.kill_tree = cgroup_host()->kill ? "cgroup.kill" : "subreaper",
		.egress = "not enforced",
		.agent_apart = "not enforced",
		.seccomp = "not enforced",
		.read_only_root = "not enforced",
		.host_uid = root ? "dedicated" : "own",
	};
}

/* ---- the tree ---- */

/* Kills the living descendants of root; how many there were. */
static size_t kill_descendants(pid_t root)
{
	_cleanup_free_ struct process *all = NULL;
	size_t n = process_list(&all), killed = 0;
	_cleanup_free_ bool *ours = xcalloc(n, sizeof(*ours));
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < n; i++) {
			bool child = all[i].parent == root;
			for (size_t k = 0; !child && k < n; k++)
				child = ours[k] && all[k].pid == all[i].parent;
			if (child && !ours[i])
				more = ours[i] = true;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (ours[i] && !all[i].dead)
			killed += kill(all[i].pid, SIGKILL) == 0;
	return killed;
}

/* Everything of the sandbox's own uid at once: a helper becomes it and signals all that it may. */
static void kill_uid(uid_t uid)
{
	pid_t pid = fork();
	if (pid == 0) {
		if (syscall(SYS_setresuid, uid, uid, uid) == 0)
			(void)kill(-1, SIGKILL);
		_exit(0);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void end_tree(struct hosted *h)
{
	if (h->uid.uid) {
		kill_uid(h->uid.uid);
		return;
	}
	if (cgroup_box_kill(&h->groups) == 0 || h->exited)
		return;
	/* The agent adopts what its descendants orphan, so none escapes while it is held. */
	(void)process_signal(h->pidfd, SIGSTOP);
	for (int i = 0; i < KILL_ROUNDS && kill_descendants(h->pid) > 0; i++)
		;
}

/* ---- creating ---- */

static int make_inner(const struct hosted *h, const char *name, char **ret, struct err *err)
{
	*ret = xasprintf("%s/%s", h->workdir, name);
	if (mkdir(*ret, 0700) < 0 || (h->uid.uid && chown(*ret, h->uid.uid, h->uid.uid) < 0))
		return err_set(err, ERR_PROVIDER_UNUSABLE, errno, "cannot make %.300s: %s", *ret,
			strerror(errno));
	return 0;
}

/* What the code sees is by real path, or staged for a root broker's uid. */
static int start(struct hosted *h, const struct sandbox_spec *spec, struct err *err)
{
	static char *const no_env[] = {NULL};
	_cleanup_free_ char *workspace = NULL, *tmp = NULL;
	struct launch l = {.uid = h->uid.uid};
	struct sandbox_mount seen[LIMIT_MOUNTS];
	struct sandbox_spec inside = *spec;
	int r = make_inner(h, "workspace", &workspace, err);
	if (r == 0)
		r = make_inner(h, "tmp", &tmp, err);
	if (r < 0) {
		hosted_abort(h);
		return r;
	}
	const char *const argv[] = {
		launch_see(&l, spec->agent_path, false, false), HOSTED_AGENT_ARGS, NULL};
	h->base.kernels_dir = xstrdup(launch_see(&l, spec->kernels_dir, true, false));
	h->base.workspace = xstrdup(launch_see(&l, workspace, true, true));
	for (size_t i = 0; i < spec->n_mounts; i++)
		seen[i] = (struct sandbox_mount){
			spec->mounts[i].name, launch_see_mount(&l, spec->mounts[i].source)};
	inside.mounts = seen;
	struct boot b = {
		.spec = &inside,
		.workspace = h->base.workspace,
		.tmp = launch_see(&l, tmp, true, true),
		.confine = CONFINE_NO_NEW_PRIVS | CONFINE_LANDLOCK,
		.rlimit_data = spec->memory_max,
		.rlimit_nproc = h->uid.uid ? spec->pids_max + 1 : 0,
		.pids_max = h->uid.uid ? spec->pids_max : 0,
	};
	r = hosted_prepare(h, &b, &l, err);
	if (r == 0) {
		l.program = argv[0];
		l.argv = (char *const *)argv;
		l.env = no_env;
		l.reaper = true;
		r = hosted_start(h, &l, -1, err);
	} else {
		hosted_abort(h);
	}
	launch_done(&l);
	return r;
}

static int create(uv_loop_t *loop, const struct sandbox_spec *spec,
	const struct sandbox_events *events, void *user, struct sandbox **ret, struct err *err)
{
	/* A group for cgroup.kill, where there is that; no limits by groups. */
	const struct hosted_wish wish = {
		.provider = &provider_local,
		.groups = {.v2 = cgroup_host()->v2, .kill = cgroup_host()->kill},
		.workdir = true,
		.end_tree = end_tree,
	};
	struct hosted *h = NULL;
	if (spec->root)
		return err_set(err, ERR_PROVIDER_UNUSABLE, ENOTSUP,
			"the provider local runs code in this host's system and has no place for "
			"an "
			"image: leave --image out, or use bubblewrap");
	int r = hosted_new(&wish, loop, spec, events, user, &h, err);
	if (r < 0)
		return r;
	capabilities(spec, &h->base.caps);
	r = start(h, spec, err);
	if (r == 0)
		*ret = &h->base;
	return r;
}

static char *ref(const struct sandbox_spec *spec)
{
	return hosted_ref(&provider_local, spec);
}

static int connect_to(uv_loop_t *loop, const char *to, const struct sandbox_events *events,
	void *user, struct sandbox **ret, struct err *err)
{
	static const struct hosted_wish wish = {.provider = &provider_local, .end_tree = end_tree};
	return hosted_connect(&wish, loop, to, events, user, ret, err);
}

static int probe(struct provider_probe *ret, struct err *err)
{
	return probe_hosted(&provider_local, ret, err);
}

const struct provider provider_local = {
	.name = "local",
	.probe = probe,
	.create = create,
	.ref = ref,
	.connect = connect_to,
	.leave = hosted_leave,
	.destroy = hosted_destroy,
	.capabilities = capabilities,
};
