/* What an agent says about jobs and kernels: read whole, and refused where it makes no sense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/str.h"
#include "exec/exec_parse.h"
#include "link/status.h"

static void u64(struct buf *b, uint16_t tag, uint64_t v)
{
	assert_int_equal(tlv_u64(b, tag, v), 0);
}

static void str(struct buf *b, uint16_t tag, const char *s)
{
	assert_int_equal(tlv_str(b, tag, s), 0);
}

static void bytes(struct buf *b, uint16_t tag, size_t n)
{
	static uint8_t zeros[LIMIT_FRAME_PAYLOAD];
	assert_int_equal(tlv_bytes(b, tag, zeros, n), 0);
}

static int parse(const struct buf *b, struct exec_status *ret)
{
	return exec_parse_status(tlv_reader(b->data, b->len), ret);
}

/* A finished command, without anything that may be left out. */
static void finished(struct buf *b)
{
	u64(b, TAG_STATE, JOB_DONE);
	u64(b, TAG_REASON, REASON_EXIT);
	u64(b, TAG_EVIDENCE, EVIDENCE_MEASURED);
}

static void whole_status(void **state)
{
	(void)state;
	_cleanup_buf_ struct buf b = BUF_INIT(MIB);
	uint8_t id[ID_BYTES] = {0xab, 1};
	struct exec_status s;
	assert_int_equal(tlv_bytes(&b, TAG_JOB, id, sizeof(id)), 0);
	u64(&b, TAG_JOB_KIND, JOB_KIND_CELL);
	u64(&b, 60000, 1); /* a newer agent's */
	finished(&b);
	u64(&b, TAG_EXIT_CODE, 3);
	u64(&b, TAG_SIGNAL, 9);
	str(&b, TAG_NOTE, "oom_kill:3");
	str(&b, TAG_NOTE, "children_left:2");
	u64(&b, TAG_STARTED_US, 1764445561123456);
	u64(&b, TAG_DURATION_US, 1500);
	u64(&b, TAG_STDOUT_TOTAL, 100000);
	u64(&b, TAG_STDOUT_LOST, 10);
	str(&b, TAG_STDOUT_HEAD, "begin");
	str(&b, TAG_STDOUT_TAIL, "end");
	u64(&b, TAG_STDERR_TOTAL, 4);
	str(&b, TAG_STDERR_HEAD, "\xFF\0ab");
	str(&b, TAG_ERROR_NAME, "ZeroDivisionError");
	str(&b, TAG_ERROR_MESSAGE, "division by \xFFzero");
	str(&b, TAG_TRACEBACK, "Traceback …");
	str(&b, TAG_KERNEL, "python");
	u64(&b, TAG_GENERATION, 2);
	str(&b, TAG_COMMAND, "1/0");
	assert_int_equal(parse(&b, &s), 0);
	assert_string_equal(s.job, "j-ab010000000000000000000000000000");
	assert_int_equal(s.kind, JOB_KIND_CELL);
	assert_int_equal(s.state, JOB_DONE);
	assert_int_equal(s.reason, REASON_EXIT);
	assert_int_equal(s.evidence, EVIDENCE_MEASURED);
	assert_true(s.has_exit_code);
	assert_int_equal(s.exit_code, 3);
	assert_int_equal(s.signal, 9);
	assert_int_equal(s.n_notes, 2);
	assert_string_equal(s.notes[1], "children_left:2");
	assert_true(s.started_us == 1764445561123456);
	assert_int_equal(s.duration_us, 1500);
	assert_int_equal(s.out.total, 100000);
	assert_int_equal(s.out.lost, 10);
	assert_memory_equal(s.out.head.data, "begin", 5);
	assert_memory_equal(s.out.tail.data, "end", 3);
	assert_int_equal(s.err.head.len, 1); /* raw: str() stops at the NUL */
	assert_int_equal(s.err.head.data[0], 0xFF);
	assert_string_equal(s.error_name, "ZeroDivisionError");
	assert_string_equal(s.error_message, "division by \xEF\xBF\xBDzero");
	assert_string_equal(s.kernel, "python");
	assert_int_equal(s.generation, 2);
	assert_string_equal(s.command, "1/0");
	/* No prefix of it makes anybody read beyond. */
	exec_status_done(&s);
	for (size_t n = 0; n < b.len; n++)
		if (exec_parse_status(tlv_reader(b.data, n), &s) == 0)
			exec_status_done(&s);
}

static void short_statuses(void **state)
{
	(void)state;
	struct exec_status s;
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	u64(&b, TAG_STATE, JOB_QUEUED);
	u64(&b, TAG_QUEUE_POSITION, 2);
	str(&b, TAG_KERNEL, "python");
	assert_int_equal(parse(&b, &s), 0);
	assert_int_equal(s.queue_position, 2);
	assert_int_equal(s.kind, JOB_KIND_CELL); /* what has a kernel */
	assert_string_equal(s.job, "");
	exec_status_done(&s);
	buf_clear(&b);
	finished(&b);
	assert_int_equal(parse(&b, &s), 0);
	assert_int_equal(s.kind, JOB_KIND_COMMAND);
	assert_false(s.has_exit_code);
	exec_status_done(&s);
}

static void numbers_out_of_range(void **state)
{
	(void)state;
	static const struct {
		uint16_t tag;
		uint64_t value;
	} rows[] = {
		{TAG_STATE, 0},
		{TAG_STATE, JOB_DONE + 1},
		{TAG_JOB_KIND, 0},
		{TAG_JOB_KIND, 3},
		{TAG_REASON, 0},
		{TAG_REASON, REASON_SANDBOX_LOST}, /* the broker's to say */
		{TAG_REASON, REASON_POLICY_DENIED},
		{TAG_REASON, UINT64_MAX},
		{TAG_EVIDENCE, 0},
		{TAG_EVIDENCE, 4},
		{TAG_EXIT_CODE, 256},
		{TAG_SIGNAL, 65},
		{TAG_QUEUE_POSITION, LIMIT_KERNEL_QUEUE + 1},
		{TAG_GENERATION, 1ULL << 32},
		{TAG_STDOUT_TOTAL, UINT64_MAX},
		{TAG_STDOUT_LOST, 1}, /* more than there was */
		{TAG_STARTED_US, UINT64_MAX},
		{TAG_DURATION_US, UINT64_MAX},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct exec_status s;
		_cleanup_buf_ struct buf b = BUF_INIT(KIB);
		finished(&b);
		u64(&b, rows[i].tag, rows[i].value);
		assert_int_equal(parse(&b, &s), -EPROTO);
		assert_int_equal(s.state, 0);
	}
}

static void lengths_and_counts(void **state)
{
	(void)state;
	struct exec_status s;
	_cleanup_buf_ struct buf b = BUF_INIT(MIB);
	assert_int_equal(parse(&b, &s), -EPROTO); /* nothing */
	u64(&b, TAG_STATE, JOB_DONE);
	assert_int_equal(parse(&b, &s), -EPROTO); /* done, but how? */

	buf_clear(&b);
	finished(&b);
	bytes(&b, TAG_JOB, 15);
	assert_int_equal(parse(&b, &s), -EPROTO);

	buf_clear(&b);
	finished(&b);
	u64(&b, TAG_STDOUT_TOTAL, MIB);
	bytes(&b, TAG_STDOUT_HEAD, LIMIT_INLINE_OUTPUT);
	bytes(&b, TAG_STDOUT_TAIL, LIMIT_INLINE_OUTPUT);
	assert_int_equal(parse(&b, &s), 0);
	exec_status_done(&s);
	bytes(&b, TAG_STDOUT_HEAD, 1); /* again */
	assert_int_equal(parse(&b, &s), -EPROTO);

	buf_clear(&b);
	finished(&b);
	u64(&b, TAG_STDERR_TOTAL, MIB);
	bytes(&b, TAG_STDERR_HEAD, LIMIT_INLINE_OUTPUT + 1);
	assert_int_equal(parse(&b, &s), -EPROTO);

	buf_clear(&b);
	finished(&b);
	u64(&b, TAG_STDOUT_TOTAL, 9);
	bytes(&b, TAG_STDOUT_HEAD, 5);
	bytes(&b, TAG_STDOUT_TAIL, 5); /* together more than there was */
	assert_int_equal(parse(&b, &s), -EPROTO);

	buf_clear(&b);
	finished(&b);
	for (int i = 0; i < 1000; i++)
		str(&b, TAG_NOTE, "again");
	assert_int_equal(parse(&b, &s), -EPROTO);

	buf_clear(&b);
	finished(&b);
	bytes(&b, TAG_EXIT_CODE, 9);
	assert_int_equal(parse(&b, &s), -EPROTO);
}

static void texts_are_cut_between_characters(void **state)
{
	(void)state;
	struct exec_status s;
	_cleanup_buf_ struct buf b = BUF_INIT(MIB), text = BUF_INIT(MIB);
	while (text.len < 100 * KIB)
		assert_int_equal(buf_append_str(&text, "\xE6\xBC\xA2"), 0);
	finished(&b);
	assert_int_equal(tlv_bytes(&b, TAG_TRACEBACK, text.data, text.len), 0);
	assert_int_equal(tlv_bytes(&b, TAG_NOTE, "a\0b", 3), 0);
	assert_int_equal(parse(&b, &s), 0);
	size_t n = strlen(s.traceback);
	assert_in_range(n, 60 * KIB, 64 * KIB);
	assert_true(str_utf8_valid(s.traceback, n));
	assert_string_equal(s.notes[0], "a\xE2\x90\x80"
					"b");
	exec_status_done(&s);
}

static int parse_bundle(const struct buf *b, struct exec_bundle *ret)
{
	return exec_parse_bundle(tlv_reader(b->data, b->len), ret);
}

static void bundles(void **state)
{
	(void)state;
	struct exec_bundle v;
	_cleanup_buf_ struct buf b = BUF_INIT(MIB);
	u64(&b, TAG_IS_RESULT, 1);
	str(&b, TAG_MIME, "text/plain");
	str(&b, TAG_MIME_DATA, "4\xFF");
	str(&b, TAG_MIME, "image/png");
	str(&b, TAG_MIME_DATA, "\x89PNG\xFF");
	str(&b, TAG_MIME, "application/vnd.scb.table+json");
	str(&b, TAG_MIME_DATA, "");
	str(&b, TAG_MIME_SKIPPED, "image/svg+xml 1234567");
	assert_int_equal(parse_bundle(&b, &v), 0);
	assert_true(v.is_result);
	assert_int_equal(v.n_mimes, 3);
	assert_string_equal(v.mimes[0].type, "text/plain");
	assert_int_equal(v.mimes[0].n, 4);
	assert_memory_equal(v.mimes[0].data, "4\xEF\xBF\xBD", 4);
	assert_int_equal(v.mimes[1].n, 5); /* no text: as it is */
	assert_memory_equal(v.mimes[1].data, "\x89PNG\xFF", 5);
	assert_int_equal(v.mimes[2].n, 0);
	assert_string_equal(v.skipped[0], "image/svg+xml 1234567");
	exec_bundle_done(&v);

	const char *const bad_types[] = {
		"", "png", "text/pl\"ain", "text/pl\nain", "text/\xC3\xA9"};
	for (size_t i = 0; i < ARRAY_SIZE(bad_types); i++) {
		buf_clear(&b);
		str(&b, TAG_MIME, bad_types[i]);
		str(&b, TAG_MIME_DATA, "x");
		assert_int_equal(parse_bundle(&b, &v), -EPROTO);
	}
	buf_clear(&b);
	str(&b, TAG_MIME, "text/plain"); /* and no data */
	assert_int_equal(parse_bundle(&b, &v), -EPROTO);
	str(&b, TAG_MIME, "text/html");
	str(&b, TAG_MIME_DATA, "x");
	assert_int_equal(parse_bundle(&b, &v), -EPROTO);
	buf_clear(&b);
	str(&b, TAG_MIME_DATA, "x");
	assert_int_equal(parse_bundle(&b, &v), -EPROTO);
	buf_clear(&b);
	for (int i = 0; i < 17; i++) {
		str(&b, TAG_MIME, "text/plain");
		str(&b, TAG_MIME_DATA, "x");
	}
	assert_int_equal(parse_bundle(&b, &v), -EPROTO);
	assert_int_equal(v.n_mimes, 0);
}

static void hits(void **state)
{
	(void)state;
	struct exec_hit h;
	struct exec_found f = {.n = 3};
	_cleanup_buf_ struct buf b = BUF_INIT(MIB);
	u64(&b, TAG_CHANNEL, CHANNEL_STDERR);
	u64(&b, TAG_OFFSET, 123456789012);
	str(&b, TAG_LINE_TEXT, "a\xffz");
	assert_int_equal(exec_parse_hit(tlv_reader(b.data, b.len), &h), 0);
	assert_int_equal(h.channel, CHANNEL_STDERR);
	assert_int_equal(h.offset, 123456789012);
	assert_string_equal(h.text, "a\xEF\xBF\xBDz");
	free(h.text);
	u64(&b, TAG_CHANNEL, CHANNEL_BOTH);
	assert_int_equal(exec_parse_hit(tlv_reader(b.data, b.len), &h), -EPROTO);
	buf_clear(&b);
	u64(&b, TAG_CHANNEL, CHANNEL_STDOUT);
	assert_int_equal(exec_parse_hit(tlv_reader(b.data, b.len), &h), -EPROTO); /* no line */

	buf_clear(&b);
	u64(&b, TAG_MORE, 1);
	u64(&b, TAG_CHANNEL, CHANNEL_STDERR);
	u64(&b, TAG_OFFSET, 7);
	assert_int_equal(exec_parse_found(tlv_reader(b.data, b.len), &f), 0);
	assert_true(f.more && f.n == 3 && f.next_offset == 7);
	assert_int_equal(f.next_channel, CHANNEL_STDERR);
	u64(&b, TAG_MORE, 2);
	assert_int_equal(exec_parse_found(tlv_reader(b.data, b.len), &f), -EPROTO);
}

static void kernels_pieces_reads_usage(void **state)
{
	(void)state;
	struct exec_kernel k;
	struct exec_piece p;
	struct exec_read r = {.offset = 7};
	struct exec_usage u;
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	assert_int_equal(exec_parse_kernel(tlv_reader(NULL, 0), &k), -EPROTO);
	str(&b, TAG_KERNEL, "python");
	str(&b, TAG_LANGUAGE, "python");
	str(&b, TAG_ENGINE, "ipython");
	u64(&b, TAG_GENERATION, 3);
	u64(&b, TAG_BUSY, 1);
	u64(&b, TAG_PID, 12);
	assert_int_equal(exec_parse_kernel(tlv_reader(b.data, b.len), &k), 0);
	assert_true(k.alive && k.busy);
	assert_int_equal(k.generation, 3);
	assert_string_equal(k.engine, "ipython");
	exec_kernel_done(&k);
	u64(&b, TAG_BUSY, 2);
	assert_int_equal(exec_parse_kernel(tlv_reader(b.data, b.len), &k), -EPROTO);

	buf_clear(&b);
	u64(&b, TAG_CHANNEL, CHANNEL_STDERR);
	u64(&b, TAG_OFFSET, 99);
	str(&b, TAG_BYTES, "abc");
	assert_int_equal(exec_parse_piece(tlv_reader(b.data, b.len), &p), 0);
	assert_int_equal(p.channel, CHANNEL_STDERR);
	assert_int_equal(p.offset, 99);
	assert_memory_equal(p.p, "abc", 3);
	u64(&b, TAG_CHANNEL, CHANNEL_BOTH);
	assert_int_equal(exec_parse_piece(tlv_reader(b.data, b.len), &p), -EPROTO);
	buf_clear(&b);
	u64(&b, TAG_CHANNEL, CHANNEL_STDOUT);
	assert_int_equal(exec_parse_piece(tlv_reader(b.data, b.len), &p), -EPROTO); /* no bytes */

	buf_clear(&b);
	u64(&b, TAG_OFFSET, 10);
	u64(&b, TAG_TOTAL, 1000);
	u64(&b, TAG_LOST_OFFSET, 100);
	u64(&b, TAG_LENGTH, 50);
	u64(&b, TAG_STATE, JOB_DONE);
	assert_int_equal(exec_parse_read(tlv_reader(b.data, b.len), &r), 0);
	assert_int_equal(r.offset, 10);
	assert_int_equal(r.total, 1000);
	assert_int_equal(r.lost_offset, 100);
	assert_int_equal(r.lost_len, 50);
	assert_true(r.ended);
	u64(&b, TAG_STATE, 9);
	assert_int_equal(exec_parse_read(tlv_reader(b.data, b.len), &r), -EPROTO);

	buf_clear(&b);
	u64(&b, TAG_MEMORY, 4096);
	u64(&b, TAG_DISK_FREE, 7);
	assert_int_equal(exec_parse_usage(tlv_reader(b.data, b.len), &u), 0);
	assert_int_equal(u.memory, 4096);
	assert_int_equal(u.disk_free, 7);
	assert_int_equal(u.pids, 0);
	assert_int_equal(exec_parse_usage(tlv_reader(b.data, b.len - 1), &u), -EPROTO);
}

static void every_status_has_words(void **state)
{
	(void)state;
	struct err e;
	assert_int_equal(exec_wire_error(WIRE_OK, "file x", NULL, &e), 0);
	for (int s = 1; s <= WIRE_STATUS_MAX_; s++) {
		e = (struct err){0};
		assert_true(
			exec_wire_error((enum wire_status)s, "file x", "says \xC3\xA9", &e) < 0);
		assert_int_not_equal(e.code, ERR_NONE);
		assert_int_not_equal(e.code, ERR_INTERNAL);
		assert_true(str_starts(e.text, "file x: "));
		assert_non_null(strstr(e.text, "(says \xC3\xA9)"));
	}
	(void)exec_wire_error(WIRE_NOT_FOUND, "file x", "", &e);
	assert_int_equal(e.code, ERR_NO_SUCH_FILE);
	assert_null(strchr(e.text, '('));
	static const struct {
		const char *what;
		enum wire_status status;
		enum err_code code;
		const char *says;
	} special[] = {
		{"job j-1", WIRE_NOT_DIRECTORY, ERR_NO_SUCH_FILE, "cwd"},
		{"job j-1", WIRE_DENIED, ERR_IO, "cwd"},
		{"input of j-1", WIRE_GONE, ERR_INVALID_ARGUMENT, "stdin_open"},
		{"input of j-1", WIRE_NOT_FOUND, ERR_NO_SUCH_JOB, "no such job"},
		{"cell j-1", WIRE_NOT_FOUND, ERR_SANDBOX_LOST, "interpreter"},
		{"jobs", WIRE_NOT_FOUND, ERR_NO_SUCH_FILE, "no such file"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(special); i++) {
		(void)exec_wire_error(special[i].status, special[i].what, "why", &e);
		assert_int_equal(e.code, special[i].code);
		assert_non_null(strstr(e.text, special[i].says));
		assert_non_null(strstr(e.text, "(why)"));
	}
	(void)exec_wire_error(WIRE_NOT_FOUND, "job j-1", NULL, &e);
	assert_int_equal(e.code, ERR_NO_SUCH_JOB);
	(void)exec_wire_error(WIRE_NOT_FOUND, "kernel k", NULL, &e);
	assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
	(void)exec_wire_error((enum wire_status)999, "file x", NULL, &e);
	assert_int_equal(e.code, ERR_PROTOCOL);
	/* Long names are cut between characters. */
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	while (b.len < 300)
		assert_int_equal(buf_append_str(&b, "\xE6\xBC\xA2"), 0);
	_cleanup_free_ char *name = buf_steal_str(&b);
	(void)exec_wire_error(WIRE_OUTSIDE, name, name, &e);
	assert_true(str_utf8_valid(e.text, strlen(e.text)));
}

static void agent_text(void **state)
{
	(void)state;
	char text[LINK_STATUS_TEXT];
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	link_status_text(tlv_reader(NULL, 0), text);
	assert_string_equal(text, "");
	u64(&b, TAG_ERRNO, 2);
	str(&b, TAG_TEXT, "no\nsuch \x1b[31mthing \xFF");
	link_status_text(tlv_reader(b.data, b.len), text);
	assert_string_equal(text, "no such  [31mthing \xEF\xBF\xBD");
	buf_clear(&b);
	bytes(&b, TAG_TEXT, 500); /* NULs: three bytes each once they are repaired */
	link_status_text(tlv_reader(b.data, b.len), text);
	assert_true(strlen(text) < sizeof(text) && str_utf8_valid(text, strlen(text)));
}

static void names(void **state)
{
	(void)state;
	for (int r = REASON_EXIT; r <= REASON_POLICY_DENIED; r++)
		assert_string_not_equal(exec_reason_name((enum wire_reason)r), "unknown");
	assert_string_equal(exec_reason_name((enum wire_reason)0), "unknown");
	assert_string_equal(exec_reason_name((enum wire_reason)99), "unknown");
	assert_string_equal(exec_reason_name(REASON_OUT_OF_MEMORY), "out_of_memory");
	assert_string_equal(exec_evidence_name(EVIDENCE_INFERRED), "inferred");
	assert_string_equal(exec_evidence_name((enum wire_evidence)0), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_status),
		cmocka_unit_test(short_statuses),
		cmocka_unit_test(numbers_out_of_range),
		cmocka_unit_test(lengths_and_counts),
		cmocka_unit_test(texts_are_cut_between_characters),
		cmocka_unit_test(bundles),
		cmocka_unit_test(hits),
		cmocka_unit_test(kernels_pieces_reads_usage),
		cmocka_unit_test(every_status_has_words),
		cmocka_unit_test(agent_text),
		cmocka_unit_test(names),
	};
	return cmocka_run_group_tests_name("exec-parse", tests, NULL, NULL);
}
