/* traces.c: see traces.h. */
#include "contract/traces.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "confine/cgroup.h"
#include "confine/uids.h"
#include "contract/tap.h"

/* This process's own part of the numbers, so that other brokers of this machine do not count. */
static char uid_prefix[16];

size_t traces_count(const char *path, const char *prefix)
{
	size_t n = 0;
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.' && str_starts(e->d_name, prefix);
	if (d)
		(void)closedir(d);
	return n;
}

/* Mounts; of an engine's sandboxes those below its directory: others of this machine come and go,
 * and so does Podman's store itself, which whichever process of Podman's ends last takes away. */
static size_t count_mounts(const struct provider *p)
{
	const char *engine = p == &provider_docker ? getenv("DOCKER_HOST") : NULL;
	_cleanup_free_ char *below = engine && str_starts(engine, "unix://")
					     ? xstrdup(engine + strlen("unix://"))
					     : NULL;
	char *slash = below ? strrchr(below, '/') : NULL;
	if (slash)
		slash[1] = '\0';
	size_t n = 0;
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	FILE *f = fopen("/proc/self/mountinfo", "re");
	while (f && getline(&line, &size, f) > 0)
		n += !below || (strstr(line, below) && !strstr(line, "/data/overlay "));
	if (f)
		(void)fclose(f);
	return n;
}

/* Processes below this one, zombies too. */
size_t traces_children(void)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	size_t n = 0;
	FILE *f = fopen(path, "re");
	for (int pid; f && fscanf(f, "%d", &pid) == 1;)
		n++;
	if (f)
		(void)fclose(f);
	return n;
}

static size_t count_ours(const char *path)
{
	size_t n = 0;
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		n += box_is_ours(e->d_name);
	if (d)
		(void)closedir(d);
	return n;
}

size_t traces_groups(void)
{
	const struct cgroup_host *h = cgroup_host();
	const char *const bases[] = {h->v1_memory, h->v1_pids, h->v1_cpu, h->v2};
	size_t n = 0;
	for (size_t i = 0; i < ARRAY_SIZE(bases); i++)
		n += bases[i] ? count_ours(bases[i]) : 0;
	return n;
}

struct traces traces(const struct box_host *host)
{
	return (struct traces){
		.fds = traces_count("/proc/self/fd", ""),
		.mounts = count_mounts(host->provider),
		.children = traces_children(),
		.groups = traces_groups(),
		.names = traces_count(host->runtime, ""),
		.uids = geteuid() == 0 ? traces_count(UIDS_DIR, uid_prefix) : 0,
	};
}

bool traces_same(const struct traces *a, const struct traces *b)
{
	bool same = memcmp(a, b, sizeof(*a)) == 0;
	if (!same)
		tap_note("before: fds %zu mounts %zu children %zu groups %zu names %zu uids %zu; "
			 "after: "
			 "%zu %zu %zu %zu %zu %zu",
			a->fds, a->mounts, a->children, a->groups, a->names, a->uids, b->fds,
			b->mounts, b->children, b->groups, b->names, b->uids);
	return same;
}

void traces_own_uids(void)
{
	char range[40];
	unsigned own = 15000 + (unsigned)getpid() % 5000;
	(void)snprintf(uid_prefix, sizeof(uid_prefix), "%u", own);
	(void)snprintf(range, sizeof(range), "%u00000-%u00063", own, own);
	CHECK(setenv("SCB_UID_RANGE", range, 1) == 0);
}

const char *traces_uid_prefix(void)
{
	return uid_prefix;
}
