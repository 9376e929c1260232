/* launch.c: see launch.h. */
#include "provider/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/sig.h"

/* As env(1), timeout(1) and docker have it: the tool failed, not the program. */
#define EXIT_LAUNCH  125
#define HIGH_FD      256 /* above every number that a descriptor is given in the child */
#define CAPABILITIES 64  /* more than any kernel has; the unknown ones answer EINVAL */

int launch_give(struct launch *l, int fd)
{
	CHECK(l->n_fds < LAUNCH_FDS && fd > STDERR_FILENO);
	l->fds[l->n_fds] = fd;
	return LAUNCH_FIRST_FD + (int)l->n_fds++;
}

int launch_give_owned(struct launch *l, int fd)
{
	int number = launch_give(l, fd);
	l->owned[number - LAUNCH_FIRST_FD] = true;
	return number;
}

/* Anyone may go to it and use it. */
static bool reachable(const char *path)
{
	struct stat st;
	_cleanup_free_ char *prefix = xstrdup(path);
	for (char *p = prefix; (p = strchr(p + 1, '/'));) {
		*p = '\0';
		bool enter = stat(prefix, &st) == 0 && (st.st_mode & S_IXOTH);
		*p = '/';
		if (!enter)
			return false;
	}
	const mode_t use = S_IROTH | S_IXOTH;
	return stat(path, &st) == 0 && (st.st_mode & use) == use;
}

const char *launch_see(struct launch *l, const char *source, bool directory, bool writable)
{
	if (!l->uid || reachable(source))
		return source;
	CHECK(l->n_stages < LAUNCH_STAGES);
	struct launch_stage *s = &l->stages[l->n_stages];
	*s = (struct launch_stage){
		.source = source,
		.target = xasprintf(LAUNCH_STAGE_DIR "/%zu", l->n_stages),
		.directory = directory,
		.writable = writable,
	};
	l->n_stages++;
	return s->target;
}

const char *launch_see_mount(struct launch *l, const char *source)
{
	const char *seen = launch_see(l, source, true, false);
	if (seen != source)
		l->stages[l->n_stages - 1].mount = true;
	return seen;
}

void launch_done(struct launch *l)
{
	for (size_t i = 0; i < l->n_fds; i++)
		if (l->owned[i])
			fd_closep(&l->fds[i]);
	for (size_t i = 0; i < l->n_stages; i++)
		free(l->stages[i].target);
	l->n_fds = l->n_stages = 0;
}

/* From here to exec: system calls only, because the broker may have threads. */

NORETURN static void fail(const char *step, const char *what)
{
	const char *name = strerrorname_np(errno);
	const char *parts[] = {
		"scb launch: ", step, " ", what ? what : "", ": ", name ? name : "?", "\n"};
	struct iovec iov[ARRAY_SIZE(parts)];
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		iov[i] = (struct iovec){(void *)parts[i], strlen(parts[i])};
	(void)!writev(STDERR_FILENO, iov, ARRAY_SIZE(iov));
	_exit(EXIT_LAUNCH);
}

static void standard_fds(const struct launch *l)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(l->stderr_fd, STDERR_FILENO) < 0 || dup2(null, STDIN_FILENO) < 0 ||
		dup2(null, STDOUT_FILENO) < 0)
		fail("open", "/dev/null");
}

static void join_groups(const struct launch *l, bool born_in_group)
{
	int procs = -1;
	if (!born_in_group && l->cgroup2_fd >= 0 &&
		((procs = openat(l->cgroup2_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC)) < 0 ||
			write(procs, "0", 1) != 1))
		fail("join cgroup", "cgroup.procs");
	for (size_t i = 0; i < l->n_join; i++)
		if (write(l->join[i], "0", 1) != 1)
			fail("join cgroup", NULL);
}

static void enter_real(const char *path)
{
	int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd =
		top < 0 ? -errno : fd_open_beneath_no_links(top, path + 1, O_PATH | O_DIRECTORY, 0);
	if (fd < 0 || fchdir(fd) < 0) {
		errno = fd < 0 ? -fd : errno;
		fail("open", path);
	}
	(void)close(fd);
	(void)close(top);
}

static void make_stage(const struct launch *l, const struct launch_stage *s)
{
	int fd = -1;
	if (s->directory
			? mkdir(s->target, 0755) < 0
			: (fd = open(s->target, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644)) < 0)
		fail("stage", s->target);
	if (fd >= 0)
		(void)close(fd);
	if (s->mount)
		enter_real(s->source);
	if (mount(s->mount ? "." : s->source, s->target, NULL, MS_BIND | MS_REC, NULL) < 0)
		fail("bind", s->source);
	/* Only adds: flags that are locked on the source stay as they are. */
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
					      (s->writable ? 0U : MOUNT_ATTR_RDONLY),
		.attr_clr = l->sealed && s->writable ? MOUNT_ATTR_RDONLY : 0U};
	if (mount_setattr(AT_FDCWD, s->target, AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		fail("make read-only", s->source);
}

/* In a mount namespace that only this process and what it becomes will ever have. */
static void stage(const struct launch *l)
{
	const struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID};
	if (!l->n_stages && !l->sealed)
		return;
	if (unshare(CLONE_NEWNS | (l->sealed ? CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS : 0)) < 0)
		fail("unshare mounts", NULL);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		fail("make mounts private", NULL);
	if (l->sealed && mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, (struct mount_attr *)&read_only,
				 sizeof(read_only)) < 0)
		fail("make read-only", "/");
	if (mount("scb", LAUNCH_STAGE_DIR, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k") < 0)
		fail("mount", LAUNCH_STAGE_DIR);
	for (size_t i = 0; i < l->n_stages; i++)
		make_stage(l, &l->stages[i]);
}

static void limits(void)
{
	/* 1 byte is the value at which the kernel does not start a core_pattern program, which runs
	 * as the host's root; at 0 it does (core(5)). Where the hard limit of who started the
	 * broker is 0 already, 1 is out of reach, and a crash inside is seen by such a program, as
	 * every crash on that host is: nothing else keeps it away, for exec makes a process
	 * dumpable again. */
	const struct rlimit best = {1, 1}, none = {0, 0};
	if (setrlimit(RLIMIT_CORE, &best) < 0 && setrlimit(RLIMIT_CORE, &none) < 0)
		fail("RLIMIT_CORE", NULL);
}

/* After the uid has changed: in every set, so that they also last through exec. */
static void keep_capabilities(const struct launch *l)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2];
	for (int i = 0; i < 2; i++) {
		uint32_t bits = (uint32_t)(l->keep_caps >> (32 * i));
		sets[i] = (struct __user_cap_data_struct){bits, bits, bits};
	}
	if (syscall(SYS_capset, &head, sets) < 0)
		fail("keep capabilities", NULL);
	for (int cap = 0; cap < CAPABILITIES; cap++)
		if ((l->keep_caps >> cap & 1) &&
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			fail("keep capabilities", NULL);
}

static void become(const struct launch *l)
{
	if (l->uid) {
		if (l->keep_caps && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
			fail("keep capabilities", NULL);
		for (int cap = 0; cap < CAPABILITIES; cap++)
			if (!(l->keep_caps >> cap & 1))
				(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
		/* The raw calls: glibc's set*id() signal every thread, and here there is one. */
		if (syscall(SYS_setgroups, 0, NULL) < 0 ||
			syscall(SYS_setresgid, l->uid, l->uid, l->uid) < 0 ||
			syscall(SYS_setresuid, l->uid, l->uid, l->uid) < 0)
			fail("become the sandbox's uid", NULL);
		if (l->keep_caps)
			keep_capabilities(l);
	}
	/* Also keeps a bubblewrap that is installed setuid from becoming root on the host. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail("no_new_privs", NULL);
	if (l->uid && (geteuid() == 0 || setresuid((uid_t)-1, 0, (uid_t)-1) == 0))
		fail("give up root", NULL);
	if (l->reaper && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		fail("subreaper", NULL);
}

/* First out of the way, then into place: a target number may be another's source. */
static void place_fds(const struct launch *l)
{
	int high[LAUNCH_FDS];
	for (size_t i = 0; i < l->n_fds; i++)
		if ((high[i] = fcntl(l->fds[i], F_DUPFD_CLOEXEC, HIGH_FD)) < 0)
			fail("place descriptors", NULL);
	for (size_t i = 0; i < l->n_fds; i++)
		if (dup2(high[i], LAUNCH_FIRST_FD + (int)i) < 0)
			fail("place descriptors", NULL);
	if (fd_close_from(LAUNCH_FIRST_FD + (int)l->n_fds) < 0)
		fail("close descriptors", NULL);
}

static void wait_for_gate(const struct launch *l)
{
	char byte;
	if (!l->gate_writer)
		return;
	(void)close(l->gate_writer);
	ssize_t n;
	do
		n = read(l->gate, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(EXIT_LAUNCH);
}

NORETURN static void child(const struct launch *l, bool born_in_group)
{
	wait_for_gate(l);
	standard_fds(l);
	/* What is sent to the broker's process group is not for sandboxes. */
	(void)setsid();
	sig_reset();
	join_groups(l, born_in_group);
	stage(l);
	limits();
	become(l);
	place_fds(l);
	(void)umask(022);
	if (chdir("/") < 0)
		fail("chdir", "/");
	(void)execve(l->program, l->argv, l->env);
	fail("exec", l->program);
}

/* fork() into a v2 group and with a pidfd at once: joining by cgroup.procs costs 6 to 14 ms. As
 * fork() where the kernel, or a filter around this process, has no clone3(). */
static pid_t fork_into(const struct launch *l, int *ret_pidfd, bool *ret_born_in_group)
{
	int pidfd = -1;
	struct clone_args args = {
		.flags = CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	if (l->cgroup2_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)(unsigned)l->cgroup2_fd;
	}
	*ret_born_in_group = true;
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0 && (errno == ENOSYS || errno == EPERM)) {
		*ret_born_in_group = false;
		pid = fork();
		if (pid > 0)
			pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	}
	*ret_pidfd = pidfd;
	return pid;
}

pid_t launch_start(const struct launch *l, int *ret_pidfd, struct err *err)
{
	CHECK(l->n_fds <= LAUNCH_FDS && l->n_stages <= LAUNCH_STAGES);
	CHECK(geteuid() != 0 || l->uid != 0); /* never host uid 0 */
	if (l->n_stages) {
		/* The sandbox's uid must be able to pass through, whatever the umask and whoever
		 * made them. */
		(void)mkdir("/run/scb", 0711);
		(void)mkdir(LAUNCH_STAGE_DIR, 0711);
		if (chmod("/run/scb", 0711) < 0 || chmod(LAUNCH_STAGE_DIR, 0711) < 0)
			return err_set(err, ERR_PROVIDER_UNUSABLE, errno,
				"the staging directory " LAUNCH_STAGE_DIR " cannot be made: %s",
				strerror(errno));
	}
	bool born_in_group;
	pid_t pid = fork_into(l, ret_pidfd, &born_in_group);
	if (pid < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, errno,
			"cannot start the sandbox's first process: %s", strerror(errno));
	if (pid == 0)
		child(l, born_in_group);
	if (*ret_pidfd < 0) {
		int r = err_set(err, ERR_PROVIDER_UNUSABLE, errno,
			"this kernel has no pidfd_open (Linux 5.3 or newer is needed): %s",
			strerror(errno));
		(void)kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
		return r;
	}
	return pid;
}
