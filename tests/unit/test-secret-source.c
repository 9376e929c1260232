/* test-secret-source.c: values from files, variables and programs, and all that is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "secret/source.h"

static char dir[] = "/tmp/scb-test-XXXXXX";
static char path[64];

static void write_file(const void *p, size_t n, mode_t mode)
{
	(void)unlink(path);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_full(fd, p, n), 0);
	assert_int_equal(fchmod(fd, mode), 0);
}

static void assert_text(const struct secret_value *v, const char *text)
{
	size_t n;
	const uint8_t *p = secret_value_bytes(v, &n);
	assert_int_equal(n, strlen(text));
	assert_memory_equal(p, text, n);
}

static void file_refused(const char *where, const char *why)
{
	struct secret_value *v = NULL;
	struct err err = {0};
	assert_true(source_file("api", where, &v, &err) < 0);
	assert_int_equal(err.code, ERR_SECRET_UNAVAILABLE);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" is not in: %s", why, err.text);
	assert_null(strstr(err.text, "hunter2"));
}

static void test_file(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"hunter2hunter2", "hunter2hunter2\n", "hunter2hunter2\r\n"};
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_secret_ struct secret_value *v = NULL;
		write_file(texts[i], strlen(texts[i]), i ? 0600 : 0400);
		assert_int_equal(source_file("api", path, &v, NULL), 0);
		assert_text(v, "hunter2hunter2");
	}
	_cleanup_secret_ struct secret_value *v = NULL;
	write_file("hunter2hunter2\n\n", 16, 0600);
	assert_int_equal(source_file("api", path, &v, NULL), 0);
	assert_text(v, "hunter2hunter2\n"); /* one newline, not two */
}

static void test_file_refused(void **state)
{
	(void)state;
	static char large[LIMIT_SECRET_BYTES + 3];
	static const mode_t open_to_others[] = {0640, 0604, 0620, 0602, 0610, 0601, 0660, 0666};
	for (size_t i = 0; i < ARRAY_SIZE(open_to_others); i++) {
		write_file("hunter2hunter2", 14, open_to_others[i]);
		file_refused(path, "chmod 600 /tmp/scb-test-");
	}
	write_file("hunter2\n", 8, 0600);
	file_refused(path, "fewer than 8");
	write_file("", 0, 0600);
	file_refused(path, "empty");
	memset(large, 'x', sizeof(large));
	write_file(large, sizeof(large), 0600);
	file_refused(path, "larger than 4 KiB");

	file_refused("relative", "not absolute");
	file_refused(dir, "no regular file");
	file_refused("/dev/null", "no regular file");
	assert_int_equal(unlink(path), 0);
	file_refused(path, "No such file");
	assert_int_equal(mkfifo(path, 0600), 0);
	file_refused(path, "no regular file"); /* and it does not wait there */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	file_refused(path, "symbolic link");
	if (geteuid() == 0) {
		write_file("hunter2hunter2", 14, 0600);
		assert_int_equal(chown(path, 12345, 0), 0);
		file_refused(path, "uid 12345");
	}
}

/* The value is gone from the environment that /proc shows, too. */
static void test_env(void **state)
{
	(void)state;
	struct secret_value *v = NULL;
	struct err err = {0};
	char text[] = "SCB_TEST_TOKEN=hunter2hunter2";
	assert_int_equal(putenv(text), 0); /* this very text is the environment's */
	assert_int_equal(source_env("api", "SCB_TEST_TOKEN", &v, &err), 0);
	assert_text(v, "hunter2hunter2");
	secret_value_unref(v);
	assert_null(getenv("SCB_TEST_TOKEN"));
	for (size_t i = strlen("SCB_TEST_TOKEN="); i < sizeof(text); i++)
		assert_int_equal(text[i], 0);

	assert_true(source_env("api", "SCB_TEST_TOKEN", &v, &err) < 0);
	assert_non_null(strstr(err.text, "SCB_TEST_TOKEN is not set"));
	assert_int_equal(setenv("SCB_TEST_TOKEN", "teeny", 1), 0);
	assert_true(source_env("api", "SCB_TEST_TOKEN", &v, &err) < 0);
	assert_non_null(strstr(err.text, "fewer than 8"));
	assert_null(strstr(err.text, "teeny"));
}

/* Runs it to its end. 1: *ret is the value. */
static int run(const char *const *argv, struct secret_value **ret, struct err *err)
{
	static const char *const hidden[] = {"SCB_TEST_HIDDEN"};
	struct source_exec *x = NULL;
	int r = source_exec_start("api", argv, hidden, 1, &x, err);
	if (r < 0)
		return r;
	while ((r = source_exec_step(x, ret, err)) == 0) {
		struct pollfd p = source_exec_poll(x);
		uint64_t now = clock_monotonic_us(), end = source_exec_deadline_us(x);
		(void)poll(&p, 1, end > now ? (int)((end - now) / USEC_PER_MSEC) + 1 : 0);
	}
	source_exec_free(x);
	return r;
}

static void run_shell(const char *script, const char *text)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	_cleanup_secret_ struct secret_value *v = NULL;
	struct err err = {0};
	int r = run(argv, &v, &err);
	if (r != 1)
		fail_msg("%s: %s", script, err.text);
	assert_text(v, text);
}

static void exec_refused(const char *const *argv, const char *why)
{
	struct secret_value *v = NULL;
	struct err err = {0};
	assert_true(run(argv, &v, &err) < 0);
	assert_int_equal(err.code, ERR_SECRET_UNAVAILABLE);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" is not in: %s", why, err.text);
	assert_null(strstr(err.text, "hunter2"));
}

static void shell_refused(const char *script, const char *why)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	exec_refused(argv, why);
}

static void test_exec(void **state)
{
	(void)state;
	run_shell("echo hunter2hunter2", "hunter2hunter2");
	run_shell("printf hunter2; sleep 0.1; printf hunter2; echo no >&2", "hunter2hunter2");
	const char *const by_path[] = {"printf", "%s", "hunter2 hunter2", NULL};
	_cleanup_secret_ struct secret_value *v = NULL;
	assert_int_equal(run(by_path, &v, NULL), 1);
	assert_text(v, "hunter2 hunter2");

	/* nothing on stdin, no descriptors, no other secret, the rest of the environment */
	assert_int_equal(setenv("SCB_TEST_HIDDEN", "another secret", 1), 0);
	assert_int_equal(setenv("SCB_TEST_HIDDEN2", "no secret", 1), 0);
	run_shell("read x; echo \"<$x$SCB_TEST_HIDDEN|$SCB_TEST_HIDDEN2>\"", "<|no secret>");
	int extra = dup2(1, 77);
	run_shell("test -e /proc/self/fd/77 || echo none-inherited", "none-inherited");
	(void)close(extra);
	assert_int_equal(unsetenv("SCB_TEST_HIDDEN"), 0);
}

static void test_exec_refused(void **state)
{
	(void)state;
	const char *const relative[] = {"./x", NULL}, *const missing[] = {"/nowhere/x", NULL},
			  *const unknown[] = {"scb-no-such-program", NULL}, *const none[] = {NULL};
	exec_refused(relative, "absolute path");
	exec_refused(none, "absolute path");
	exec_refused(missing, "cannot be started: No such file");
	exec_refused(unknown, "cannot be started: No such file");
	shell_refused("echo hunter2hunter2; exit 3", "status 3");
	shell_refused("echo hunter2hunter2; kill -9 $$", "signal 9");
	shell_refused("echo hunter2", "fewer than 8");
	shell_refused("true", "empty");
	shell_refused("yes hunter2", "more than 4 KiB");
}

/* Its time is limited, and then all of it ends. */
static void test_exec_hangs(void **state)
{
	(void)state;
	uint64_t begin = clock_monotonic_us();
	_cleanup_free_ char *script =
		xasprintf("sleep 60 & echo $! > %s/child; echo hunter2hunter2; wait", dir);
	shell_refused(script, "within 10 s");
	uint64_t took = clock_monotonic_us() - begin;
	assert_true(took > 9 * USEC_PER_SEC && took < 15 * USEC_PER_SEC);

	_cleanup_free_ char *name = xasprintf("%s/child", dir);
	FILE *f = fopen(name, "re");
	int pid = 0;
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%9d", &pid), 1);
	(void)fclose(f);
	assert_int_equal(unlink(name), 0);
	for (int i = 0; i < 100 && kill(pid, 0) == 0; i++)
		clock_wait_us(10 * USEC_PER_MSEC);
	_cleanup_free_ char *proc = xasprintf("/proc/%d/stat", pid);
	f = fopen(proc, "re"); /* gone, or nobody has reaped it */
	if (f) {
		char state_of = 0;
		(void)!fscanf(f, "%*d %*s %c", &state_of);
		(void)fclose(f);
		assert_int_equal(state_of, 'Z');
	}
}

static int begin(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/token", dir);
	return 0;
}

static int end(void **state)
{
	(void)state;
	(void)unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_file_refused),
		cmocka_unit_test(test_env),
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_exec_refused),
		cmocka_unit_test(test_exec_hangs),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
