/* Files and presented files through the link and the real agent, in a sandbox of one provider. */
#include "live.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "files/files.h"
#include "files/outputs.h"

static struct {
	char outputs_dir[64], mount[64];
	struct files *files;
	struct outputs *outputs;
	/* the last answer */
	struct files_result result;
	struct output output;
} got;

static int open_sized(uint64_t workspace_size)
{
	struct err err;
	live_open_loop();
	(void)snprintf(got.outputs_dir, sizeof(got.outputs_dir), "%s/deep/out", live.dir);
	(void)snprintf(got.mount, sizeof(got.mount), "%s/mount", live.dir);
	assert_int_equal(chmod(live.dir, 0755), 0);
	assert_int_equal(mkdir(got.mount, 0755), 0);
	char sample[80];
	(void)snprintf(sample, sizeof(sample), "%s/m.csv", got.mount);
	FILE *f = fopen(sample, "w");
	assert_non_null(f);
	assert_true(fputs("a,b\n", f) >= 0 && fclose(f) == 0 && chmod(sample, 0644) == 0);
	assert_int_equal(outputs_open(got.outputs_dir, &got.outputs, &err), 0);
	struct sandbox_mount mount = {.name = "data", .source = got.mount};
	int r = live_open(&(struct sandbox_spec){.mounts = &mount,
		.n_mounts = 1,
		.workspace_size = workspace_size,
		.tmp_size = 32 * MIB,
		.shm_size = 16 * MIB});
	if (r < 0)
		return r;
	got.files = files_new(live.link);
	files_set_mounts(got.files, &mount, 1);
	files_set_workspace(got.files, live.sandbox->workspace);
	return 0;
}

static int open_sandbox(void **state)
{
	(void)state;
	return open_sized(64 * MIB);
}

static int open_large_sandbox(void **state)
{
	(void)state;
	return open_sized(LIMIT_AGENT_MEMORY + 64 * MIB);
}

static void result_done(void)
{
	struct files_result *r = &got.result;
	for (size_t i = 0; i < r->n_entries; i++) {
		free(r->entries[i].path);
		free(r->entries[i].line_text);
	}
	free(r->entries);
	buf_done(&r->bytes);
	*r = (struct files_result){0};
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int close_sandbox(void **state)
{
	(void)state;
	files_free(got.files);
	live_close();
	outputs_close(got.outputs);
	result_done();
	output_done(&got.output);
	assert_int_equal(nftw(live.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	return 0;
}

/* ---- asking ---- */

static int answers;

static void keep(void *user, struct files_result *r, const struct err *err)
{
	(void)user;
	result_done();
	live.err = err ? *err : (struct err){0};
	assert_true(!r == !!err);
	if (r) {
		got.result = *r;
		got.result.stat.path = NULL;
		got.result.stat.line_text = NULL;
		r->entries = NULL;
		r->n_entries = 0;
		r->bytes = (struct buf){0};
	}
	live.answered = true;
	answers++;
}

static void wait_answer(void)
{
	assert_false(live.answered); /* never from inside the call */
	live_until(&live.answered);
}

static void good(void)
{
	wait_answer();
	if (live.err.code)
		fail_msg("%s", live.err.text);
}

static void refused(enum err_code code, const char *word)
{
	wait_answer();
	if (live.err.code != code || !strstr(live.err.text, word))
		fail_msg("%s, not %s: %s", err_info(live.err.code)->name, err_info(code)->name,
			live.err.text);
	assert_true(str_utf8_valid(live.err.text, strlen(live.err.text)) &&
		    !strpbrk(live.err.text, "\n\x1b"));
}

static void write_text(const char *path, const char *text)
{
	(void)files_write(got.files, path, FILES_REPLACE, 0, text, strlen(text), NULL, keep, NULL);
	good();
}

static void read_is(const char *path, const char *text)
{
	(void)files_read(got.files, path, 0, LIMIT_READ_TEXT, keep, NULL);
	good();
	assert_int_equal(got.result.bytes.len, strlen(text));
	assert_memory_equal(got.result.bytes.data, text, strlen(text));
	assert_int_equal(got.result.size, strlen(text));
}

static void shell(const char *text)
{
	live_shell(text);
	live_assert_exit(0);
}

/* ---- files ---- */

static void files_are_written_and_read(void **state)
{
	(void)state;
	write_text("notes/a.txt", "one\ntwo\n");
	read_is("/workspace/notes/a.txt", "one\ntwo\n");
	(void)files_write(
		got.files, "notes/a.txt", FILES_APPEND, 0, "three\n", 6, NULL, keep, NULL);
	good();
	assert_int_equal(got.result.size, 14);
	(void)files_write(got.files, "notes/a.txt", FILES_AT_OFFSET, 4, "TWO", 3, NULL, keep, NULL);
	good();
	read_is("notes/a.txt", "one\nTWO\nthree\n");
	write_text("empty", "");
	read_is("empty", "");
	/* larger than every window */
	_cleanup_buf_ struct buf big = BUF_INIT(8 * MIB);
	assert_int_equal(buf_reserve(&big, 5 * MIB), 0);
	for (big.len = 0; big.len < 5 * MIB; big.len++)
		big.data[big.len] = (uint8_t)(big.len * 31 >> 3);
	(void)files_write(got.files, "big", FILES_REPLACE, 0, big.data, big.len, NULL, keep, NULL);
	good();
	assert_int_equal(got.result.size, big.len);
	(void)files_read(got.files, "big", 4 * MIB + 7, LIMIT_READ_TEXT, keep, NULL);
	good();
	assert_int_equal(got.result.bytes.len, LIMIT_READ_TEXT);
	assert_memory_equal(got.result.bytes.data, big.data + 4 * MIB + 7, LIMIT_READ_TEXT);
	assert_int_equal(got.result.size, big.len);
	/* what code in the sandbox calls the workspace */
	_cleanup_free_ char *path = xasprintf("%s/notes/a.txt", live.sandbox->workspace);
	read_is(path, "one\nTWO\nthree\n");
	/* many at once */
	answers = 0;
	for (int i = 0; i < 100; i++)
		(void)files_stat(got.files, i % 2 ? "notes" : "/etc/passwd", keep, NULL);
	while (answers < 100)
		live_until(&live.answered);
}

/* What the agent writes is charged to its own group, not to the code's. */
static void files_of_the_agent_do_not_end_it(void **state)
{
	(void)state;
	if (strcmp(live.sandbox->caps.disk, "tmpfs") != 0)
		skip();
	_cleanup_free_ char *piece = xcalloc(1, 8 * MIB);
	for (int i = 0;; i++) {
		(void)files_write(got.files, "big", i ? FILES_APPEND : FILES_REPLACE, 0, piece,
			8 * MIB, NULL, keep, NULL);
		wait_answer();
		if (live.err.code)
			break;
	}
	if (live.err.errnum != ENOSPC)
		fail_msg("%s", live.err.text);
	shell("rm big");
}

static void edits(void **state)
{
	(void)state;
	write_text("e.txt", "x = 1\ny = 1\n");
	(void)files_edit(
		got.files, "e.txt", "x = 1", "x = 2", false, NULL, NULL, false, keep, NULL);
	good();
	assert_int_equal(got.result.count, 1);
	read_is("e.txt", "x = 2\ny = 1\n");
	(void)files_edit(got.files, "e.txt", " = ", "=", false, NULL, NULL, false, keep, NULL);
	refused(ERR_INVALID_ARGUMENT, "occurs 2 times");
	(void)files_edit(got.files, "e.txt", " = ", "=", true, NULL, NULL, false, keep, NULL);
	good();
	assert_int_equal(got.result.count, 2);
	(void)files_edit(got.files, "e.txt", "nothing", "", true, NULL, NULL, false, keep, NULL);
	refused(ERR_INVALID_ARGUMENT, "does not occur");
	read_is("e.txt", "x=2\ny=1\n");
	(void)files_edit(got.files, "missing", "a", "b", true, NULL, NULL, false, keep, NULL);
	refused(ERR_NO_SUCH_FILE, "missing");
}

static void trees(void **state)
{
	(void)state;
	shell("mkdir -p t/sub; echo needle > t/a.csv; printf 'x\\nneedle\\n' > t/sub/b.txt; "
	      "printf x > \"$(printf 't/odd\\nname\\033[31m')\"; ln -s /etc t/etc");
	(void)files_list(got.files, "t", 3, 0, keep, NULL);
	good();
	assert_int_equal(got.result.n_entries, 5);
	assert_string_equal(got.result.entries[0].path, "t/a.csv");
	assert_int_equal(got.result.entries[1].kind, FILE_LINK);
	assert_string_equal(got.result.entries[4].path, "t/sub/b.txt");
	for (size_t i = 0; i < got.result.n_entries; i++)
		assert_null(strpbrk(got.result.entries[i].path, "\n\x1b"));
	(void)files_search(got.files, "/workspace/t", "needle", NULL, 0, keep, NULL);
	good();
	assert_int_equal(got.result.n_entries, 2);
	assert_string_equal(got.result.entries[1].path, "t/sub/b.txt");
	assert_int_equal(got.result.entries[1].line, 2);
	assert_string_equal(got.result.entries[1].line_text, "needle");
	(void)files_list(got.files, "/mnt/data", 1, 0, keep, NULL);
	good();
	assert_string_equal(got.result.entries[0].path, "/mnt/data/m.csv");
	(void)files_list(got.files, "/mnt", 1, 0, keep, NULL);
	good();
	assert_int_equal(got.result.n_entries, 1);
	assert_string_equal(got.result.entries[0].path, "/mnt/data");
	(void)files_stat(got.files, "/mnt/", keep, NULL);
	good();
	assert_int_equal(got.result.stat.kind, FILE_DIRECTORY);
	(void)files_search(got.files, "/mnt", NULL, "*.csv", 0, keep, NULL);
	refused(ERR_INVALID_ARGUMENT, "as /mnt/NAME (mounts: data)");
	(void)files_search(got.files, "/mnt/data", NULL, "*.csv", 0, keep, NULL);
	good();
	assert_string_equal(got.result.entries[0].path, "/mnt/data/m.csv");
	(void)files_list(got.files, "t/etc", 1, 0, keep, NULL);
	refused(ERR_FILE_REFUSED, "t/etc");
	(void)files_move(got.files, "t/a.csv", "new/dir/c.csv", false, NULL, keep, NULL);
	good();
	read_is("new/dir/c.csv", "needle\n");
	(void)files_delete(got.files, "t", false, NULL, keep, NULL);
	refused(ERR_CONFLICT, "recursive");
	(void)files_delete(got.files, "t", true, NULL, keep, NULL);
	good();
	(void)files_stat(got.files, "t", keep, NULL);
	refused(ERR_NO_SUCH_FILE, "no such file");
}

static void refusals(void **state)
{
	(void)state;
	shell("mkdir -p d; mkfifo -m 600 fifo || true; ln -sf /etc/passwd link");
	(void)files_read(got.files, "/etc/passwd", 0, 10, keep, NULL);
	refused(ERR_FILE_REFUSED, "copy the file into the workspace");
	(void)files_read(got.files, "../x", 0, 10, keep, NULL);
	refused(ERR_FILE_REFUSED, "workspace");
	(void)files_read(got.files, "link", 0, 10, keep, NULL);
	refused(ERR_FILE_REFUSED, "link");
	(void)files_read(got.files, "d", 0, 10, keep, NULL);
	refused(ERR_INVALID_ARGUMENT, "directory");
	(void)files_read(got.files, "fifo", 0, 10, keep, NULL);
	refused(ERR_FILE_REFUSED, "FIFO");
	(void)files_write(got.files, "/mnt/data/x", FILES_REPLACE, 0, "x", 1, NULL, keep, NULL);
	refused(ERR_FILE_REFUSED, "read-only");
	(void)files_mkdir(got.files, "/mnt", NULL, keep, NULL);
	refused(ERR_FILE_REFUSED, "read-only");
	(void)files_move(got.files, "fifo", "/mnt", false, NULL, keep, NULL);
	refused(ERR_FILE_REFUSED, "read-only");
	(void)files_read(got.files, "/mnt", 0, 10, keep, NULL);
	refused(ERR_INVALID_ARGUMENT, "can only be listed");
	(void)files_stat(got.files, "/mnt/typo", keep, NULL);
	refused(ERR_NO_SUCH_FILE, "no mount 'typo'; mounts: data");
	(void)files_read(got.files, "d/../x", 0, 10, keep, NULL);
	refused(ERR_FILE_REFUSED, "is not taken");
	(void)files_delete(got.files, ".", true, NULL, keep, NULL);
	refused(ERR_FILE_REFUSED, "workspace itself");
	(void)files_search(got.files, ".", NULL, NULL, 0, keep, NULL);
	refused(ERR_INVALID_ARGUMENT, "pattern");
	/* abandoned: no callback, and the next call works */
	struct files_call *c = files_read(got.files, "d", 0, 10, keep, NULL);
	files_abandon(c);
	c = files_read(got.files, "/etc/passwd", 0, 10, keep, NULL);
	files_abandon(c);
	(void)files_stat(got.files, "d", keep, NULL);
	good();
	assert_int_equal(got.result.stat.kind, FILE_DIRECTORY);
}

/* ---- presented files ---- */

static char *copy(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

static void on_presented(void *user, const struct output *o, const struct err *err)
{
	(void)user;
	live.err = err ? *err : (struct err){0};
	output_done(&got.output);
	if (o) {
		got.output = *o;
		got.output.uri = copy(o->uri);
		got.output.name = copy(o->name);
		got.output.title = copy(o->title);
		got.output.source_path = copy(o->source_path);
		got.output.host_path = copy(o->host_path);
		got.output.session = copy(o->session);
	}
	live.answered = true;
}

static struct outputs_call *present(const char *path, const char *title)
{
	const struct outputs_wish wish = {
		.principal = "uid:1", .session = "s-1", .path = path, .title = title};
	return outputs_present(got.outputs, got.files, &wish, on_presented, NULL);
}

static int count_output(void *user, const struct output *o)
{
	int *n = user;
	assert_non_null(o->host_path);
	++*n;
	return 0;
}

static int outputs_of(const char *principal)
{
	int n = 0;
	assert_int_equal(outputs_list(got.outputs, principal, count_output, &n, NULL), 0);
	return n;
}

static int n_things;

static int count_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)path;
	(void)st;
	(void)type;
	n_things += at->level == 2;
	return 0;
}

/* Directories of presented files and of those that are on their way. */
static int things(void)
{
	n_things = 0;
	assert_int_equal(nftw(got.outputs_dir, count_one, 16, FTW_PHYS), 0);
	return n_things;
}

static void a_file_is_presented(void **state)
{
	(void)state;
	write_text("r é.csv", "a,b\né,2\n");
	(void)present("/workspace/r é.csv", "A\ntitle");
	good();
	struct output *o = &got.output;
	assert_true(id_valid('o', o->id));
	assert_string_equal(o->name, "r é.csv");
	assert_string_equal(o->mime_type, "text/csv");
	assert_true(o->text);
	assert_false(o->executable);
	assert_int_equal(o->size, 9);
	assert_string_equal(o->source_path, "r é.csv");
	assert_non_null(strstr(o->uri, "/r%20%C3%A9.csv"));
	assert_null(strchr(o->title, '\n'));
	/* printf 'a,b\né,2\n' | sha256sum */
	assert_string_equal(
		o->sha256, "14214279b190d72de7c678d44a2d0fea619e76c3c3360fb6459d56c68b6f8449");
	struct stat st;
	assert_int_equal(stat(o->host_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_size, 9);
	/* read back, by its owner only */
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	struct err err = {0};
	assert_int_equal(outputs_read(got.outputs, "uid:1", o->uri, 2, 4, &b, &err), 0);
	assert_int_equal(b.len, 4);
	assert_memory_equal(b.data, "b\n\xC3\xA9", 4);
	b.len = 0;
	assert_int_equal(outputs_read(got.outputs, "uid:1", o->uri, 9, 4, &b, &err), 0);
	assert_int_equal(b.len, 0);
	assert_true(outputs_read(got.outputs, "uid:2", o->uri, 0, 4, &b, &err) < 0);
	char foreign[sizeof(err.text)];
	(void)snprintf(foreign, sizeof(foreign), "%s", err.text);
	assert_int_equal(err.code, ERR_NO_SUCH_RESOURCE);
	struct output found = {0};
	assert_true(
		outputs_find(got.outputs, "uid:1",
			"resource://scb/o-00000000000000000000000000000000/a", &found, &err) < 0);
	assert_string_equal(foreign, err.text);
	assert_int_equal(outputs_find(got.outputs, "uid:1", o->uri, &found, &err), 0);
	assert_string_equal(found.sha256, o->sha256);
	assert_string_equal(found.host_path, o->host_path);
	assert_string_equal(found.title, o->title);
	assert_ptr_equal(found.mime_type, o->mime_type);
	output_done(&found);
	/* the same name again is another one */
	_cleanup_free_ char *first = xstrdup(o->host_path);
	write_text("r é.csv", "changed");
	(void)present("r é.csv", NULL);
	good();
	assert_string_not_equal(first, got.output.host_path);
	assert_int_equal(stat(first, &st), 0);
	assert_int_equal(st.st_size, 9);
	assert_null(got.output.title);
	assert_int_equal(outputs_of("uid:1"), 2);
	assert_int_equal(outputs_of("uid:2"), 0);
	assert_int_equal(outputs_expire(got.outputs), 0);
	/* moved away by the person */
	assert_int_equal(unlink(first), 0);
	assert_int_equal(outputs_of("uid:1"), 1);
	/* a copy that outlives broker and sandbox */
	_cleanup_free_ char *uri = xstrdup(got.output.uri);
	outputs_close(got.outputs);
	assert_int_equal(outputs_open(got.outputs_dir, &got.outputs, &err), 0);
	assert_int_equal(outputs_find(got.outputs, "uid:1", uri, &found, &err), 0);
	output_done(&found);
}

static void what_is_not_presented(void **state)
{
	(void)state;
	shell("mkdir -p d; mkfifo fifo; ln -s /etc/passwd link; echo x > plain; ln -s plain "
	      "inlink; "
	      "ln -s d dlink; echo x > d/x; truncate -s 1T sparse; echo x > .hidden; echo x > CON; "
	      "echo x > -rf; echo x > 'a:b'; cp /bin/true suid; chmod u+s suid; "
	      "head -c 30000000 /dev/zero > grow");
	static const struct {
		const char *path;
		enum err_code code;
		const char *word;
	} rows[] = {
		{"../etc/passwd", ERR_FILE_REFUSED, "is not taken"},
		{"/etc/passwd", ERR_FILE_REFUSED, "outside"},
		{"/mnt/data/m.csv", ERR_FILE_REFUSED,
			"already on the person's machine, in the mounted folder 'data'"},
		{"/mnt", ERR_FILE_REFUSED, "of /workspace"},
		{"/mnt/typo/m.csv", ERR_NO_SUCH_FILE, "no mount 'typo'"},
		{"link", ERR_FILE_REFUSED, "symbolic link"},
		{"inlink", ERR_FILE_REFUSED, "symbolic link"},
		{"dlink/x", ERR_FILE_REFUSED, "symbolic link"},
		{"fifo", ERR_FILE_REFUSED, "FIFO"},
		{"d", ERR_INVALID_ARGUMENT, "directory"},
		{".", ERR_FILE_REFUSED, "directory"},
		{"missing", ERR_NO_SUCH_FILE, "no such"},
		{"sparse", ERR_LIMIT_REACHED, "1.1 TB"},
		{"suid", ERR_FILE_REFUSED, "set-id"},
		{".hidden", ERR_FILE_REFUSED, "dot"},
		{"-rf", ERR_FILE_REFUSED, "option"},
		{"CON", ERR_FILE_REFUSED, "Windows"},
		{"a:b", ERR_FILE_REFUSED, "other systems"},
		{"a\nb", ERR_FILE_REFUSED, "control"},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)present(rows[i].path, NULL);
		refused(rows[i].code, rows[i].word);
	}
	shell("(while :; do echo more; done >> grow) >/dev/null 2>&1 & echo $! > grower; "
	      "sleep 0.1");
	(void)present("grow", NULL);
	refused(ERR_CONFLICT, "changed while");
	shell("kill $(cat grower); rm -f grow grower");
	assert_int_equal(things(), 0); /* nothing half-done is left */
}

static void abandoning_leaves_nothing(void **state)
{
	(void)state;
	shell("head -c 20000000 /dev/zero > big");
	for (int turns = 0; turns < 60; turns++) {
		struct outputs_call *c = present("big", NULL);
		for (int i = 0; i < turns && !live.answered; i++)
			(void)uv_run(&live.loop, UV_RUN_ONCE);
		if (!live.answered)
			outputs_abandon(c);
		live.answered = false;
	}
	int kept = outputs_of("uid:1");
	for (int i = 0; i < 20; i++)
		(void)uv_run(&live.loop, UV_RUN_ONCE); /* the threads */
	assert_int_equal(outputs_of("uid:1"), kept);
	assert_int_equal(things(), kept);
	write_text("a", "x");
	(void)present("a", NULL);
	good();
}

int main(int argc, char **argv)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_sandbox, close_sandbox)
	int r;
	const struct CMUnitTest tests[] = {
		TEST(files_are_written_and_read),
		cmocka_unit_test_setup_teardown(
			files_of_the_agent_do_not_end_it, open_large_sandbox, close_sandbox),
		TEST(edits),
		TEST(trees),
		TEST(refusals),
		TEST(a_file_is_presented),
		TEST(what_is_not_presented),
		TEST(abandoning_leaves_nothing),
	};
	if (live_begin(argc, argv, &r) < 0)
		return r;
	return cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
}
