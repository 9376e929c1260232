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
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "provider/explain.h"
#include "provider/provider.h"
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
	assert_int_equal(record_create(dir, "x-1", NULL, 0, socket, workdir, &r, &err), 0);
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
	free(r.path);
	assert_int_equal(rmdir(dir), 0);
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
		cmocka_unit_test(providers_are_selected),
	};
	return cmocka_run_group_tests_name("provider", tests, NULL, NULL);
}
