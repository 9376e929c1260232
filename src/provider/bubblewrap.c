/* bubblewrap.c: the embedded default: namespaces by bubblewrap, the agent as PID 1 in them, code in
 * a user namespace below, under a seccomp filter and control groups. No image, daemon or root. */
#include "provider/bubblewrap.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "provider/boot.h"
#include "provider/bwrap_args.h"
#include "provider/hosted.h"
#include "provider/probe.h"

/* Inside the sandbox. */
#define AGENT     "/.scb/scb-agent"
#define KERNELS   "/.scb/kernels"
#define WORKSPACE "/workspace"
#define MNT       "/mnt"
#define EMPTY     "/.scb/empty"

const char *bubblewrap_program(void)
{
	static const char *const places[] = {
		"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"};
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	return NULL;
}

/* Asked for with every call; the broker's own uid stays what it is. */
static bool is_root(void)
{
	static int root = -1;
	if (root < 0)
		root = geteuid() == 0;
	return root;
}

static void capabilities(const struct sandbox_spec *spec, struct capabilities *ret)
{
	(void)spec;
	static const char *const kinds[] = {
		[CGROUP_NONE] = "none", [CGROUP_V1] = "cgroup1", [CGROUP_V2] = "cgroup2"};
	const struct cgroup_host *h = cgroup_host();
	*ret = (struct capabilities){
		.isolation_level = "container",
		.memory = h->memory ? kinds[h->memory] : CAPABILITY_RLIMIT_MEMORY,
		.pids = h->pids ? kinds[h->pids] : "rlimit",
		.cpu = kinds[h->cpu],
		.disk = "tmpfs",
		.inodes = h->memory ? "memory" : "none",
		.kill_tree = h->kill ? "cgroup.kill" : "pid1",
		.egress = "none: no network device",
		.agent_apart = "user namespace",
		.seccomp = "allow-list",
		.read_only_root = "yes",
		.host_uid = is_root() ? "dedicated" : "own",
	};
}

static int prepare(
	struct hosted *h, const struct sandbox_spec *spec, struct launch *l, struct err *err)
{
	const struct cgroup_host *host = cgroup_host();
	struct boot b = {
		.spec = spec,
		.workspace = WORKSPACE,
		.tmp = "/tmp",
		.mnt = MNT,
		.empty = EMPTY,
		/* Not CONFINE_LANDLOCK: signals and abstract sockets stay within the PID and the
		 * network namespace anyway, and a kernel that is forked from a template cannot
		 * enter a domain that is already there, so that neither the agent nor a later
		 * command could signal what it starts. */
		.confine = CONFINE_NESTED_USERNS | CONFINE_SECCOMP | CONFINE_NO_NEW_PRIVS |
			   CONFINE_WRITES,
		.rlimit_data = host->memory ? 0 : spec->memory_max,
		/* The agent counts too. */
		.rlimit_nproc = host->pids ? 0 : spec->pids_max + 1,
		.memory_max = host->memory ? spec->memory_max : 0,
		.pids_max = spec->pids_max,
	};
	return hosted_prepare(h, &b, l, err);
}

static int arguments(struct bwrap_args *a, const struct sandbox_spec *spec, struct launch *l,
	int info_write, struct err *err)
{
	bwrap_add(a, "bwrap", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net",
		"--unshare-uts", "--unshare-cgroup-try", "--uid", "0", "--gid", "0", "--as-pid-1",
		"--clearenv", "--new-session", "--hostname", "sandbox", NULL);
	/* The one capability that the agent needs: to give its children a namespace that maps its
	 * own uid, which is 0 in this one (user_namespaces(7), since Linux 5.12). */
	bwrap_add(a, "--cap-drop", "ALL", "--cap-add", "CAP_SETFCAP", NULL);
	bwrap_add_number(a, "--info-fd", launch_give(l, info_write));
	int r = bwrap_add_system(a, l, spec->root, err);
	if (r < 0)
		return r;
	bwrap_add_tmpfs(a, "/dev/shm", spec->shm_size);
	bwrap_add(a, "--remount-ro", "/dev", NULL);
	bwrap_add_tmpfs(a, "/tmp", spec->tmp_size);
	bwrap_add_tmpfs(a, WORKSPACE, spec->workspace_size);
	bwrap_add_dir(a, "/.scb");
	bwrap_add_dir(a, EMPTY);
	bwrap_add(a, "--ro-bind", launch_see(l, spec->agent_path, false, false), AGENT, NULL);
	bwrap_add(a, "--ro-bind", launch_see(l, spec->kernels_dir, true, false), KERNELS, NULL);
	bwrap_add_dir(a, MNT);
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct sandbox_mount *m = &spec->mounts[i];
		_cleanup_free_ char *target = xasprintf(MNT "/%s", m->name);
		bwrap_add(a, "--ro-bind", launch_see_mount(l, m->source), target, NULL);
	}
	bwrap_add(
		a, "--remount-ro", "/", "--chdir", WORKSPACE, "--", AGENT, HOSTED_AGENT_ARGS, NULL);
	return 0;
}

/* The agent shows mounts to code through overlays (BOOT_EMPTY), and the kernel lets no user
 * namespace lay one over a folder with something mounted in it. */
static int check_mounts(const struct sandbox_spec *spec, struct err *err)
{
	FILE *f = spec->n_mounts ? setmntent("/proc/self/mounts", "re") : NULL;
	char text[4 * LIMIT_PATH];
	struct mntent entry;
	int r = 0;
	while (f && r == 0 && getmntent_r(f, &entry, text, sizeof(text))) {
		for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
			const struct sandbox_mount *m = &spec->mounts[i];
			const char *source = strcmp(m->source, "/") == 0 ? "" : m->source;
			if (str_starts(entry.mnt_dir, source) &&
				entry.mnt_dir[strlen(source)] == '/' &&
				entry.mnt_dir[strlen(source) + 1])
				r = err_set(err, ERR_INVALID_ARGUMENT, EXDEV,
					"mount %s: in %.200s another file system is mounted, at "
					"%.200s; mount folders that lie in one file system",
					m->name, m->source, entry.mnt_dir);
		}
	}
	if (f)
		(void)endmntent(f);
	return r;
}

/* From a made host side to a running process. On failure h is freed. */
static int start(struct hosted *h, const struct sandbox_spec *spec, struct err *err)
{
	static char *const no_env[] = {NULL};
	struct launch l = {0};
	CLEANUP(bwrap_args_done) struct bwrap_args args = {.n = 0};
	int info[2] = {-1, -1};
	int r = prepare(h, spec, &l, err);
	if (r == 0 && pipe2(info, O_CLOEXEC) < 0)
		r = err_set(err, ERR_INTERNAL, errno, "pipe: %s", strerror(errno));
	if (r == 0)
		r = arguments(&args, spec, &l, info[1], err);
	if (r == 0) {
		/* The reading end too, which the agent closes: where the broker dies now, writing
		 * to the pipe would end bubblewrap, and its child would wait for it forever. */
		(void)launch_give(&l, info[0]);
		l.program = bubblewrap_program();
		l.argv = args.v;
		l.env = no_env;
		r = hosted_start(h, &l, TAKE_FD(info[0]), err);
	} else {
		hosted_abort(h);
	}
	fd_closep(&info[0]);
	fd_closep(&info[1]);
	launch_done(&l);
	return r;
}

static int create(uv_loop_t *loop, const struct sandbox_spec *spec,
	const struct sandbox_events *events, void *user, struct sandbox **ret, struct err *err)
{
	if (!bubblewrap_program())
		return err_set(err, ERR_PROVIDER_UNUSABLE, ENOENT,
			"bubblewrap is not installed: sudo apt install bubblewrap");
	const struct hosted_wish wish = {
		.provider = &provider_bubblewrap, .groups = *cgroup_host()};
	struct hosted *h = NULL;
	int r = check_mounts(spec, err);
	if (r < 0)
		return r;
	r = hosted_new(&wish, loop, spec, events, user, &h, err);
	if (r < 0)
		return r;
	h->base.kernels_dir = xstrdup(KERNELS);
	h->agent = xstrdup(AGENT);
	h->base.workspace = xstrdup(WORKSPACE);
	capabilities(spec, &h->base.caps);
	r = start(h, spec, err);
	if (r == 0)
		*ret = &h->base;
	return r;
}

static char *ref(const struct sandbox_spec *spec)
{
	return hosted_ref(&provider_bubblewrap, spec);
}

static int connect_to(uv_loop_t *loop, const char *to, const struct sandbox_events *events,
	void *user, struct sandbox **ret, struct err *err)
{
	static const struct hosted_wish wish = {.provider = &provider_bubblewrap};
	return hosted_connect(&wish, loop, to, events, user, ret, err);
}

static int probe(struct provider_probe *ret, struct err *err)
{
	return probe_hosted(&provider_bubblewrap, ret, err);
}

const struct provider provider_bubblewrap = {
	.name = "bubblewrap",
	.probe = probe,
	.create = create,
	.ref = ref,
	.connect = connect_to,
	.leave = hosted_leave,
	.destroy = hosted_destroy,
	.fork_kernel = hosted_fork_kernel,
	.capabilities = capabilities,
};
