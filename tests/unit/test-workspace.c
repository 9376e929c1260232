/* The agent's file operations against a stand-in for the link's streams: what they do, and that
 * code which swaps links and files under them gets nothing of what lies outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/turn.h"
#include "agent/workspace.h"
#include "base/fd.h"
#include "wire/sha256.h"

/* ---- streams that remember ---- */

struct stream {
	const struct stream_ops *ops;
	void *user;
	size_t room;
	bool ended;
	enum wire_status status;
	struct buf data, end, msgs; /* msgs: be32 length, TLVs */
	size_t n_msgs, consumed;
};

void stream_serve(struct stream *s, const struct stream_ops *ops, void *user)
{
	s->ops = ops;
	s->user = user;
}

void *stream_user(const struct stream *s)
{
	return s->user;
}

size_t stream_room(const struct stream *s)
{
	return s->room;
}

void stream_data(struct stream *s, const void *p, size_t n, bool fin)
{
	(void)fin;
	assert_true(n <= s->room && n > 0);
	s->room -= n;
	assert_int_equal(buf_append(&s->data, p, n), 0);
}

void stream_msg(struct stream *s, const struct buf *tlvs)
{
	uint32_t n = (uint32_t)tlvs->len;
	assert_int_equal(buf_append(&s->msgs, &n, sizeof(n)), 0);
	assert_int_equal(buf_append(&s->msgs, tlvs->data, tlvs->len), 0);
	s->n_msgs++;
}

void stream_consumed(struct stream *s, size_t n)
{
	s->consumed += n;
}

void stream_end(struct stream *s, enum wire_status status, const struct buf *tlvs)
{
	assert_false(s->ended);
	s->ended = true;
	s->status = status;
	if (tlvs)
		assert_int_equal(buf_append(&s->end, tlvs->data, tlvs->len), 0);
}

void stream_fail(struct stream *s, enum wire_status status, int errnum, const char *fmt, ...)
{
	(void)errnum;
	(void)fmt;
	stream_end(s, status, NULL);
}

/* ---- fixture ---- */

static char root[64];
static struct config config;
static struct stream s; /* of the last operation */
static struct buf body = BUF_INIT(64 * KIB);

static char *at(const char *path)
{
	static char text[8][512];
	static unsigned i;
	char *t = text[i++ % 8];
	(void)snprintf(t, sizeof(text[0]), "%s/%s", root, path);
	return t;
}

static void put(const char *path, const char *text)
{
	int fd = open(at(path), O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_full(fd, text, strlen(text)), 0);
	assert_int_equal(close(fd), 0);
}

static const char *get(const char *path)
{
	static char text[4096];
	int fd = open(at(path), O_RDONLY);
	if (fd < 0)
		return "(none)";
	ssize_t n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	text[MAX(n, 0)] = '\0';
	return text;
}

static void clear_stream(void)
{
	buf_done(&s.data);
	buf_done(&s.end);
	buf_done(&s.msgs);
	s = (struct stream){.room = SIZE_MAX,
		.data = BUF_INIT(4 * MIB),
		.end = BUF_INIT(KIB),
		.msgs = BUF_INIT(4 * MIB)};
}

/* Builds a request: path first, then pairs of tag and value with tag(). */
static void ask(const char *path)
{
	buf_clear(&body);
	assert_int_equal(tlv_str(&body, TAG_PATH, path), 0);
}

static void tag(uint16_t t, uint64_t v)
{
	assert_int_equal(tlv_u64(&body, t, v), 0);
}

static void tag_str(uint16_t t, const char *v)
{
	assert_int_equal(tlv_str(&body, t, v), 0);
}

static void start(uint16_t op)
{
	clear_stream();
	const struct stream_handler *h = workspace_handlers;
	while (h->op && h->op != op)
		h++;
	assert_non_null(h->open);
	h->open(&s, tlv_reader(body.data, body.len));
}

/* To its end. */
static enum wire_status run(uint16_t op)
{
	start(op);
	for (int i = 0; !s.ended && i < 100000; i++) {
		assert_true(turn_pending());
		turn_run();
	}
	assert_true(s.ended);
	assert_false(turn_pending());
	return s.status;
}

static enum wire_status write_text(const char *text)
{
	start(OP_FILE_WRITE);
	if (!s.ended)
		s.ops->data(&s, (const uint8_t *)text, strlen(text), true);
	assert_true(s.ended);
	return s.status;
}

static uint64_t end_u64(uint16_t t)
{
	struct tlv_reader r = tlv_reader(s.end.data, s.end.len);
	uint64_t v;
	for (struct tlv x; tlv_next(&r, &x);) {
		if (x.tag == t && tlv_get_u64(&x, &v) == 0)
			return v;
	}
	fail_msg("no tag %u", t);
	return 0;
}

/* Paths of all messages, sorted by strcmp, one a line with its line number where it has one. */
static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *msg_paths(void)
{
	static struct buf all = BUF_INIT(64 * KIB);
	char *lines[64];
	size_t n = 0;
	for (size_t pos = 0; pos < s.msgs.len;) {
		uint32_t len;
		memcpy(&len, s.msgs.data + pos, sizeof(len));
		struct tlv_reader r = tlv_reader(s.msgs.data + pos + sizeof(len), len);
		uint64_t line = 0;
		_cleanup_free_ char *path = NULL;
		for (struct tlv x; tlv_next(&r, &x);) {
			if (x.tag == TAG_PATH)
				path = tlv_dup_str(&x);
			else if (x.tag == TAG_LINE)
				assert_int_equal(tlv_get_u64(&x, &line), 0);
		}
		assert_non_null(path);
		assert_true(n < ARRAY_SIZE(lines));
		lines[n++] = line ? xasprintf("%s:%d", path, (int)line) : xstrdup(path);
		pos += sizeof(len) + len;
	}
	qsort(lines, n, sizeof(lines[0]), by_text);
	buf_clear(&all);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(buf_printf(&all, "%s%s", i ? " " : "", lines[i]), 0);
		free(lines[i]);
	}
	assert_int_equal(buf_append(&all, "", 1), 0);
	return (const char *)all.data;
}

static void shell(const char *fmt, ...) PRINTF_LIKE(1, 2);
static void shell(const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pid_t pid = fork();
	if (pid == 0) {
		(void)!chdir(root);
		(void)execl("/bin/sh", "sh", "-c", text, NULL);
		_exit(127);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int set_up(void **state)
{
	(void)state;
	(void)snprintf(root, sizeof(root), "/tmp/scb-test-workspace-XXXXXX");
	assert_non_null(mkdtemp(root));
	shell("mkdir work out mount out/dir; echo SECRET > out/secret; echo SECRET > out/dir/f; "
	      "echo m > mount/m");
	config = (struct config){.workspace = strdup(at("work")),
		.workspace_fd = open(at("work"), O_PATH | O_DIRECTORY),
		.n_mounts = 1,
		.mounts = {{.name = strdup("data"),
			.path = strdup(at("mount")),
			.fd = open(at("mount"), O_PATH | O_DIRECTORY)}}};
	workspace_init(&config);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	shell("chmod -R u+rwx . ; rm -rf work out mount");
	(void)close(config.workspace_fd);
	(void)close(config.mounts[0].fd);
	free(config.workspace);
	free(config.mounts[0].name);
	free(config.mounts[0].path);
	clear_stream();
	buf_done(&body);
	return rmdir(root);
}

/* ---- what they do ---- */

static void paths_lead_to_workspace_and_mounts(void **state)
{
	(void)state;
	put("work/a", "1");
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
		ask(rows[i].path);
		if (run(OP_FILE_STAT) != rows[i].status)
			fail_msg("%s: %d", rows[i].path, s.status);
	}
	ask(at("work/a"));
	assert_int_equal(run(OP_FILE_STAT), WIRE_OK);
	ask(at("work-evil/a"));
	assert_int_equal(run(OP_FILE_STAT), WIRE_OUTSIDE);
	buf_clear(&body);
	assert_int_equal(run(OP_FILE_STAT), WIRE_BAD_REQUEST);
	assert_int_equal(tlv_bytes(&body, TAG_PATH, "a\0b", 3), 0);
	assert_int_equal(run(OP_FILE_STAT), WIRE_BAD_REQUEST);
}

static void links_are_followed_inside_only(void **state)
{
	(void)state;
	put("work/a", "inside");
	shell("cd work; ln -s a near; ln -s ../out/secret far; ln -s /etc/passwd abs; mkdir d; "
	      "ln -s ../a d/up; ln -s ../out fardir; ln -s /proc/self/root magic");
	ask("near");
	assert_int_equal(run(OP_FILE_READ), WIRE_OK);
	assert_memory_equal(s.data.data, "inside", 6);
	ask("near");
	assert_int_equal(run(OP_FILE_STAT), WIRE_OK);
	assert_int_equal(end_u64(TAG_KIND), FILE_LINK);
	ask("d/up");
	assert_int_equal(run(OP_FILE_READ), WIRE_OK);
	static const char *const out[] = {"far", "abs", "fardir/secret", "magic/etc/passwd"};
	for (size_t i = 0; i < ARRAY_SIZE(out); i++) {
		for (int stable = 0; stable < 2; stable++) {
			ask(out[i]);
			tag(TAG_STABLE, (uint64_t)stable);
			enum wire_status status = run(OP_FILE_READ);
			assert_true(status == WIRE_OUTSIDE || status == WIRE_IS_LINK);
			assert_int_equal(s.data.len, 0);
		}
	}
	/* presenting follows none at all, in no part of the path */
	ask("near");
	tag(TAG_STABLE, 1);
	assert_int_equal(run(OP_FILE_READ), WIRE_IS_LINK);
	shell("cd work; ln -s d dlink; echo x > d/f");
	ask("dlink/f");
	tag(TAG_STABLE, 1);
	assert_int_equal(run(OP_FILE_READ), WIRE_IS_LINK);
	/* writing to a link neither writes what it names nor replaces it */
	for (int append = 0; append < 2; append++) {
		ask("near");
		tag(TAG_APPEND, (uint64_t)append);
		assert_int_equal(write_text("x"), WIRE_IS_LINK);
		ask("far");
		tag(TAG_APPEND, (uint64_t)append);
		assert_int_equal(write_text("x"), WIRE_IS_LINK);
		ask("fardir/new");
		tag(TAG_PARENTS, 1);
		tag(TAG_APPEND, (uint64_t)append);
		assert_int_equal(write_text("x"), WIRE_OUTSIDE);
	}
	assert_string_equal(get("work/a"), "inside");
	assert_string_equal(get("out/secret"), "SECRET\n");
	assert_string_equal(get("out/new"), "(none)");
}

static void reading(void **state)
{
	(void)state;
	put("work/a", "0123456789");
	ask("a");
	tag(TAG_OFFSET, 3);
	tag(TAG_LENGTH, 4);
	assert_int_equal(run(OP_FILE_READ), WIRE_OK);
	assert_int_equal(s.data.len, 4);
	assert_memory_equal(s.data.data, "3456", 4);
	assert_int_equal(end_u64(TAG_SIZE), 10);
	assert_int_equal(end_u64(TAG_LENGTH), 4);
	ask("a");
	tag(TAG_OFFSET, 99);
	assert_int_equal(run(OP_FILE_READ), WIRE_OK);
	assert_int_equal(s.data.len, 0);
	ask("a");
	tag(TAG_OFFSET, UINT64_MAX);
	assert_int_equal(run(OP_FILE_READ), WIRE_BAD_REQUEST);
	ask("a");
	tag(TAG_LIMIT, 9);
	assert_int_equal(run(OP_FILE_READ), WIRE_LIMIT);
	assert_int_equal(end_u64(TAG_SIZE), 10);
	ask(".");
	assert_int_equal(run(OP_FILE_READ), WIRE_IS_DIRECTORY);
	assert_int_equal(mkfifo(at("work/fifo"), 0600), 0);
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	(void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", at("work/sock"));
	int sock = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(sock, (struct sockaddr *)&name, sizeof(name)), 0);
	(void)close(sock);
	static const char *const odd[] = {"fifo", "sock"};
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		ask(odd[i]);
		assert_int_equal(run(OP_FILE_READ), WIRE_NOT_REGULAR);
		assert_int_equal(end_u64(TAG_KIND), i ? FILE_SOCKET : FILE_FIFO);
		ask(odd[i]);
		assert_int_equal(write_text("x"), WIRE_NOT_REGULAR);
		ask(odd[i]);
		assert_int_equal(run(OP_FILE_HASH), WIRE_NOT_REGULAR);
	}
	/* pieces as credit allows */
	shell("head -c 300000 /dev/zero > work/big");
	ask("big");
	clear_stream();
	start(OP_FILE_READ);
	assert_true(s.ended);
	assert_int_equal(s.data.len, 300000);
	ask("big");
	assert_int_equal(run(OP_FILE_HASH), WIRE_OK);
	assert_int_equal(end_u64(TAG_SIZE), 300000);
}

/* With credit for half of it, so that something can happen in between. */
static void start_half(const char *path, const struct stream_handler *h)
{
	ask(path);
	tag(TAG_STABLE, 1);
	clear_stream();
	s.room = 5;
	while (h->op != OP_FILE_READ)
		h++;
	h->open(&s, tlv_reader(body.data, body.len));
	assert_false(s.ended);
	assert_int_equal(s.data.len, 5);
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
		shell("rm -f work/a; printf 0123456789 > work/a; sleep 0.02");
		start_half("a", workspace_handlers);
		shell("%s", changes[i]);
		s.room = 100;
		s.ops->writable(&s);
		assert_true(s.ended);
		if (s.status != WIRE_CHANGED)
			fail_msg("%s: %d", changes[i], s.status);
	}
	shell("rm -f work/a; printf 0123456789 > work/a");
	start_half("a", workspace_handlers);
	s.room = 100;
	s.ops->writable(&s);
	assert_int_equal(s.status, WIRE_OK);
	shell("chmod u+s work/a");
	ask("a");
	tag(TAG_STABLE, 1);
	assert_int_equal(run(OP_FILE_READ), WIRE_NOT_REGULAR);
}

static void writing(void **state)
{
	(void)state;
	ask("a");
	assert_int_equal(write_text("hello"), WIRE_OK);
	assert_int_equal(end_u64(TAG_SIZE), 5);
	assert_int_equal(s.consumed, 5);
	shell("chmod 640 work/a");
	ask("a");
	assert_int_equal(write_text("new"), WIRE_OK);
	assert_string_equal(get("work/a"), "new");
	struct stat st;
	assert_int_equal(stat(at("work/a"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	ask("a");
	tag(TAG_APPEND, 1);
	assert_int_equal(write_text("er"), WIRE_OK);
	ask("a");
	tag(TAG_OFFSET, 1);
	assert_int_equal(write_text("EW"), WIRE_OK);
	assert_string_equal(get("work/a"), "nEWer");
	ask("x/y/z");
	assert_int_equal(write_text("1"), WIRE_NOT_FOUND);
	ask("x/y/z");
	tag(TAG_PARENTS, 1);
	assert_int_equal(write_text("1"), WIRE_OK);
	assert_string_equal(get("work/x/y/z"), "1");
	ask("x");
	assert_int_equal(write_text("1"), WIRE_IS_DIRECTORY);
	ask(".");
	assert_int_equal(write_text("1"), WIRE_IS_DIRECTORY);
	ask("a/b");
	tag(TAG_PARENTS, 1);
	assert_int_equal(write_text("1"), WIRE_NOT_DIRECTORY);
	ask("/mnt/data/new");
	assert_int_equal(write_text("1"), WIRE_READ_ONLY);
	ask("empty");
	assert_int_equal(write_text(""), WIRE_OK);
	assert_string_equal(get("work/empty"), "");
	/* a write that is cut off leaves the old file, and nothing else */
	ask("a");
	start(OP_FILE_WRITE);
	s.ops->data(&s, (const uint8_t *)"half", 4, false);
	assert_string_equal(get("work/a"), "nEWer");
	s.ops->closed(&s);
	assert_string_equal(get("work/a"), "nEWer");
	shell("test -z \"$(ls -A work | grep scb-write)\"");
	/* only if it still is what was read */
	ask("a");
	assert_int_equal(run(OP_FILE_STAT), WIRE_OK);
	uint64_t size = end_u64(TAG_SIZE), time = end_u64(TAG_MTIME_US);
	ask("a");
	tag(TAG_SIZE, size);
	tag(TAG_MTIME_US, time);
	assert_int_equal(write_text("third"), WIRE_OK);
	shell("sleep 0.02; printf 12345 > work/a");
	ask("a");
	tag(TAG_SIZE, size);
	tag(TAG_MTIME_US, time);
	assert_int_equal(write_text("lost"), WIRE_CHANGED);
	assert_string_equal(get("work/a"), "12345");
	shell("test -z \"$(ls -A work | grep scb-write)\"");
}

static void directories_and_moves(void **state)
{
	(void)state;
	ask("d/e");
	assert_int_equal(run(OP_FILE_MKDIR), WIRE_NOT_FOUND);
	ask("d/e");
	tag(TAG_PARENTS, 1);
	assert_int_equal(run(OP_FILE_MKDIR), WIRE_OK);
	ask("d/e");
	assert_int_equal(run(OP_FILE_MKDIR), WIRE_EXISTS);
	ask("d/e/");
	tag(TAG_PARENTS, 1);
	assert_int_equal(run(OP_FILE_MKDIR), WIRE_OK);
	put("work/a", "a");
	put("work/b", "b");
	ask("a");
	tag_str(TAG_TARGET, "b");
	assert_int_equal(run(OP_FILE_MOVE), WIRE_EXISTS);
	assert_string_equal(get("work/b"), "b");
	ask("a");
	tag_str(TAG_TARGET, "b");
	tag(TAG_REPLACE, 1);
	assert_int_equal(run(OP_FILE_MOVE), WIRE_OK);
	assert_string_equal(get("work/b"), "a");
	ask("b");
	tag_str(TAG_TARGET, "new/dir/c");
	tag(TAG_PARENTS, 1);
	assert_int_equal(run(OP_FILE_MOVE), WIRE_OK);
	assert_string_equal(get("work/new/dir/c"), "a");
	ask("new");
	tag_str(TAG_TARGET, "new/dir/new");
	assert_int_equal(run(OP_FILE_MOVE), WIRE_BAD_REQUEST);
	ask("new/dir/c");
	tag_str(TAG_TARGET, "../out/c");
	assert_int_equal(run(OP_FILE_MOVE), WIRE_OUTSIDE);
	ask("new/dir/c");
	tag_str(TAG_TARGET, "/mnt/data/c");
	assert_int_equal(run(OP_FILE_MOVE), WIRE_READ_ONLY);
	ask("/mnt/data/m");
	tag_str(TAG_TARGET, "m");
	assert_int_equal(run(OP_FILE_MOVE), WIRE_READ_ONLY);
	ask("nothing");
	tag_str(TAG_TARGET, "m");
	assert_int_equal(run(OP_FILE_MOVE), WIRE_NOT_FOUND);
}

static void listing(void **state)
{
	(void)state;
	shell("cd work; mkdir -p a/b/c; touch f a/g a/b/h; ln -s ../out far; ln -s a near");
	ask(".");
	assert_int_equal(run(OP_FILE_LIST), WIRE_OK);
	assert_string_equal(msg_paths(), "a f far near");
	assert_int_equal(end_u64(TAG_COUNT), 4);
	assert_int_equal(end_u64(TAG_MORE), 0);
	ask(".");
	tag(TAG_DEPTH, 2);
	assert_int_equal(run(OP_FILE_LIST), WIRE_OK);
	assert_string_equal(msg_paths(), "a a/b a/g f far near");
	ask("near"); /* what is asked for may be a link inside */
	tag(TAG_DEPTH, 9);
	assert_int_equal(run(OP_FILE_LIST), WIRE_OK);
	assert_string_equal(msg_paths(), "b b/c b/h g");
	ask(".");
	tag(TAG_LIMIT, 2);
	assert_int_equal(run(OP_FILE_LIST), WIRE_OK);
	assert_int_equal(s.n_msgs, 2);
	assert_int_equal(end_u64(TAG_MORE), 1);
	ask("/mnt/");
	assert_int_equal(run(OP_FILE_LIST), WIRE_OK);
	assert_string_equal(msg_paths(), "data");
	ask("far");
	assert_int_equal(run(OP_FILE_LIST), WIRE_OUTSIDE);
	ask("f");
	assert_int_equal(run(OP_FILE_LIST), WIRE_NOT_DIRECTORY);
	/* many at once: some wait to begin; all end */
	struct stream many[3 * 8];
	ask(".");
	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		many[i] = (struct stream){
			.room = SIZE_MAX, .end = BUF_INIT(KIB), .msgs = BUF_INIT(64 * KIB)};
		workspace_handlers[1].open(&many[i], tlv_reader(body.data, body.len));
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
	shell("cd work; mkdir -p src/sub; printf 'one\\ntwo needle\\nthree\\nneedle needle\\n' > "
	      "src/a.c;"
	      "printf 'x\\000needle\\n' > src/bin.c; printf 'last needle' > src/sub/b.c;"
	      "ln -s ../out/secret src/far; echo needle > src/note.txt;"
	      "{ head -c 200000 /dev/zero | tr '\\000' x; printf 'needle\\nneedle'; } > "
	      "src/long.c");
	ask("src");
	tag_str(TAG_PATTERN, "needle");
	assert_int_equal(run(OP_FILE_SEARCH), WIRE_OK);
	assert_string_equal(msg_paths(), "a.c:2 a.c:4 long.c:1 long.c:2 note.txt:1 sub/b.c:1");
	ask("src");
	tag_str(TAG_PATTERN, "needle");
	tag_str(TAG_NAME_PATTERN, "*.c");
	tag(TAG_LIMIT, 3);
	assert_int_equal(run(OP_FILE_SEARCH), WIRE_OK);
	assert_int_equal(s.n_msgs, 3);
	assert_int_equal(end_u64(TAG_MORE), 1);
	ask("src");
	tag_str(TAG_NAME_PATTERN, "*.c");
	assert_int_equal(run(OP_FILE_SEARCH), WIRE_OK);
	assert_string_equal(msg_paths(), "a.c bin.c long.c sub/b.c");
	ask("src");
	tag_str(TAG_NAME_PATTERN, "sub/*.c");
	assert_int_equal(run(OP_FILE_SEARCH), WIRE_OK);
	assert_string_equal(msg_paths(), "sub/b.c");
	ask("src/sub/b.c");
	tag_str(TAG_PATTERN, "needle");
	assert_int_equal(run(OP_FILE_SEARCH), WIRE_OK);
	assert_string_equal(msg_paths(), ":1");
	ask("src");
	tag_str(TAG_PATTERN, "SECRET");
	assert_int_equal(run(OP_FILE_SEARCH), WIRE_OK);
	assert_int_equal(s.n_msgs, 0);
	ask("src/far");
	tag_str(TAG_PATTERN, "SECRET");
	assert_int_not_equal(run(OP_FILE_SEARCH), WIRE_OK);
	ask("src");
	tag_str(TAG_PATTERN, "a\nb");
	assert_int_equal(run(OP_FILE_SEARCH), WIRE_BAD_REQUEST);
	/* a match across every place where a piece may end */
	for (int shift = 0; shift < 12; shift++) {
		shell("{ head -c %d /dev/zero | tr '\\000' x; printf 'needle%%065536d' 0; } > "
		      "work/edge",
			128 * 1024 - shift);
		ask("edge");
		tag_str(TAG_PATTERN, "needle");
		assert_int_equal(run(OP_FILE_SEARCH), WIRE_OK);
		assert_int_equal(s.n_msgs, 1);
	}
}

static const char *wide_name(int i)
{
	char name[32];
	(void)snprintf(name, sizeof(name), "work/wide/%d", i);
	return at(name);
}

static void deleting(void **state)
{
	(void)state;
	shell("cd work; mkdir -p t/a/b; touch f t/1 t/a/2 t/a/b/3; ln -s ../../out t/link; "
	      "ln -s ../out top; mkdir empty");
	ask("f");
	assert_int_equal(run(OP_FILE_DELETE), WIRE_OK);
	ask("empty");
	assert_int_equal(run(OP_FILE_DELETE), WIRE_OK);
	ask("t");
	assert_int_equal(run(OP_FILE_DELETE), WIRE_EXISTS);
	ask("t");
	tag(TAG_RECURSIVE, 1);
	assert_int_equal(run(OP_FILE_DELETE), WIRE_OK);
	assert_int_equal(end_u64(TAG_COUNT), 7);
	ask("top");
	tag(TAG_RECURSIVE, 1);
	assert_int_equal(run(OP_FILE_DELETE), WIRE_OK);
	shell("test -z \"$(ls -A work)\"; test -e out/secret; test -e out/dir/f");
	static const char *const never[] = {".", "/workspace", "", "..", "/mnt/data/m", "x/.."};
	shell("mkdir work/x");
	for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
		ask(never[i]);
		tag(TAG_RECURSIVE, 1);
		assert_int_not_equal(run(OP_FILE_DELETE), WIRE_OK);
	}
	ask("nothing");
	tag(TAG_RECURSIVE, 1);
	assert_int_equal(run(OP_FILE_DELETE), WIRE_NOT_FOUND);
	/* a wide one takes many turns, and others are served between them */
	assert_int_equal(mkdir(at("work/wide"), 0755), 0);
	for (int i = 0; i < 8000; i++)
		(void)close(open(wide_name(i), O_WRONLY | O_CREAT, 0600));
	ask("wide");
	tag(TAG_RECURSIVE, 1);
	start(OP_FILE_DELETE);
	int turns = 0;
	for (; !s.ended; turns++)
		turn_run();
	assert_int_equal(s.status, WIRE_OK);
	assert_int_equal(end_u64(TAG_COUNT), 8001);
	assert_true(turns > 2);
	/* too deep: refused, not crashed */
	shell("cd work; for i in $(seq 100); do mkdir d; cd d; done");
	ask("d");
	tag(TAG_RECURSIVE, 1);
	assert_int_equal(run(OP_FILE_DELETE), WIRE_LIMIT);
}

/* ---- races ---- */

/* A child that swaps two names for ever. */
static pid_t swapper(const char *a, const char *b)
{
	const char *x = at(a), *y = at(b);
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
	put("work/f", "inside");
	shell("cd work; mkdir d; echo inside > d/secret; ln -s ../out/secret flink; "
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
			ask(rows[i].path);
			tag(TAG_STABLE, n & 1);
			if (run(OP_FILE_READ) == WIRE_OK)
				good++;
			else
				refused++;
			assert_true(
				s.data.len == 0 || !memmem(s.data.data, s.data.len, "SECRET", 6));
			ask(rows[i].path);
			tag_str(TAG_PATTERN, "SECRET");
			(void)run(OP_FILE_SEARCH);
			assert_int_equal(s.n_msgs, 0);
		}
		stop(pid);
		shell("cd work; rm -rf f flink fifo d dlink; echo inside > f; mkdir d; "
		      "echo inside > d/secret; ln -s ../out/secret flink; ln -s ../out dlink; "
		      "mkfifo fifo");
	}
}

static void no_outside_byte_is_written(void **state)
{
	(void)state;
	shell("cd work; echo 1 > f; mkdir d; ln -s ../out/secret flink; ln -s ../out dlink");
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
			ask(rows[i].path);
			tag(TAG_PARENTS, 1);
			if (n % 3 == 1)
				tag(TAG_APPEND, 1);
			else if (n % 3 == 2)
				tag(TAG_OFFSET, 0);
			good += write_text("OVERWRITTEN") == WIRE_OK;
			ask("d/sub/dir");
			tag(TAG_PARENTS, 1);
			(void)run(OP_FILE_MKDIR);
			ask("f");
			tag_str(TAG_TARGET, "d/moved");
			tag(TAG_REPLACE, 1);
			if (i == 1)
				(void)run(OP_FILE_MOVE);
		}
		stop(pid);
		assert_string_equal(get("out/secret"), "SECRET\n");
		shell("[ \"$(ls -A out)\" = \"$(printf 'dir\\nsecret')\" ]");
		shell("cd work; rm -rf f flink d dlink; echo 1 > f; mkdir d; "
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
			(void)mkdir(at(dirs[i]), 0755);
		if (symlink("../../out/dir", at("work/t/link")) < 0)
			assert_int_equal(errno, EEXIST);
		int fd = open(at("work/t/dir/dir/f"), O_WRONLY | O_CREAT, 0600);
		if (fd >= 0) /* not there: swapped meanwhile */
			(void)close(fd);
		ask("t");
		tag(TAG_RECURSIVE, 1);
		(void)run(OP_FILE_DELETE);
		assert_int_equal(access(at("out/dir/f"), F_OK), 0);
		/* what mkdir() above made through the link */
		(void)unlink(at("out/dir/dir/f"));
		(void)rmdir(at("out/dir/dir"));
	}
	stop(pid);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(paths_lead_to_workspace_and_mounts),
		TEST(links_are_followed_inside_only),
		TEST(reading),
		TEST(what_changes_while_it_is_read_is_told),
		TEST(writing),
		TEST(directories_and_moves),
		TEST(listing),
		TEST(searching),
		TEST(deleting),
		TEST(no_outside_byte_is_read),
		TEST(no_outside_byte_is_written),
		TEST(no_outside_file_is_deleted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
