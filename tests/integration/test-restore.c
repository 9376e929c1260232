/* Sessions of a broker that died, or that handed over: found again by the next one, over a real
 * provider, agent, store and audit log. The broker that dies is a child of this process. */
#include "live.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "exec/exec.h"
#include "files/files.h"
#include "provider/process.h"
#include "provider/record.h"
#include "session/session_internal.h"
#include "store/store.h"

static struct {
	char runtime_dir[48], state_dir[48], audit_path[48], audit_key[48], mount[48];
	struct sandbox_mount mounts[1];
	struct session_profile profile;
	struct sessions_config config;
	struct sessions *all;
	bool flag, ended;
} got;

/* ---- brokers ---- */

static void set_limit(const char *name, unsigned value)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%s=%u", name, value);
	assert_int_equal(policy_set_limit(got.config.policy, text, &live.err), 0);
}

static void set_flag(void *user)
{
	*(bool *)user = true;
}

/* What a broker's process opens. */
static void open_broker(void)
{
	struct err err;
	live_start_loop();
	got.config = (struct sessions_config){
		.loop = &live.loop,
		.policy = policy_new_default(),
		.runtime_dir = got.runtime_dir,
		.agent_path = live.agent_path,
		.kernels_dir = live.kernels_dir,
		.outlive = true,
	};
	assert_int_equal(
		audit_open(got.audit_path, got.audit_key, NULL, &got.config.audit, &err), 0);
	assert_int_equal(store_file_open(got.state_dir, &got.config.store, &err), 0);
	got.all = sessions_new(&got.config);
}

static void close_broker(void (*end)(struct sessions *, void (*)(void *), void *))
{
	got.ended = false;
	end(got.all, set_flag, &got.ended);
	live_until(&got.ended);
	live_close_loop();
	got.config.store->ops->close(got.config.store);
	audit_close(got.config.audit);
	policy_free(got.config.policy);
	got.all = NULL;
}

static void restore(void)
{
	open_broker();
	got.flag = false;
	sessions_restore(got.all, set_flag, &got.flag);
	live_until(&got.flag);
}

static uint8_t front[DELIVERY_FRONT]; /* a new one each test, as each host has its own */

static int set_up(void **state)
{
	(void)state;
	id_random(front, sizeof(front));
	(void)snprintf(live.dir, sizeof(live.dir), "/tmp/scb-test-XXXXXX");
	assert_non_null(mkdtemp(live.dir));
	assert_int_equal(chmod(live.dir, 0711), 0);
	(void)snprintf(got.runtime_dir, sizeof(got.runtime_dir), "%s/run", live.dir);
	(void)snprintf(got.state_dir, sizeof(got.state_dir), "%s/state", live.dir);
	(void)snprintf(got.audit_path, sizeof(got.audit_path), "%s/audit.jsonl", live.dir);
	(void)snprintf(got.audit_key, sizeof(got.audit_key), "%s/audit.key", live.dir);
	(void)snprintf(got.mount, sizeof(got.mount), "%s/mount", live.dir);
	assert_int_equal(mkdir(got.runtime_dir, 0700), 0);
	assert_int_equal(mkdir(got.mount, 0755), 0);
	got.mounts[0] = (struct sandbox_mount){"data", got.mount};
	got.profile = (struct session_profile){live.provider, got.mounts, 1, NULL};
	return 0;
}

static size_t files_in(const char *dir, const char *prefix)
{
	size_t n = 0;
	DIR *d = opendir(dir);
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.' && str_starts(e->d_name, prefix);
	(void)closedir(d);
	return n;
}

static int tear_down(void **state)
{
	(void)state;
	if (!got.all)
		restore();
	close_broker(sessions_close);
	assert_int_equal(files_in(got.runtime_dir, "x-"), 0);
	assert_int_equal(files_in(got.state_dir, "session."), 0);
	assert_int_equal(files_in(got.state_dir, "pool."), 0);
	/* (A template of theirs ends by itself, a while after its last kernel.) */
	assert_int_equal(record_remove_tree(live.dir), 0);
	return 0;
}

/* How many lines of the audit log hold both. */
static unsigned audited(const char *event, const char *text)
{
	_cleanup_free_ char *wanted = xasprintf("\"event\":\"%s\"", event);
	char line[4096];
	unsigned n = 0;
	FILE *f = fopen(got.audit_path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, wanted) && strstr(line, text);
	(void)fclose(f);
	return n;
}

/* ---- what brokers do ---- */

static struct session *open_one(const char *principal, const struct delivery *d)
{
	struct session *s = NULL;
	struct err err;
	const struct session_wish wish = {
		.principal = principal, .profile = &got.profile, .delivery = d};
	if (sessions_open(got.all, &wish, &s, &err) < 0)
		fail_msg("%s", err.text);
	return s;
}

static struct session *find(const char *handle)
{
	struct session *s = NULL;
	live.err = (struct err){0};
	return sessions_find(got.all, "uid:1", handle, &s, &live.err) < 0 ? NULL : s;
}

static char job[ID_TEXT_SIZE];

static void run(struct session *s, enum wire_job_kind kind, const char *text, uint64_t wait_us)
{
	id_new('j', job);
	const struct exec_request r = {.kind = kind,
		.job = job,
		.shell_text = kind == JOB_KIND_COMMAND ? text : NULL,
		.language = "python",
		.code = text,
		.wait_us = wait_us};
	session_note_job(s, job);
	(void)exec_run(session_exec(s), &r, live_on_status, NULL);
	live_until(&live.answered);
}

static void cell(struct session *s, const char *code)
{
	run(s, JOB_KIND_CELL, code, 20 * USEC_PER_SEC);
}

static void wait_for(struct session *s, const char *which)
{
	(void)exec_wait(session_exec(s), which, 20 * USEC_PER_SEC, live_on_status, NULL);
	live_until(&live.answered);
}

struct told {
	char handle[ID_TEXT_SIZE], sandbox[ID_TEXT_SIZE], job[ID_TEXT_SIZE];
	uint64_t created_us;
};

static struct delivery delivery(uint64_t number)
{
	struct delivery d;
	delivery_make(front, number, false, &d);
	return d;
}

static void work(struct told *ret)
{
	struct delivery d = delivery(1);
	struct session *s = open_one("uid:1", &d);
	cell(s, "x = 41");
	run(s, JOB_KIND_COMMAND, "echo kept > file; echo one; sleep 1; echo two", USEC_PER_SEC / 5);
	memcpy(ret->handle, session_handle(s), sizeof(ret->handle));
	memcpy(ret->sandbox, session_sandbox_id(s), sizeof(ret->sandbox));
	memcpy(ret->job, job, sizeof(ret->job));
	ret->created_us = session_created_us(s);
}

/* A broker of its own that does so and is then killed. */
static void dead_broker(void (*fn)(struct told *ret), struct told *ret)
{
	int fds[2];
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct told t = {0};
		open_broker();
		fn(&t);
		(void)!write(fds[1], &t, sizeof(t));
		for (;;)
			(void)pause();
	}
	(void)close(fds[1]);
	assert_int_equal(fd_read_full(fds[0], ret, sizeof(*ret)), 0);
	(void)close(fds[0]);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void assert_as_it_was(const struct told *t)
{
	struct session *s = find(t->handle);
	struct session *of_job = NULL;
	struct err err;
	assert_non_null(s);
	assert_false(session_lost(s));
	assert_string_equal(session_sandbox_id(s), t->sandbox);
	assert_int_equal(session_created_us(s), t->created_us);
	assert_ptr_equal(session_provider(s), live.provider);
	assert_true(strcmp(session_capabilities(s)->isolation_level, "unknown") != 0);
	/* Its jobs are known by themselves. */
	assert_int_equal(sessions_find_job(got.all, "uid:1", t->job, &of_job, &err), 0);
	assert_ptr_equal(of_job, s);
	assert_true(sessions_find_job(got.all, "uid:2", t->job, &of_job, &err) < 0);
	wait_for(s, t->job);
	live_assert_exit(0);
	live_assert_stdout("one\ntwo\n");
	/* Its kernel lives, and is not started again. */
	cell(s, "x + 1");
	live_assert_result("42");
	assert_false(live.status.kernel_restarted);
	assert_int_equal(live.status.generation, 1);
}

/* ---- tests ---- */

static void a_broker_that_was_killed(void **state)
{
	(void)state;
	struct told t;
	dead_broker(work, &t);
	restore();
	assert_as_it_was(&t);
	/* Another principal has no more of it than before. */
	struct session *s;
	struct err err;
	assert_true(sessions_find(got.all, "uid:2", t.handle, &s, &err) < 0);
	assert_int_equal(audited("session.open", t.handle), 1);
	assert_int_equal(audited("session.lost", t.handle), 0);
	close_broker(sessions_close);
	assert_int_equal(audited("session.close", t.handle), 1);
}

static void a_broker_that_hands_over(void **state)
{
	(void)state;
	struct told t;
	open_broker();
	work(&t);
	struct session *held = find(t.handle);
	session_hold(held);
	(void)exec_wait(session_exec(held), t.job, 20 * USEC_PER_SEC, live_on_status, NULL);
	struct sessions *all = got.all;
	sessions_detach(all, set_flag, &got.ended);
	live_until(&got.ended);
	live_until(&live.answered); /* who waits is told */
	assert_true(live.err.code != ERR_NONE || live.status.reason == REASON_SANDBOX_LOST);
	session_release(held);
	live_close_loop();
	got.config.store->ops->close(got.config.store);
	audit_close(got.config.audit);
	policy_free(got.config.policy);
	got.all = NULL;
	assert_int_equal(audited("session.close", t.handle), 0);
	restore();
	assert_as_it_was(&t);
}

static void twice_in_a_row(void **state)
{
	(void)state;
	struct told t;
	dead_broker(work, &t);
	for (int i = 0; i < 3; i++) {
		restore();
		assert_as_it_was(&t);
		close_broker(sessions_detach);
	}
}

static void the_same_delivery_finds_its_session(void **state)
{
	(void)state;
	struct told t;
	struct delivery first = delivery(1), second = delivery(2);
	dead_broker(work, &t);
	restore();
	assert_string_equal(session_handle(open_one("uid:1", &first)), t.handle);
	assert_string_not_equal(session_handle(open_one("uid:1", &second)), t.handle);
	assert_int_equal(audited("session.open", t.handle), 1);
}

static void kernel_that_dies(struct told *ret)
{
	work(ret);
	cell(find(ret->handle), "import os, threading, time\n"
				"threading.Timer(0.5, lambda: os.kill(os.getpid(), 9)).start()");
}

static void a_kernel_that_died_meanwhile(void **state)
{
	(void)state;
	struct told t;
	dead_broker(kernel_that_dies, &t);
	(void)usleep(1000000);
	restore();
	struct session *s = find(t.handle);
	cell(s, "'x' in globals()");
	live_assert_result("False");
	assert_true(live.status.kernel_restarted);
	cell(s, "1");
	assert_false(live.status.kernel_restarted);
}

static void kernel_that_is_restarted(struct told *ret)
{
	work(ret);
	exec_kernel_restart(session_exec(find(ret->handle)), NULL, NULL, NULL, NULL);
	run(find(ret->handle), JOB_KIND_COMMAND, "sleep 0.3", USEC_PER_SEC);
}

static void a_kernel_that_was_stopped_is_no_loss(void **state)
{
	(void)state;
	struct told t;
	dead_broker(kernel_that_is_restarted, &t);
	restore();
	cell(find(t.handle), "'x' in globals()");
	live_assert_result("False");
	assert_false(live.status.kernel_restarted);
}

/* What a sandbox started may die a moment after it, and holds its record until then. */
static void until_nobody_holds(const char *record)
{
	int fd = open(record, O_RDONLY | O_CLOEXEC);
	uint64_t end = clock_monotonic_us() + LIVE_PATIENCE_US;
	assert_true(fd >= 0);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0 && clock_monotonic_us() < end)
		(void)usleep(1000);
	(void)close(fd);
}

/* Kills every process that its record names. */
static void kill_sandbox(const char *id)
{
	struct record r;
	struct record_facts f;
	struct err err;
	assert_int_equal(record_open(got.runtime_dir, id, &r, &f, &err), 0);
	const pid_t pids[] = {f.init.pid, f.first.pid};
	for (size_t i = 0; i < 2; i++) {
		struct process p;
		if (pids[i])
			(void)kill(pids[i], SIGKILL);
		while (pids[i] && process_read(pids[i], &p) && !p.dead)
			(void)usleep(1000);
	}
	_cleanup_free_ char *path = TAKE_PTR(r.path);
	record_remove(&r);
	record_facts_done(&f);
	until_nobody_holds(path);
}

/* A lost session's sandbox is taken apart on the loop; one that ends only after its session was
 * given up, on a busy machine, leaves its names to the next scb that looks. */
static void until_no_names(void)
{
	uint64_t end = clock_monotonic_us() + LIVE_PATIENCE_US;
	while (files_in(got.runtime_dir, "x-") > 0 && clock_monotonic_us() < end) {
		(void)uv_run(&live.loop, UV_RUN_NOWAIT);
		(void)usleep(10 * 1000);
		(void)provider_sweep(got.runtime_dir);
	}
	assert_int_equal(files_in(got.runtime_dir, "x-"), 0);
}

static void assert_lost(const char *handle)
{
	struct session *s = find(handle);
	assert_non_null(s);
	assert_true(session_lost(s));
	run(s, JOB_KIND_COMMAND, "echo", USEC_PER_SEC);
	if (live.err.code == ERR_NONE)
		assert_int_equal(live.status.reason, REASON_SANDBOX_LOST);
	else
		assert_int_equal(live.err.code, ERR_SANDBOX_LOST);
}

static void a_sandbox_that_ended_meanwhile_is_lost(void **state)
{
	(void)state;
	struct told t;
	dead_broker(work, &t);
	kill_sandbox(t.sandbox);
	restore();
	assert_lost(t.handle);
	assert_int_equal(audited("session.lost", t.handle), 1);
	until_no_names();
	close_broker(sessions_detach);
	restore(); /* and the next broker says the same */
	assert_lost(t.handle);
	assert_int_equal(audited("session.lost", t.handle), 1);
	close_broker(sessions_close);
	assert_int_equal(audited("session.close", t.handle), 1);
}

static void an_agent_that_hangs_is_given_up(void **state)
{
	(void)state;
	struct told t;
	struct record r;
	struct record_facts f;
	struct err err;
	dead_broker(work, &t);
	assert_int_equal(record_open(got.runtime_dir, t.sandbox, &r, &f, &err), 0);
	assert_int_equal(kill(f.init.pid ? f.init.pid : f.first.pid, SIGSTOP), 0);
	_cleanup_free_ char *path = TAKE_PTR(r.path); /* let go of, but not removed */
	record_remove(&r);
	record_facts_done(&f);
	uint64_t start = clock_monotonic_us();
	restore();
	assert_true(clock_monotonic_us() - start < 2 * SESSION_RESTORE_US);
	assert_lost(t.handle);
}

/* ---- a broker that dies in the middle ---- */

/* Rewrites a member of the record, as if the broker had died there. */
static void set_state(const char *handle, const char *from, const char *to)
{
	_cleanup_free_ char *path = xasprintf("%s/session.%s", got.state_dir, handle);
	_cleanup_free_ char *old = xasprintf("\"state\":\"%s\"", from);
	_cleanup_free_ char *new = xasprintf("\"state\":\"%s\"", to);
	char text[8192];
	FILE *f = fopen(path, "r+e");
	assert_non_null(f);
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	char *at = strstr(text, old);
	assert_non_null(at);
	rewind(f);
	assert_int_equal(ftruncate(fileno(f), 0), 0);
	(void)fprintf(f, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
	(void)fclose(f);
}

static void one_that_was_being_opened(void **state)
{
	(void)state;
	struct told t;
	dead_broker(work, &t);
	set_state(t.handle, "live", "opening");
	restore();
	assert_as_it_was(&t);
	close_broker(sessions_detach);
	/* Its sandbox had not been made: it is now, by the id that is on record. */
	kill_sandbox(t.sandbox);
	set_state(t.handle, "live", "opening");
	restore();
	struct session *s = find(t.handle);
	assert_non_null(s);
	assert_false(session_lost(s));
	assert_string_equal(session_sandbox_id(s), t.sandbox);
	run(s, JOB_KIND_COMMAND, "cat file || echo new; cat /mnt/data/x 2>&1 | wc -l",
		10 * USEC_PER_SEC);
	live_assert_stdout("new\n1\n");
	assert_int_equal(audited("session.open", t.handle), 1);
	assert_int_equal(audited("session.lost", t.handle), 0);
}

static void one_that_was_being_closed(void **state)
{
	(void)state;
	struct told t;
	struct session_closed closed;
	struct delivery d = delivery(9);
	for (int i = 0; i < 2; i++) {
		dead_broker(work, &t);
		set_state(t.handle, "live", "closing");
		if (i == 1)
			kill_sandbox(t.sandbox);
		restore();
		assert_null(find(t.handle));
		assert_false(sessions_closed_by(got.all, "uid:1", &d, &closed));
		close_broker(sessions_close);
		assert_int_equal(audited("session.close", t.handle), 1);
		assert_int_equal(files_in(got.state_dir, "session."), 0);
		assert_int_equal(files_in(got.runtime_dir, "x-"), 0);
		assert_int_equal(unlink(got.audit_path), 0);
	}
}

static void which_delivery_closed_it_is_known_for_a_while(void **state)
{
	(void)state;
	struct told t;
	struct session_closed closed;
	struct delivery d = delivery(9), other = delivery(10), none = {0};
	dead_broker(work, &t);
	restore();
	struct session *s = find(t.handle);
	session_set_closer(s, &d);
	session_close(s, "asked for", NULL, NULL);
	assert_null(find(t.handle));
	assert_true(sessions_closed_by(got.all, "uid:1", &d, &closed)); /* not done yet */
	close_broker(sessions_close);
	restore();
	closed = (struct session_closed){0};
	assert_true(sessions_closed_by(got.all, "uid:1", &d, &closed));
	assert_string_equal(closed.handle, t.handle);
	assert_string_equal(closed.sandbox_id, t.sandbox);
	assert_false(sessions_closed_by(got.all, "uid:2", &d, &closed));
	assert_false(sessions_closed_by(got.all, "uid:1", &other, &closed));
	assert_false(sessions_closed_by(got.all, "uid:1", &none, &closed));
	assert_null(find(t.handle));
	assert_int_equal(files_in(got.state_dir, "closed."), 1);
	/* Ten minutes later it is gone. */
	_cleanup_free_ char *path = xasprintf("%s/closed.%s", got.state_dir, t.handle);
	FILE *f = fopen(path, "we");
	assert_non_null(f);
	(void)fprintf(f,
		"{\"version\":1,\"principal\":\"uid:1\",\"closed_by\":\"x\",\"closed_us\":%llu}",
		(unsigned long long)(clock_realtime_us() - SESSION_TOMB_US));
	(void)fclose(f);
	close_broker(sessions_detach);
	restore();
	assert_int_equal(files_in(got.state_dir, "closed."), 0);
}

static void records_that_are_none_are_dropped(void **state)
{
	(void)state;
	static const char *const texts[] = {"", "x", "{}", "{\"version\":2}", "[1]"};
	open_broker();
	close_broker(sessions_close);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char id[ID_TEXT_SIZE];
		id_new('s', id);
		_cleanup_free_ char *path = xasprintf("%s/session.%s", got.state_dir, id);
		FILE *f = fopen(path, "we");
		assert_non_null(f);
		(void)fputs(texts[i], f);
		(void)fclose(f);
	}
	restore();
	assert_int_equal(files_in(got.state_dir, ""), 0);
}

static void many(struct told *ret)
{
	(void)ret;
	for (int i = 0; i < 6; i++)
		(void)open_one("uid:1", NULL);
	for (int i = 0; i < 6; i++) {
		list_for_each (s, next, &got.all->sessions, struct session, sessions)
			run(s, JOB_KIND_COMMAND, "true", 10 * USEC_PER_SEC);
	}
}

static int count_one(void *user, struct session *s)
{
	(*(int *)user)++;
	assert_false(session_lost(s));
	return 0;
}

static void caps_and_ttls_hold_for_those_found(void **state)
{
	(void)state;
	struct told t;
	struct session *s;
	struct err err;
	dead_broker(many, &t);
	restore();
	int n = 0;
	assert_int_equal(sessions_each(got.all, "uid:1", count_one, &n), 0);
	assert_int_equal(n, 6);
	(void)open_one("uid:1", NULL);
	(void)open_one("uid:1", NULL);
	const struct session_wish wish = {.principal = "uid:1", .profile = &got.profile};
	assert_int_equal(sessions_open(got.all, &wish, &s, &err), -EMFILE);
	close_broker(sessions_detach);
	/* The longest life is counted from the beginning, whoever was the broker. */
	open_broker();
	set_limit("absolute_ttl_s", 1);
	sessions_restore(got.all, set_flag, &got.flag);
	live_until(&got.flag);
	uint64_t end = clock_monotonic_us() + 10 * USEC_PER_SEC;
	while (files_in(got.state_dir, "session.") && clock_monotonic_us() < end)
		(void)uv_run(&live.loop, UV_RUN_ONCE);
	assert_int_equal(files_in(got.state_dir, "session."), 0);
}

int main(int argc, char **argv)
{
	int status;
	if (live_begin(argc, argv, &status) < 0)
		return status;
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_broker_that_was_killed),
		TEST(a_broker_that_hands_over),
		TEST(twice_in_a_row),
		TEST(the_same_delivery_finds_its_session),
		TEST(a_kernel_that_died_meanwhile),
		TEST(a_kernel_that_was_stopped_is_no_loss),
		TEST(a_sandbox_that_ended_meanwhile_is_lost),
		TEST(an_agent_that_hangs_is_given_up),
		TEST(one_that_was_being_opened),
		TEST(one_that_was_being_closed),
		TEST(which_delivery_closed_it_is_known_for_a_while),
		TEST(records_that_are_none_are_dropped),
		TEST(caps_and_ttls_hold_for_those_found),
	};
	return cmocka_run_group_tests_name("restore", tests, NULL, NULL);
}
