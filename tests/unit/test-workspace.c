/* The agent's file operations against a stand-in for the link's streams: where paths lead, and
 * reading. */
#include "workspace-fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/workspace.h"

static void paths_lead_to_workspace_and_mounts(void **state)
{
	(void)state;
	ws_put("work/a", "1");
	static const struct {
		const char *path;
		enum wire_status status;
	} rows[] = {
		{"a", WIRE_OK},
		{"./a", WIRE_OK},
		{"/workspace/a", WIRE_OK},
		{"/workspace//./a", WIRE_OK},
		{"/workspace", WIRE_OK},
		{"/workspace/", WIRE_OK},
		{".", WIRE_OK},
		{"", WIRE_OK},
		{"/mnt/data/m", WIRE_OK},
		{"/mnt//data/m", WIRE_OK},
		{"nothing", WIRE_NOT_FOUND},
		{"a/b", WIRE_NOT_DIRECTORY},
		{"/workspace-evil/a", WIRE_OUTSIDE},
		{"/work", WIRE_OUTSIDE},
		{"/mnt/data-evil/m", WIRE_OUTSIDE},
		{"/mnt/dat/m", WIRE_OUTSIDE},
		{"/mnt", WIRE_OK},
		{"/mnt/data/../../work/a", WIRE_OUTSIDE},
		{"/etc/passwd", WIRE_OUTSIDE},
		{"../out/secret", WIRE_OUTSIDE},
		{"/workspace/../out/secret", WIRE_OUTSIDE},
		{"/proc/self/root/etc/passwd", WIRE_OUTSIDE},
		{"/", WIRE_OUTSIDE},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ws_ask(rows[i].path);
		if (ws_run(OP_FILE_STAT) != rows[i].status)
			fail_msg("%s: %d", rows[i].path, ws.status);
	}
	ws_ask(ws_at("work/a"));
	assert_int_equal(ws_run(OP_FILE_STAT), WIRE_OK);
	ws_ask(ws_at("work-evil/a"));
	assert_int_equal(ws_run(OP_FILE_STAT), WIRE_OUTSIDE);
	buf_clear(&ws_body);
	assert_int_equal(ws_run(OP_FILE_STAT), WIRE_BAD_REQUEST);
	assert_int_equal(tlv_bytes(&ws_body, TAG_PATH, "a\0b", 3), 0);
	assert_int_equal(ws_run(OP_FILE_STAT), WIRE_BAD_REQUEST);
}

static void links_are_followed_inside_only(void **state)
{
	(void)state;
	ws_put("work/a", "inside");
	ws_shell("cd work; ln -s a near; ln -s ../out/secret far; ln -s /etc/passwd abs; mkdir d; "
		 "ln -s ../a d/up; ln -s ../out fardir; ln -s /proc/self/root magic");
	ws_ask("near");
	assert_int_equal(ws_run(OP_FILE_READ), WIRE_OK);
	assert_memory_equal(ws.data.data, "inside", 6);
	ws_ask("near");
	assert_int_equal(ws_run(OP_FILE_STAT), WIRE_OK);
	assert_int_equal(ws_end_u64(TAG_KIND), FILE_LINK);
	ws_ask("d/up");
	assert_int_equal(ws_run(OP_FILE_READ), WIRE_OK);
	static const char *const out[] = {"far", "abs", "fardir/secret", "magic/etc/passwd"};
	for (size_t i = 0; i < ARRAY_SIZE(out); i++) {
		for (int stable = 0; stable < 2; stable++) {
			ws_ask(out[i]);
			ws_tag(TAG_STABLE, (uint64_t)stable);
			enum wire_status status = ws_run(OP_FILE_READ);
			assert_true(status == WIRE_OUTSIDE || status == WIRE_IS_LINK);
			assert_int_equal(ws.data.len, 0);
		}
	}
	/* presenting follows none at all, in no part of the path */
	ws_ask("near");
	ws_tag(TAG_STABLE, 1);
	assert_int_equal(ws_run(OP_FILE_READ), WIRE_IS_LINK);
	ws_shell("cd work; ln -s d dlink; echo x > d/f");
	ws_ask("dlink/f");
	ws_tag(TAG_STABLE, 1);
	assert_int_equal(ws_run(OP_FILE_READ), WIRE_IS_LINK);
	/* writing to a link neither writes what it names nor replaces it */
	for (int append = 0; append < 2; append++) {
		ws_ask("near");
		ws_tag(TAG_APPEND, (uint64_t)append);
		assert_int_equal(ws_write_text("x"), WIRE_IS_LINK);
		ws_ask("far");
		ws_tag(TAG_APPEND, (uint64_t)append);
		assert_int_equal(ws_write_text("x"), WIRE_IS_LINK);
		ws_ask("fardir/new");
		ws_tag(TAG_PARENTS, 1);
		ws_tag(TAG_APPEND, (uint64_t)append);
		assert_int_equal(ws_write_text("x"), WIRE_OUTSIDE);
	}
	assert_string_equal(ws_get("work/a"), "inside");
	assert_string_equal(ws_get("out/secret"), "SECRET\n");
	assert_string_equal(ws_get("out/new"), "(none)");
}

static void reading(void **state)
{
	(void)state;
	ws_put("work/a", "0123456789");
	ws_ask("a");
	ws_tag(TAG_OFFSET, 3);
	ws_tag(TAG_LENGTH, 4);
	assert_int_equal(ws_run(OP_FILE_READ), WIRE_OK);
	assert_int_equal(ws.data.len, 4);
	assert_memory_equal(ws.data.data, "3456", 4);
	assert_int_equal(ws_end_u64(TAG_SIZE), 10);
	assert_int_equal(ws_end_u64(TAG_LENGTH), 4);
	ws_ask("a");
	ws_tag(TAG_OFFSET, 99);
	assert_int_equal(ws_run(OP_FILE_READ), WIRE_OK);
	assert_int_equal(ws.data.len, 0);
	ws_ask("a");
	ws_tag(TAG_OFFSET, UINT64_MAX);
	assert_int_equal(ws_run(OP_FILE_READ), WIRE_BAD_REQUEST);
	ws_ask("a");
	ws_tag(TAG_LIMIT, 9);
	assert_int_equal(ws_run(OP_FILE_READ), WIRE_LIMIT);
	assert_int_equal(ws_end_u64(TAG_SIZE), 10);
	ws_ask(".");
	assert_int_equal(ws_run(OP_FILE_READ), WIRE_IS_DIRECTORY);
	assert_int_equal(mkfifo(ws_at("work/fifo"), 0600), 0);
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	(void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", ws_at("work/sock"));
	int sock = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(sock, (struct sockaddr *)&name, sizeof(name)), 0);
	(void)close(sock);
	static const char *const odd[] = {"fifo", "sock"};
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		ws_ask(odd[i]);
		assert_int_equal(ws_run(OP_FILE_READ), WIRE_NOT_REGULAR);
		assert_int_equal(ws_end_u64(TAG_KIND), i ? FILE_SOCKET : FILE_FIFO);
		ws_ask(odd[i]);
		assert_int_equal(ws_write_text("x"), WIRE_NOT_REGULAR);
		ws_ask(odd[i]);
		assert_int_equal(ws_run(OP_FILE_HASH), WIRE_NOT_REGULAR);
	}
	/* pieces as credit allows */
	ws_shell("head -c 300000 /dev/zero > work/big");
	ws_ask("big");
	ws_clear();
	ws_start(OP_FILE_READ);
	assert_true(ws.ended);
	assert_int_equal(ws.data.len, 300000);
	ws_ask("big");
	assert_int_equal(ws_run(OP_FILE_HASH), WIRE_OK);
	assert_int_equal(ws_end_u64(TAG_SIZE), 300000);
}

/* With credit for half of it, so that something can happen in between. */
static void start_half(const char *path, const struct stream_handler *h)
{
	ws_ask(path);
	ws_tag(TAG_STABLE, 1);
	ws_clear();
	ws.room = 5;
	while (h->op != OP_FILE_READ)
		h++;
	h->open(&ws, tlv_reader(ws_body.data, ws_body.len));
	assert_false(ws.ended);
	assert_int_equal(ws.data.len, 5);
}

static void what_changes_while_it_is_read_is_told(void **state)
{
	(void)state;
	static const char *const changes[] = {
		"printf 9876543210 > work/a",                   /* other bytes, same size */
		"printf x >> work/a",                           /* grows */
		": > work/a",                                   /* shrinks */
		"printf 0123456789 > work/b; mv work/b work/a", /* another file */
		"rm work/a",
		"ln -sf b work/a",
		"chmod 600 work/a",
	};
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		ws_shell("rm -f work/a; printf 0123456789 > work/a; sleep 0.02");
		start_half("a", workspace_handlers);
		ws_shell("%s", changes[i]);
		ws.room = 100;
		ws.ops->writable(&ws);
		assert_true(ws.ended);
		if (ws.status != WIRE_CHANGED)
			fail_msg("%s: %d", changes[i], ws.status);
	}
	ws_shell("rm -f work/a; printf 0123456789 > work/a");
	start_half("a", workspace_handlers);
	ws.room = 100;
	ws.ops->writable(&ws);
	assert_int_equal(ws.status, WIRE_OK);
	ws_shell("chmod u+s work/a");
	ws_ask("a");
	ws_tag(TAG_STABLE, 1);
	assert_int_equal(ws_run(OP_FILE_READ), WIRE_NOT_REGULAR);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, ws_set_up, ws_tear_down)
	const struct CMUnitTest tests[] = {
		TEST(paths_lead_to_workspace_and_mounts),
		TEST(links_are_followed_inside_only),
		TEST(reading),
		TEST(what_changes_while_it_is_read_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
