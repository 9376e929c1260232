/* contract.c: what every provider promises (SPEC.md), tried on real sandboxes.
 *
 *   contract PROVIDER root|user
 *
 * One suite for all: what a provider's capabilities say it does not hold is skipped with that
 * reason. SCB_CYCLES sets how many sandboxes are made and destroyed (50). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "confine/cgroup.h"
#include "confine/uids.h"
#include "contract/box.h"
#include "contract/tap.h"
#include "contract/traces.h"
#include "provider/record.h"

static struct box_host host;
static bool as_root;

/* Its sandboxes are children of the engine, not of this process. */
static bool is_docker(void)
{
	return strcmp(host.provider->name, "docker") == 0;
}

/* What only the agent of such a box can tell, and what it cannot: its kernel is gVisor's own. */
static bool is_gvisor(const struct box *b)
{
	return strcmp(b->caps.isolation_level, "container+gvisor") == 0;
}

/* As the next `scb` of any kind does it: a process of its own, which waits for an engine only once.
 */
static void sweep(void)
{
	pid_t pid = is_docker() ? fork() : -1;
	if (pid > 0) {
		CHECK(waitpid(pid, NULL, 0) == pid);
		return;
	}
	(void)provider_sweep(host.runtime);
	if (pid == 0)
		_exit(0);
}

/* ---- tests ---- */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void test_cycles(void)
{
	const char *text = getenv("SCB_CYCLES");
	uint64_t n = 50;
	if (text && str_to_u64(text, 100000, &n) < 0)
		n = 50;
	_cleanup_free_ uint64_t *hello = xcalloc(n, sizeof(*hello));
	struct traces before = traces(&host);
	uint64_t made = 0, clean = 0;
	for (uint64_t i = 0; i < n; i++) {
		struct box b;
		box_init(&b, &host);
		if (box_open(&b, host.provider))
			hello[made++] = b.hello_us;
		else
			tap_note("cycle %llu: %s", (unsigned long long)i, b.why.text);
		const char *left = box_close(&b);
		clean += left == NULL;
		if (left)
			tap_note("cycle %llu: left %s", (unsigned long long)i, left);
	}
	struct traces after = traces(&host);
	tap_ok(made == n, "%llu sandboxes come up", (unsigned long long)n);
	tap_ok(clean == n && traces_same(&before, &after),
		"they leave no process, mount, group, name, uid or descriptor");
	qsort(hello, made, sizeof(*hello), by_value);
	if (made)
		tap_note("create to hello: p50 %.1f ms, p99 %.1f ms",
			(double)hello[made / 2] / 1000, (double)hello[made * 99 / 100] / 1000);
}

static void test_immediate_destroy(void)
{
	struct traces before = traces(&host);
	bool clean = true;
	for (int i = 0; i < 10; i++) {
		struct box b;
		struct err err;
		box_init(&b, &host);
		clean &= box_create(&b, host.provider, &err) == 0;
		clean &= box_close(&b) == NULL;
	}
	struct traces after = traces(&host);
	tap_ok(clean && traces_same(&before, &after), "destroyed right after create: nothing left");
}

static void test_busy_destroy(void)
{
	struct traces before = traces(&host);
	struct box b;
	struct box_result r;
	box_init(&b, &host);
	bool up = box_open(&b, host.provider);
	bool ran =
		up && box_run(&b,
			      "mkdir -p a/b/c; touch a/b/c/d; chmod 0 a/b; trap '' TERM INT HUP; "
			      "for i in 1 2 3 4 5; do setsid sleep 1000 & sleep 1000 & done; "
			      "(setsid sh -c 'sleep 1000 & exec sleep 1000' &) ; echo started",
			      20 * USEC_PER_SEC, &r);
	tap_ok(ran && strstr(r.out, "started"), "background processes start");
	if (!ran)
		tap_note("%s %s", up ? r.text : b.why.text, up ? r.out : "");
	uint64_t start = clock_monotonic_us();
	const char *left = box_close(&b);
	uint64_t took = clock_monotonic_us() - start;
	struct traces after = traces(&host);
	tap_ok(!left && traces_same(&before, &after), "destroy ends them all");
	/* An engine takes its time to remove a container. */
	unsigned seconds = is_docker() ? 10 : 1;
	tap_ok(took < box_patience(seconds * USEC_PER_SEC), "within %u s (%.1f ms)", seconds,
		(double)took / 1000);
	if (left)
		tap_note("left: %s", left);
}

static void test_many_at_once(void)
{
	enum { N = 8 };
	static struct box boxes[N];
	struct traces before = traces(&host);
	int up = 0;
	for (int i = 0; i < N; i++) {
		box_init(&boxes[i], &host);
		up += box_open(&boxes[i], host.provider);
	}
	for (int i = 0; i < N; i++) {
		struct box_result r;
		up += box_run(&boxes[i], "echo here", 20 * USEC_PER_SEC, &r) &&
		      strcmp(r.out, "here\n") == 0;
	}
	tap_ok(up == 2 * N, "%d at once, each runs a command", N);
	for (int i = 0; i < N; i++)
		(void)box_close(&boxes[i]);
	struct traces after = traces(&host);
	tap_ok(traces_same(&before, &after), "and leave nothing");
}

/* An agent that is none, one that is missing, and one that ends: exited() says why. */
static void exits_with(const char *agent, const char *expect, const char *name)
{
	struct box b;
	struct err err = {0};
	struct traces before = traces(&host);
	box_init(&b, &host);
	b.spec.agent_path = agent;
	bool told = box_create(&b, host.provider, &err) == 0 &&
		    box_until(b.loop, &b.exited, box_patience(30 * USEC_PER_SEC));
	const char *said = told ? b.why.text : err.text;
	tap_ok(strstr(said, expect) != NULL, "%s: says so", name);
	tap_note("%s", said);
	(void)box_close(&b);
	struct traces after = traces(&host);
	tap_ok(traces_same(&before, &after), "%s: leaves nothing", name);
}

static void test_exited(void)
{
	if (getenv("SCB_PODMAN"))
		tap_skip("an agent that fails", "Podman reads the filter from beside the agent");
	else
		exits_with("/usr/bin/false", "status 1", "an agent that fails");
	exits_with("/nonexistent/scb-agent", "scb-agent", "a missing agent");
}

static void test_bad_spec(void)
{
	struct box b;
	struct err err = {0};
	box_init(&b, &host);
	b.spec.workspace_size = b.spec.memory_max;
	int r = box_create(&b, host.provider, &err);
	tap_ok(r < 0 && err.code == ERR_INVALID_ARGUMENT && strstr(err.text, "memory"),
		"file systems that do not fit in the memory are refused");
	const struct sandbox_mount mounts[] = {{"../x", "/usr/share"}};
	box_init(&b, &host);
	b.spec.mounts = mounts;
	b.spec.n_mounts = 1;
	r = box_create(&b, host.provider, &err);
	tap_ok(r < 0 && err.code == ERR_INVALID_ARGUMENT && strstr(err.text, "../x"),
		"a mount name that leads elsewhere is refused");
}

/* Runs text in b and looks for a line in what it prints. */
static bool prints(struct box *b, const char *text, const char *expect)
{
	struct box_result r;
	bool ok = box_run(b, text, 60 * USEC_PER_SEC, &r) && strstr(r.out, expect);
	if (!ok)
		tap_note("`%s`: wanted \"%s\", got reason %d exit %d signal %d: %.300s%s", text,
			expect, (int)r.reason, r.exit_code, r.signal, r.out, r.text);
	return ok;
}

static void test_capabilities(void)
{
	struct box b;
	box_init(&b, &host);
	if (!tap_ok(box_open(&b, host.provider), "a sandbox for its limits")) {
		tap_note("%s", b.why.text);
		(void)box_close(&b);
		return;
	}
	const struct capabilities *c = &b.caps;
	tap_note("memory %s, pids %s, cpu %s, disk %s, inodes %s, kill_tree %s, egress %s, apart "
		 "%s, "
		 "seccomp %s, root %s, uid %s",
		c->memory, c->pids, c->cpu, c->disk, c->inodes, c->kill_tree, c->egress,
		c->agent_apart, c->seccomp, c->read_only_root, c->host_uid);
	if (is_gvisor(&b))
		tap_skip("memory", "gVisor's end ends the whole sandbox: see below");
	else if (strcmp(c->memory, "none") != 0)
		tap_ok(prints(&b,
			       "python3 -c 'a=bytearray(400*2**20)\nfor i in range(0,len(a),4096): "
			       "a[i]=1' >/dev/null 2>&1 || echo refused",
			       "refused"),
			"memory: %s", c->memory);
	else
		tap_skip("memory", c->memory);
	if (strcmp(c->pids, "none") != 0)
		tap_ok(prints(&b,
			       "python3 -c 'import os,time\np=[]\ntry:\n while len(p)<80:\n  "
			       "p.append(os.fork())\n  if p[-1]==0: time.sleep(60); "
			       "os._exit(0)\nexcept OSError: print(\"stopped\" if 40<len(p)<64 "
			       "else len(p))\nfor i in p: os.kill(i,9); os.waitpid(i,0)'",
			       "stopped"),
			"processes: %s", c->pids);
	else
		tap_skip("processes", c->pids);
	if (strcmp(c->disk, "none") != 0) {
		tap_ok(prints(&b,
			       "dd if=/dev/zero of=/workspace/f bs=1M count=100 2>/dev/null || "
			       "echo "
			       "full; rm /workspace/f",
			       "full"),
			"disk: %s", c->disk);
		tap_ok(prints(&b, "df -k --output=size /workspace /tmp /dev/shm | tr -s '\\n ' ' '",
			       " 65536 32768 16384 "),
			"each file system has its size");
	} else {
		tap_skip("disk", c->disk);
	}
	if (strcmp(c->read_only_root, "yes") == 0)
		tap_ok(prints(&b,
			       "for f in /x /etc/x /usr/x /dev/x /run/x /var/x /mnt/x /.scb/x; do "
			       "touch $f 2>/dev/null && echo wrote $f; done; echo end",
			       "end") &&
				!prints(&b, "touch /x /dev/x /etc/x 2>/dev/null && echo wrote",
					"wrote"),
			"root is read-only");
	else
		tap_skip("read-only root", c->read_only_root);
	if (str_starts(c->egress, "none"))
		tap_ok(prints(&b, "tail -n +3 /proc/net/dev | grep -v lo: | wc -l", "0"),
			"no network device but lo");
	else
		tap_skip("network", c->egress);
	if (strcmp(c->seccomp, "allow-list") == 0)
		tap_ok(prints(&b, "grep Seccomp: /proc/self/status", "2"), "seccomp filter");
	else
		tap_skip("seccomp", c->seccomp);
	if (strcmp(c->agent_apart, "user namespace") == 0)
		tap_ok(prints(&b, "id -u; cat /proc/self/uid_map /proc/1/environ 2>&1", "1000"),
			"code is uid 1000 of a namespace of its own");
	else
		tap_skip("agent apart", c->agent_apart);
	/* Asked for by prctl: gVisor's /proc does not say it. */
	tap_ok(prints(&b,
		       "grep -h -E '^(CapEff|CapPrm|CapBnd)' /proc/self/status | tr -s '\\t\\n' ' "
		       "'; "
		       "python3 -c 'import ctypes; print(\"NoNewPrivs:\", "
		       "ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))'",
		       as_root || strcmp(c->agent_apart, "user namespace") == 0
			       ? "CapPrm: 0000000000000000 CapEff: 0000000000000000 CapBnd: "
				 "0000000000000000 NoNewPrivs: 1"
			       : "NoNewPrivs: 1"),
		"no capabilities, no new ones");
	tap_ok(!b.lost && box_answers(&b), "the agent answers after all of it");
	(void)box_close(&b);
}

/* gVisor keeps all memory of a sandbox: its end where that runs out is the sandbox's. */
static void test_lost_by_memory(void)
{
	struct box b;
	struct box_result r;
	box_init(&b, &host);
	bool up = box_open(&b, host.provider);
	if (up && is_gvisor(&b)) {
		(void)box_run(&b,
			"for i in 1 2 3 4; do python3 -c 'import time; a = b\"x\" * (200 * 2**20); "
			"time.sleep(60)' & done; wait",
			60 * USEC_PER_SEC, &r);
		tap_ok(box_until(b.loop, &b.lost, box_patience(20 * USEC_PER_SEC)) &&
				b.why.code == ERR_SANDBOX_LOST && strstr(b.why.text, "memory"),
			"where memory runs out the sandbox is lost, with the engine's reason");
		tap_note("%s", b.why.text);
	} else {
		tap_skip("lost by memory", up ? "the kernel ends a process" : b.why.text);
	}
	(void)box_close(&b);
}

/* Every process below this one, by the host's numbers. */
static bool any_uid_0_below(pid_t pid, int depth)
{
	char path[64], line[256];
	bool found = false;
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	FILE *f = fopen(path, "re");
	for (int child; f && depth < 20 && fscanf(f, "%d", &child) == 1;) {
		char status[64];
		unsigned ids[4] = {1, 1, 1, 1};
		(void)snprintf(status, sizeof(status), "/proc/%d/status", child);
		FILE *s = fopen(status, "re");
		while (s && fgets(line, sizeof(line), s))
			if (sscanf(line, "Uid: %u %u %u %u", &ids[0], &ids[1], &ids[2], &ids[3]) ==
				4)
				break;
		if (s)
			(void)fclose(s);
		for (size_t i = 0; i < 4; i++)
			found |= ids[i] == 0;
		found |= any_uid_0_below(child, depth + 1);
	}
	if (f)
		(void)fclose(f);
	return found;
}

static void test_host_uid(void)
{
	struct box b, other;
	box_init(&b, &host);
	box_init(&other, &host);
	bool up = box_open(&b, host.provider) && box_open(&other, host.provider);
	struct box_result r;
	up = up && box_run(&b, "sleep 100 & setsid sleep 100 & echo", 5 * USEC_PER_SEC, &r);
	if (is_docker()) {
		/* All have the uid of the container's first one, and none may become another. */
		static const char ask[] = "cat /proc/[0-9]*/status | grep ^Uid: | sort -u | tr -s "
					  "'\\t\\n' ' '";
		struct box_result s = {0};
		unsigned ids[4] = {0}, more;
		up = up && box_run(&b, ask, 5 * USEC_PER_SEC, &r) &&
		     box_run(&other, ask, 5 * USEC_PER_SEC, &s);
		tap_ok(up &&
				sscanf(r.out, "Uid: %u %u %u %u Uid: %u", &ids[0], &ids[1], &ids[2],
					&ids[3], &more) == 4 &&
				ids[0] > 0 && ids[0] == ids[1] && ids[0] == ids[2] &&
				ids[0] == ids[3],
			"no process of a sandbox has host uid 0");
		tap_note("%s", r.out);
		if (as_root)
			tap_ok(up && strcmp(r.out, s.out) != 0, "two sandboxes have two uids");
		/* Of the engine that tests/engines/dockerd starts so. */
		if (getenv("SCB_DOCKERD_REMAP"))
			tap_ok(prints(&b, "grep -qw 600000000 /proc/self/uid_map && echo mapped",
				       "mapped"),
				"which are others on the host");
	} else {
		tap_ok(up && traces_children() >= 2 && !any_uid_0_below(getpid(), 0),
			"no process of a sandbox has host uid 0");
	}
	if (as_root && !is_docker())
		tap_ok(traces_count(UIDS_DIR, traces_uid_prefix()) >= 2,
			"two sandboxes have two uids");
	(void)box_close(&b);
	(void)box_close(&other);
}

static void test_mounts(void)
{
	char dir[] = "/tmp/scb-mount-XXXXXX";
	CHECK(mkdtemp(dir));
	_cleanup_free_ char *inner = xasprintf("%s/in", dir);
	_cleanup_free_ char *file = xasprintf("%s/in/data.csv", dir);
	CHECK(mkdir(inner, 0755) == 0); /* below a directory that others may not enter */
	int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && write(fd, "a,b\n", 4) == 4);
	(void)close(fd);
	const struct sandbox_mount mounts[] = {{"data", inner}};
	struct box b;
	box_init(&b, &host);
	b.spec.mounts = mounts;
	b.spec.n_mounts = 1;
	bool named = strcmp(host.provider->name, "local") != 0;
	if (tap_ok(box_open(&b, host.provider), "a sandbox with a mount")) {
		if (named) {
			tap_ok(prints(&b, "cat /mnt/data/data.csv", "a,b"), "its file can be read");
			tap_ok(prints(&b, "touch /mnt/data/x /mnt/data/data.csv || echo refused",
				       "refused"),
				"but not written");
		} else {
			tap_skip("mount at /mnt", "local mounts nothing");
		}
	} else {
		tap_note("%s", b.why.text);
	}
	(void)box_close(&b);
	if (as_root) {
		struct err err = {0};
		_cleanup_free_ char *private = xasprintf("%s/in/private", dir);
		fd = open(private, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		CHECK(fd >= 0);
		(void)close(fd);
		box_init(&b, &host);
		b.spec.mounts = mounts;
		b.spec.n_mounts = 1;
		tap_ok(box_open(&b, host.provider) &&
				(!named || prints(&b,
						   "cat /mnt/data/private 2>/dev/null || cat "
						   "/mnt/data/data.csv",
						   "a,b")),
			"a file that the sandbox's uid cannot read hides no other");
		if (!b.ready)
			tap_note("%s", b.why.text);
		(void)box_close(&b);
		CHECK(chmod(inner, 0700) == 0);
		box_init(&b, &host);
		b.spec.mounts = mounts;
		b.spec.n_mounts = 1;
		int r = box_create(&b, host.provider, &err);
		tap_ok(r < 0 && strstr(err.text, inner) && !strstr(err.text, "chmod"),
			"a directory that it cannot read is an error");
		tap_note("%s", err.text);
		(void)box_close(&b);
	}
	CHECK(record_remove_tree(dir) == 0);
}

static void test_long_path(void)
{
	char *normal = xstrdup(host.runtime);
	char deep[400];
	(void)snprintf(deep, sizeof(deep), "%s/%0150d", host.runtime, 7);
	CHECK(mkdir(deep, 0700) == 0);
	struct box b;
	box_init(&b, &host);
	b.spec.runtime_dir = deep;
	tap_ok(box_open(&b, host.provider), "a runtime directory beyond 108 bytes");
	(void)box_close(&b);
	tap_ok(rmdir(deep) == 0, "is empty afterwards");
	free(normal);
}

/* ---- the broker dies ---- */

/* Runs in a child: one sandbox with work in it, then waits to be killed. */
NORETURN static void creator(int told_fd)
{
	struct box b;
	struct box_result r;
	uv_loop_t loop;
	CHECK(uv_loop_init(&loop) == 0);
	box_init(&b, &host);
	b.loop = &loop;
	bool ok = box_open(&b, host.provider) &&
		  box_run(&b, "setsid sleep 1000 & sleep 1000 & echo", 5 * USEC_PER_SEC, &r);
	if (!ok)
		b.id[0] = '\0';
	(void)!write(told_fd, b.id, sizeof(b.id));
	for (;;)
		(void)pause();
}

static void test_dead_broker(void)
{
	struct traces before = traces(&host);
	int told[2];
	CHECK(pipe2(told, O_CLOEXEC) == 0);
	pid_t pid = fork();
	if (pid == 0)
		creator(told[1]);
	(void)close(told[1]);
	char id[ID_TEXT_SIZE] = "";
	bool up = read(told[0], id, sizeof(id)) == sizeof(id) && id_valid('x', id);
	(void)close(told[0]);
	box_note(id);
	tap_ok(up && traces_count(host.runtime, "x-") > 0, "another broker has a sandbox");
	(void)provider_sweep(host.runtime); /* may find what others left, too */
	tap_ok((is_docker() || traces_groups() >= (up && cgroup_host()->v2 ? 1 : 0)) &&
			traces_count(host.runtime, "x-") > 0,
		"a sweep leaves what lives alone");
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	/* Its agent ends by itself (orphan_ms 0), then the sweep has something to do. */
	uint64_t end = clock_monotonic_us() + box_patience((is_docker() ? 60 : 10) * USEC_PER_SEC);
	struct traces after;
	do {
		(void)nanosleep(
			&(struct timespec){.tv_nsec = is_docker() ? 500000000 : 20000000}, NULL);
		sweep();
		after = traces(&host);
	} while (memcmp(&before, &after, sizeof(after)) != 0 && clock_monotonic_us() < end);
	tap_ok(traces_same(&before, &after), "broker killed with -9: a sweep leaves nothing");
}

/* At any moment of a sandbox's beginning: before it has a process, while bubblewrap sets it up,
 * while its agent waits for the first word of a broker. */
static void test_broker_killed_early(void)
{
	const unsigned times = is_docker() ? 12 : 50;
	const unsigned longest_us = is_docker() ? 1200000 : 40000;
	const uint64_t wait_us = (is_docker() ? 90 : 3) * USEC_PER_SEC;
	size_t before = traces_count(host.runtime, ""), after = 0;
	for (unsigned i = 0; i < times; i++) {
		struct box b;
		struct err err;
		uv_loop_t loop;
		box_init(&b, &host);
		pid_t pid = fork();
		if (pid == 0) {
			CHECK(uv_loop_init(&loop) == 0);
			b.loop = &loop;
			bool never = false;
			(void)box_create(&b, host.provider, &err);
			(void)box_until(&loop, &never, 10 * USEC_PER_SEC);
			_exit(0);
		}
		(void)usleep(longest_us / times * i);
		CHECK(pid > 0 && kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
	}
	/* A record is locked for as long as anything of its sandbox lives. */
	uint64_t end = clock_monotonic_us() + box_patience(wait_us);
	do {
		(void)usleep(is_docker() ? 500000 : 20000);
		sweep();
		after = traces_count(host.runtime, "");
	} while (after != before && clock_monotonic_us() < end);
	tap_ok(after == before, "brokers killed while they make a sandbox: nothing lives on (%zu)",
		after - before);
}

static void test_uids_used_up(void)
{
	if (is_docker()) {
		tap_skip("uids used up", "a container's uid is one of 16 million");
		return;
	}
	if (!as_root) {
		tap_skip("uids used up", "only a root broker has a range of uids");
		return;
	}
	CHECK(setenv("SCB_UID_RANGE", "2000001000-2000001001", 1) == 0);
	struct box b[3];
	struct err err = {0};
	for (size_t i = 0; i < 3; i++)
		box_init(&b[i], &host);
	bool two = box_open(&b[0], host.provider) && box_open(&b[1], host.provider);
	int r = box_create(&b[2], host.provider, &err);
	tap_ok(two && r < 0 && err.code == ERR_LIMIT_REACHED && strstr(err.text, "uids"),
		"a third sandbox of two uids is refused with the reason");
	tap_note("%s", err.text);
	(void)box_close(&b[0]);
	box_init(&b[2], &host);
	tap_ok(box_open(&b[2], host.provider), "and comes up once one is free again");
	(void)box_close(&b[2]);
	(void)box_close(&b[1]);
	CHECK(setenv("SCB_UID_RANGE", "x", 1) == 0);
	box_init(&b[2], &host);
	r = box_create(&b[2], host.provider, &err);
	tap_ok(r < 0 && strstr(err.text, "FIRST-LAST"), "a range that makes no sense says so");
	traces_own_uids();
}

static void test_probe(void)
{
	struct provider_probe p;
	struct err err = {0};
	struct traces before = traces(&host);
	int r = host.provider->probe(&p, &err);
	tap_ok(r == 0 && p.usable, "probe says usable");
	tap_note("%s", p.reason);
	struct traces after = traces(&host);
	tap_ok(traces_same(&before, &after), "probe leaves nothing");
}

/* Container engines and careful administrators start services without core files. Cannot be undone:
 * the last test. */
static void test_no_core_files(void)
{
	struct box b;
	struct box_result r;
	const struct rlimit none = {0, 0};
	CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
	box_init(&b, &host);
	if (tap_ok(box_open(&b, host.provider), "a sandbox where the hard RLIMIT_CORE is 0"))
		tap_ok(box_run(&b, "ulimit -Hc; ulimit -Sc", 5 * USEC_PER_SEC, &r) &&
				strcmp(r.out, "0\n0\n") == 0,
			"has 0, too");
	else
		tap_note("%s", b.why.text);
	(void)box_close(&b);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		(void)fprintf(stderr, "usage: contract PROVIDER root|user\n");
		return 2;
	}
	bool want_root = strcmp(argv[2], "root") == 0;
	if (!want_root) {
		int status = tap_as_user(argc, argv);
		if (status >= 0)
			return status;
	}
	as_root = geteuid() == 0;
	if (want_root && !as_root) {
		(void)printf("1..0 # SKIP needs root\n");
		return 0;
	}
	CHECK(box_host_init(&host, argv[1]) == 0);
	traces_own_uids();
	test_probe();
	test_cycles();
	test_immediate_destroy();
	test_busy_destroy();
	test_many_at_once();
	test_exited();
	test_bad_spec();
	test_capabilities();
	if (is_docker())
		test_lost_by_memory();
	test_host_uid();
	test_mounts();
	test_long_path();
	test_dead_broker();
	test_broker_killed_early();
	test_uids_used_up();
	test_no_core_files();
	tap_ok(box_host_done(&host), "the runtime directory is empty at the end");
	return tap_done();
}
