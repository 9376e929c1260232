/* cgroup_host.c: which hierarchies there are and where in them this process may make groups. See
 * cgroup.h. */
#include "confine/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#define BASE_NAME "scb"        /* every sandbox's groups are below this one */
#define LEAF_NAME "scb-broker" /* where the broker itself goes in a delegated group */

static const char *const names[] = {"memory", "pids", "cpu"};
enum { MEMORY, PIDS, CPU, N_CONTROLLERS };

/* Where each hierarchy is mounted, and this process's own group in it. */
struct hierarchy {
	char *mount, *root; /* mount point, and which group it shows as its top */
	char *own;
};
struct hierarchies {
	struct hierarchy v1[N_CONTROLLERS], v2;
};

static void hierarchies_done(struct hierarchies *h)
{
	for (size_t i = 0; i <= N_CONTROLLERS; i++) {
		struct hierarchy *x = i < N_CONTROLLERS ? &h->v1[i] : &h->v2;
		free(x->mount);
		free(x->root);
		free(x->own);
	}
}

/* True where the comma-separated list has the name. */
static bool listed(const char *list, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = list; (p = strstr(p, name)); p += n) {
		bool begins = p == list || p[-1] == ',' || p[-1] == ' ';
		if (begins && (!p[n] || strchr(", \n", p[n])))
			return true;
	}
	return false;
}

static void set_once(char **field, const char *value)
{
	if (!*field)
		*field = xstrdup(value);
}

/* One line of mountinfo: "id parent dev root mountpoint options [optional…] - type source super".
 */
static void read_mount(struct hierarchies *h, char *line)
{
	char root[LIMIT_PATH], point[LIMIT_PATH], type[32], super[512];
	char *dash = strstr(line, " - ");
	if (!dash || sscanf(line, "%*d %*d %*s %4095s %4095s", root, point) != 2 ||
		sscanf(dash, " - %31s %*s %511s", type, super) != 2)
		return;
	if (strcmp(type, "cgroup2") == 0) {
		set_once(&h->v2.mount, point);
		set_once(&h->v2.root, root);
	}
	for (size_t i = 0; strcmp(type, "cgroup") == 0 && i < N_CONTROLLERS; i++) {
		if (listed(super, names[i])) {
			set_once(&h->v1[i].mount, point);
			set_once(&h->v1[i].root, root);
		}
	}
}

/* One line of /proc/PID/cgroup: "id:controllers:path". */
static void read_own(struct hierarchies *h, char *line)
{
	line[strcspn(line, "\n")] = '\0';
	char *list = strchr(line, ':');
	char *path = list ? strchr(list + 1, ':') : NULL;
	if (!path)
		return;
	*path++ = '\0';
	list++;
	if (!*list)
		set_once(&h->v2.own, path);
	for (size_t i = 0; i < N_CONTROLLERS; i++)
		if (listed(list, names[i]))
			set_once(&h->v1[i].own, path);
}

static void each_line(
	const char *path, struct hierarchies *h, void (*fn)(struct hierarchies *h, char *line))
{
	FILE *f = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	while (f && getline(&line, &size, f) > 0)
		fn(h, line);
	if (f)
		(void)fclose(f);
}

/* The directory of this process's own group, or NULL where it is not visible. */
static char *own_dir(const struct hierarchy *h)
{
	if (!h->mount || !h->own)
		return NULL;
	const char *own = h->own;
	size_t n = strcmp(h->root, "/") == 0 ? 0 : strlen(h->root);
	if (n && (!str_starts(own, h->root) || (own[n] && own[n] != '/')))
		own = ""; /* a container's mount shows its own group as the top */
	else
		own += n;
	char *dir = xasprintf("%s%s", h->mount, strcmp(own, "/") == 0 ? "" : own);
	struct stat st;
	if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode))
		return dir;
	free(dir);
	return NULL;
}

static int write_file(const char *dir, const char *name, const char *text)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fd_write_full(fd, text, strlen(text));
}

static int read_file(const char *dir, const char *name, char *ret, size_t size)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);
	if (n < 0)
		return -errno;
	ret[n] = '\0';
	return 0;
}

/* dir/scb, made where missing and ours to write to; else NULL. */
static char *base_in(const char *dir)
{
	char *base = xasprintf("%s/" BASE_NAME, dir);
	if ((mkdir(base, 0755) == 0 || errno == EEXIST) && access(base, W_OK) == 0)
		return base;
	free(base);
	return NULL;
}

/* Lets groups below dir have those of the three controllers that dir has. 0 where it has none. */
static int enable_controllers(const char *dir)
{
	char have[512], want[64] = "";
	int r = read_file(dir, "cgroup.controllers", have, sizeof(have));
	if (r < 0)
		return r;
	for (size_t i = 0; i < N_CONTROLLERS; i++) {
		if (listed(have, names[i])) {
			size_t n = strlen(want);
			(void)snprintf(want + n, sizeof(want) - n, "+%s ", names[i]);
		}
	}
	return want[0] ? write_file(dir, "cgroup.subtree_control", want) : 0;
}

/* True where this process is alone in dir. */
static bool alone_in(const char *dir)
{
	char pids[64], mine[32];
	(void)snprintf(mine, sizeof(mine), "%d\n", (int)getpid());
	return read_file(dir, "cgroup.procs", pids, sizeof(pids)) == 0 && strcmp(pids, mine) == 0;
}

/* A group that was delegated to this process alone: the process moves into a leaf, because a group
 * with processes of its own may not hand controllers on. The base group, or NULL (and as before).
 */
static char *delegated_base(const char *own)
{
	_cleanup_free_ char *top = xstrdup(own);
	char *last = strrchr(top, '/');
	bool in_leaf = last && strcmp(last + 1, LEAF_NAME) == 0;
	if (in_leaf)
		*last = '\0';
	else if (!alone_in(top))
		return NULL;
	_cleanup_free_ char *leaf = xasprintf("%s/" LEAF_NAME, top);
	if (!in_leaf && ((mkdir(leaf, 0755) < 0 && errno != EEXIST) ||
				write_file(leaf, "cgroup.procs", "0") < 0))
		return NULL;
	char *base = enable_controllers(top) == 0 ? base_in(top) : NULL;
	if (base && enable_controllers(base) == 0)
		return base;
	free(base);
	if (!in_leaf && write_file(top, "cgroup.procs", "0") == 0)
		(void)rmdir(leaf);
	return NULL;
}

static char *v2_base(const struct hierarchy *h, bool root)
{
	_cleanup_free_ char *own = own_dir(h);
	if (own && strcmp(own, h->mount) != 0) {
		char *base = delegated_base(own);
		if (base)
			return base;
	}
	/* Root: below the top, as container engines do; with controllers where the top hands them
	 * on, else for cgroup.kill alone. */
	char *base = root && h->mount ? base_in(h->mount) : NULL;
	if (base) {
		if (enable_controllers(h->mount) == 0)
			(void)enable_controllers(base);
		return base;
	}
	return own ? base_in(own) : NULL;
}

void cgroup_host_find(
	const char *mountinfo_path, const char *self_path, bool root, struct cgroup_host *ret)
{
	struct hierarchies h = {0};
	each_line(mountinfo_path, &h, read_mount);
	each_line(self_path, &h, read_own);
	*ret = (struct cgroup_host){0};

	enum cgroup_kind *kinds[] = {&ret->memory, &ret->pids, &ret->cpu};
	char **bases[] = {&ret->v1_memory, &ret->v1_pids, &ret->v1_cpu};
	for (size_t i = 0; root && i < N_CONTROLLERS; i++) {
		_cleanup_free_ char *own = own_dir(&h.v1[i]);
		*bases[i] = own ? base_in(own) : NULL;
		if (*bases[i])
			*kinds[i] = CGROUP_V1;
	}
	ret->v2 = v2_base(&h.v2, root);
	if (ret->v2) {
		/* What groups below the base get is what the base hands on. */
		char have[512] = "";
		(void)read_file(ret->v2, "cgroup.subtree_control", have, sizeof(have));
		for (size_t i = 0; i < N_CONTROLLERS; i++) {
			if (*kinds[i] == CGROUP_NONE && listed(have, names[i])) {
				*kinds[i] = CGROUP_V2;
				ret->v2_controllers = true;
			}
		}
		/* Since Linux 5.14; every group but the top one has the file. */
		_cleanup_free_ char *kill = xasprintf("%s/cgroup.kill", ret->v2);
		ret->kill = access(kill, W_OK) == 0;
	}
	hierarchies_done(&h);
}

void cgroup_host_done(struct cgroup_host *h)
{
	free(h->v1_memory);
	free(h->v1_pids);
	free(h->v1_cpu);
	free(h->v2);
	*h = (struct cgroup_host){0};
}

const struct cgroup_host *cgroup_host(void)
{
	static struct cgroup_host host;
	static bool found;
	if (!found) {
		cgroup_host_find(
			"/proc/self/mountinfo", "/proc/self/cgroup", geteuid() == 0, &host);
		found = true;
	}
	return &host;
}
