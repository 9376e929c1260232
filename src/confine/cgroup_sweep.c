/* cgroup_sweep.c: groups that nobody remembers. See cgroup.h. */
#include "confine/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"

/* A broker needs milliseconds from a group to the agent in it; one that is slower than this fails
 * to make a sandbox and can try again. */
#define FRESH_US (10 * USEC_PER_SEC)

/* 1: processes are in it, 0: none, -1: there is no such group. */
static int inhabited(const char *base, const char *id, const char *rest)
{
	char byte;
	if (!base)
		return -1;
	_cleanup_free_ char *path = xasprintf("%s/%s%s/cgroup.procs", base, id, rest);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -1 : read(fd, &byte, 1) == 1;
}

/* The agent is in one of these for as long as its sandbox lives; `code` may be empty then. */
static bool dead(const struct cgroup_host *h, const char *id)
{
	const int found[] = {inhabited(h->v2, id, ""), inhabited(h->v2, id, "/agent"),
		inhabited(h->v1_memory, id, ".agent")};
	bool known = false;
	for (size_t i = 0; i < ARRAY_SIZE(found); i++) {
		if (found[i] == 1)
			return false;
		known |= found[i] == 0;
	}
	return known;
}

static bool remove_group(const char *base, const char *id, const char *rest)
{
	if (!base)
		return false;
	_cleanup_free_ char *path = xasprintf("%s/%s%s", base, id, rest);
	return access(path, F_OK) == 0 && cgroup_remove_group(path) == 0;
}

static bool remove_all(const struct cgroup_host *h, const char *id)
{
	static const char *const v2[] = {"/code", "/agent", ""};
	bool removed = false;
	for (size_t i = 0; i < ARRAY_SIZE(v2); i++)
		removed |= remove_group(h->v2, id, v2[i]);
	removed |= remove_group(h->v1_cpu, id, ".code");
	removed |= remove_group(h->v1_pids, id, ".code");
	removed |= remove_group(h->v1_memory, id, ".code");
	/* Last: it is what tells the dead from the living. */
	removed |= remove_group(h->v1_memory, id, ".agent");
	return removed;
}

static bool fresh(int dir, const char *name)
{
	struct stat st;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	uint64_t born = (uint64_t)st.st_ctim.tv_sec * USEC_PER_SEC;
	return clock_realtime_us() < born + FRESH_US;
}

static int sweep_base(const struct cgroup_host *h, const char *base)
{
	DIR *d = base ? opendir(base) : NULL;
	int n = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		char id[ID_TEXT_SIZE];
		(void)snprintf(id, sizeof(id), "%.*s", ID_TEXT_SIZE - 1, e->d_name);
		if (id_valid('x', id) && !fresh(dirfd(d), e->d_name) && dead(h, id))
			n += remove_all(h, id);
	}
	if (d)
		(void)closedir(d);
	return n;
}

int cgroup_sweep(const struct cgroup_host *h)
{
	return sweep_base(h, h->v2) + sweep_base(h, h->v1_memory);
}
