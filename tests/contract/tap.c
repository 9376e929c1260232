/* tap.c: see tap.h. */
#include "contract/tap.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "provider/provider.h"
#include "provider/record.h"

/* No account has it; outside the ranges that scb gives to sandboxes. */
#define ORDINARY_UID 64207

static int count, failures;

bool tap_ok(bool ok, const char *fmt, ...)
{
	va_list ap;
	failures += !ok;
	(void)printf("%sok %d - ", ok ? "" : "not ", ++count);
	va_start(ap, fmt);
	(void)vprintf(fmt, ap);
	va_end(ap);
	(void)printf("\n");
	(void)fflush(stdout);
	return ok;
}

void tap_skip(const char *name, const char *why)
{
	(void)printf("ok %d - %s # SKIP %s\n", ++count, name, why);
	(void)fflush(stdout);
}

void tap_note(const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *p = text; (p = strchr(p, '\n'));)
		*p = '|';
	(void)printf("# %s\n", text);
	(void)fflush(stdout);
}

int tap_done(void)
{
	(void)printf("1..%d\n", count);
	return failures ? 1 : 0;
}

static int run(char *const argv[])
{
	pid_t pid = fork();
	int status = -1;
	if (pid == 0) {
		(void)execvp(argv[0], argv);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void copy(const char *from, const char *to)
{
	char *const argv[] = {"cp", "-r", (char *)from, (char *)to, NULL};
	CHECK(run(argv) == 0);
}

int tap_as_user(int argc, char **argv)
{
	if (geteuid() != 0)
		return -1;
	char dir[] = "/tmp/scb-user-XXXXXX";
	CHECK(mkdtemp(dir) && chmod(dir, 0755) == 0);
	_cleanup_free_ char *agent = provider_agent_path();
	_cleanup_free_ char *kernels = provider_kernels_dir();
	_cleanup_free_ char *own = xasprintf("%s/test", dir);
	_cleanup_free_ char *agent_copy = xasprintf("%s/scb-agent", dir);
	_cleanup_free_ char *kernels_copy = xasprintf("%s/kernels", dir);
	/* Podman reads it from beside the agent. */
	_cleanup_free_ char *profile =
		xasprintf("%.*s/seccomp.json", (int)(strrchr(agent, '/') - agent), agent);
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	CHECK(n > 0);
	exe[n] = '\0';
	copy(exe, own);
	copy(agent, agent_copy);
	copy(kernels, kernels_copy);
	copy(profile, dir);
	char *const readable[] = {"chmod", "-R", "a+rX", dir, NULL};
	CHECK(run(readable) == 0);
	(void)fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		CHECK(setgroups(0, NULL) == 0 &&
			setresgid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) == 0 &&
			setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) == 0);
		CHECK(setenv("SCB_AGENT", agent_copy, 1) == 0 &&
			setenv("SCB_KERNELS", kernels_copy, 1) == 0 && chdir("/") == 0);
		char *args[8] = {own};
		for (int i = 1; i < argc && i < 7; i++)
			args[i] = argv[i];
		(void)execv(own, args);
		_exit(127);
	}
	int status = -1;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	(void)record_remove_tree(dir);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
