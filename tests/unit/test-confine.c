/* Uids and control groups, on the real kernel; what needs root is skipped without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "confine/cgroup.h"
#include "confine/uids.h"

#define ORDINARY_UID 64208

static void need(bool there, const char *what)
{
	if (there)
		return;
	print_message("# skip: needs %s\n", what);
	skip();
}

static void need_root(void)
{
	need(geteuid() == 0, "root");
}

static void own_range(void)
{
	char range[40];
	/* Not what other tests or a broker on this machine use. */
	unsigned first = 2000100000U + (unsigned)getpid() * 4;
	(void)snprintf(range, sizeof(range), "%u-%u", first, first + 1);
	assert_int_equal(setenv("SCB_UID_RANGE", range, 1), 0);
}

static void uids_are_exclusive(void **state)
{
	(void)state;
	need_root();
	own_range();
	struct uid_claim a, b, c;
	struct err err = {0};
	assert_int_equal(uids_claim(&a, &err), 0);
	assert_int_equal(uids_claim(&b, &err), 0);
	assert_int_not_equal(a.uid, b.uid);
	assert_true(uids_claim(&c, &err) < 0);
	assert_int_equal(err.code, ERR_LIMIT_REACHED);
	uids_release(&a);
	assert_int_equal(uids_claim(&c, &err), 0);
	uids_release(&b);
	uids_release(&c);
}

static void uids_outlive_either_side(void **state)
{
	(void)state;
	need_root();
	own_range();
	struct uid_claim a, b, c;
	struct err err = {0};
	assert_int_equal(uids_claim(&a, &err), 0);
	assert_int_equal(uids_claim(&b, &err), 0);
	/* A hostile agent unlocks what it inherited: the broker's guard holds. */
	assert_int_equal(flock(a.shared_fd, LOCK_UN), 0);
	fd_closep(&a.shared_fd);
	assert_true(uids_claim(&c, &err) < 0);
	/* The broker is dead, the sandbox lives. */
	fd_closep(&b.guard_fd);
	assert_true(uids_claim(&c, &err) < 0);
	fd_closep(&b.shared_fd);
	assert_int_equal(uids_claim(&c, &err), 0);
	assert_int_equal(c.uid, b.uid);
	uids_release(&a);
	uids_release(&c);
}

static void uids_range_is_checked(void **state)
{
	(void)state;
	need_root();
	static const char *const bad[] = {"", "5", "0-9", "9-5", "a-b", "1-99999999999"};
	struct uid_claim c;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = {0};
		assert_int_equal(setenv("SCB_UID_RANGE", bad[i], 1), 0);
		assert_true(uids_claim(&c, &err) < 0);
		assert_int_equal(err.code, ERR_PROVIDER_UNUSABLE);
	}
	assert_int_equal(unsetenv("SCB_UID_RANGE"), 0);
}

/* ---- cgroups ---- */

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

/* Mount points and own groups as other machines have them; plain directories stand for the trees.
 */
static void cgroup_trees_are_found(void **state)
{
	(void)state;
	char dir[] = "/tmp/scb-cgroup-XXXXXX", path[128], text[1024];
	struct cgroup_host h;
	assert_non_null(mkdtemp(dir));
	static const char *const dirs[] = {"/mem", "/mem/user", "/mem/user/me", "/cpu", "/v2"};
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", dir, dirs[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	char mounts[64], own[64];
	(void)snprintf(mounts, sizeof(mounts), "%s/mountinfo", dir);
	(void)snprintf(own, sizeof(own), "%s/cgroup", dir);
	/* Hybrid: own group deep in memory; a container's view of cpu, whose root is its own group;
	 * "cpuset" and "cpuacct" are not "cpu". */
	(void)snprintf(text, sizeof(text),
		"1 0 0:1 / %s/mem rw shared:5 - cgroup cgroup rw,memory\n"
		"2 0 0:2 /docker/x %s/cpu rw - cgroup cgroup rw,cpuacct,cpu\n"
		"3 0 0:3 / %s/cpuset rw - cgroup cgroup rw,cpuset\n"
		"4 0 0:4 / %s/v2 rw - cgroup2 cgroup2 rw\n",
		dir, dir, dir, dir);
	write_to(mounts, text);
	write_to(own, "4:memory:/user/me\n3:cpuset:/\n2:cpu,cpuacct:/docker/x\n0::/gone\n");
	cgroup_host_find(mounts, own, true, &h);
	(void)snprintf(path, sizeof(path), "%s/mem/user/me/scb", dir);
	assert_string_equal(h.v1_memory, path);
	(void)snprintf(path, sizeof(path), "%s/cpu/scb", dir);
	assert_string_equal(h.v1_cpu, path);
	assert_int_equal(h.memory, CGROUP_V1);
	assert_int_equal(h.cpu, CGROUP_V1);
	assert_int_equal(h.pids, CGROUP_NONE);
	assert_null(h.v1_pids);
	assert_non_null(h.v2);
	assert_false(h.kill); /* a plain directory has no cgroup.kill */
	cgroup_host_done(&h);
	/* No files at all: nothing can be used, nothing fails. */
	cgroup_host_find("/nonexistent", "/nonexistent", true, &h);
	assert_int_equal(h.memory, CGROUP_NONE);
	assert_null(h.v2);
	cgroup_host_done(&h);
	static const char *const made[] = {"/mem/user/me/scb", "/cpu/scb", "/v2/scb", "/v2", "/cpu",
		"/mem/user/me", "/mem/user", "/mem"};
	(void)unlink(mounts);
	(void)unlink(own);
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", dir, made[i]);
		assert_int_equal(rmdir(path), 0);
	}
	assert_int_equal(rmdir(dir), 0);
}

/* A child that is born in the group, joins the code's groups by descriptor and sleeps. */
static pid_t sleeper(const struct cgroup_box *b)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP, .cgroup = (unsigned)b->v2_fd, .exit_signal = SIGCHLD};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		for (size_t i = 0; i < b->n_code_join; i++)
			if (write(b->code_join[i], "0", 1) != 1)
				_exit(2);
		for (;;)
			(void)pause();
	}
	return pid;
}

/* Born in it, killed by it, removed: as whoever may write to the base group. 0, or which step. */
static int live_and_die(const struct cgroup_host *h)
{
	char id[ID_TEXT_SIZE], path[LIMIT_PATH], text[64] = "";
	struct cgroup_box b;
	struct err err;
	id_new('x', id);
	const struct cgroup_limits limits = {
		.memory = 64 * MIB, .agent_memory = 32 * MIB, .pids = 20, .cpus = 1};
	if (cgroup_box_create(h, id, &limits, &b, &err) < 0)
		return 1;
	pid_t pid = sleeper(&b);
	if (pid < 0)
		return 2;
	(void)snprintf(path, sizeof(path), "%s/%s/cgroup.procs", h->v2, id);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (!h->v2_controllers &&
		(read(fd, text, sizeof(text) - 1) <= 0 || strtol(text, NULL, 10) != pid))
		return 3;
	if (cgroup_box_kill(&b) < 0)
		return 4;
	int status = 0;
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		return 5;
	int r = cgroup_box_remove(&b);
	for (int i = 0; r == -EBUSY && i < 100; i++) {
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		r = cgroup_box_remove(&b);
	}
	cgroup_box_done(&b);
	return r < 0 ? 6 : 0;
}

static void cgroup_kill_root(void **state)
{
	(void)state;
	need_root();
	const struct cgroup_host *h = cgroup_host();
	need(h->v2 && h->kill, "cgroup v2 with cgroup.kill");
	assert_int_equal(live_and_die(h), 0);
}

/* What a user's systemd hands over: a group that is theirs, with this process alone in it. */
static void cgroup_kill_delegated(void **state)
{
	(void)state;
	need_root();
	const struct cgroup_host *h = cgroup_host();
	need(h->v2 && h->kill, "cgroup v2 with cgroup.kill");
	char group[LIMIT_PATH], path[LIMIT_PATH + 64];
	(void)snprintf(group, sizeof(group), "%s/../scb-test-%d", h->v2, (int)getpid());
	assert_int_equal(mkdir(group, 0755), 0);
	assert_int_equal(chown(group, ORDINARY_UID, ORDINARY_UID), 0);
	static const char *const files[] = {
		"cgroup.procs", "cgroup.subtree_control", "cgroup.threads"};
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", group, files[i]);
		assert_int_equal(chown(path, ORDINARY_UID, ORDINARY_UID), 0);
	}
	(void)snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	pid_t pid = fork();
	if (pid == 0) {
		struct cgroup_host mine;
		int fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, "0", 1) != 1 || close(fd) < 0 ||
			setresgid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) < 0 ||
			setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) < 0)
			_exit(20);
		cgroup_host_find("/proc/self/mountinfo", "/proc/self/cgroup", false, &mine);
		if (!mine.v2 || !mine.kill || !strstr(mine.v2, "scb-test-"))
			_exit(21);
		_exit(live_and_die(&mine));
	}
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	static const char *const made[] = {"/scb", "/scb-broker", ""};
	for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", group, made[i]);
		(void)rmdir(path);
	}
	assert_int_equal(access(group, F_OK), -1);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Joins the code's groups and forks until it may not; how often it did. */
NORETURN static void fork_to_the_limit(const struct cgroup_box *b)
{
	int n = 0;
	(void)setpgid(0, 0);
	for (size_t i = 0; i < b->n_code_join; i++)
		if (write(b->code_join[i], "0", 1) != 1)
			_exit(99);
	for (; n < 20; n++) {
		pid_t child = fork();
		if (child < 0)
			break;
		while (child == 0)
			(void)pause();
	}
	_exit(n);
}

static void cgroup_v1_limits(void **state)
{
	(void)state;
	need_root();
	const struct cgroup_host *h = cgroup_host();
	need(h->pids == CGROUP_V1 && h->memory == CGROUP_V1, "cgroup v1");
	char id[ID_TEXT_SIZE], text[128] = "";
	struct cgroup_box b;
	struct err err;
	id_new('x', id);
	const struct cgroup_limits limits = {
		.memory = 64 * MIB, .agent_memory = 32 * MIB, .pids = 5, .cpus = 1};
	assert_int_equal(cgroup_box_create(h, id, &limits, &b, &err), 0);
	pid_t pid = fork();
	if (pid == 0)
		fork_to_the_limit(&b);
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 4); /* with itself: five */
	assert_true(pread(b.pids_events_fd, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "max 1\n");
	assert_int_equal(cgroup_box_remove(&b), -EBUSY);
	assert_int_equal(kill(-pid, SIGKILL), 0);
	int r = -EBUSY;
	for (int i = 0; r == -EBUSY && i < 1000; i++) {
		r = cgroup_box_remove(&b);
		(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	assert_int_equal(r, 0);
	cgroup_box_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uids_are_exclusive),
		cmocka_unit_test(uids_outlive_either_side),
		cmocka_unit_test(uids_range_is_checked),
		cmocka_unit_test(cgroup_trees_are_found),
		cmocka_unit_test(cgroup_kill_root),
		cmocka_unit_test(cgroup_kill_delegated),
		cmocka_unit_test(cgroup_v1_limits),
	};
	return cmocka_run_group_tests_name("confine", tests, NULL, NULL);
}
