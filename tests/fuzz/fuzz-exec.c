/* fuzz-exec.c: a hostile agent against jobs, kernels and files: one call of every kind is on its
 * way, and what comes back is input. Each call ends exactly once, or is abandoned. */
#include "fuzz.h"

#include "base/limits.h"
#include "base/str.h"
#include "exec/exec.h"
#include "exec/exec_parse.h"
#include "exec/shape.h"
#include "files/files.h"

enum { N_CALLS = 21 };

struct calls {
	unsigned done[N_CALLS];
};

static void valid(const char *text)
{
	if (text)
		CHECK(str_utf8_valid(text, strlen(text)));
}

/* Reads them, so that a sanitizer sees bytes that are none. */
static void touch(const uint8_t *p, size_t n)
{
	static volatile uint8_t sum;
	for (size_t i = 0; i < n; i++)
		sum = (uint8_t)(sum + p[i]);
}

static void look_at_status(struct exec_status *s)
{
	struct shape_text t;
	CHECK(s->state >= JOB_QUEUED && s->state <= JOB_DONE);
	if (s->state == JOB_DONE)
		CHECK(exec_reason_name(s->reason) && exec_evidence_name(s->evidence));
	for (size_t i = 0; i < s->n_notes; i++)
		valid(s->notes[i]);
	for (size_t i = 0; i < s->n_results; i++) {
		for (size_t k = 0; k < s->results[i].n_mimes; k++)
			valid(s->results[i].mimes[k].type);
	}
	valid(s->error_name);
	valid(s->error_message);
	valid(s->traceback);
	valid(s->kernel);
	valid(s->command);
	shape_output(&s->out, LIMIT_ANSWER_TEXT, NULL, &t);
	valid(t.text);
	free(t.text);
}

static void on_done(void *user, struct exec_status *status, const struct err *err)
{
	CHECK(!status != !err);
	if (status)
		look_at_status(status);
	++*(unsigned *)user;
}

static void on_simple(void *user, const struct err *err)
{
	if (err)
		valid(err->text);
	++*(unsigned *)user;
}

static void on_found(void *user, const struct exec_found *f, const struct err *err)
{
	CHECK(!f != !err);
	for (size_t i = 0; f && i < f->n; i++)
		valid(f->hits[i].text);
	++*(unsigned *)user;
}

static void on_read(void *user, struct exec_read *r, const struct err *err)
{
	CHECK(!r != !err);
	for (size_t i = 0; r && i < r->n_pieces; i++)
		touch(r->pieces[i].p, r->pieces[i].n);
	++*(unsigned *)user;
}

static void on_input(void *user, uint64_t accepted, const struct err *err)
{
	(void)accepted;
	(void)err;
	++*(unsigned *)user;
}

static void on_list(void *user, struct exec_status *jobs, size_t n, const struct err *err)
{
	for (size_t i = 0; !err && i < n; i++)
		look_at_status(&jobs[i]);
	++*(unsigned *)user;
}

static void on_kernels(
	void *user, const struct exec_kernel *kernels, size_t n, const struct err *err)
{
	for (size_t i = 0; !err && i < n; i++)
		valid(kernels[i].name);
	++*(unsigned *)user;
}

static void on_twin(void *user, const struct exec_twin *twin, const struct err *err)
{
	CHECK(!twin != !err);
	if (twin)
		valid(twin->kernel);
	for (size_t i = 0; twin && i < twin->n_notes; i++)
		valid(twin->notes[i]);
	++*(unsigned *)user;
}

static void on_usage(void *user, const struct exec_usage *u, const struct err *err)
{
	CHECK(!u != !err);
	++*(unsigned *)user;
}

static void on_files(void *user, struct files_result *r, const struct err *err)
{
	CHECK(!r != !err);
	for (size_t i = 0; r && i < r->n_entries; i++) {
		valid(r->entries[i].path);
		valid(r->entries[i].line_text);
	}
	++*(unsigned *)user;
}

static int sink(void *user, const uint8_t *p, size_t n)
{
	(void)user;
	return n && p[0] == 0xff ? -1 : 0;
}

static void start_calls(struct exec *x, struct files *f, struct calls *c)
{
	static const char job[] = "j-0123456789abcdefghjkmnpqrs";
	struct exec_request command = {.kind = JOB_KIND_COMMAND,
		.job = job,
		.shell_text = "echo",
		.stdin_data = "in",
		.stdin_len = 2,
		.wait_us = 1000};
	struct exec_request cell = {
		.kind = JOB_KIND_CELL, .job = job, .language = "python", .code = "1"};
	unsigned *d = c->done;
	(void)exec_run(x, &command, on_done, d++);
	(void)exec_run(x, &cell, on_done, d++);
	(void)exec_wait(x, job, 1000, on_done, d++);
	(void)exec_read(x, job, CHANNEL_BOTH, 0, 4096, on_read, d++);
	(void)exec_search(x, job, CHANNEL_BOTH, 0, "x", 20, on_found, d++);
	(void)exec_read(x, job, CHANNEL_STDOUT, 0, 4096, on_read, d++);
	(void)exec_input(x, job, "input", 5, true, NULL, on_input, d++);
	(void)exec_list(x, on_list, d++);
	(void)exec_kernels(x, on_kernels, d++);
	(void)exec_usage(x, on_usage, d++);
	exec_cancel(x, job, NULL, on_simple, d++);
	exec_kernel_restart(x, NULL, NULL, on_simple, d++);
	(void)files_stat(f, "a", on_files, d++);
	(void)files_list(f, "a", 2, 10, on_files, d++);
	(void)files_read(f, "a", 0, 4096, on_files, d++);
	(void)files_write(f, "a", FILES_REPLACE, 0, "bytes", 5, NULL, on_files, d++);
	(void)files_edit(f, "a", "old", "new", false, NULL, NULL, false, on_files, d++);
	(void)files_search(f, "a", "x", NULL, 10, on_files, d++);
	(void)files_delete(f, "a", true, NULL, on_files, d++);
	(void)files_fetch(f, "a", 65536, sink, on_files, d++);
	(void)exec_kernel_fork(x, NULL, NULL, NULL, on_twin, d++);
	CHECK(d <= c->done + N_CALLS);
}

static void parse_raw(const uint8_t *p, size_t n)
{
	struct exec_status status;
	struct exec_bundle bundle;
	struct exec_kernel kernel;
	struct exec_piece piece;
	struct exec_read r = {.bytes = BUF_INIT(16)};
	struct exec_usage usage;
	if (exec_parse_status(tlv_reader(p, n), &status) == 0) {
		look_at_status(&status);
		exec_status_done(&status);
	}
	if (exec_parse_bundle(tlv_reader(p, n), &bundle) == 0)
		exec_bundle_done(&bundle);
	if (exec_parse_kernel(tlv_reader(p, n), &kernel) == 0)
		exec_kernel_done(&kernel);
	if (exec_parse_piece(tlv_reader(p, n), &piece) == 0)
		touch(piece.p, piece.n);
	struct exec_twin twin;
	if (exec_parse_twin(tlv_reader(p, n), &twin) == 0)
		exec_twin_done(&twin);
	(void)exec_parse_read(tlv_reader(p, n), &r);
	(void)exec_parse_usage(tlv_reader(p, n), &usage);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint8_t mode = input_u8(&in);
	if (mode & 1) {
		parse_raw(in.p, in.n);
		return 0;
	}
	struct fuzz_link f;
	struct calls c = {0};
	fuzz_link_open(&f);
	struct exec *x = exec_new(f.link, "/usr/lib/scb/kernels", "/workspace");
	struct files *fs = files_new(f.link);
	start_calls(x, fs, &c);
	fuzz_link_turn(&f);
	fuzz_link_feed(&f, &in);
	for (size_t i = 0; i < N_CALLS; i++)
		CHECK(c.done[i] <= 1);
	exec_free(x);
	files_free(fs);
	link_close(f.link);
	fuzz_link_close(&f);
	return 0;
}
