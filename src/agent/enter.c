/* enter.c: see enter.h. */
#include "agent/enter.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/child.h"

#define EXPORT __attribute__((visibility("default")))

/* linux/nsfs.h, since Linux 4.11 */
#define NS_GET_TYPE _IO(0xb7, 0x3)

static int failed(char *ret_step, const char *step, int r)
{
	(void)snprintf(ret_step, ENTER_STEP, "%s", step);
	return r;
}

EXPORT int scb_enter_namespaces(const int *fds, int n, char *ret_step)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return failed(ret_step, "dumpable", -errno);
	for (int i = 0; i < n; i++) {
		int type = ioctl(fds[i], NS_GET_TYPE);
		if (type < 0 || setns(fds[i], type) < 0)
			return failed(ret_step, "enter a namespace", -errno);
		/* The raw calls: glibc's signal every thread, and there is one. */
		if (type == CLONE_NEWUSER && (syscall(SYS_setresgid, 0, 0, 0) < 0 ||
						     syscall(SYS_setresuid, 0, 0, 0) < 0))
			return failed(ret_step, "become the namespace's root", -errno);
	}
	return 0;
}

int scb_enter_confine(const void *config, size_t n, char *ret_step)
{
	struct config c;
	const char *step = NULL;
	int r = config_parse(config, n, &c);
	if (r < 0)
		return failed(ret_step, "configuration", r);
	r = child_confine(&c, &step);
	if (r < 0)
		return failed(ret_step, step, r);
	if (chdir(c.workspace) < 0)
		return failed(ret_step, "workspace", -errno);
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
		return failed(ret_step, "dumpable", -errno);
	return 0;
}
