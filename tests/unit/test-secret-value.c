/* test-secret-value.c: what a secret's value may be, and where it stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"
#include "secret/value.h"

/* The address sanitizer replaces mlock() by nothing. */
#ifdef __SANITIZE_ADDRESS__
static const bool locks = false;
#else
static const bool locks = true;
#endif

static void assert_refused(const void *p, size_t n, const char *why)
{
	struct secret_value *v = NULL;
	struct err err = {0};
	assert_true(secret_value_new("api", p, n, &v, &err) < 0);
	assert_int_equal(err.code, ERR_SECRET_UNAVAILABLE);
	assert_non_null(strstr(err.text, why));
	assert_non_null(strstr(err.text, "\"api\""));
	assert_null(v);
}

static void test_sizes(void **state)
{
	(void)state;
	static char large[LIMIT_SECRET_BYTES + 1];
	memset(large, 'x', sizeof(large));
	assert_refused("", 0, "empty");
	assert_refused("1234567", 7, "fewer than 8");
	assert_refused(large, sizeof(large), "larger than 4 KiB");
	assert_refused("12345678\0", 9, "NUL");

	static const size_t good[] = {8, 4000, LIMIT_SECRET_BYTES};
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		_cleanup_secret_ struct secret_value *v = NULL;
		struct err err;
		size_t n;
		assert_int_equal(secret_value_new("api", large, good[i], &v, &err), 0);
		assert_string_equal(secret_value_name(v), "api");
		assert_memory_equal(secret_value_bytes(v, &n), large, good[i]);
		assert_int_equal(n, good[i]);
	}
}

static void test_equal(void **state)
{
	(void)state;
	_cleanup_secret_ struct secret_value *a = NULL, *b = NULL, *c = NULL, *d = NULL;
	assert_int_equal(secret_value_new("a", "longenough", 10, &a, NULL), 0);
	assert_int_equal(secret_value_new("a", "longenough", 10, &b, NULL), 0);
	assert_int_equal(secret_value_new("a", "longenougH", 10, &c, NULL), 0);
	assert_int_equal(secret_value_new("b", "longenough", 10, &d, NULL), 0);
	assert_true(secret_value_equal(a, b));
	assert_false(secret_value_equal(a, c));
	assert_false(secret_value_equal(a, d));
}

/* The flags of the mapping that holds p: VmFlags of /proc/self/smaps (proc(5)). */
static void read_flags(const void *p, char *ret, size_t size)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512];
	bool here = false;
	unsigned long from, to;
	assert_non_null(f);
	ret[0] = '\0';
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			here = (uintptr_t)p >= from && (uintptr_t)p < to;
		else if (here && strncmp(line, "VmFlags:", 8) == 0)
			(void)snprintf(ret, size, "%s", line + 8);
	}
	(void)fclose(f);
}

static void test_memory(void **state)
{
	(void)state;
	struct secret_value *v = NULL;
	char flags[512];
	size_t n;
	assert_int_equal(secret_value_new("api", "correct horse", 13, &v, NULL), 0);
	const uint8_t *bytes = secret_value_bytes(v, &n);
	read_flags(bytes, flags, sizeof(flags));
	if (!flags[0])
		skip(); /* a kernel without smaps */
	if (locks)
		assert_non_null(strstr(flags, " lo"));
	assert_non_null(strstr(flags, " dd")); /* not dumped */
	assert_non_null(strstr(flags, " dc")); /* not copied by fork */

	/* a child has no such memory */
	pid_t pid = fork();
	if (pid == 0) {
		int fds[2];
		if (pipe(fds) < 0)
			_exit(1);
		_exit(write(fds[1], bytes, n) < 0 ? 0 : 1); /* EFAULT */
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);

	secret_value_unref(secret_value_ref(v)); /* the other reference keeps it */
	assert_memory_equal(secret_value_bytes(v, &n), "correct horse", 13);
	secret_value_unref(v);
	read_flags(bytes, flags, sizeof(flags));
	assert_string_equal(flags, "");
}

/* Fail closed: what cannot be locked is not kept. */
static void test_no_locked_memory(void **state)
{
	(void)state;
	if (!locks)
		skip();
	pid_t pid = fork();
	if (pid == 0) {
		const struct rlimit none = {0, 0};
		struct secret_value *v = NULL;
		struct err err = {0};
		/* root may lock without end: as somebody else */
		if (setrlimit(RLIMIT_MEMLOCK, &none) < 0 || (geteuid() == 0 && setuid(65534) < 0))
			_exit(1);
		_exit(secret_value_new("api", "longenough", 10, &v, &err) < 0 &&
					strstr(err.text, "ulimit -l")
				? 0
				: 2);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_names(void **state)
{
	(void)state;
	char longest[LIMIT_SECRET_NAME + 2];
	memset(longest, 'n', sizeof(longest));
	longest[LIMIT_SECRET_NAME + 1] = '\0';
	assert_false(secret_name_valid(longest));
	assert_false(secret_variable_valid(longest));
	longest[LIMIT_SECRET_NAME] = '\0';
	assert_true(secret_name_valid(longest));
	assert_true(secret_variable_valid(longest));

	static const char *const bad[] = {"", "-a", ".a", "a b", "a/b", "a\n", "\xc3\xa9", "a=b"};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(secret_name_valid(bad[i]));
	assert_true(secret_name_valid("github-token.v2_x"));
	static const char *const not_variables[] = {"", "1A", "A-B", "A=B", "PATH", "LD_PRELOAD",
		"ld_preload", "PYTHONPATH", "BASH_ENV", "ENV", "IFS", "SCB_X"};
	for (size_t i = 0; i < ARRAY_SIZE(not_variables); i++)
		assert_false(secret_variable_valid(not_variables[i]));
	assert_true(secret_variable_valid("GITHUB_TOKEN"));
	assert_true(secret_variable_valid("_x1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_no_locked_memory),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
