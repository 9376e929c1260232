/* The agent's file operations while code swaps what they meet: nothing outside is touched. */
#include "workspace-fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- races ---- */

/* A child that swaps two names for ever. */
static pid_t swapper(const char *a, const char *b)
{
	const char *x = ws_at(a), *y = ws_at(b);
	pid_t pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)syscall(SYS_renameat2, AT_FDCWD, x, AT_FDCWD, y, RENAME_EXCHANGE);
	}
	assert_true(pid > 0);
	return pid;
}

static void stop(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#define ROUNDS 2000

static void no_outside_byte_is_read(void **state)
{
	(void)state;
	ws_put("work/f", "inside");
	ws_shell("cd work; mkdir d; echo inside > d/secret; ln -s ../out/secret flink; "
		 "ln -s ../out dlink; mkfifo fifo");
	static const struct {
		const char *a, *b, *path;
	} rows[] = {
		{"work/f", "work/flink", "f"},
		{"work/d", "work/dlink", "d/secret"},
		{"work/f", "work/fifo", "f"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		pid_t pid = swapper(rows[i].a, rows[i].b);
		unsigned good = 0, refused = 0;
		for (int n = 0; n < ROUNDS || !good || !refused; n++) {
			assert_true(n < 100 * ROUNDS);
			ws_ask(rows[i].path);
			ws_tag(TAG_STABLE, n & 1);
			if (ws_run(OP_FILE_READ) == WIRE_OK)
				good++;
			else
				refused++;
			assert_true(ws.data.len == 0 ||
				    !memmem(ws.data.data, ws.data.len, "SECRET", 6));
			ws_ask(rows[i].path);
			ws_tag_str(TAG_PATTERN, "SECRET");
			(void)ws_run(OP_FILE_SEARCH);
			assert_int_equal(ws.n_msgs, 0);
		}
		stop(pid);
		ws_shell("cd work; rm -rf f flink fifo d dlink; echo inside > f; mkdir d; "
			 "echo inside > d/secret; ln -s ../out/secret flink; ln -s ../out dlink; "
			 "mkfifo fifo");
	}
}

static void no_outside_byte_is_written(void **state)
{
	(void)state;
	ws_shell("cd work; echo 1 > f; mkdir d; ln -s ../out/secret flink; ln -s ../out dlink");
	static const struct {
		const char *a, *b, *path;
	} rows[] = {
		{"work/f", "work/flink", "f"},
		{"work/d", "work/dlink", "d/new"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		pid_t pid = swapper(rows[i].a, rows[i].b);
		unsigned good = 0;
		for (int n = 0; n < ROUNDS || !good; n++) {
			assert_true(n < 100 * ROUNDS);
			ws_ask(rows[i].path);
			ws_tag(TAG_PARENTS, 1);
			if (n % 3 == 1)
				ws_tag(TAG_APPEND, 1);
			else if (n % 3 == 2)
				ws_tag(TAG_OFFSET, 0);
			good += ws_write_text("OVERWRITTEN") == WIRE_OK;
			ws_ask("d/sub/dir");
			ws_tag(TAG_PARENTS, 1);
			(void)ws_run(OP_FILE_MKDIR);
			ws_ask("f");
			ws_tag_str(TAG_TARGET, "d/moved");
			ws_tag(TAG_REPLACE, 1);
			if (i == 1)
				(void)ws_run(OP_FILE_MOVE);
		}
		stop(pid);
		assert_string_equal(ws_get("out/secret"), "SECRET\n");
		ws_shell("[ \"$(ls -A out)\" = \"$(printf 'dir\\nsecret')\" ]");
		ws_shell("cd work; rm -rf f flink d dlink; echo 1 > f; mkdir d; "
			 "ln -s ../out/secret flink; ln -s ../out dlink");
	}
}

static void no_outside_file_is_deleted(void **state)
{
	(void)state;
	static const char *const dirs[] = {"work/t", "work/t/dir", "work/t/dir/dir", "work/t/x"};
	pid_t pid = swapper("work/t/dir", "work/t/link");
	for (int n = 0; n < ROUNDS / 4; n++) { /* each waits for the swapper many times */
		for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
			(void)mkdir(ws_at(dirs[i]), 0755);
		if (symlink("../../out/dir", ws_at("work/t/link")) < 0)
			assert_int_equal(errno, EEXIST);
		int fd = open(ws_at("work/t/dir/dir/f"), O_WRONLY | O_CREAT, 0600);
		if (fd >= 0) /* not there: swapped meanwhile */
			(void)close(fd);
		ws_ask("t");
		ws_tag(TAG_RECURSIVE, 1);
		(void)ws_run(OP_FILE_DELETE);
		assert_int_equal(access(ws_at("out/dir/f"), F_OK), 0);
		/* what mkdir() above made through the link */
		(void)unlink(ws_at("out/dir/dir/f"));
		(void)rmdir(ws_at("out/dir/dir"));
	}
	stop(pid);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, ws_set_up, ws_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(no_outside_byte_is_read),
		TEST(no_outside_byte_is_written),
		TEST(no_outside_file_is_deleted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
