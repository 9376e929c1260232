/* cgroup.c: the groups of one sandbox. See cgroup.h. */
#include "confine/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define CPU_PERIOD_US 100000

/* A new group, remembered for removal; its directory, or a negative errno. */
static int make_group(struct cgroup_box *b, const char *base, const char *id, const char *suffix)
{
	CHECK(b->n_dirs < CGROUP_DIRS);
	_cleanup_free_ char *path = xasprintf("%s/%s%s", base, id, suffix);
	/* The base is gone when another sandbox, the last in it, was just removed. */
	for (int tries = 0; mkdir(path, 0755) < 0; tries++) {
		int r = -errno;
		if (tries == 3)
			return r;
		if (r == -ENOENT)
			(void)mkdir(base, 0755);
		else if (r != -EEXIST || rmdir(path) < 0) /* of the same sandbox's first try */
			return r;
	}
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd;
	b->dirs[b->n_dirs++] = TAKE_PTR(path);
	return r;
}

/* A v1 memory limit is refused with EINTR where a signal of ours comes in the middle: once more
 * then. */
static int write_text(int dir, const char *name, const char *text)
{
	_cleanup_close_ int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

static int set_u64(int dir, const char *name, uint64_t value)
{
	char text[24];
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return write_text(dir, name, text);
}

/* As set_u64(), but a kernel or machine without that file is fine (no swap, no accounting of it).
 */
static int set_if_there(int dir, const char *name, uint64_t value)
{
	int r = set_u64(dir, name, value);
	return r == -ENOENT ? 0 : r;
}

static int open_file(int dir, const char *name, int flags, int *ret)
{
	*ret = openat(dir, name, flags | O_CLOEXEC);
	return *ret < 0 ? -errno : 0;
}

/* v1: `tasks` and not `cgroup.procs`: a single-threaded process writing "0" there moves itself in
 * 0.03 ms instead of 6 to 14. */
static int v1_join(int dir, int list[CGROUP_JOIN], size_t *n)
{
	int r = open_file(dir, "tasks", O_WRONLY, &list[*n]);
	*n += r == 0;
	return r;
}

#define TRY(call)                                                                                  \
	do {                                                                                       \
		int try_ = (call);                                                                 \
		if (try_ < 0)                                                                      \
			return try_;                                                               \
	} while (0)

static int v1_memory_group(struct cgroup_box *b, const char *base, const char *id,
	const char *suffix, uint64_t bytes, int *ret_dir)
{
	TRY(*ret_dir = make_group(b, base, id, suffix));
	TRY(set_u64(*ret_dir, "memory.limit_in_bytes", bytes));
	return set_if_there(*ret_dir, "memory.memsw.limit_in_bytes", bytes);
}

static int v1_groups(struct cgroup_box *b, const struct cgroup_host *h, const char *id,
	const struct cgroup_limits *l)
{
	if (h->memory == CGROUP_V1) {
		_cleanup_close_ int agent = -1, code = -1;
		TRY(v1_memory_group(b, h->v1_memory, id, ".agent", l->agent_memory, &agent));
		TRY(v1_memory_group(b, h->v1_memory, id, ".code", l->memory, &code));
		TRY(v1_join(agent, b->agent_join, &b->n_agent_join));
		TRY(v1_join(code, b->code_join, &b->n_code_join));
		TRY(open_file(code, "memory.oom_control", O_RDONLY, &b->oom_fd));
		TRY(open_file(code, "memory.usage_in_bytes", O_RDONLY, &b->memory_fd));
	}
	if (h->pids == CGROUP_V1) {
		_cleanup_close_ int code = -1;
		TRY(code = make_group(b, h->v1_pids, id, ".code"));
		TRY(set_u64(code, "pids.max", l->pids));
		TRY(v1_join(code, b->code_join, &b->n_code_join));
		TRY(open_file(code, "pids.events", O_RDONLY, &b->pids_events_fd));
		TRY(open_file(code, "pids.current", O_RDONLY, &b->pids_fd));
	}
	if (h->cpu == CGROUP_V1) {
		_cleanup_close_ int code = -1;
		TRY(code = make_group(b, h->v1_cpu, id, ".code"));
		TRY(set_u64(code, "cpu.cfs_quota_us", (uint64_t)l->cpus * CPU_PERIOD_US));
		TRY(v1_join(code, b->code_join, &b->n_code_join));
	}
	return 0;
}

static int v2_memory(int dir, uint64_t bytes)
{
	TRY(set_u64(dir, "memory.max", bytes));
	return set_if_there(dir, "memory.swap.max", 0);
}

/* The sandbox's group with `agent` and `code` in it. */
static int v2_limited(
	struct cgroup_box *b, const struct cgroup_host *h, int top, const struct cgroup_limits *l)
{
	char on[64];
	(void)snprintf(on, sizeof(on), "%s %s %s", h->memory == CGROUP_V2 ? "+memory" : "",
		h->pids == CGROUP_V2 ? "+pids" : "", h->cpu == CGROUP_V2 ? "+cpu" : "");
	TRY(write_text(top, "cgroup.subtree_control", on));
	_cleanup_free_ char *base = xstrdup(b->dirs[b->n_dirs - 1]);
	_cleanup_close_ int code = -1;
	TRY(b->v2_fd = make_group(b, base, "agent", ""));
	TRY(code = make_group(b, base, "code", ""));
	if (h->memory == CGROUP_V2) {
		TRY(v2_memory(b->v2_fd, l->agent_memory));
		TRY(v2_memory(code, l->memory));
		TRY(open_file(code, "memory.events", O_RDONLY, &b->oom_fd));
		TRY(open_file(code, "memory.current", O_RDONLY, &b->memory_fd));
	}
	if (h->pids == CGROUP_V2) {
		TRY(set_u64(code, "pids.max", l->pids));
		TRY(open_file(code, "pids.events", O_RDONLY, &b->pids_events_fd));
		TRY(open_file(code, "pids.current", O_RDONLY, &b->pids_fd));
	}
	if (h->cpu == CGROUP_V2) {
		char quota[48];
		(void)snprintf(quota, sizeof(quota), "%llu %d",
			(unsigned long long)l->cpus * CPU_PERIOD_US, CPU_PERIOD_US);
		TRY(write_text(code, "cpu.max", quota));
	}
	/* The agent, in namespaces of its own, moves its children with this descriptor: the kernel
	 * looks at the rights and the cgroup namespace of who opened it (CVE-2021-4197: Linux
	 * 5.16, 5.15.14, 5.10.111). */
	TRY(open_file(code, "cgroup.procs", O_WRONLY, &b->code_join[b->n_code_join]));
	b->n_code_join++;
	return 0;
}

static int v2_groups(struct cgroup_box *b, const struct cgroup_host *h, const char *id,
	const struct cgroup_limits *l)
{
	_cleanup_close_ int top = -1;
	TRY(top = make_group(b, h->v2, id, ""));
	if (h->kill)
		b->kill_path = xasprintf("%s/cgroup.kill", b->dirs[b->n_dirs - 1]);
	if (h->v2_controllers)
		return v2_limited(b, h, top, l);
	/* For cgroup.kill alone: agent and code together. */
	b->v2_fd = TAKE_FD(top);
	return 0;
}

int cgroup_box_create(const struct cgroup_host *h, const char *id, const struct cgroup_limits *l,
	struct cgroup_box *ret, struct err *err)
{
	struct cgroup_box b = CGROUP_BOX_NONE;
	int r = v1_groups(&b, h, id, l);
	if (r == 0 && h->v2)
		r = v2_groups(&b, h, id, l);
	if (r < 0) {
		(void)cgroup_box_remove(&b);
		cgroup_box_done(&b);
		return err_set(err, ERR_PROVIDER_UNUSABLE, -r,
			"cannot make the sandbox's control groups: %s", strerror(-r));
	}
	*ret = b;
	return 0;
}

void cgroup_box_found(char *const *dirs, size_t n, struct cgroup_box *ret)
{
	*ret = CGROUP_BOX_NONE;
	for (size_t i = 0; i < n && i < CGROUP_DIRS; i++) {
		ret->dirs[ret->n_dirs++] = xstrdup(dirs[i]);
		/* Only v2 has it; the sandbox's own group comes before those in it. */
		_cleanup_free_ char *path = xasprintf("%s/cgroup.kill", dirs[i]);
		if (!ret->kill_path && access(path, W_OK) == 0)
			ret->kill_path = TAKE_PTR(path);
	}
}

int cgroup_box_kill(const struct cgroup_box *b)
{
	if (!b->kill_path)
		return -ENOSYS;
	_cleanup_close_ int fd = open(b->kill_path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fd_write_full(fd, "1", 1);
}

int cgroup_remove_group(const char *dir)
{
	if (rmdir(dir) < 0 && errno != ENOENT)
		return -errno;
	/* v1 (the name has a dot): the last one takes the base along, so that whoever owns the
	 * group above can remove that. */
	const char *slash = strrchr(dir, '/');
	if (slash && strchr(slash, '.')) {
		_cleanup_free_ char *base = xstrndup(dir, (size_t)(slash - dir));
		(void)rmdir(base);
	}
	return 0;
}

int cgroup_box_remove(struct cgroup_box *b)
{
	while (b->n_dirs) {
		int r = cgroup_remove_group(b->dirs[b->n_dirs - 1]);
		if (r < 0)
			return r;
		free(b->dirs[--b->n_dirs]);
		b->dirs[b->n_dirs] = NULL;
	}
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);
	return n >= m && strcmp(s + n - m, end) == 0;
}

int cgroup_box_open(const struct cgroup_box *b, bool code, int ret_join[static CGROUP_JOIN])
{
	int n = 0, r = 0;
	for (size_t i = 0; r == 0 && i < b->n_dirs; i++) {
		/* How make_group() names them; a group for cgroup.kill alone is not joined late,
		 * which would cost more than all the rest: the PID namespace ends it, too. */
		bool v1 = ends_with(b->dirs[i], code ? ".code" : ".agent");
		bool v2 = ends_with(b->dirs[i], code ? "/code" : "/agent");
		if (!v1 && !v2)
			continue;
		_cleanup_free_ char *path =
			xasprintf("%s/%s", b->dirs[i], v1 ? "tasks" : "cgroup.procs");
		CHECK(n < CGROUP_JOIN);
		r = open_file(AT_FDCWD, path, O_WRONLY, &ret_join[n]);
		n += r == 0;
	}
	while (r < 0 && n)
		fd_closep(&ret_join[--n]);
	return r < 0 ? r : n;
}

void cgroup_box_close(struct cgroup_box *b)
{
	for (size_t i = 0; i < CGROUP_JOIN; i++) {
		fd_closep(&b->agent_join[i]);
		fd_closep(&b->code_join[i]);
	}
	b->n_agent_join = b->n_code_join = 0;
	fd_closep(&b->v2_fd);
	fd_closep(&b->oom_fd);
	fd_closep(&b->pids_events_fd);
	fd_closep(&b->memory_fd);
	fd_closep(&b->pids_fd);
}

void cgroup_box_done(struct cgroup_box *b)
{
	cgroup_box_close(b);
	for (size_t i = 0; i < b->n_dirs; i++)
		free(b->dirs[i]);
	free(b->kill_path);
	*b = CGROUP_BOX_NONE;
}
