/* workspace-fixture.c: see workspace-fixture.h. */
#include "workspace-fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/turn.h"
#include "agent/workspace.h"
#include "base/fd.h"

/* ---- streams that remember ---- */

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
/* ---- files and requests ---- */

static char root[64];
static struct config config;
struct stream ws;
struct buf ws_body = BUF_INIT(64 * KIB);

char *ws_at(const char *path)
{
	static char text[8][512];
	static unsigned i;
	char *t = text[i++ % 8];
	(void)snprintf(t, sizeof(text[0]), "%s/%s", root, path);
	return t;
}

void ws_put(const char *path, const char *text)
{
	int fd = open(ws_at(path), O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fd_write_full(fd, text, strlen(text)), 0);
	assert_int_equal(close(fd), 0);
}

const char *ws_get(const char *path)
{
	static char text[4096];
	int fd = open(ws_at(path), O_RDONLY);
	if (fd < 0)
		return "(none)";
	ssize_t n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	text[MAX(n, 0)] = '\0';
	return text;
}

void ws_clear(void)
{
	buf_done(&ws.data);
	buf_done(&ws.end);
	buf_done(&ws.msgs);
	ws = (struct stream){.room = SIZE_MAX,
		.data = BUF_INIT(4 * MIB),
		.end = BUF_INIT(KIB),
		.msgs = BUF_INIT(4 * MIB)};
}

/* Builds a request: path first, then pairs of tag and value with ws_tag(). */
void ws_ask(const char *path)
{
	buf_clear(&ws_body);
	assert_int_equal(tlv_str(&ws_body, TAG_PATH, path), 0);
}

void ws_tag(uint16_t t, uint64_t v)
{
	assert_int_equal(tlv_u64(&ws_body, t, v), 0);
}

void ws_tag_str(uint16_t t, const char *v)
{
	assert_int_equal(tlv_str(&ws_body, t, v), 0);
}

void ws_start(uint16_t op)
{
	ws_clear();
	const struct stream_handler *h = workspace_handlers;
	while (h->op && h->op != op)
		h++;
	assert_non_null(h->open);
	h->open(&ws, tlv_reader(ws_body.data, ws_body.len));
}

/* To its end. */
enum wire_status ws_run(uint16_t op)
{
	ws_start(op);
	for (int i = 0; !ws.ended && i < 100000; i++) {
		assert_true(turn_pending());
		turn_run();
	}
	assert_true(ws.ended);
	assert_false(turn_pending());
	return ws.status;
}

uint64_t stream_taken_before(const struct stream *s)
{
	return s->taken_before;
}

void stream_note_taken(struct stream *s, uint64_t taken)
{
	s->taken = taken;
}

enum wire_status ws_write_text(const char *text)
{
	ws_start(OP_FILE_WRITE);
	if (!ws.ended)
		ws.ops->data(&ws, (const uint8_t *)text, strlen(text), true);
	assert_true(ws.ended);
	return ws.status;
}

uint64_t ws_end_u64(uint16_t t)
{
	struct tlv_reader r = tlv_reader(ws.end.data, ws.end.len);
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

const char *ws_msg_paths(void)
{
	static struct buf all = BUF_INIT(64 * KIB);
	char *lines[64];
	size_t n = 0;
	for (size_t pos = 0; pos < ws.msgs.len;) {
		uint32_t len;
		memcpy(&len, ws.msgs.data + pos, sizeof(len));
		struct tlv_reader r = tlv_reader(ws.msgs.data + pos + sizeof(len), len);
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

void ws_shell(const char *fmt, ...)
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

int ws_set_up(void **state)
{
	(void)state;
	(void)snprintf(root, sizeof(root), "/tmp/scb-test-workspace-XXXXXX");
	assert_non_null(mkdtemp(root));
	ws_shell("mkdir work out mount out/dir; echo SECRET > out/secret; echo SECRET > out/dir/f; "
		 "echo m > mount/m");
	config = (struct config){.workspace = strdup(ws_at("work")),
		.workspace_fd = open(ws_at("work"), O_PATH | O_DIRECTORY),
		.n_mounts = 1,
		.mounts = {{.name = strdup("data"),
			.path = strdup(ws_at("mount")),
			.fd = open(ws_at("mount"), O_PATH | O_DIRECTORY)}}};
	workspace_init(&config);
	return 0;
}

int ws_tear_down(void **state)
{
	(void)state;
	ws_shell("chmod -R u+rwx . ; rm -rf work out mount");
	(void)close(config.workspace_fd);
	(void)close(config.mounts[0].fd);
	free(config.workspace);
	free(config.mounts[0].name);
	free(config.mounts[0].path);
	ws_clear();
	buf_done(&ws_body);
	return rmdir(root);
}
