/* The agent's file operations: writing, moving, listing, searching, deleting. */
#include "workspace-fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/turn.h"
#include "agent/workspace.h"

static void writing(void **state)
{
	(void)state;
	ws_ask("a");
	assert_int_equal(ws_write_text("hello"), WIRE_OK);
	assert_int_equal(ws_end_u64(TAG_SIZE), 5);
	assert_int_equal(ws.consumed, 5);
	ws_shell("chmod 640 work/a");
	ws_ask("a");
	assert_int_equal(ws_write_text("new"), WIRE_OK);
	assert_string_equal(ws_get("work/a"), "new");
	struct stat st;
	assert_int_equal(stat(ws_at("work/a"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	ws_ask("a");
	ws_tag(TAG_APPEND, 1);
	assert_int_equal(ws_write_text("er"), WIRE_OK);
	ws_ask("a");
	ws_tag(TAG_OFFSET, 1);
	assert_int_equal(ws_write_text("EW"), WIRE_OK);
	assert_string_equal(ws_get("work/a"), "nEWer");
	ws_ask("x/y/z");
	assert_int_equal(ws_write_text("1"), WIRE_NOT_FOUND);
	ws_ask("x/y/z");
	ws_tag(TAG_PARENTS, 1);
	assert_int_equal(ws_write_text("1"), WIRE_OK);
	assert_string_equal(ws_get("work/x/y/z"), "1");
	ws_ask("x");
	assert_int_equal(ws_write_text("1"), WIRE_IS_DIRECTORY);
	ws_ask(".");
	assert_int_equal(ws_write_text("1"), WIRE_IS_DIRECTORY);
	ws_ask("a/b");
	ws_tag(TAG_PARENTS, 1);
	assert_int_equal(ws_write_text("1"), WIRE_NOT_DIRECTORY);
	ws_ask("/mnt/data/new");
	assert_int_equal(ws_write_text("1"), WIRE_READ_ONLY);
	ws_ask("empty");
	assert_int_equal(ws_write_text(""), WIRE_OK);
	assert_string_equal(ws_get("work/empty"), "");
	/* a write that is cut off leaves the old file, and nothing else */
	ws_ask("a");
	ws_start(OP_FILE_WRITE);
	ws.ops->data(&ws, (const uint8_t *)"half", 4, false);
	assert_string_equal(ws_get("work/a"), "nEWer");
	ws.ops->closed(&ws);
	assert_string_equal(ws_get("work/a"), "nEWer");
	ws_shell("test -z \"$(ls -A work | grep scb-write)\"");
	/* only if it still is what was read */
	ws_ask("a");
	assert_int_equal(ws_run(OP_FILE_STAT), WIRE_OK);
	uint64_t size = ws_end_u64(TAG_SIZE), time = ws_end_u64(TAG_MTIME_US);
	ws_ask("a");
	ws_tag(TAG_SIZE, size);
	ws_tag(TAG_MTIME_US, time);
	assert_int_equal(ws_write_text("third"), WIRE_OK);
	ws_shell("sleep 0.02; printf 12345 > work/a");
	ws_ask("a");
	ws_tag(TAG_SIZE, size);
	ws_tag(TAG_MTIME_US, time);
	assert_int_equal(ws_write_text("lost"), WIRE_CHANGED);
	assert_string_equal(ws_get("work/a"), "12345");
	ws_shell("test -z \"$(ls -A work | grep scb-write)\"");
}

static void directories_and_moves(void **state)
{
	(void)state;
	ws_ask("d/e");
	assert_int_equal(ws_run(OP_FILE_MKDIR), WIRE_NOT_FOUND);
	ws_ask("d/e");
	ws_tag(TAG_PARENTS, 1);
	assert_int_equal(ws_run(OP_FILE_MKDIR), WIRE_OK);
	ws_ask("d/e");
	assert_int_equal(ws_run(OP_FILE_MKDIR), WIRE_EXISTS);
	ws_ask("d/e/");
	ws_tag(TAG_PARENTS, 1);
	assert_int_equal(ws_run(OP_FILE_MKDIR), WIRE_OK);
	ws_put("work/a", "a");
	ws_put("work/b", "b");
	ws_ask("a");
	ws_tag_str(TAG_TARGET, "b");
	assert_int_equal(ws_run(OP_FILE_MOVE), WIRE_EXISTS);
	assert_string_equal(ws_get("work/b"), "b");
	ws_ask("a");
	ws_tag_str(TAG_TARGET, "b");
	ws_tag(TAG_REPLACE, 1);
	assert_int_equal(ws_run(OP_FILE_MOVE), WIRE_OK);
	assert_string_equal(ws_get("work/b"), "a");
	ws_ask("b");
	ws_tag_str(TAG_TARGET, "new/dir/c");
	ws_tag(TAG_PARENTS, 1);
	assert_int_equal(ws_run(OP_FILE_MOVE), WIRE_OK);
	assert_string_equal(ws_get("work/new/dir/c"), "a");
	ws_ask("new");
	ws_tag_str(TAG_TARGET, "new/dir/new");
	assert_int_equal(ws_run(OP_FILE_MOVE), WIRE_BAD_REQUEST);
	ws_ask("new/dir/c");
	ws_tag_str(TAG_TARGET, "../out/c");
	assert_int_equal(ws_run(OP_FILE_MOVE), WIRE_OUTSIDE);
	ws_ask("new/dir/c");
	ws_tag_str(TAG_TARGET, "/mnt/data/c");
	assert_int_equal(ws_run(OP_FILE_MOVE), WIRE_READ_ONLY);
	ws_ask("/mnt/data/m");
	ws_tag_str(TAG_TARGET, "m");
	assert_int_equal(ws_run(OP_FILE_MOVE), WIRE_READ_ONLY);
	ws_ask("nothing");
	ws_tag_str(TAG_TARGET, "m");
	assert_int_equal(ws_run(OP_FILE_MOVE), WIRE_NOT_FOUND);
}

static void listing(void **state)
{
	(void)state;
	ws_shell("cd work; mkdir -p a/b/c; touch f a/g a/b/h; ln -s ../out far; ln -s a near");
	ws_ask(".");
	assert_int_equal(ws_run(OP_FILE_LIST), WIRE_OK);
	assert_string_equal(ws_msg_paths(), "a f far near");
	assert_int_equal(ws_end_u64(TAG_COUNT), 4);
	assert_int_equal(ws_end_u64(TAG_MORE), 0);
	ws_ask(".");
	ws_tag(TAG_DEPTH, 2);
	assert_int_equal(ws_run(OP_FILE_LIST), WIRE_OK);
	assert_string_equal(ws_msg_paths(), "a a/b a/g f far near");
	ws_ask("near"); /* what is asked for may be a link inside */
	ws_tag(TAG_DEPTH, 9);
	assert_int_equal(ws_run(OP_FILE_LIST), WIRE_OK);
	assert_string_equal(ws_msg_paths(), "b b/c b/h g");
	ws_ask(".");
	ws_tag(TAG_LIMIT, 2);
	assert_int_equal(ws_run(OP_FILE_LIST), WIRE_OK);
	assert_int_equal(ws.n_msgs, 2);
	assert_int_equal(ws_end_u64(TAG_MORE), 1);
	ws_ask("/mnt/");
	assert_int_equal(ws_run(OP_FILE_LIST), WIRE_OK);
	assert_string_equal(ws_msg_paths(), "data");
	ws_ask("far");
	assert_int_equal(ws_run(OP_FILE_LIST), WIRE_OUTSIDE);
	ws_ask("f");
	assert_int_equal(ws_run(OP_FILE_LIST), WIRE_NOT_DIRECTORY);
	/* many at once: some wait to begin; all end */
	struct stream many[3 * 8];
	ws_ask(".");
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		many[i] = (struct stream){
			.room = SIZE_MAX, .end = BUF_INIT(KIB), .msgs = BUF_INIT(64 * KIB)};
		workspace_handlers[1].open(&many[i], tlv_reader(ws_body.data, ws_body.len));
	}
	many[10].ops->closed(&many[10]); /* one of those that wait */
	many[3].ops->closed(&many[3]);
	while (turn_pending())
		turn_run();
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		assert_int_equal(many[i].ended, i != 3 && i != 10);
		buf_done(&many[i].end);
		buf_done(&many[i].msgs);
	}
}

static void searching(void **state)
{
	(void)state;
	ws_shell(
		"cd work; mkdir -p src/sub; printf 'one\\ntwo needle\\nthree\\nneedle needle\\n' > "
		"src/a.c;"
		"printf 'x\\000needle\\n' > src/bin.c; printf 'last needle' > src/sub/b.c;"
		"ln -s ../out/secret src/far; echo needle > src/note.txt;"
		"{ head -c 200000 /dev/zero | tr '\\000' x; printf 'needle\\nneedle'; } > "
		"src/long.c");
	ws_ask("src");
	ws_tag_str(TAG_PATTERN, "needle");
	assert_int_equal(ws_run(OP_FILE_SEARCH), WIRE_OK);
	assert_string_equal(ws_msg_paths(), "a.c:2 a.c:4 long.c:1 long.c:2 note.txt:1 sub/b.c:1");
	ws_ask("src");
	ws_tag_str(TAG_PATTERN, "needle");
	ws_tag_str(TAG_NAME_PATTERN, "*.c");
	ws_tag(TAG_LIMIT, 3);
	assert_int_equal(ws_run(OP_FILE_SEARCH), WIRE_OK);
	assert_int_equal(ws.n_msgs, 3);
	assert_int_equal(ws_end_u64(TAG_MORE), 1);
	ws_ask("src");
	ws_tag_str(TAG_NAME_PATTERN, "*.c");
	assert_int_equal(ws_run(OP_FILE_SEARCH), WIRE_OK);
	assert_string_equal(ws_msg_paths(), "a.c bin.c long.c sub/b.c");
	ws_ask("src");
	ws_tag_str(TAG_NAME_PATTERN, "sub/*.c");
	assert_int_equal(ws_run(OP_FILE_SEARCH), WIRE_OK);
	assert_string_equal(ws_msg_paths(), "sub/b.c");
	ws_ask("src/sub/b.c");
	ws_tag_str(TAG_PATTERN, "needle");
	assert_int_equal(ws_run(OP_FILE_SEARCH), WIRE_OK);
	assert_string_equal(ws_msg_paths(), ":1");
	ws_ask("src");
	ws_tag_str(TAG_PATTERN, "SECRET");
	assert_int_equal(ws_run(OP_FILE_SEARCH), WIRE_OK);
	assert_int_equal(ws.n_msgs, 0);
	ws_ask("src/far");
	ws_tag_str(TAG_PATTERN, "SECRET");
	assert_int_not_equal(ws_run(OP_FILE_SEARCH), WIRE_OK);
	ws_ask("src");
	ws_tag_str(TAG_PATTERN, "a\nb");
	assert_int_equal(ws_run(OP_FILE_SEARCH), WIRE_BAD_REQUEST);
	/* a match across every place where a piece may end */
	for (int shift = 0; shift < 12; shift++) {
		ws_shell("{ head -c %d /dev/zero | tr '\\000' x; printf 'needle%%065536d' 0; } > "
			 "work/edge",
			128 * 1024 - shift);
		ws_ask("edge");
		ws_tag_str(TAG_PATTERN, "needle");
		assert_int_equal(ws_run(OP_FILE_SEARCH), WIRE_OK);
		assert_int_equal(ws.n_msgs, 1);
	}
}

static const char *wide_name(int i)
{
	char name[32];
	(void)snprintf(name, sizeof(name), "work/wide/%d", i);
	return ws_at(name);
}

static void deleting(void **state)
{
	(void)state;
	ws_shell("cd work; mkdir -p t/a/b; touch f t/1 t/a/2 t/a/b/3; ln -s ../../out t/link; "
		 "ln -s ../out top; mkdir empty");
	ws_ask("f");
	assert_int_equal(ws_run(OP_FILE_DELETE), WIRE_OK);
	ws_ask("empty");
	assert_int_equal(ws_run(OP_FILE_DELETE), WIRE_OK);
	ws_ask("t");
	assert_int_equal(ws_run(OP_FILE_DELETE), WIRE_EXISTS);
	ws_ask("t");
	ws_tag(TAG_RECURSIVE, 1);
	assert_int_equal(ws_run(OP_FILE_DELETE), WIRE_OK);
	assert_int_equal(ws_end_u64(TAG_COUNT), 7);
	ws_ask("top");
	ws_tag(TAG_RECURSIVE, 1);
	assert_int_equal(ws_run(OP_FILE_DELETE), WIRE_OK);
	ws_shell("test -z \"$(ls -A work)\"; test -e out/secret; test -e out/dir/f");
	static const char *const never[] = {".", "/workspace", "", "..", "/mnt/data/m", "x/.."};
	ws_shell("mkdir work/x");
	for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
		ws_ask(never[i]);
		ws_tag(TAG_RECURSIVE, 1);
		assert_int_not_equal(ws_run(OP_FILE_DELETE), WIRE_OK);
	}
	ws_ask("nothing");
	ws_tag(TAG_RECURSIVE, 1);
	assert_int_equal(ws_run(OP_FILE_DELETE), WIRE_NOT_FOUND);
	/* a wide one takes many turns, and others are served between them */
	assert_int_equal(mkdir(ws_at("work/wide"), 0755), 0);
	for (int i = 0; i < 8000; i++)
		(void)close(open(wide_name(i), O_WRONLY | O_CREAT, 0600));
	ws_ask("wide");
	ws_tag(TAG_RECURSIVE, 1);
	ws_start(OP_FILE_DELETE);
	int turns = 0;
	for (; !ws.ended; turns++)
		turn_run();
	assert_int_equal(ws.status, WIRE_OK);
	assert_int_equal(ws_end_u64(TAG_COUNT), 8001);
	assert_true(turns > 2);
	/* too deep: refused, not crashed */
	ws_shell("cd work; for i in $(seq 100); do mkdir d; cd d; done");
	ws_ask("d");
	ws_tag(TAG_RECURSIVE, 1);
	assert_int_equal(ws_run(OP_FILE_DELETE), WIRE_LIMIT);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, ws_set_up, ws_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(writing),
		TEST(directories_and_moves),
		TEST(listing),
		TEST(searching),
		TEST(deleting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
