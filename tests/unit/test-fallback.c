/* What is done where the kernel lacks a call, as gVisor's does: the same, or less, never more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

/* For the whole process; a filter cannot be taken off again. */
static int take_calls_away(void **state)
{
	(void)state;
	static struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog f = {ARRAY_SIZE(program), program};
	int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return r == 0 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &f) : r;
}

static void paths_stay_beneath(void **state)
{
	(void)state;
	char dir[] = "/tmp/scb-test-XXXXXX";
	assert_non_null(mkdtemp(dir));
	_cleanup_close_ int d = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(d >= 0);
	assert_int_equal(mkdirat(d, "sub", 0755), 0);
	assert_int_equal(mkdirat(d, "sub/deep", 0755), 0);
	assert_int_equal(symlinkat("/etc", d, "abs"), 0);
	assert_int_equal(symlinkat("../../etc/passwd", d, "rel"), 0);
	assert_int_equal(symlinkat("sub", d, "inside"), 0);
	static const struct {
		const char *path;
		int expect;
	} rows[] = {
		{"sub", 0},
		{"sub/deep", 0},
		{"sub//./deep/", 0},
		{".", 0},
		{"", 0},
		{"sub/..", -EXDEV},
		{"..", -EXDEV},
		{"/etc/passwd", -EXDEV},
		{"sub/../../x", -EXDEV},
		{"abs/passwd", -ELOOP},
		{"rel", -ELOOP},
		{"inside/deep", -ELOOP},
		{"nothing", -ENOENT},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_close_ int fd = fd_open_beneath(d, rows[i].path, O_RDONLY, 0);
		if (rows[i].expect == 0)
			assert_true(fd >= 0);
		else
			assert_int_equal(fd, rows[i].expect);
	}
	(void)unlinkat(d, "abs", 0);
	(void)unlinkat(d, "rel", 0);
	(void)unlinkat(d, "inside", 0);
	(void)unlinkat(d, "sub/deep", AT_REMOVEDIR);
	(void)unlinkat(d, "sub", AT_REMOVEDIR);
	(void)rmdir(dir);
}

static void descriptors_are_closed(void **state)
{
	(void)state;
	enum { LOW = 100, N = 200 };
	for (int fd = LOW; fd < LOW + N; fd++)
		assert_int_equal(dup2(STDERR_FILENO, fd), fd);
	assert_int_equal(fd_close_from(LOW + 10), 0);
	for (int fd = LOW; fd < LOW + N; fd++)
		assert_int_equal(fcntl(fd, F_GETFD) >= 0, fd < LOW + 10);
	for (int fd = LOW; fd < LOW + 10; fd++)
		(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_stay_beneath),
		cmocka_unit_test(descriptors_are_closed),
	};
	return cmocka_run_group_tests(tests, take_calls_away, NULL);
}
