/* child.c: see child.h.
 *
 * The order matters. The cgroup is joined first, so that everything after it is charged to the
 * code; the process limit is set before the user namespace is made, because the value at that
 * moment becomes the bound on the sandbox as a whole; the namespace comes before the process is
 * made dumpable, because a sibling could look into it otherwise; the filter comes last, because it
 * refuses most of the steps before it. */
#include "agent/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shield.h"
#include "base/mem.h"
#include "seccomp_filter.h"

/* Of linux/landlock.h, for headers older than the kernel. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule       445
#define SYS_landlock_restrict_self  446
#endif
#define LANDLOCK_VERSION_FLAG   1U
#define LANDLOCK_ABI_SCOPES     6
#define LANDLOCK_SCOPE_ABSTRACT 1ULL
#define LANDLOCK_SCOPE_SIGNALS  2ULL
#define LANDLOCK_PATH_BENEATH   1
#define LANDLOCK_WRITE_FILE     2ULL
struct landlock_path_beneath {
	uint64_t allowed_access;
	int32_t parent_fd;
} __attribute__((packed));
struct landlock_ruleset {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
	uint64_t scoped;
};

/* uid and gid of code, as its own namespace names them. */
#define CODE_ID "1000"

static long landlock_abi(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION_FLAG);
}

/* Restricts this process, for good, and closes the ruleset. */
static int landlock_enter(int ruleset)
{
	/* Without it the kernel asks for CAP_SYS_ADMIN; every child gets it anyway. */
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
				syscall(SYS_landlock_restrict_self, ruleset, 0U) < 0
			? -errno
			: 0;
	(void)close(ruleset);
	return r;
}

int child_init(const struct config *c)
{
	if (!(c->confine & CONFINE_LANDLOCK) || landlock_abi() < LANDLOCK_ABI_SCOPES)
		return 0;
	const struct landlock_ruleset rules = {
		.scoped = LANDLOCK_SCOPE_ABSTRACT | LANDLOCK_SCOPE_SIGNALS};
	int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0U);
	return fd < 0 ? -errno : landlock_enter(fd);
}

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	ssize_t n = write(fd, text, strlen(text));
	int r = n < 0 ? -errno : 0;
	(void)close(fd);
	return r;
}

static int join_groups(const struct config *c)
{
	for (size_t i = 0; i < c->n_join_fds; i++)
		if (write(c->join_fds[i], "0", 1) != 1)
			return errno ? -errno : -EIO;
	return 0;
}

static int limit(int resource, uint64_t value)
{
	struct rlimit now;
	if (getrlimit(resource, &now) < 0)
		return -errno;
	rlim_t v = MIN((rlim_t)value, now.rlim_max);
	const struct rlimit want = {.rlim_cur = v, .rlim_max = v};
	return setrlimit(resource, &want) < 0 ? -errno : 0;
}

/* "inside outside 1", without stdio. */
static int write_map(const char *path, unsigned outside)
{
	char text[32] = CODE_ID " ";
	size_t n = strlen(text);
	char digits[12];
	size_t d = sizeof(digits);
	do
		digits[--d] = (char)('0' + outside % 10);
	while ((outside /= 10) != 0);
	memcpy(text + n, digits + d, sizeof(digits) - d);
	n += sizeof(digits) - d;
	memcpy(text + n, " 1", 3);
	return write_text(path, text);
}

/* The child becomes uid 1000 of a namespace of its own: it has no rights over anything that belongs
 * to the agent's namespace, although the kernel's uid is the same. */
static int nest(const struct config *c)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (unshare(CLONE_NEWUSER | (shield_wanted(c) ? CLONE_NEWNS : 0)) < 0)
		return -errno;
	/* The files in /proc/self belong to root while the process is not dumpable. */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return -errno;
	int r = write_text("/proc/self/setgroups", "deny");
	if (r == 0)
		r = write_map("/proc/self/uid_map", uid);
	if (r == 0)
		r = write_map("/proc/self/gid_map", gid);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return r;
}

/* When the machine runs out of memory, or nothing bounds the code apart from the agent, code goes
 * first. */
static int victim_first(void)
{
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return -errno;
	int r = write_text("/proc/self/oom_score_adj", "1000");
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return r;
}

static int drop_capabilities(void)
{
	/* Ends with EINVAL at the first number that this kernel does not know. EPERM: there is no
	 * CAP_SETPCAP, and no_new_privs closes the same door. */
	for (int cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno != EINVAL && errno != EPERM)
				return -errno;
			break;
		}
	}
	/* EINVAL: gVisor knows neither these nor the bits; without privileges there is nothing that
	 * exec could give back. */
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return -errno;
	const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
				   SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
				   SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 && errno != EPERM && errno != EINVAL)
		return -errno;
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}, {0}};
	return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

/* Files of the agent in /proc that belong to the kernel's uid, which code shares: oom_score_adj,
 * autogroup (a nice value) and their like cannot be refused by a filter, which sees no paths. The
 * rest of what is closed here is read-only anyway. */
static int confine_writes(const struct config *c)
{
	const struct landlock_ruleset rules = {.handled_access_fs = LANDLOCK_WRITE_FILE};
	if (landlock_abi() < 1)
		return 0;
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0U);
	if (ruleset < 0)
		return -errno;
	const char *const places[] = {c->workspace, c->tmp, "/dev"};
	int r = 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(places); i++) {
		int fd = open(places[i], O_PATH | O_CLOEXEC);
		const struct landlock_path_beneath rule = {LANDLOCK_WRITE_FILE, fd};
		if (fd < 0 || syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_PATH_BENEATH, &rule,
				      0U) < 0)
			r = -errno;
		if (fd >= 0)
			(void)close(fd);
	}
	if (r == 0)
		return landlock_enter(ruleset);
	(void)close(ruleset);
	return r;
}

static int load_filter(void)
{
	const struct sock_fprog program = {
		.len = (unsigned short)(sizeof(seccomp_program) / sizeof(seccomp_program[0])),
		.filter = (struct sock_filter *)seccomp_program,
	};
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0U, &program) < 0 ? -errno : 0;
}

int child_confine(const struct config *c, const char **ret_step)
{
	int r = 0;
#define STEP(name, call)                                                                           \
	do {                                                                                       \
		*ret_step = (name);                                                                \
		r = (call);                                                                        \
		if (r < 0)                                                                         \
			return r;                                                                  \
	} while (0)
	STEP("join the cgroup", join_groups(c));
	if (c->rlimit_nproc)
		STEP("RLIMIT_NPROC", limit(RLIMIT_NPROC, c->rlimit_nproc));
	if (c->confine & CONFINE_NESTED_USERNS)
		STEP("user namespace", nest(c));
	if ((c->confine & CONFINE_NESTED_USERNS) && shield_wanted(c))
		STEP("overlay over a mount", shield_enter(c));
	STEP("oom_score_adj", victim_first());
	/* 1, not 0: a core size of 0 still starts the host's core_pattern program, which runs as
	 * the host's root; 1 byte is the value at which the kernel does not. */
	STEP("RLIMIT_CORE", limit(RLIMIT_CORE, 1));
	if (c->rlimit_data)
		STEP("RLIMIT_DATA", limit(RLIMIT_DATA, c->rlimit_data));
	STEP("capabilities", drop_capabilities());
	if (c->confine & (CONFINE_NO_NEW_PRIVS | CONFINE_SECCOMP))
		STEP("no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0);
	if (c->confine & CONFINE_WRITES)
		STEP("Landlock", confine_writes(c));
	if (c->confine & CONFINE_SECCOMP)
		STEP("seccomp", load_filter());
#undef STEP
	*ret_step = NULL;
	return 0;
}

void child_drop(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}, {0}};
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	(void)syscall(SYS_capset, &head, none);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* True where a child can be confined with these bits. */
static bool can_confine(const struct config *c, uint32_t bits)
{
	struct config tried = *c;
	tried.confine = bits;
	pid_t pid = fork();
	if (pid == 0) {
		const char *step = NULL;
		_exit(child_confine(&tried, &step) == 0 ? 0 : 1);
	}
	int status = 1;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && status == 0;
}

void child_features(const struct config *c, const char *names[CHILD_FEATURES])
{
	size_t n = 0;
	if (can_confine(c, c->confine)) {
		if (c->confine & CONFINE_NESTED_USERNS)
			names[n++] = "nested_userns";
		if (c->confine & CONFINE_SECCOMP)
			names[n++] = "seccomp";
		if (c->confine & (CONFINE_NO_NEW_PRIVS | CONFINE_SECCOMP))
			names[n++] = "no_new_privs";
		if (c->n_join_fds)
			names[n++] = "cgroup";
	}
	if ((c->confine & CONFINE_LANDLOCK) && landlock_abi() >= LANDLOCK_ABI_SCOPES)
		names[n++] = "landlock6";
	if ((c->confine & CONFINE_WRITES) && landlock_abi() >= 1)
		names[n++] = "landlock_writes";
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));
	if (fd >= 0) {
		names[n++] = "openat2";
		(void)close(fd);
	}
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (fd >= 0) {
		names[n++] = "pidfd";
		(void)close(fd);
	}
	names[n] = NULL;
}
