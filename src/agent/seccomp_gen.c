/* seccomp_gen.c: writes the filter that every child of the agent runs under, as a C header, and
 * from the same lists the profile that a container engine puts around the whole sandbox, the agent
 * included, as JSON in a C header.
 *
 * Runs at build time, because the agent links no library. What is allowed is Docker's default
 * allow-list without what a sandbox has no use for; the names are written out so that a reader sees
 * what code can call. What the list refuses on purpose answers EPERM, foreign ABIs are killed, and
 * every number that it does not know answers ENOSYS, so that C libraries take their older paths
 * (clone3, whose flags lie in memory where no filter sees them, above all).
 *
 * libseccomp maps numbers to actions. Rules about arguments stand in a hand-made prologue in front
 * of the exported program: libseccomp compares 64 bits where the kernel uses 32 of a pid or a
 * family (0x100000001 would pass "is not 1"), and has no "otherwise" for one call. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const allowed[] = {
	/* files */
	"access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat",
	"dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir",
	"fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr",
	"flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync",
	"ftruncate", "futimesat", "getcwd", "getdents", "getdents64", "getxattr",
	"inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "lchown",
	"lgetxattr", "link", "linkat", "listxattr", "llistxattr", "lremovexattr", "lseek",
	"lsetxattr", "lstat", "mkdir", "mkdirat", "mknod", "mknodat", "name_to_handle_at",
	"newfstatat", "open", "openat", "openat2", "pread64", "preadv", "preadv2", "pwrite64",
	"pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv",
	"removexattr", "rename", "renameat", "renameat2", "rmdir", "sendfile", "setxattr", "splice",
	"stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs",
	"tee", "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes", "write",
	"writev",
	/* waiting, pipes, events, clocks */
	"alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "epoll_create",
	"epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
	"eventfd2", "getitimer", "gettimeofday", "nanosleep", "pause", "pipe", "pipe2", "poll",
	"ppoll", "pselect6", "select", "setitimer", "signalfd", "signalfd4", "time", "timer_create",
	"timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create",
	"timerfd_gettime", "timerfd_settime", "times", "io_cancel", "io_destroy", "io_getevents",
	"io_pgetevents", "io_setup", "io_submit", "adjtimex", "clock_adjtime",
	/* memory */
	"brk", "get_mempolicy", "madvise", "mbind", "membarrier", "memfd_create", "memfd_secret",
	"mincore", "mlock", "mlock2", "mlockall", "mmap", "mprotect", "mremap", "msync", "munlock",
	"munlockall", "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect", "remap_file_pages",
	"set_mempolicy", "shmat", "shmctl", "shmdt", "shmget",
	/* processes, threads, signals */
	"arch_prctl", "capget", "capset", "execve", "execveat", "exit", "exit_group", "fork",
	"futex", "futex_wait", "futex_waitv", "futex_wake", "futex_requeue", "get_robust_list",
	"get_thread_area", "getcpu", "getpgid", "getpgrp", "getpid", "getppid", "getpriority",
	"getrandom", "getrlimit", "getrusage", "getsid", "gettid", "ioprio_get", "kill",
	"pidfd_open", "pidfd_send_signal", "prctl", "process_mrelease", "restart_syscall", "rseq",
	"rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
	"rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max",
	"sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
	"sched_getscheduler", "sched_rr_get_interval", "sched_yield", "seccomp", "set_robust_list",
	"set_thread_area", "set_tid_address", "setpgid", "setrlimit", "setsid", "sigaltstack",
	"sysinfo", "tgkill", "tkill", "uname", "vfork", "wait4", "waitid",
	/* of these the prologue refuses some arguments */
	"clone", "ioctl", "personality", "socket", "socketpair", "ioprio_set", "prlimit64",
	"sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "setpriority",
	/* ids: they can only become what they are */
	"getegid", "geteuid", "getgid", "getgroups", "getresgid", "getresuid", "getuid", "setfsgid",
	"setfsuid", "setgid", "setgroups", "setregid", "setresgid", "setresuid", "setreuid",
	"setuid",
	/* sockets, queues */
	"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt",
	"listen", "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt",
	"shutdown", "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend",
	"mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop",
	"semtimedop",
	/* restricting itself further is always fine */
	"landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self"};

/* Known and refused: EPERM tells the program so; ENOSYS would send some looking for another way. */
static const char *const refused[] = {"acct", "add_key", "bpf", "chroot", "clock_settime",
	"delete_module", "fanotify_init", "fanotify_mark", "finit_module", "fsconfig", "fsmount",
	"fsopen", "fspick", "init_module", "io_uring_enter", "io_uring_register", "io_uring_setup",
	"ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load", "keyctl", "lookup_dcookie",
	"migrate_pages", "modify_ldt", "mount", "mount_setattr", "move_mount", "move_pages",
	"open_by_handle_at", "open_tree", "perf_event_open", "pidfd_getfd", "pivot_root",
	"process_madvise", "process_vm_readv", "process_vm_writev", "ptrace", "quotactl",
	"quotactl_fd", "reboot", "request_key", "setdomainname", "sethostname", "setns",
	"settimeofday", "swapoff", "swapon", "sysfs", "syslog", "umount2", "unshare", "uselib",
	"userfaultfd", "ustat", "vhangup", "vmsplice"};

/* "argument arg of this call, as 32 bits, is value" → EPERM. The agent is PID 1 and leads process
 * group 1; a priority by user reaches it too, because agent and code share the kernel's uid. */
static const struct {
	const char *name;
	unsigned arg;
	uint32_t value;
} protect_agent[] = {
	{"prlimit64", 0, 1},
	{"sched_setaffinity", 0, 1},
	{"sched_setattr", 0, 1},
	{"sched_setparam", 0, 1},
	{"sched_setscheduler", 0, 1},
	{"setpriority", 0, PRIO_USER},
	{"setpriority", 1, 1},
	{"ioprio_set", 0, 3 /* IOPRIO_WHO_USER */},
	{"ioprio_set", 1, 1},
};

static const uint64_t ioctls[] = {TIOCSTI, TIOCLINUX};

#define NAMESPACE_FLAGS                                                                            \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
		CLONE_NEWPID | CLONE_NEWNET)

/* Docker's: Linux, UNAME26, both with 0x20000, and the question "which is it now". */
static const uint32_t personalities[] = {0, 8, 0x20000, 0x20008, 0xffffffff};

static void must(int r, const char *what)
{
	if (r < 0) {
		(void)fprintf(stderr, "seccomp_gen: %s: %s\n", what, strerror(-r));
		exit(1);
	}
}

static void name_rule(scmp_filter_ctx ctx, uint32_t action, const char *name)
{
	int nr = seccomp_syscall_resolve_name(name);
	/* Unknown to this libseccomp, or not of this architecture: stays at ENOSYS. */
	if (nr < 0)
		return;
	must(seccomp_rule_add_exact(ctx, action, nr, 0), name);
}

static struct sock_filter stmt(uint16_t code, uint32_t k)
{
	return (struct sock_filter){.code = code, .k = k};
}

static struct sock_filter jump(uint16_t code, uint32_t k, size_t jt, size_t jf)
{
	return (struct sock_filter){.code = code, .k = k, .jt = (uint8_t)jt, .jf = (uint8_t)jf};
}

#define LOAD(member)      stmt(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, member))
#define IF_EQ(k, jt, jf)  jump(BPF_JMP | BPF_JEQ | BPF_K, (k), (jt), (jf))
#define IF_ANY(k, jt, jf) jump(BPF_JMP | BPF_JSET | BPF_K, (k), (jt), (jf))
#define RETURN_ERRNO(e)   stmt(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (e))
#define LOW_HALF(arg)                                                                              \
	stmt(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(offsetof(struct seccomp_data, args) + 8 * (arg)))

struct program {
	struct sock_filter code[4096]; /* BPF_MAXINSNS: more the kernel does not take */
	size_t n;
};

static void emit(struct program *p, struct sock_filter insn)
{
	if (p->n == COUNT(p->code))
		must(-E2BIG, "program");
	p->code[p->n++] = insn;
}

/* Begins what holds for one call only: the next `length` instructions are skipped for others. */
static void for_call(struct program *p, const char *name, size_t length)
{
	int nr = seccomp_syscall_resolve_name(name);
	must(nr < 0 ? -ENOENT : 0, name);
	emit(p, LOAD(nr));
	emit(p, IF_EQ((uint32_t)nr, 0, length));
}

/* The argument is value: refused. */
static void refuse_value(struct program *p, const char *name, unsigned arg, uint32_t value)
{
	for_call(p, name, 3);
	emit(p, LOW_HALF(arg));
	emit(p, IF_EQ(value, 0, 1));
	emit(p, RETURN_ERRNO(EPERM));
}

static void socket_families(struct program *p, const char *name)
{
	for_call(p, name, 8);
	emit(p, LOW_HALF(0));
	emit(p, IF_EQ(AF_UNIX, 6, 0));
	emit(p, IF_EQ(AF_INET, 5, 0));
	emit(p, IF_EQ(AF_INET6, 4, 0));
	emit(p, IF_EQ(AF_NETLINK, 0, 2));
	emit(p, LOW_HALF(2));
	emit(p, IF_EQ(NETLINK_ROUTE, 1, 0));
	emit(p, RETURN_ERRNO(EAFNOSUPPORT));
}

static void argument_rules(struct program *p)
{
	for (size_t i = 0; i < COUNT(protect_agent); i++)
		refuse_value(
			p, protect_agent[i].name, protect_agent[i].arg, protect_agent[i].value);
	for (size_t i = 0; i < COUNT(ioctls); i++)
		refuse_value(p, "ioctl", 1, (uint32_t)ioctls[i]);

	for_call(p, "clone", 3);
	emit(p, LOW_HALF(0));
	emit(p, IF_ANY(NAMESPACE_FLAGS, 0, 1));
	emit(p, RETURN_ERRNO(EPERM));

	const size_t n = COUNT(personalities);
	for_call(p, "personality", n + 2);
	emit(p, LOW_HALF(0));
	for (size_t i = 0; i < n; i++)
		emit(p, IF_EQ(personalities[i], n - i, 0));
	emit(p, RETURN_ERRNO(EPERM));

	socket_families(p, "socket");
	socket_families(p, "socketpair");
}

/* Foreign ABIs go past it to libseccomp's part, which kills them (x32, too, whose numbers match
 * none here). */
static void prologue(struct program *p)
{
#if defined(__x86_64__)
	const uint32_t native = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
	const uint32_t native = AUDIT_ARCH_AARCH64;
#else
#error "seccomp_gen: this architecture has not been looked at"
#endif
	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "low half of an argument first");
	emit(p, LOAD(arch));
	emit(p, IF_EQ(native, 0, 0));
	argument_rules(p);
	p->code[1].jf = (uint8_t)(p->n - 2);
	must(p->n - 2 > UINT8_MAX ? -E2BIG : 0, "prologue");
}

static void append_exported(struct program *p, scmp_filter_ctx ctx)
{
	int fd = memfd_create("filter", MFD_CLOEXEC);
	must(fd < 0 ? -errno : 0, "memfd_create");
	must(seccomp_export_bpf(ctx, fd), "export");
	off_t size = lseek(fd, 0, SEEK_END);
	if (size < 0 || lseek(fd, 0, SEEK_SET) < 0)
		must(-errno, "lseek");
	size_t n = (size_t)size / sizeof(struct sock_filter);
	if (n > COUNT(p->code) - p->n)
		must(-E2BIG, "program");
	if (read(fd, p->code + p->n, (size_t)size) != size)
		must(-EIO, "read");
	p->n += n;
	(void)close(fd);
}

/* ---- for a container engine ---- */

/* What is written is JSON inside a C string. */
static bool in_c;

static void put(FILE *out, const char *json)
{
	for (; *json; json++)
		(void)fprintf(out, *json == '"' && in_c ? "\\%c" : "%c", *json);
}

static void put_rule(FILE *out, const char *const *names, size_t n, const char *rest)
{
	put(out, "{\"names\":[");
	const char *comma = "";
	for (size_t i = 0; i < n; i++) {
		/* A runtime refuses a profile with names that it cannot resolve, or skips them. */
		if (seccomp_syscall_resolve_name(names[i]) < 0)
			continue;
		put(out, comma);
		put(out, "\"");
		put(out, names[i]);
		put(out, "\"");
		comma = ",";
	}
	put(out, rest);
	put(out, "},");
}

/* Calls that are allowed with some arguments only. */
static bool has_rule_of_its_own(const char *name)
{
	return strcmp(name, "clone") == 0 || strcmp(name, "socket") == 0 ||
	       strcmp(name, "socketpair") == 0;
}

/* What holds for the agent too. The rules about PID 1, its own number, are those of its children.
 */
static void write_profile(FILE *out)
{
	static const char *const sockets[] = {"socket", "socketpair"};
	static const char *const clone[] = {"clone"};
	static const unsigned families[] = {AF_UNIX, AF_INET, AF_INET6};
	const char *plain[COUNT(allowed)];
	char args[256];
	size_t n = 0;
	for (size_t i = 0; i < COUNT(allowed); i++)
		if (!has_rule_of_its_own(allowed[i]))
			plain[n++] = allowed[i];
	put(out, "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,\"syscalls\":[");
	put_rule(out, plain, n, "],\"action\":\"SCMP_ACT_ALLOW\"");
	(void)snprintf(args, sizeof(args),
		"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":%u,"
		"\"valueTwo\":0,\"op\":\"SCMP_CMP_MASKED_EQ\"}]",
		(unsigned)NAMESPACE_FLAGS);
	put_rule(out, clone, 1, args);
	for (size_t i = 0; i < COUNT(families); i++) {
		(void)snprintf(args, sizeof(args),
			"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":%u,"
			"\"op\":\"SCMP_CMP_EQ\"}]",
			families[i]);
		put_rule(out, sockets, 2, args);
	}
	(void)snprintf(args, sizeof(args),
		"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":%u,"
		"\"op\":\"SCMP_CMP_EQ\"},{\"index\":2,\"value\":%u,\"op\":\"SCMP_CMP_EQ\"}]",
		AF_NETLINK, NETLINK_ROUTE);
	put_rule(out, sockets, 2, args);
	put_rule(out, refused, COUNT(refused), "],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":1");
	put(out, "{\"names\":[\"clone3\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":38}]}");
}

static FILE *open_output(const char *path)
{
	FILE *out = fopen(path, "we");
	if (!out)
		must(-errno, path);
	return out;
}

static void close_output(FILE *out, const char *path)
{
	if (fclose(out) != 0)
		must(-errno, path);
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		(void)fprintf(stderr, "usage: seccomp_gen FILTER PROFILE.h PROFILE.json\n");
		return 2;
	}
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	if (!ctx)
		must(-ENOMEM, "seccomp_init");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "bad arch");
	must(seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2), "optimize");
	for (size_t i = 0; i < COUNT(allowed); i++)
		name_rule(ctx, SCMP_ACT_ALLOW, allowed[i]);
	for (size_t i = 0; i < COUNT(refused); i++)
		name_rule(ctx, SCMP_ACT_ERRNO(EPERM), refused[i]);

	static struct program p;
	prologue(&p);
	append_exported(&p, ctx);
	seccomp_release(ctx);

	FILE *out = open_output(argv[1]);
	(void)fprintf(out,
		"/* Made by seccomp_gen. {code, jt, jf, k} */\n"
		"static const struct sock_filter seccomp_program[%zu] = {\n",
		p.n);
	for (size_t i = 0; i < p.n; i++)
		(void)fprintf(out, "\t{0x%02x, %u, %u, 0x%08xU},\n", p.code[i].code, p.code[i].jt,
			p.code[i].jf, p.code[i].k);
	(void)fprintf(out, "};\n");
	close_output(out, argv[1]);
	out = open_output(argv[2]);
	(void)fprintf(out, "/* Made by seccomp_gen. */\nstatic const char seccomp_profile[] = \"");
	in_c = true;
	write_profile(out);
	(void)fprintf(out, "\";\n");
	close_output(out, argv[2]);
	out = open_output(argv[3]);
	in_c = false;
	write_profile(out);
	close_output(out, argv[3]);
	return 0;
}
