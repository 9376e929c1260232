/* What providers say when they fail, and how they clean up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "provider/explain.h"
#include "provider/provider.h"
#include "provider/process.h"
#include "provider/record.h"

static void explained(const char *said, const char *expect)
{
	_cleanup_buf_ struct buf b = BUF_INIT(4096);
	struct err err = {0};
	assert_int_equal(buf_append_str(&b, said), 0);
	explain_exit("bubblewrap", &b, 1, &err);
	if (!strstr(err.text, expect))
		fail_msg("\"%s\" gave \"%s\"", said, err.text);
	assert_true(str_utf8_valid(err.text, strlen(err.text)));
	assert_null(strpbrk(err.text, "\n\033"));
}

/* As bubblewrap 0.8 prints them. */
static void failures_are_explained(void **state)
{
	(void)state;
	explained("bwrap: Creating new namespace failed: nesting depth or "
		  "/proc/sys/user/max_*_namespaces exceeded (ENOSPC)\n",
		"user.max_user_namespaces=");
	explained(
		"bwrap: Creating new namespace failed, likely because the kernel does not support "
		"user namespaces.  bwrap must be installed setuid on such systems.\n",
		"no user namespaces");
	explained(
		"bwrap: No permissions to create new namespace, likely because the kernel does not "
		"allow non-privileged user namespaces.\n",
		"user namespaces");
	explained("bwrap: Can't mount proc on /newroot/proc: Operation not permitted\n",
		"systempaths=unconfined");
	explained("bwrap: Failed to make / slave: Permission denied\n", "inside a container");
	explained("bwrap: Unknown option --info-fd\n", "too old");
	explained("scb launch: exec /usr/bin/bwrap: ENOENT\n", "sudo apt install bubblewrap");
	explained("scb launch: become the sandbox's uid : EPERM\n", "CAP_SETUID");
	/* Not known: what was printed, made harmless. */
	explained("bwrap: something \033[31mnew\xff happened\n", "something  [31mnew");
	explained("", "ended with status 1");
}

static void trees_are_removed(void **state)
{
	(void)state;
	char dir[] = "/tmp/scb-tree-XXXXXX", path[64];
	assert_non_null(mkdtemp(dir));
	int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(at >= 0);
	/* Deeper than any path may be long, with things in it that lead elsewhere. */
	for (int i = 0; i < 3000; i++) {
		assert_int_equal(mkdirat(at, "d", 0700), 0);
		if (i % 100 == 0) {
			assert_int_equal(symlinkat("/etc", at, "link"), 0);
			assert_int_equal(mkfifoat(at, "fifo", 0), 0);
			assert_int_equal(mkdirat(at, "closed", 0), 0);
		}
		int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(next >= 0);
		(void)close(at);
		at = next;
	}
	(void)close(at);
	(void)snprintf(path, sizeof(path), "%s/wide", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	at = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 2000; i++) {
		(void)snprintf(path, sizeof(path), "%d", i);
		int fd = openat(at, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0);
		assert_true(fd >= 0);
		(void)close(fd);
	}
	assert_int_equal(fchmod(at, 0), 0);
	(void)close(at);
	assert_int_equal(record_remove_tree(dir), 0);
	assert_int_equal(access(dir, F_OK), -1);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
	assert_int_equal(record_remove_tree(dir), 0); /* gone is gone */
}

static void records_of_the_dead_are_swept(void **state)
{
	(void)state;
	char dir[] = "/tmp/scb-record-XXXXXX";
	assert_non_null(mkdtemp(dir));
	_cleanup_free_ char *workdir = xasprintf("%s/x-1.d", dir);
	_cleanup_free_ char *socket = xasprintf("%s/x-1.sock", dir);
	_cleanup_free_ char *name = xasprintf("%s/x-1.box", dir);
	assert_int_equal(mkdir(workdir, 0700), 0);
	int fd = open(socket, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	(void)close(fd);
	struct record r;
	struct err err;
	const struct record_facts f = {.socket = socket, .workdir = workdir, .uid = 7};
	assert_int_equal(record_create(dir, "x-1", &f, &r, &err), 0);
	assert_int_equal(record_sweep(dir), 0);
	fd_closep(&r.guard_fd); /* the broker is dead, the sandbox lives */
	assert_int_equal(record_sweep(dir), 0);
	fd_closep(&r.shared_fd);
	assert_int_equal(record_sweep(dir), 1);
	assert_int_equal(access(workdir, F_OK), -1);
	assert_int_equal(access(socket, F_OK), -1);
	assert_int_equal(access(name, F_OK), -1);
	/* A forged record cannot name what is elsewhere. */
	fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	static const char forged[] =
		"boot x\nworkdir /tmp\nsocket /etc/passwd\ncgroup /tmp\nnonsense\n\n";
	assert_int_equal(write(fd, forged, sizeof(forged) - 1), sizeof(forged) - 1);
	(void)close(fd);
	assert_int_equal(record_sweep(dir), 1);
	assert_int_equal(access("/tmp", F_OK), 0);
	assert_int_equal(access("/etc/passwd", F_OK), 0);
	fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	_cleanup_free_ char *out = xasprintf("boot x\nworkdir %s/../%s\n", dir, dir + 5);
	assert_int_equal(write(fd, out, strlen(out)), strlen(out));
	(void)close(fd);
	assert_int_equal(record_sweep(dir), 1);
	assert_int_equal(access(dir, F_OK), 0);
	free(r.path);
	assert_int_equal(rmdir(dir), 0);
}

static void a_record_is_read_again(void **state)
{
	(void)state;
	static const struct capabilities caps = {"container", "cgroup2", "cgroup2", "cgroup2",
		"tmpfs", "memory", "cgroup.kill", "none: no network device", "user namespace",
		"allow-list", "yes", "dedicated"};
	char dir[] = "/tmp/scb-record-XXXXXX";
	assert_non_null(mkdtemp(dir));
	_cleanup_free_ char *socket = xasprintf("%s/x-1.sock", dir);
	char group[] = "/sys/fs/cgroup/nonexistent/x-1";
	const struct record_facts f = {
		.socket = socket, .uid = 7, .cgroups = {group}, .n_cgroups = 1};
	struct record r, again;
	struct record_facts read = {0};
	struct process self;
	struct err err;
	assert_true(process_read(getpid(), &self));
	assert_int_equal(record_create(dir, "x-1", &f, &r, &err), 0);
	assert_int_equal(record_add_inside(&r, "/k ernels", "/workspace", &caps), 0);
	assert_int_equal(record_add_process(&r, "first", getpid()), 0);
	assert_int_equal(write(r.guard_fd, "init 12", 7), 7); /* cut off */
	assert_int_equal(record_open(dir, "x-1", &again, &read, &err), 0);
	assert_true(read.same_boot);
	assert_int_equal(read.uid, 7);
	assert_int_equal(read.n_cgroups, 1);
	assert_string_equal(read.cgroups[0], group);
	assert_string_equal(read.socket, socket);
	assert_null(read.workdir);
	assert_string_equal(read.kernels_dir, "/k ernels");
	assert_string_equal(read.workspace, "/workspace");
	assert_int_equal(read.first.pid, getpid());
	assert_int_equal(read.first.start, self.start);
	assert_int_equal(read.init.pid, 0);
	assert_string_equal(read.caps.isolation_level, "container");
	assert_string_equal(read.caps.egress, "none: no network device");
	assert_string_equal(read.caps.host_uid, "dedicated");
	record_facts_done(&read);

	/* Whose lock is shared is alive; whose is not is removed. */
	assert_int_equal(record_sweep(dir), 0);
	record_remove(&again);
	free(TAKE_PTR(r.path));
	record_remove(&r);
	assert_int_equal(record_open(dir, "x-1", &again, &read, &err), -ENOENT);
	assert_int_equal(err.code, ERR_SANDBOX_LOST);
	assert_int_equal(record_create(dir, "x-1", &f, &r, &err), 0);
	fd_closep(&r.guard_fd);
	fd_closep(&r.shared_fd);
	assert_int_equal(record_open(dir, "x-1", &again, &read, &err), -ESRCH);
	assert_int_equal(access(r.path, F_OK), -1);
	free(r.path);
	assert_int_equal(rmdir(dir), 0);
}

/* A number is not enough: the one that had it may have ended. */
static void processes_are_known_by_their_start(void **state)
{
	(void)state;
	struct process self;
	assert_true(process_read(getpid(), &self));
	assert_int_equal(self.parent, getppid());
	assert_false(self.dead);
	int fd = process_open(getpid(), self.start);
	assert_true(fd >= 0);
	assert_int_equal(process_signal(fd, 0), 0);
	(void)close(fd);
	assert_int_equal(process_open(getpid(), self.start + 1), -ESRCH);
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	siginfo_t info;
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(process_open(pid, 0), -ESRCH); /* a zombie */
	assert_int_equal(process_child(getpid()), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(process_open(pid, 0), -ESRCH);
}

static void providers_are_selected(void **state)
{
	(void)state;
	const struct provider *p = NULL;
	struct err err = {0};
	assert_int_equal(provider_select("local", &p, &err), 0);
	assert_ptr_equal(p, &provider_local);
	assert_true(provider_select("nonsense", &p, &err) < 0);
	assert_non_null(strstr(err.text, "nonsense"));
	assert_null(provider_by_name(""));
	for (size_t i = 0; provider_auto_order[i]; i++)
		assert_ptr_not_equal(provider_auto_order[i], &provider_local);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failures_are_explained),
		cmocka_unit_test(trees_are_removed),
		cmocka_unit_test(records_of_the_dead_are_swept),
		cmocka_unit_test(a_record_is_read_again),
		cmocka_unit_test(processes_are_known_by_their_start),
		cmocka_unit_test(providers_are_selected),
	};
	return cmocka_run_group_tests_name("provider", tests, NULL, NULL);
}
