/* hostile.c: a program that tries to get out of, look around from, or break the sandbox that it is
 * run in. Static, so that it runs in any of them.
 *
 *   hostile GROUP [argument]
 *
 * One line an attack: "ok NAME detail" where it was held off, "FAIL NAME detail" where not. What it
 * tries is known from escapes and bug reports; nothing in it works against a sound sandbox. */
#include "hostile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Newer than some libcs. */
#define NR_IO_URING_SETUP 425
#define NR_OPEN_TREE      428
#define NR_MOVE_MOUNT     429
#define NR_FSOPEN         430
#define NR_PIDFD_OPEN     434
#define NR_CLONE3         435
#define NR_PIDFD_GETFD    438
#define NR_MOUNT_SETATTR  442
#define NR_PIDFD_SIGNAL   424

/* The call must fail with this errno. */
static void fails(const char *name, long r, int expect)
{
	int e = errno;
	char detail[64];
	(void)snprintf(detail, sizeof(detail), "%s", r >= 0 ? "succeeded" : strerror(e));
	report(r < 0 && e == expect, name, detail);
}

/* The call must fail, however. */
static void refused(const char *name, long r)
{
	int e = errno;
	report(r < 0, name, r >= 0 ? "succeeded" : strerror(e));
}

/* ---- group calls: what the filter refuses ---- */

static void sockets(void)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} bad[] = {
		{"AF_VSOCK", 40, SOCK_STREAM, 0},
		{"AF_PACKET", 17, SOCK_RAW, 0},
		{"AF_ALG", 38, SOCK_SEQPACKET, 0},
		{"AF_KEY", 15, SOCK_RAW, 2},
		{"AF_BLUETOOTH", 31, SOCK_RAW, 1},
		{"AF_CAN", 29, SOCK_RAW, 1},
		{"AF_TIPC", 30, SOCK_STREAM, 0},
		{"AF_XDP", 44, SOCK_RAW, 0},
		{"NETLINK_AUDIT", AF_NETLINK, SOCK_RAW, 9},
		{"NETLINK_NETFILTER", AF_NETLINK, SOCK_RAW, 12},
		{"NETLINK_UEVENT", AF_NETLINK, SOCK_RAW, 15},
		{"NETLINK_GENERIC", AF_NETLINK, SOCK_RAW, 16},
	};
	for (size_t i = 0; i < COUNT(bad); i++)
		fails(bad[i].name, socket(bad[i].family, bad[i].type, bad[i].protocol),
			EAFNOSUPPORT);
	/* The kernel looks at 32 bits; a filter that compares 64 would let this through. */
	fails("AF_VSOCK-high-bits", syscall(SYS_socket, 40L | 1L << 32, SOCK_STREAM, 0),
		EAFNOSUPPORT);
	int pair[2];
	fails("socketpair-AF_VSOCK", socketpair(40, SOCK_STREAM, 0, pair), EAFNOSUPPORT);
	static const int good[][2] = {{AF_UNIX, 0}, {AF_INET, 0}, {AF_INET6, 0}, {AF_NETLINK, 0}};
	for (size_t i = 0; i < COUNT(good); i++) {
		int fd = socket(good[i][0], SOCK_DGRAM, good[i][1]);
		report(fd >= 0, "allowed-family", strerror(fd < 0 ? errno : 0));
		(void)close(fd);
	}
}

static void namespaces(void)
{
	static const struct {
		const char *name;
		unsigned long flag;
	} flags[] = {{"NEWUSER", CLONE_NEWUSER}, {"NEWNS", CLONE_NEWNS}, {"NEWPID", CLONE_NEWPID},
		{"NEWNET", CLONE_NEWNET}, {"NEWIPC", CLONE_NEWIPC}, {"NEWUTS", CLONE_NEWUTS},
		{"NEWCGROUP", CLONE_NEWCGROUP}, {"NEWTIME", 0x80}};
	char name[64];
	for (size_t i = 0; i < COUNT(flags); i++) {
		(void)snprintf(name, sizeof(name), "unshare-%s", flags[i].name);
		fails(name, syscall(SYS_unshare, flags[i].flag), EPERM);
		if (flags[i].flag == 0x80)
			continue; /* clone() has a signal number there */
		(void)snprintf(name, sizeof(name), "clone-%s", flags[i].name);
		long pid = syscall(SYS_clone, flags[i].flag | SIGCHLD, 0, 0, 0, 0);
		if (pid == 0)
			_exit(0);
		fails(name, pid, EPERM);
	}
	/* struct clone_args: flags first, exit_signal fifth. */
	uint64_t args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
	long pid = syscall(NR_CLONE3, args, 64UL);
	if (pid == 0)
		_exit(0);
	fails("clone3-NEWUSER", pid, ENOSYS);
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	fails("setns", syscall(SYS_setns, fd, 0), EPERM);
	(void)close(fd);
}

static void forbidden_calls(void)
{
	struct iovec iov = {.iov_base = &iov, .iov_len = 1};
	fails("mount", syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, 0), EPERM);
	fails("mount-cgroup", syscall(SYS_mount, "none", "/tmp", "cgroup", 0, "memory"), EPERM);
	fails("mount-proc", syscall(SYS_mount, "none", "/tmp", "proc", 0, 0), EPERM);
	fails("umount2", syscall(SYS_umount2, "/tmp", 2), EPERM);
	fails("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp"), EPERM);
	fails("chroot", syscall(SYS_chroot, "/tmp"), EPERM);
	fails("fsopen", syscall(NR_FSOPEN, "tmpfs", 0), EPERM);
	fails("open_tree", syscall(NR_OPEN_TREE, AT_FDCWD, "/", 1), EPERM);
	fails("move_mount", syscall(NR_MOVE_MOUNT, -1, "", -1, "", 0), EPERM);
	fails("mount_setattr", syscall(NR_MOUNT_SETATTR, AT_FDCWD, "/", 0, 0, 0), EPERM);
	fails("bpf", syscall(SYS_bpf, 0, 0, 0), EPERM);
	fails("perf_event_open", syscall(SYS_perf_event_open, 0, 0, -1, -1, 0), EPERM);
	fails("userfaultfd", syscall(SYS_userfaultfd, 1), EPERM);
	fails("io_uring_setup", syscall(NR_IO_URING_SETUP, 1, 0), EPERM);
	fails("keyctl", syscall(SYS_keyctl, 0, -3, 0), EPERM);
	fails("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -3), EPERM);
	fails("request_key", syscall(SYS_request_key, "user", "x", 0, 0), EPERM);
	fails("kexec_load", syscall(SYS_kexec_load, 0, 0, 0, 0), EPERM);
	fails("init_module", syscall(SYS_init_module, 0, 0, ""), EPERM);
	fails("finit_module", syscall(SYS_finit_module, -1, "", 0), EPERM);
	fails("ptrace", syscall(SYS_ptrace, 0, 0, 0, 0), EPERM);
	fails("process_vm_readv", syscall(SYS_process_vm_readv, getpid(), &iov, 1, &iov, 1, 0),
		EPERM);
	fails("process_vm_writev", syscall(SYS_process_vm_writev, getpid(), &iov, 1, &iov, 1, 0),
		EPERM);
	fails("kcmp", syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 0), EPERM);
	fails("pidfd_getfd", syscall(NR_PIDFD_GETFD, 0, 0, 0), EPERM);
	fails("open_by_handle_at", syscall(SYS_open_by_handle_at, AT_FDCWD, &iov, 0), EPERM);
	fails("swapon", syscall(SYS_swapon, "/tmp/x", 0), EPERM);
	fails("reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0x89abcdef, 0), EPERM);
	fails("sethostname", syscall(SYS_sethostname, "x", 1), EPERM);
	fails("settimeofday", syscall(SYS_settimeofday, 0, 0), EPERM);
	fails("clock_settime", syscall(SYS_clock_settime, 0, 0), EPERM);
	fails("quotactl", syscall(SYS_quotactl, 0, 0, 0, 0), EPERM);
	fails("acct", syscall(SYS_acct, 0), EPERM);
	fails("syslog", syscall(SYS_syslog, 3, 0, 0), EPERM);
	fails("fanotify_init", syscall(SYS_fanotify_init, 0, 0), EPERM);
	fails("personality-no-aslr", syscall(SYS_personality, 0x0040000), EPERM);
	fails("personality-high-bits", syscall(SYS_personality, 0x0040000L | 1L << 32), EPERM);
	fails("unknown-call", syscall(9999), ENOSYS);
	refused("setuid-0", syscall(SYS_setresuid, 0, 0, 0));
	refused("setgid-0", syscall(SYS_setresgid, 0, 0, 0));
	refused("setgroups", syscall(SYS_setgroups, 0, 0));
}

/* gVisor lets everybody make the names of devices (release 20221219); it has no device for them. */
static void devices(bool gvisor)
{
	static const struct {
		const char *name, *path;
		mode_t mode;
		dev_t device;
	} all[] = {{"mknod-block", "/tmp/disk", S_IFBLK | 0600, 0x0800},
		{"mknod-mem", "/tmp/mem", S_IFCHR | 0600, 0x0101}};
	for (size_t i = 0; i < COUNT(all); i++) {
		int r = mknod(all[i].path, all[i].mode, all[i].device);
		refused(all[i].name, gvisor && r == 0 ? open(all[i].path, O_RDWR) : r);
	}
}

static void terminals(void)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		report(true, "ptmx", "not there");
		return;
	}
	fails("TIOCSTI", ioctl(fd, TIOCSTI, "x"), EPERM);
	fails("TIOCSTI-high-bits", syscall(SYS_ioctl, fd, (long)TIOCSTI | 1L << 32, "x"), EPERM);
	fails("TIOCLINUX", ioctl(fd, TIOCLINUX, "\2"), EPERM);
	(void)close(fd);
}

/* A child makes the call; the kernel must kill it (SIGSEGV where it has no such ABI at all). */
static void killed(const char *name, void (*call)(void))
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		call();
		_exit(0);
	}
	(void)waitpid(pid, &status, 0);
	report(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV),
		name, WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "lived");
}

#if defined(__x86_64__)
static void x32_call(void)
{
	(void)syscall(0x40000000 | 39);
}

static long int_80(long number)
{
	long r;
	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(number), "b"(0L), "c"(0L), "d"(0L), "D"(0L), "S"(0L)
			 : "memory", "r8", "r9", "r10", "r11");
	return r;
}

static void i386_call(void)
{
	(void)int_80(20);
}

/* To gVisor these are calls of the host's own architecture, by its numbers, where the host's kernel
 * has them at all: the filter sees what is done. */
static void not_i386_call(void)
{
	if (int_80(SYS_getpid) == getpid() && int_80(SYS_ptrace) == -EPERM)
		(void)raise(SIGSYS);
}
#endif

void group_calls(const char *argument)
{
	sockets();
	namespaces();
	forbidden_calls();
	devices(strcmp(argument, "gvisor") == 0);
	terminals();
#if defined(__x86_64__)
	killed("x32", x32_call);
	killed("i386", strcmp(argument, "gvisor") == 0 ? not_i386_call : i386_call);
#endif
}

/* ---- group agent: PID 1 ---- */

static void harm_by_calls(void)
{
	static const int resources[] = {RLIMIT_NOFILE, RLIMIT_AS, RLIMIT_CPU, RLIMIT_DATA,
		RLIMIT_FSIZE, RLIMIT_STACK, RLIMIT_NPROC};
	struct rlimit zero = {0, 0};
	for (size_t i = 0; i < COUNT(resources); i++)
		fails("prlimit-1", syscall(SYS_prlimit64, 1, resources[i], &zero, 0), EPERM);
	fails("prlimit-1-high-bits", syscall(SYS_prlimit64, 1L | 1L << 32, RLIMIT_CPU, &zero, 0),
		EPERM);
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	struct sched_param idle = {0};
	uint32_t attr[12] = {48, 5 /* SCHED_IDLE */};
	fails("sched_setaffinity-1", syscall(SYS_sched_setaffinity, 1, sizeof(one), &one), EPERM);
	fails("sched_setscheduler-1", syscall(SYS_sched_setscheduler, 1, 5, &idle), EPERM);
	fails("sched_setparam-1", syscall(SYS_sched_setparam, 1, &idle), EPERM);
	fails("sched_setattr-1", syscall(SYS_sched_setattr, 1, attr, 0), EPERM);
	fails("setpriority-1", setpriority(PRIO_PROCESS, 1, 19), EPERM);
	fails("setpriority-group-1", setpriority(PRIO_PGRP, 1, 19), EPERM);
	fails("setpriority-user", setpriority(PRIO_USER, 0, 19), EPERM);
	fails("setpriority-uid", setpriority(PRIO_USER, getuid(), 19), EPERM);
	fails("ioprio_set-1", syscall(SYS_ioprio_set, 1, 1, 3 << 13), EPERM);
	fails("ioprio_set-group", syscall(SYS_ioprio_set, 2, 1, 3 << 13), EPERM);
	fails("ioprio_set-user", syscall(SYS_ioprio_set, 3, getuid(), 3 << 13), EPERM);
	fails("ptrace-attach-1", syscall(SYS_ptrace, 16, 1, 0, 0), EPERM);
	fails("ptrace-seize-1", syscall(SYS_ptrace, 0x4206, 1, 0, 0), EPERM);
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
	fails("process_vm_readv-1", syscall(SYS_process_vm_readv, 1, &here, 1, &there, 1, 0),
		EPERM);
	fails("kcmp-1", syscall(SYS_kcmp, 1, getpid(), 0, 0, 0), EPERM);
	int fd = (int)syscall(NR_PIDFD_OPEN, 1, 0);
	fails("pidfd_getfd-1", syscall(NR_PIDFD_GETFD, fd, 3, 0), EPERM);
	(void)close(fd);
}

/* It must neither end nor stop: whoever started this asks the agent afterwards. */
static void harm_by_signals(void)
{
	for (int sig = 1; sig <= 64; sig++) {
		(void)kill(1, sig);
		(void)syscall(SYS_tgkill, 1, 1, sig);
	}
	int fd = (int)syscall(NR_PIDFD_OPEN, 1, 0);
	if (fd >= 0)
		(void)syscall(NR_PIDFD_SIGNAL, fd, SIGKILL, 0, 0);
	siginfo_t info = {.si_signo = SIGKILL, .si_code = SI_QUEUE};
	(void)syscall(SYS_rt_sigqueueinfo, 1, SIGSTOP, &info);
	report(true, "signals", "sent; is it alive?");
}

static void look_into(void)
{
	static const char *const secret[] = {"environ", "mem", "maps", "smaps", "auxv", "pagemap",
		"stack", "syscall", "io", "personality", "map_files", "root/etc", "cwd/.", "exe"};
	char path[64];
	for (size_t i = 0; i < COUNT(secret); i++) {
		char name[80], byte;
		(void)snprintf(path, sizeof(path), "/proc/1/%s", secret[i]);
		(void)snprintf(name, sizeof(name), "read-%s", path);
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = fd < 0 ? -1 : read(fd, &byte, 1);
		/* A directory that opens must not list. */
		if (fd >= 0 && n < 0 && errno == EISDIR) {
			struct stat st;
			DIR *d = fdopendir(dup(fd));
			n = -1;
			for (struct dirent *e; d && (e = readdir(d));)
				if (e->d_name[0] != '.' &&
					fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
					n = 1;
			if (d)
				(void)closedir(d);
		}
		report(n <= 0, name, n < 0 ? strerror(errno) : n ? "read" : "empty");
		if (fd >= 0)
			(void)close(fd);
	}
	for (int n = 0; n < 40; n++) {
		char target[128];
		(void)snprintf(path, sizeof(path), "/proc/1/fd/%d", n);
		if (readlink(path, target, sizeof(target)) >= 0 ||
			open(path, O_RDWR | O_CLOEXEC) >= 0) {
			report(false, "fd-of-1", path);
			return;
		}
	}
	report(true, "fd-of-1", "closed");
}

static void change_files(void)
{
	static const struct {
		const char *name, *text;
	} files[] = {{"mem", "x"}, {"oom_score_adj", "1000"}, {"oom_adj", "15"},
		{"autogroup", "19"}, {"coredump_filter", "0"}, {"clear_refs", "1"}, {"sched", "0"},
		{"comm", "x"}, {"timerslack_ns", "1000000000"}, {"uid_map", "0 0 1"},
		{"gid_map", "0 0 1"}, {"projid_map", "0 0 1"}, {"setgroups", "allow"},
		{"attr/current", "x"}, {"attr/exec", "x"}};
	for (size_t i = 0; i < COUNT(files); i++) {
		char path[64], name[80];
		(void)snprintf(path, sizeof(path), "/proc/1/%s", files[i].name);
		(void)snprintf(name, sizeof(name), "write-%s", path);
		int fd = open(path, O_WRONLY | O_CLOEXEC);
		refused(name, fd < 0 ? -1 : write(fd, files[i].text, strlen(files[i].text)));
		if (fd >= 0)
			(void)close(fd);
	}
}

void group_agent(const char *argument)
{
	(void)argument;
	harm_by_calls();
	look_into();
	change_files();
	harm_by_signals();
}

/* ---- group host: what is the host's ---- */

static void write_refused(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	report(fd < 0, path, fd < 0 ? strerror(errno) : "opened for writing");
	if (fd >= 0)
		(void)close(fd);
}

void group_host(const char *argument)
{
	/* Everybody may open gVisor's: it is no device of the host, and mounting is refused. */
	bool gvisor = strcmp(argument, "gvisor") == 0;
	static const char *const files[] = {"/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/kernel/sysrq",
		"/proc/sys/kernel/pid_max", "/proc/sys/kernel/panic",
		"/proc/sys/kernel/randomize_va_space", "/proc/sys/kernel/yama/ptrace_scope",
		"/proc/sys/kernel/unprivileged_bpf_disabled", "/proc/sys/vm/overcommit_memory",
		"/proc/sys/vm/drop_caches", "/proc/sys/vm/panic_on_oom", "/proc/sys/fs/file-max",
		"/proc/sys/fs/suid_dumpable", "/proc/sys/fs/protected_symlinks",
		"/proc/sys/fs/binfmt_misc/register", "/proc/sys/user/max_user_namespaces",
		"/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/proc/kcore",
		"/proc/kmem", "/dev/mem", "/dev/kmem", "/dev/vda", "/dev/sda", "/dev/kvm",
		"/dev/fuse", "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent",
		"/sys/fs/cgroup/pids/release_agent", "/sys/fs/cgroup/cgroup.procs",
		"/sys/kernel/uevent_helper", "/sys/kernel/mm/transparent_hugepage/enabled",
		"/etc/passwd", "/etc/shadow", "/etc/ld.so.preload", "/usr/bin/env", "/bin/sh"};
	for (size_t i = 0; i < COUNT(files); i++)
		if (!gvisor || strcmp(files[i], "/dev/fuse") != 0)
			write_refused(files[i]);
	int fd = open("/proc/kcore", O_RDONLY | O_CLOEXEC);
	refused("read-kcore", fd);
	fd = open("/proc/self/exe", O_WRONLY | O_CLOEXEC);
	refused("write-self-exe", fd);
}

/* ---- group leaks: descriptors ---- */

void group_leaks(const char *argument)
{
	(void)argument;
	char detail[600] = "";
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; d && (e = readdir(d));) {
		int fd = (int)strtol(e->d_name, NULL, 10);
		if (e->d_name[0] == '.' || fd <= 2 || fd == dirfd(d))
			continue;
		size_t n = strlen(detail);
		(void)snprintf(detail + n, sizeof(detail) - n, "%s ", e->d_name);
	}
	if (d)
		(void)closedir(d);
	report(!detail[0], "leaked-descriptors", detail[0] ? detail : "none");
}

/* ---- which group ---- */

void report(bool held, const char *name, const char *detail)
{
	(void)printf("%s %s %s\n", held ? "ok" : "FAIL", name, detail);
	(void)fflush(stdout);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const char *argument);
	} groups[] = {{"calls", group_calls}, {"agent", group_agent}, {"host", group_host},
		{"leaks", group_leaks}, {"bytes", group_bytes}, {"inodes", group_inodes},
		{"memory", group_memory}, {"forks", group_forks}, {"connect", group_connect},
		{"outside", group_outside}};
	for (size_t i = 0; argc >= 2 && i < COUNT(groups); i++) {
		if (strcmp(argv[1], groups[i].name) == 0) {
			groups[i].run(argc > 2 ? argv[2] : "");
			return 0;
		}
	}
	(void)fprintf(stderr, "usage: hostile GROUP [ARGUMENT]\n");
	return 2;
}
