/* hosted_new.c: what a sandbox needs on this host before its first process starts. See hosted.h. */
#include "provider/hosted.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/str.h"
#include "provider/address.h"

/* tmpfs pages are charged to the code: this much is left for programs when all are full. */
#define MEMORY_BESIDE_TMPFS (64 * MIB)
#define MOUNT_NAME_MAX      64
/* Files looked at on a mount's top level, to warn of those that a root broker's code cannot read.
 */
#define MOUNT_LOOK_MAX 1000

static bool mount_name_valid(const char *name)
{
	size_t n =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
	return n > 0 && n <= MOUNT_NAME_MAX && !name[n] && name[0] != '.';
}

/* The front resolved it, maybe long ago. */
static int check_real(const struct sandbox_mount *m, struct err *err)
{
	_cleanup_close_ int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int fd =
		m->source[0] == '/' && top >= 0
			? fd_open_beneath_no_links(top, m->source + 1, O_PATH | O_DIRECTORY, 0)
			: -ENOTDIR;
	if (fd >= 0)
		return 0;
	return err_set(err, ERR_INVALID_ARGUMENT, ENOTDIR,
		"mount %s: %.300s is not a directory any more, or leads through a link, as it did "
		"not "
		"when scb started: start scb again if it was you who changed it",
		m->name, m->source);
}

int hosted_check_spec(const struct sandbox_spec *s, struct err *err)
{
	if (!id_valid('x', s->id) || !s->runtime_dir || !s->agent_path || !s->kernels_dir)
		return err_set(
			err, ERR_INTERNAL, EINVAL, "the sandbox's description is incomplete");
	if (access(s->agent_path, X_OK) < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, errno,
			"scb-agent is missing (%.200s): build it with `make`, or install scb again",
			s->agent_path);
	if (s->cpus < 1 || s->pids_max < 1 || s->memory_max > INT64_MAX)
		return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"a sandbox needs at least 1 CPU and 1 process");
	uint64_t need = MEMORY_BESIDE_TMPFS;
	const uint64_t sizes[] = {s->workspace_size, s->tmp_size, s->shm_size};
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (sizes[i] == 0 || __builtin_add_overflow(need, sizes[i], &need))
			need = UINT64_MAX;
	if (need > s->memory_max)
		return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"workspace, tmp and shm must be above 0 and, with 64 MiB for programs, fit "
			"in the memory limit of %llu MiB",
			(unsigned long long)(s->memory_max / MIB));
	if (s->n_mounts > LIMIT_MOUNTS)
		return err_set(err, ERR_INVALID_ARGUMENT, E2BIG, "at most %d mounts", LIMIT_MOUNTS);
	for (size_t i = 0; i < s->n_mounts; i++) {
		const struct sandbox_mount *m = &s->mounts[i];
		if (!mount_name_valid(m->name))
			return err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
				"mount name \"%.80s\": letters, digits, '.', '_' and '-' only, not "
				"beginning with '.'",
				m->name);
		int r = check_real(m, err);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Once for each source that a process mounts, however many sandboxes it makes. */
static bool told_already(const char *source)
{
	static char *told[LIMIT_MOUNTS];
	for (size_t i = 0; i < ARRAY_SIZE(told); i++) {
		if (!told[i]) {
			told[i] = xstrdup(source);
			return false;
		}
		if (strcmp(told[i], source) == 0)
			return true;
	}
	return true;
}

/* A root broker's code runs as another uid than the files' owner: without this check a person would
 * first meet it as "Permission denied" inside. Directories above the mounted one do not matter: the
 * launcher stages it. */
int hosted_check_readable(const struct sandbox_mount *m, struct err *err)
{
	struct stat st;
	DIR *d = NULL;
	if (stat(m->source, &st) < 0 || (st.st_mode & 05) != 05 || !(d = opendir(m->source)))
		return err_set(err, ERR_INVALID_ARGUMENT, EACCES,
			"mount %s: sandboxes of a root broker run as an unprivileged user, who may "
			"not read the directory %.200s: run scb as the user who owns it, or mount "
			"a "
			"copy or a directory in it that others may read",
			m->name, m->source);
	unsigned unreadable = 0;
	char first[80] = "";
	struct dirent *e;
	for (int i = 0; i < MOUNT_LOOK_MAX && (e = readdir(d)); i++) {
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			!S_ISREG(st.st_mode) || (st.st_mode & S_IROTH))
			continue;
		if (!unreadable++)
			(void)snprintf(first, sizeof(first), "%.79s", e->d_name);
	}
	(void)closedir(d);
	if (unreadable && !told_already(m->source))
		log_warning("mount %s: code in sandboxes cannot read %u of the files in %.200s "
			    "(%s%s): sandboxes of a root broker run as an unprivileged user",
			m->name, unreadable, m->source, first, unreadable > 1 ? ", …" : "");
	return 0;
}

int hosted_link(struct hosted *h)
{
	int fd = address_connect(h->socket_path, SOCK_STREAM);
	if (fd < 0)
		return fd;
	h->base.link_fd = fd;
	return 0;
}

/* The listening end, for the agent to inherit, and a first connection that waits in its queue. */
static int make_link(struct hosted *h, struct err *err)
{
	int r = h->listen_fd = address_listen(h->socket_path, 0600, HOSTED_BACKLOG);
	if (r >= 0)
		r = hosted_link(h);
	if (r < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, -r,
			"cannot make the sandbox's socket %.300s: %s", h->socket_path,
			strerror(-r));
	return 0;
}

static int make_workdir(struct hosted *h, struct err *err)
{
	if (mkdir(h->workdir, 0700) < 0 ||
		(h->uid.uid && chown(h->workdir, h->uid.uid, h->uid.uid) < 0)) {
		int r = err_set(err, ERR_PROVIDER_UNUSABLE, errno, "cannot make %.300s: %s",
			h->workdir, strerror(errno));
		(void)rmdir(h->workdir);
		free(TAKE_PTR(h->workdir));
		return r;
	}
	return 0;
}

char *hosted_ref(const struct provider *p, const struct sandbox_spec *spec)
{
	return xasprintf("%s %s %s %s", p->name, record_boot_id(), spec->id, spec->runtime_dir);
}

struct hosted *hosted_allocate(const struct hosted_wish *wish, uv_loop_t *loop, const char *id,
	const struct sandbox_events *events, void *user)
{
	struct hosted *h = xcalloc(1, sizeof(*h));
	h->base.provider = wish->provider;
	h->end_tree = wish->end_tree;
	h->base.link_fd = h->listen_fd = h->lifeline_fd = h->pidfd = h->init_pidfd = -1;
	h->stderr_fd = h->info_fd = -1;
	h->loop = loop;
	h->events = *events;
	h->user = user;
	h->id = xstrdup(id);
	h->uid = UID_CLAIM_NONE;
	h->record = RECORD_NONE;
	h->groups = CGROUP_BOX_NONE;
	h->said = BUF_INIT(SAID_MAX);
	h->info = BUF_INIT(INFO_MAX);
	h->kernel_config = BUF_INIT(KERNEL_CONFIG_MAX);
	return h;
}

static int write_down(struct hosted *h, const struct sandbox_spec *spec, struct err *err)
{
	struct record_facts f = {.n_cgroups = h->groups.n_dirs,
		.socket = h->socket_path,
		.workdir = h->workdir,
		.uid = h->uid.uid};
	memcpy(f.cgroups, h->groups.dirs, sizeof(f.cgroups));
	return record_create(spec->runtime_dir, h->id, &f, &h->record, err);
}

static int claim(struct hosted *h, const struct hosted_wish *wish, const struct sandbox_spec *spec,
	struct err *err)
{
	int r = 0;
	if (geteuid() == 0) {
		for (size_t i = 0; r == 0 && i < spec->n_mounts; i++)
			r = hosted_check_readable(&spec->mounts[i], err);
		if (r == 0)
			r = uids_claim(&h->uid, err);
	}
	/* Files that the agent writes into the workspace's tmpfs are charged to the agent. */
	const struct cgroup_limits limits = {.memory = spec->memory_max,
		.agent_memory = LIMIT_AGENT_MEMORY + spec->workspace_size,
		.pids = spec->pids_max,
		.cpus = spec->cpus};
	if (r == 0)
		r = cgroup_box_create(&wish->groups, h->id, &limits, &h->groups, err);
	if (wish->workdir)
		h->workdir = xasprintf("%s/%s.d", spec->runtime_dir, h->id);
	/* Before what it names: this process can be killed at any moment. Groups, whose names only
	 * their making tells, are swept without a record, too. */
	if (r == 0)
		r = write_down(h, spec, err);
	if (r == 0 && wish->workdir)
		r = make_workdir(h, err);
	return r == 0 ? make_link(h, err) : r;
}

int hosted_new(const struct hosted_wish *wish, uv_loop_t *loop, const struct sandbox_spec *spec,
	const struct sandbox_events *events, void *user, struct hosted **ret, struct err *err)
{
	int r = hosted_check_spec(spec, err);
	if (r < 0)
		return r;
	struct hosted *h = hosted_allocate(wish, loop, spec->id, events, user);
	h->socket_path = xasprintf("%s/%s.sock", spec->runtime_dir, spec->id);
	h->base.ref = hosted_ref(wish->provider, spec);
	if (spec->key)
		memcpy(h->base.key, spec->key, sizeof(h->base.key));
	else
		id_random(h->base.key, sizeof(h->base.key));
	r = claim(h, wish, spec, err);
	if (r < 0) {
		hosted_abort(h);
		return r;
	}
	*ret = h;
	return 0;
}
