/* security.c: runs the hostile program in real sandboxes of a provider and asks the agent after
 * each group of attacks whether it is well.
 *
 *   security PROVIDER root|user HOSTILE
 *
 * What a provider does not claim to hold (its capabilities) is skipped and counted. Storms and
 * fillings never run where nothing bounds them. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "confine/cgroup.h"
#include "contract/box.h"
#include "contract/tap.h"
#include "provider/record.h"

static struct box_host host;
static struct sandbox_mount mount;
static char program[160]; /* the hostile program, as code in the sandbox sees it */
static bool mounted;      /* at /mnt: not by `local` */

/* ---- the host's settings, before and after ---- */

static const char *const watched[] = {"kernel/core_pattern", "kernel/modprobe", "kernel/sysrq",
	"kernel/pid_max", "kernel/panic", "kernel/randomize_va_space", "kernel/hostname",
	"kernel/domainname", "kernel/shmmax", "kernel/msgmax", "kernel/sem", "kernel/threads-max",
	"vm/overcommit_memory", "vm/panic_on_oom", "vm/swappiness", "fs/file-max",
	"fs/suid_dumpable", "fs/protected_symlinks", "user/max_user_namespaces",
	"net/ipv4/ip_forward", "net/ipv4/ip_unprivileged_port_start", "net/core/somaxconn"};

static void settings(struct buf *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++) {
		char path[128], value[256];
		(void)snprintf(path, sizeof(path), "/proc/sys/%s", watched[i]);
		_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, value, sizeof(value) - 1);
		value[n > 0 ? n : 0] = '\0';
		CHECK(buf_printf(ret, "%s=%s", watched[i], value) == 0);
	}
}

/* ---- one group ---- */

struct group {
	const char *name;
	uint64_t timeout_us;
	bool may_be_killed; /* the limit can be that the program itself is killed */
	bool may_be_lost;   /* or that the whole sandbox ends, which is told with this reason */
	bool storm;         /* the agent is asked while it goes on */
	uint32_t pids;      /* 0: the default */
	uint64_t memory;    /* 0: the default */
};

static bool open_box(struct box *b, const struct group *g)
{
	box_init(b, &host);
	if (mounted) {
		b->spec.mounts = &mount;
		b->spec.n_mounts = 1;
	}
	if (g->pids)
		b->spec.pids_max = g->pids;
	if (g->memory) {
		b->spec.memory_max = g->memory;
		b->spec.workspace_size = b->spec.tmp_size = b->spec.shm_size = 8 * MIB;
	}
	return box_open(b, host.provider);
}

/* Each line of the program becomes a test. */
static size_t report_lines(const struct group *g, char *out)
{
	size_t n = 0;
	for (char *line; (line = strsep(&out, "\n"));) {
		bool ok = str_starts(line, "ok ");
		if (!ok && !str_starts(line, "FAIL "))
			continue;
		n++;
		for (char *p = line; (p = strchr(p, '#'));)
			*p = '?'; /* TAP's directives */
		tap_ok(ok, "%s: %s", g->name, line + (ok ? 3 : 5));
	}
	return n;
}

/* Engines put the groups of their containers into one of their own. */
static const char *const container_groups[] = {
	"/sys/fs/cgroup/memory/*/*/memory.oom_control", "/sys/fs/cgroup/*/*/memory.events"};

static long oom_kills_of(const char *path)
{
	char line[128];
	long n = -1;
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "oom_kill %ld", &n) != 1)
		;
	if (f)
		(void)fclose(f);
	return n;
}

/* Of all containers of this host. Never asked inside: who asks there can be the one that is killed.
 */
static long oom_kills_of_containers(void)
{
	long sum = -1;
	for (size_t i = 0; i < ARRAY_SIZE(container_groups); i++) {
		glob_t found = {0};
		if (glob(container_groups[i], 0, NULL, &found) == 0)
			for (size_t k = 0; k < found.gl_pathc; k++)
				sum = MAX(sum, 0) + MAX(oom_kills_of(found.gl_pathv[k]), 0);
		globfree(&found);
	}
	return sum;
}

/* How often the kernel has killed in the code's group; -1: cannot be seen here. */
static long oom_kills(const struct box *b)
{
	if (strcmp(host.provider->name, "docker") == 0)
		return oom_kills_of_containers();
	const struct cgroup_host *h = cgroup_host();
	char path[LIMIT_PATH];
	if (h->memory == CGROUP_V1)
		(void)snprintf(
			path, sizeof(path), "%s/%s.code/memory.oom_control", h->v1_memory, b->id);
	else
		(void)snprintf(path, sizeof(path), "%s/%s/code/memory.events", h->v2, b->id);
	return oom_kills_of(path);
}

static void in_the_storm(struct box *b, const struct group *g, const char *command)
{
	static struct box_result r;
	int well = 0;
	long before = g->memory ? oom_kills(b) : 0;
	bool started = box_start(b, command, 2 * USEC_PER_SEC, &r);
	for (int i = 0; i < 5; i++) {
		bool never = false;
		well += !b->lost && box_answers(b);
		(void)box_until(b->loop, &never, 500 * USEC_PER_MSEC);
	}
	tap_ok(started, "%s: it goes on", g->name);
	if (g->memory) {
		uint64_t end = clock_monotonic_us() + box_patience(5 * USEC_PER_SEC);
		long kills;
		while ((kills = oom_kills(b) - before) == 0 && clock_monotonic_us() < end) {
			bool never = false;
			(void)box_until(b->loop, &never, 200 * USEC_PER_MSEC);
		}
		tap_ok(kills > 0, "%s: the kernel has killed %ld of its processes", g->name, kills);
	}
	if (g->may_be_lost && b->lost && strstr(b->why.text, "no more threads"))
		tap_ok(true, "%s: ended as a whole: %s", g->name, b->why.text);
	else if (!tap_ok(well == 5, "%s: the agent answers within a second each time (%d of 5)",
			 g->name, well))
		tap_note("%s", b->why.text);
	uint64_t start = clock_monotonic_us();
	const char *left = box_close(b);
	uint64_t took = clock_monotonic_us() - start;
	tap_ok(!left, "%s: destroyed in the middle of it, nothing left (%.0f ms)", g->name,
		(double)took / 1000);
	if (left)
		tap_note("%s", left);
}

static void run_group(const struct group *g, const char *argument)
{
	struct box b;
	static struct box_result r;
	if (!tap_ok(open_box(&b, g), "%s: a sandbox", g->name)) {
		tap_note("%s", b.why.text);
		(void)box_close(&b);
		return;
	}
	_cleanup_free_ char *command = xasprintf("%s %s '%s'", program, g->name, argument);
	if (g->storm) {
		in_the_storm(&b, g, command);
		return;
	}
	bool ended = box_run(&b, command, g->timeout_us, &r);
	bool well = !b.lost && box_answers(&b);
	size_t lines = report_lines(g, r.out);
	bool complete = ended && r.reason == REASON_EXIT && r.exit_code == 0 && lines > 0;
	if (!complete)
		tap_note("ended %d reason %d exit %d signal %d lines %zu: %s %.200s", ended,
			(int)r.reason, r.exit_code, r.signal, lines, r.text, r.out);
	if (g->may_be_lost && b.lost && strstr(b.why.text, "ran out of memory")) {
		tap_ok(true, "%s: ended as a whole: %s", g->name, b.why.text);
	} else {
		tap_ok(complete || (g->may_be_killed && !b.lost), "%s: ran to its end%s", g->name,
			complete ? "" : ", killed by a limit");
		tap_ok(well, "%s: the agent answers within a second", g->name);
		if (!well)
			tap_note("%s", b.why.text);
	}
	const char *left = box_close(&b);
	tap_ok(!left, "%s: nothing left", g->name);
	if (left)
		tap_note("%s", left);
}

static void group_if(bool holds, const char *why_not, const struct group *g, const char *argument)
{
	if (holds)
		run_group(g, argument);
	else
		tap_skip(g->name, why_not);
}

/* ---- things of the host that code tries to reach ---- */

static int abstract_listener(const char *name)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(name);
	memcpy(a.sun_path + 1, name, n);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 &&
		bind(fd, (struct sockaddr *)&a,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) == 0 &&
		listen(fd, 4) == 0);
	return fd;
}

/* The socket of the sandbox itself: its path is known only once it exists. */
static void group_connect(void)
{
	static const struct group g = {.name = "connect", .timeout_us = 20 * USEC_PER_SEC};
	struct box b;
	static struct box_result r;
	bool up = open_box(&b, &g);
	_cleanup_free_ char *command =
		xasprintf("%s connect '%s/%s.sock'", program, host.runtime, b.id);
	bool ended = up && box_run(&b, command, g.timeout_us, &r);
	size_t lines = up ? report_lines(&g, r.out) : 0;
	tap_ok(ended && lines > 0, "connect: ran to its end");
	tap_ok(up && !b.lost && box_answers(&b), "connect: the agent answers within a second");
	tap_ok(!box_close(&b), "connect: nothing left");
}

static void put_program(const char *path, char *dir)
{
	CHECK(mkdtemp(dir) && chmod(dir, 0755) == 0);
	_cleanup_free_ char *copy = xasprintf("%s/hostile", dir);
	_cleanup_close_ int in = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int out = open(copy, O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
	char chunk[8192];
	CHECK(in >= 0 && out >= 0);
	for (ssize_t n; (n = read(in, chunk, sizeof(chunk))) > 0;)
		CHECK(fd_write_full(out, chunk, (size_t)n) == 0);
	mount = (struct sandbox_mount){"hostile", dir};
	if (mounted)
		(void)snprintf(program, sizeof(program), "/mnt/hostile/hostile");
	else
		(void)snprintf(program, sizeof(program), "%s", copy);
}

static void all_groups(void)
{
	struct sandbox_spec spec = {.memory_max = 1};
	struct capabilities c;
	host.provider->capabilities(&spec, &c);
	bool filter = strcmp(c.seccomp, "allow-list") == 0;
	bool apart = strcmp(c.agent_apart, "not enforced") != 0;
	bool sized = strcmp(c.disk, "tmpfs") == 0;
	bool pids = strcmp(c.pids, "none") != 0 && sized;
	/* What differs there, and why, stands in hostile.c. */
	bool gvisor = strcmp(c.isolation_level, "container+gvisor") == 0;
	const char *kernel = gvisor ? "gvisor" : "";
	bool memory = str_starts(c.memory, "cgroup") && !gvisor;
	bool inodes = strcmp(c.inodes, "memory") == 0;
	char name[40], outside[64];
	(void)snprintf(name, sizeof(name), "scb-test-%d", (int)getpid());
	_cleanup_close_ int listener = abstract_listener(name);
	(void)snprintf(outside, sizeof(outside), "%d @%s", (int)getpid(), name);

	group_if(filter, c.seccomp,
		&(struct group){.name = "calls", .timeout_us = 20 * USEC_PER_SEC}, kernel);
	group_if(apart, c.agent_apart,
		&(struct group){.name = "agent", .timeout_us = 20 * USEC_PER_SEC}, "");
	group_if(sized, "local: no root of its own",
		&(struct group){.name = "host", .timeout_us = 20 * USEC_PER_SEC}, kernel);
	run_group(&(struct group){.name = "leaks", .timeout_us = 20 * USEC_PER_SEC}, "");
	run_group(&(struct group){.name = "outside", .timeout_us = 20 * USEC_PER_SEC}, outside);
	group_connect();
	group_if(sized, c.disk,
		&(struct group){
			.name = "bytes", .timeout_us = 60 * USEC_PER_SEC, .may_be_killed = true},
		"");
	group_if(inodes, c.inodes,
		&(struct group){.name = "inodes",
			.timeout_us = (gvisor ? 20 : 120) * USEC_PER_SEC,
			.may_be_killed = true,
			.may_be_lost = gvisor},
		"");
	group_if(memory, gvisor ? "the whole sandbox ends (contract: lost by memory)" : c.memory,
		&(struct group){.name = "memory", .storm = true, .pids = 3500, .memory = 128 * MIB},
		"");
	group_if(pids, c.pids,
		&(struct group){.name = "forks", .storm = true, .may_be_lost = gvisor}, "");
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		(void)fprintf(stderr, "usage: security PROVIDER root|user HOSTILE\n");
		return 2;
	}
	bool want_root = strcmp(argv[2], "root") == 0;
	char dir[] = "/tmp/scb-hostile-XXXXXX";
	mounted = strcmp(argv[1], "local") != 0;
	if (!want_root && geteuid() == 0) {
		put_program(argv[3], dir);
		_cleanup_free_ char *copy = xasprintf("%s/hostile", dir);
		char *args[] = {argv[0], argv[1], argv[2], copy, NULL};
		int status = tap_as_user(4, args);
		(void)record_remove_tree(dir);
		return status;
	}
	if (want_root && geteuid() != 0) {
		(void)printf("1..0 # SKIP needs root\n");
		return 0;
	}
	CHECK(box_host_init(&host, argv[1]) == 0);
	put_program(argv[3], dir);
	_cleanup_buf_ struct buf before = BUF_INIT(64 * KIB), after = BUF_INIT(64 * KIB);
	settings(&before);
	all_groups();
	settings(&after);
	tap_ok(before.len == after.len && memcmp(before.data, after.data, after.len) == 0,
		"the host's settings are as before");
	CHECK(record_remove_tree(dir) == 0);
	tap_ok(box_host_done(&host), "the runtime directory is empty at the end");
	return tap_done();
}
