/* record.c: see record.h. */
#include "provider/record.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "confine/uids.h"
#include "provider/docker_engine.h"
#include "provider/process.h"

#define RECORD_SUFFIX ".box"
/* Longer than an engine takes to make a container. */
#define CONTAINER_FRESH_S 20
#define RECORD_MAX        (64 * KIB) /* some ten paths */

/* The members of struct capabilities. */
static const struct {
	const char *key;
	size_t offset;
} capability_keys[] = {
	{"isolation_level", offsetof(struct capabilities, isolation_level)},
	{"memory", offsetof(struct capabilities, memory)},
	{"pids", offsetof(struct capabilities, pids)},
	{"cpu", offsetof(struct capabilities, cpu)},
	{"disk", offsetof(struct capabilities, disk)},
	{"inodes", offsetof(struct capabilities, inodes)},
	{"kill_tree", offsetof(struct capabilities, kill_tree)},
	{"egress", offsetof(struct capabilities, egress)},
	{"agent_apart", offsetof(struct capabilities, agent_apart)},
	{"seccomp", offsetof(struct capabilities, seccomp)},
	{"read_only_root", offsetof(struct capabilities, read_only_root)},
	{"host_uid", offsetof(struct capabilities, host_uid)},
};
static_assert(sizeof(struct capabilities) == ARRAY_SIZE(capability_keys) * sizeof(char *),
	"a capability is missing in the record");

static const char **capability(struct capabilities *c, size_t i)
{
	return (const char **)((char *)c + capability_keys[i].offset);
}

const char *record_boot_id(void)
{
	static char id[40];
	if (!id[0]) {
		_cleanup_close_ int fd =
			open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, id, sizeof(id) - 1);
		id[n > 0 ? (size_t)n : 0] = '\0';
		id[strcspn(id, "\n")] = '\0';
		if (!id[0])
			id[0] = '-';
	}
	return id;
}

/* ---- writing ---- */

static int line(struct buf *b, const char *key, const char *value)
{
	if (value && strchr(value, '\n'))
		return -EINVAL;
	return value ? buf_printf(b, "%s %s\n", key, value) : 0;
}

static int write_record(int fd, const struct record_facts *f)
{
	_cleanup_buf_ struct buf b = BUF_INIT(RECORD_MAX);
	int r = line(&b, "boot", record_boot_id());
	if (r == 0 && f->uid)
		r = buf_printf(&b, "uid %u\n", (unsigned)f->uid);
	for (size_t i = 0; r == 0 && i < f->n_cgroups; i++)
		r = line(&b, "cgroup", f->cgroups[i]);
	if (r == 0)
		r = line(&b, "socket", f->socket);
	if (r == 0)
		r = line(&b, "workdir", f->workdir);
	if (r == 0)
		r = line(&b, "endpoint", f->endpoint);
	if (r == 0)
		r = line(&b, "container", f->container);
	return r < 0 ? r : fd_write_full(fd, b.data, b.len);
}

int record_create(const char *dir, const char *id, const struct record_facts *f, struct record *ret,
	struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/%s" RECORD_SUFFIX, dir, id);
	/* Locked before it has a name, so that no sweep takes it for a dead one's. */
	_cleanup_close_ int guard = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	_cleanup_close_ int shared = -1;
	int r = guard < 0 ? -errno : write_record(guard, f);
	char self[32];
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", guard);
	/* Read-only: the sandbox inherits it. */
	if (r == 0 && (shared = open(self, O_RDONLY | O_CLOEXEC)) < 0)
		r = -errno;
	if (r == 0 && (flock(guard, LOCK_SH) < 0 || flock(shared, LOCK_SH) < 0))
		r = -errno;
	if (r == 0 && linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, -r,
			"cannot write the sandbox's record in %.200s: %s", dir, strerror(-r));
	*ret = (struct record){TAKE_PTR(path), TAKE_FD(shared), TAKE_FD(guard)};
	return 0;
}

int record_add_process(struct record *r, const char *key, pid_t pid)
{
	struct process p = {0};
	char text[64];
	(void)process_read(pid, &p);
	int n = snprintf(
		text, sizeof(text), "%s %d %llu\n", key, (int)pid, (unsigned long long)p.start);
	return fd_write_full(r->guard_fd, text, (size_t)n);
}

int record_add_inside(struct record *r, const char *kernels_dir, const char *workspace,
	const struct capabilities *caps)
{
	_cleanup_buf_ struct buf b = BUF_INIT(RECORD_MAX);
	struct capabilities c = *caps;
	int e = line(&b, "kernels", kernels_dir);
	if (e == 0)
		e = line(&b, "workspace", workspace);
	for (size_t i = 0; e == 0 && i < ARRAY_SIZE(capability_keys); i++)
		e = buf_printf(
			&b, "capability %s %s\n", capability_keys[i].key, *capability(&c, i));
	return e < 0 ? e : fd_write_full(r->guard_fd, b.data, b.len);
}

void record_remove(struct record *r)
{
	if (r->path)
		(void)unlink(r->path);
	free(r->path);
	fd_closep(&r->shared_fd);
	fd_closep(&r->guard_fd);
	*r = RECORD_NONE;
}

/* ---- reading ---- */

void record_facts_done(struct record_facts *f)
{
	for (size_t i = 0; i < f->n_cgroups; i++)
		free(f->cgroups[i]);
	free(f->socket);
	free(f->workdir);
	free(f->endpoint);
	free(f->container);
	free(f->kernels_dir);
	free(f->workspace);
	*f = (struct record_facts){0};
}

static void take(char **ret, const char *value)
{
	free(*ret);
	*ret = xstrdup(value);
}

static void take_process(struct record_process *ret, const char *value)
{
	int pid;
	unsigned long long start;
	if (sscanf(value, "%d %llu", &pid, &start) == 2 && pid > 1)
		*ret = (struct record_process){pid, start};
}

/* Only what lies in the runtime directory is ever removed by name. */
static bool in_dir(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	return str_starts(path, dir) && path[n] == '/' && path[n + 1] != '.' &&
	       !strchr(path + n + 1, '/');
}

static void take_line(struct record_facts *f, const char *key, char *value, const char *dir)
{
	uint64_t number;
	if (strcmp(key, "boot") == 0)
		f->same_boot = strcmp(value, record_boot_id()) == 0;
	else if (strcmp(key, "cgroup") == 0 && f->n_cgroups < ARRAY_SIZE(f->cgroups))
		f->cgroups[f->n_cgroups++] = xstrdup(value);
	else if (strcmp(key, "socket") == 0 && in_dir(value, dir))
		take(&f->socket, value);
	else if (strcmp(key, "workdir") == 0 && in_dir(value, dir))
		take(&f->workdir, value);
	else if (strcmp(key, "uid") == 0 && str_to_u64(value, INT32_MAX, &number) == 0)
		f->uid = (uid_t)number;
	else if (strcmp(key, "first") == 0)
		take_process(&f->first, value);
	else if (strcmp(key, "init") == 0)
		take_process(&f->init, value);
	else if (strcmp(key, "endpoint") == 0)
		take(&f->endpoint, value);
	else if (strcmp(key, "container") == 0)
		take(&f->container, value);
	else if (strcmp(key, "kernels") == 0)
		take(&f->kernels_dir, value);
	else if (strcmp(key, "workspace") == 0)
		take(&f->workspace, value);
}

/* Capabilities are texts that nobody frees, and there are few: each is kept once. */
static const char *keep(const char *text)
{
	static char *kept[4 * ARRAY_SIZE(capability_keys)];
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		if (!kept[i])
			kept[i] = xstrdup(text);
		if (strcmp(kept[i], text) == 0)
			return kept[i];
	}
	return "unknown";
}

static void take_capability(struct record_facts *f, char *text)
{
	char *value = strchr(text, ' ');
	if (!value)
		return;
	*value++ = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(capability_keys); i++)
		if (strcmp(text, capability_keys[i].key) == 0)
			*capability(&f->caps, i) = keep(value);
}

static int read_facts(int fd, const char *dir, struct record_facts *ret)
{
	struct record_facts f = {0};
	_cleanup_free_ char *text = xcalloc(1, RECORD_MAX + 1);
	if (pread(fd, text, RECORD_MAX, 0) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(capability_keys); i++)
		*capability(&f.caps, i) = "unknown";
	for (char *rest = text, *l; (l = strsep(&rest, "\n"));) {
		char *value = strchr(l, ' ');
		if (!value || !rest) /* a line without its end was cut off while it was written */
			continue;
		*value++ = '\0';
		if (strcmp(l, "capability") == 0)
			take_capability(&f, value);
		else
			take_line(&f, l, value, dir);
	}
	*ret = f;
	return 0;
}

/* ---- what dead ones left ---- */

/* The agent is dead when this is called; what it left running (without a PID namespace) is killed.
 */
static bool remove_group(const char *dir)
{
	_cleanup_free_ char *kill = xasprintf("%s/cgroup.kill", dir);
	_cleanup_close_ int fd = open(kill, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, "1", 1);
	int r;
	for (int tries = 0; (r = cgroup_remove_group(dir)) < 0; tries++) {
		if (r != -EBUSY || tries == 50)
			return false;
		(void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
	return true;
}

/* What a record names, removed in the opposite order of its making. True where all of it is gone.
 */
static bool remove_named(const struct record_facts *f)
{
	bool gone = true;
	if (f->socket)
		(void)unlink(f->socket);
	if (f->workdir)
		gone = record_remove_tree(f->workdir) == 0;
	for (size_t n = f->same_boot ? f->n_cgroups : 0; n; n--)
		gone = remove_group(f->cgroups[n - 1]) && gone;
	/* Its name alone, and only where nobody holds it. */
	if (f->uid && geteuid() == 0)
		uids_release(&(struct uid_claim){.uid = f->uid, .shared_fd = -1, .guard_fd = -1});
	return gone;
}

static bool is_fresh(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && time(NULL) - st.st_mtime < CONTAINER_FRESH_S;
}

bool record_is_fresh(const struct record *r)
{
	return is_fresh(r->guard_fd);
}

/* Its broker is dead; it may live on, for the next one. Where the engine knows none of that name,
 * one may still be on its way: the broker died while it asked for it. */
static bool container_gone(const struct record_facts *f, int fd)
{
	if (!f->endpoint)
		return true;
	int r = docker_remove_ended(f->endpoint, f->container, !f->same_boot);
	return r == 0 || (r == -ENOENT && !(is_fresh(fd) && f->same_boot));
}

/* 1 where a dead one's record was found and all that it names is gone; -EWOULDBLOCK where somebody
 * holds it. */
static int remove_dead(int at, const char *name, const char *dir)
{
	CLEANUP(record_facts_done) struct record_facts f = {0};
	_cleanup_close_ int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	int r = read_facts(fd, dir, &f);
	if (r < 0)
		return r;
	if (f.container && !container_gone(&f, fd))
		return -EWOULDBLOCK;
	return remove_named(&f) && unlinkat(at, name, 0) == 0;
}

int record_sweep(const char *dir)
{
	DIR *d = opendir(dir);
	if (!d)
		return 0;
	int removed = 0;
	for (struct dirent *e; (e = readdir(d));) {
		size_t n = strlen(e->d_name), s = strlen(RECORD_SUFFIX);
		if (n > s && strcmp(e->d_name + n - s, RECORD_SUFFIX) == 0)
			removed += remove_dead(dirfd(d), e->d_name, dir) == 1;
	}
	(void)closedir(d);
	return removed;
}

int record_open(const char *dir, const char *id, struct record *ret, struct record_facts *ret_facts,
	struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/%s" RECORD_SUFFIX, dir, id);
	int r = remove_dead(AT_FDCWD, path, dir);
	if (r == -ENOENT)
		return err_set(err, ERR_SANDBOX_LOST, ENOENT, "nothing is left of it");
	if (r >= 0)
		return err_set(err, ERR_SANDBOX_LOST, ESRCH, "all its processes have ended");
	_cleanup_close_ int guard = open(path, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
	/* A sweep may hold it just now: that one then removes it. */
	if (guard < 0 || flock(guard, LOCK_SH | LOCK_NB) < 0)
		return err_set(err, ERR_SANDBOX_LOST, ESRCH, "it has just ended");
	r = read_facts(guard, dir, ret_facts);
	if (r < 0)
		return err_set(err, ERR_IO, -r, "cannot read %.300s: %s", path, strerror(-r));
	*ret = (struct record){.path = TAKE_PTR(path), .shared_fd = -1, .guard_fd = TAKE_FD(guard)};
	return 0;
}
