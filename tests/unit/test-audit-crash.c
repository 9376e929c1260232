/* test-audit-crash.c: all of a write or nothing, on a disk that is full and from a process that is
 * killed in it; what a later one finds is not written again. */
#include "audit-fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/logset.h"
#include "base/limits.h"

static void limit_files(off_t size)
{
	struct rlimit limit;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = size < 0 ? limit.rlim_max : (rlim_t)size;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* RLIMIT_FSIZE stands for a disk that is full after so many bytes. */
static void all_of_a_write_or_nothing(void **state)
{
	(void)state;
	al_start_anew();
	struct audit *a = al_opened();
	struct err err = {0};
	const struct audit_event first = {.event = "tool.call", .with_next = true};
	const struct audit_event second = {.event = "exec.start"};
	al_write_some(a, 60); /* beyond what the head's file has */
	off_t before = al_size();
	(void)signal(SIGXFSZ, SIG_IGN);
	for (off_t room = 0; room < 800; room += 50) {
		limit_files(before + room);
		int r = audit_event(a, &first, &err);
		if (r == 0)
			r = audit_event(a, &second, &err);
		limit_files(-1);
		if (r == 0) {
			assert_true(room > 300);
			break;
		}
		assert_int_equal(err.code, ERR_AUDIT_UNAVAILABLE);
		assert_int_equal(al_size(), before);
	}
	assert_true(al_size() > before);
	assert_int_equal(audit_event(a, &second, &err), 0);
	audit_close(a);
	assert_int_equal(al_check(), 60 + 3);
	assert_int_equal(al_lines_with("audit.gap") + al_lines_with("audit.recover"), 0);
}

/* ---- a disk that is full ---- */

#define NO_DISK 77
/* In a child: where something is not as it should be. */
#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			(void)fprintf(stderr, "# line %d: %s: %s\n", __LINE__, #cond, err.text);   \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* All that there is but a page at most. */
static void fill_disk(const char *file)
{
	static char page[4096];
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	while (write(fd, page, sizeof(page)) > 0)
		continue;
	close(fd);
}

/* On a file system of 1 MiB of its own. */
static NORETURN void live_on_a_full_disk(void)
{
	struct err err = {0};
	char filler[64];
	const struct audit_event start = {.event = "exec.start", .job = "j"};
	const struct audit_event end = {.event = "exec.end", .job = "j"};
	int begun = 0, ended = 0;
	(void)snprintf(filler, sizeof(filler), "%s/filler", al_dir);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", al_dir, "tmpfs", 0, "size=1M") < 0)
		_exit(NO_DISK);
	struct audit *a = al_opened();
	MUST(audit_event(a, &start, &err) == 0);
	fill_disk(filler);
	for (begun = 1; begun < 5000 && audit_event(a, &start, &err) == 0;)
		begun++;
	/* what is kept is for what has begun */
	MUST(err.code == ERR_AUDIT_UNAVAILABLE && err.errnum == ENOSPC && begun < 5000);
	MUST(strstr(err.text, "make room"));
	for (; ended < begun && audit_event(a, &end, &err) == 0;)
		ended++;
	MUST(ended == begun);
	MUST(unlink(filler) == 0);
	MUST(audit_event(a, &start, &err) == 0);
	MUST(audit_event(a, &end, &err) == 0);
	audit_close(a);
	MUST((int)al_check() == begun + ended + 2);
	_exit(0);
}

static void on_a_full_disk_what_began_ends(void **state)
{
	(void)state;
	int status;
	al_start_anew();
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		live_on_a_full_disk();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_DISK)
		skip(); /* not root: no file system of its own */
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- killed while it wrote ---- */

/* A broker that writes n lines and one more, in which SIGXFSZ ends it: at the first byte of
 * whatever file that lies beyond so many. (A write that begins before it is short, and gone on
 * with.) */
static void die_writing(unsigned n, off_t (*limit)(void))
{
	pid_t pid = fork();
	int status;
	assert_true(pid >= 0);
	if (pid == 0) {
		const struct rlimit none = {0, 0};
		const struct audit_event e = {.event = "tool.call", .delivery = "last"};
		struct err err;
		struct audit *a = al_opened();
		al_write_some(a, n);
		(void)setrlimit(RLIMIT_CORE, &none);
		(void)signal(SIGXFSZ, SIG_DFL);
		limit_files(limit());
		(void)!audit_event(a, &e, &err);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
}

static off_t at_its_end(void)
{
	return al_size();
}

static off_t in_the_line(void)
{
	return al_size() + 50;
}

static void assert_recovered(json_int_t torn, bool counts)
{
	struct audit *a = al_opened();
	assert_int_equal(audit_recorded(a, "tool.call", "last"), counts);
	audit_close(a);
	assert_int_equal(al_lines_with("audit.recover"), 1);
	assert_int_equal(al_lines_with("audit.gap"), 0);
	json_t *o = al_last_line(), *bytes = json_object_get(o, "tornBytes");
	assert_string_equal(json_string_value(json_object_get(o, "event")), "audit.recover");
	assert_int_equal(bytes ? json_integer_value(bytes) : -1, torn);
	if (torn > 0)
		assert_memory_equal(
			json_string_value(json_object_get(o, "torn")), "{\"ts\":\"2", 8);
	json_decref(o);
	(void)al_check();
	a = al_opened(); /* once */
	audit_close(a);
	assert_int_equal(al_lines_with("audit.recover"), 1);
}

static void killed_before_the_line(void **state)
{
	(void)state;
	al_start_anew();
	die_writing(60, at_its_end);
	assert_recovered(0, false);
}

static void killed_within_the_line(void **state)
{
	(void)state;
	al_start_anew();
	die_writing(60, in_the_line);
	assert_recovered(50, false);
}

static void killed_after_the_line(void **state)
{
	(void)state;
	char head[64], slot[4096];
	const struct audit_event e = {.event = "tool.call", .delivery = "last"};
	struct err err = {0};
	(void)snprintf(head, sizeof(head), "%s/audit.head", al_dir);
	al_start_anew();
	struct audit *a = al_opened();
	al_write_some(a, 3);
	int fd = open(head, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, slot, sizeof(slot), sizeof(slot)), sizeof(slot));
	assert_int_equal(audit_event(a, &e, &err), 0);
	audit_close(a);
	/* the commit that did not come any more */
	assert_int_equal(pwrite(fd, slot, sizeof(slot), sizeof(slot)), sizeof(slot));
	close(fd);
	assert_recovered(-1, true);
}

static void killed_at_any_time(void **state)
{
	(void)state;
	const struct audit_config small = {.max_bytes = 4 * KIB, .keep = 1000};
	al_start_anew();
	for (unsigned i = 0; i < 60; i++) {
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct audit *a = al_opened_with(&small);
			for (;;)
				al_write_some(a, 10);
		}
		(void)usleep(2000 + i * 331 % 15000);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	audit_close(al_opened_with(&small));
	char prev[HASH_TEXT] = "", name[100];
	struct logset set;
	int fd = open(al_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(logset_read(fd, &set), 0);
	close(fd);
	assert_true(set.n > 2);
	json_int_t seq = 0;
	for (size_t i = 0; i < set.n; i++) {
		char file[LOGSET_FILE];
		logset_name(set.numbers[i], file);
		(void)snprintf(name, sizeof(name), "%s/%s", al_dir, file);
		(void)al_check_chain(name, &seq, prev);
	}
	(void)al_check_chain(al_path, &seq, prev);
	assert_int_equal(al_lines_with("audit.gap"), 0);
	logset_done(&set);
}

/* ---- after a broker's death ---- */

static void what_is_on_record_is_not_written_again(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	struct audit_event e = {.event = "tool.call", .tool = "files", .delivery = "d1"};
	struct audit_event x = {.event = "exec.start", .tool = "run_code", .session = "s-1"};
	al_start_anew();
	a = al_opened();
	assert_int_equal(audit_event(a, &e, &err), 0);
	x.job = "j-1";
	assert_int_equal(audit_event(a, &x, &err), 0);
	x.job = "j-2";
	x.delivery = "d1"; /* a job's, whatever request began it */
	assert_int_equal(audit_event(a, &x, &err), 0);
	audit_close(a);

	a = al_opened();
	assert_true(audit_recorded(a, "tool.call", "d1"));
	assert_false(audit_recorded(a, "tool.call", "d2"));
	assert_false(audit_recorded(a, "tool.end", "d1"));
	assert_true(audit_recorded(a, "exec.start", "j-1"));
	assert_false(audit_recorded(a, "exec.end", "j-1"));

	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(al_lines_with("tool.call"), 1);
	e.event = "tool.end"; /* new: and then known, too */
	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(al_lines_with("tool.end"), 1);
	/* what is of no delivery, or happens again and again, is written each time */
	e.event = "link.auth_failed";
	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(al_lines_with("link.auth_failed"), 2);
	e = (struct audit_event){.event = "tool.call", .delivery = ""};
	assert_int_equal(audit_event_once(a, &e, &err), 0);
	assert_int_equal(al_lines_with("tool.call"), 2);
	audit_close(a);
}

static void on_open_job(void *user, const struct audit_job *j)
{
	char *text = user;
	(void)snprintf(
		text + strlen(text), 100 - strlen(text), "%s/%s/%s ", j->job, j->session, j->tool);
}

static void jobs_without_an_end_are_named(void **state)
{
	(void)state;
	struct audit *a = NULL;
	struct err err = {0};
	struct audit_event x = {
		.event = "exec.end", .tool = "run_code", .session = "s-1", .job = "j-1"};
	/* what a caller says cannot pass for a member */
	struct audit_event odd = {.event = "file.refused",
		.detail = "\",\"event\":\"exec.start\",\"job\":\"j-9\"",
		.session = "s-1"};
	char text[100] = "";
	a = al_opened();
	assert_int_equal(audit_event(a, &odd, &err), 0);
	assert_int_equal(audit_event(a, &x, &err), 0);
	audit_each_open_job(a, on_open_job, text);
	assert_string_equal(text, "j-2/s-1/run_code ");
	audit_close(a);
}

/* Only the end of a long log is read: what stands there is found, and nothing is cut in two. */
static void a_long_log_is_read_from_its_end(void **state)
{
	(void)state;
	struct err err = {0};
	static char detail[3001];
	char delivery[20];
	unsigned n = 0;
	al_start_anew();
	const struct audit_config config = {.max_bytes = 3 * MIB, .keep = 10};
	struct audit *a = al_opened_with(&config);
	(void)memset(detail, 'x', sizeof(detail) - 1);
	struct audit_event e = {.event = "tool.call", .delivery = delivery};
	for (uint64_t size = 0; size < LIMIT_AUDIT_TAIL + MIB; n++) {
		(void)snprintf(delivery, sizeof(delivery), "d%u", n);
		e.detail = detail + sizeof(detail) - 1 - n * 7919 % 3000;
		size += 200 + strlen(e.detail);
		assert_int_equal(audit_event(a, &e, &err), 0);
	}
	audit_close(a);
	a = al_opened_with(&config);
	unsigned found = 0;
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(delivery, sizeof(delivery), "d%u", i);
		bool there = audit_recorded(a, "tool.call", delivery);
		assert_true(there || found == 0);
		found += there;
	}
	assert_in_range(found, n * 8 / 10, n - 1);
	audit_close(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_a_write_or_nothing),
		cmocka_unit_test(on_a_full_disk_what_began_ends),
		cmocka_unit_test(killed_before_the_line),
		cmocka_unit_test(killed_within_the_line),
		cmocka_unit_test(killed_after_the_line),
		cmocka_unit_test(killed_at_any_time),
		cmocka_unit_test(what_is_on_record_is_not_written_again),
		cmocka_unit_test(jobs_without_an_end_are_named),
		cmocka_unit_test(a_long_log_is_read_from_its_end),
	};
	return cmocka_run_group_tests(tests, al_setup, al_teardown);
}
