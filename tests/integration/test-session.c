/* Sessions over a real provider, agent, store and audit log: who finds which, caps, time, and every
 * way in which one ends. */
#include "live.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "exec/exec.h"
#include "files/files.h"
#include "provider/record.h"
#include "session/session_internal.h"
#include "store/store.h"

static struct {
	char runtime_dir[48], state_dir[48], audit_path[48], audit_key[48];
	struct sessions_config config;
	struct sessions *all;
	struct session_profile profile;
	bool closed, ended;
	char *leftovers;
} got;

static void set_limit(const char *name, unsigned value)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%s=%u", name, value);
	assert_int_equal(policy_set_limit(got.config.policy, text, &live.err), 0);
}

static void turn(void)
{
	(void)uv_run(&live.loop, UV_RUN_ONCE);
}

static void turn_for(uint64_t us)
{
	for (uint64_t end = clock_monotonic_us() + us; clock_monotonic_us() < end;)
		turn();
}

static int setup(void **state)
{
	struct err err;
	(void)state;
	live_open_loop();
	(void)snprintf(got.runtime_dir, sizeof(got.runtime_dir), "%s/run", live.dir);
	(void)snprintf(got.state_dir, sizeof(got.state_dir), "%s/state", live.dir);
	(void)snprintf(got.audit_path, sizeof(got.audit_path), "%s/audit.jsonl", live.dir);
	(void)snprintf(got.audit_key, sizeof(got.audit_key), "%s/audit.key", live.dir);
	/* A root broker's sandboxes have other uids, and pass through the directory above. */
	assert_int_equal(chmod(live.dir, 0711), 0);
	assert_int_equal(mkdir(got.runtime_dir, 0700), 0);
	got.profile = (struct session_profile){.provider = live.provider};
	got.config = (struct sessions_config){
		.loop = &live.loop,
		.policy = policy_new_default(),
		.runtime_dir = got.runtime_dir,
		.agent_path = live.agent_path,
		.kernels_dir = live.kernels_dir,
	};
	set_limit("pool", 0); /* what there is, is counted */
	assert_int_equal(
		audit_open(got.audit_path, got.audit_key, NULL, &got.config.audit, &err), 0);
	assert_int_equal(store_file_open(got.state_dir, &got.config.store, &err), 0);
	got.all = sessions_new(&got.config);
	return 0;
}

/* A change of the configuration that sessions_new() has copied. */
static struct sessions_config *config(void)
{
	return &got.all->config;
}

static void on_ended(void *user)
{
	(void)user;
	got.ended = true;
}

static size_t files_in(const char *dir)
{
	size_t n = 0;
	DIR *d = opendir(dir);
	assert_non_null(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static int teardown(void **state)
{
	(void)state;
	sessions_close(got.all, on_ended, NULL);
	live_until(&got.ended);
	live_close_loop();
	assert_int_equal(files_in(got.runtime_dir), 0);
	assert_int_equal(files_in(got.state_dir), 0);
	got.config.store->ops->close(got.config.store);
	audit_close(got.config.audit);
	policy_free(got.config.policy);
	assert_int_equal(rmdir(got.state_dir) + rmdir(got.runtime_dir), 0);
	assert_int_equal(record_remove_tree(live.dir), 0); /* the audit log */
	free(got.leftovers);
	return 0;
}

/* ---- shorthands ---- */

static int try_open(const char *principal, bool implicit, struct session **ret, struct err *err)
{
	const struct session_wish wish = {
		.principal = principal, .profile = &got.profile, .implicit = implicit};
	return sessions_open(got.all, &wish, ret, err);
}

static struct session *open_session(const char *principal, bool implicit)
{
	struct session *s = NULL;
	struct err err;
	if (try_open(principal, implicit, &s, &err) < 0)
		fail_msg("%s", err.text);
	return s;
}

static struct session *find(const char *principal, const char *handle)
{
	struct session *s = NULL;
	live.err = (struct err){0};
	return sessions_find(got.all, principal, handle, &s, &live.err) < 0 ? NULL : s;
}

static char job[ID_TEXT_SIZE];

static void begin(struct session *s, const char *text, uint64_t wait_us)
{
	id_new('j', job);
	struct exec_request r = {
		.kind = JOB_KIND_COMMAND, .job = job, .shell_text = text, .wait_us = wait_us};
	session_note_job(s, job);
	(void)exec_run(session_exec(s), &r, live_on_status, NULL);
}

static void run(struct session *s, const char *text)
{
	begin(s, text, LIVE_PATIENCE_US);
	live_until(&live.answered);
}

static void on_closed(void *user, const char *leftovers)
{
	(void)user;
	free(got.leftovers);
	got.leftovers = leftovers ? xstrdup(leftovers) : NULL;
	got.closed = true;
}

static void close_and_wait(struct session *s)
{
	session_close(s, "the test is done with it", on_closed, NULL);
	assert_false(got.closed);
	live_until(&got.closed);
	assert_null(got.leftovers);
}

static void until_gone(const char *principal, const char *handle)
{
	uint64_t end = clock_monotonic_us() + LIVE_PATIENCE_US;
	struct session *s = NULL;
	/* Not sessions_find(): that would be asking for it. */
	do {
		bool there = false;
		turn();
		list_for_each (i, next, &got.all->sessions, struct session, sessions) {
			there |= strcmp(i->handle, handle) == 0;
		}
		if (!there)
			break;
	} while (clock_monotonic_us() < end);
	assert_int_not_equal(sessions_find(got.all, principal, handle, &s, NULL), 0);
}

/* Lines of the audit log that hold all three. */
static unsigned audited(const char *a, const char *b, const char *c)
{
	unsigned n = 0;
	char line[4096];
	FILE *f = fopen(got.audit_path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, a) && strstr(line, b) && strstr(line, c);
	(void)fclose(f);
	return n;
}

static bool recorded(const char *handle, const char *text)
{
	struct err err;
	_cleanup_buf_ struct buf b = BUF_INIT(STORE_VALUE_MAX);
	_cleanup_free_ char *key = xasprintf("session/%s", handle);
	if (got.config.store->ops->get(got.config.store, key, &b, &err) < 0)
		return false;
	return memmem(b.data, b.len, text, strlen(text)) != NULL;
}

/* ---- cases ---- */

static void one_life(void **state)
{
	(void)state;
	struct session *s = open_session("uid:1", false);
	char handle[ID_TEXT_SIZE];
	memcpy(handle, session_handle(s), sizeof(handle));
	assert_true(id_valid('s', handle));
	assert_string_equal(session_principal(s), "uid:1");
	assert_ptr_equal(session_provider(s), live.provider);
	assert_int_equal(audited("\"session.open\"", handle, session_sandbox_id(s)), 1);
	assert_true(recorded(handle, "\"principal\":\"uid:1\""));
	assert_true(recorded(handle, session_sandbox_id(s)));
	uint64_t now = clock_realtime_us();
	assert_in_range(session_created_us(s), now - 10 * USEC_PER_SEC, now);
	assert_in_range(session_expires_us(s), now + 890 * USEC_PER_SEC, now + 901 * USEC_PER_SEC);
	run(s, "echo hello >f; cat f");
	assert_int_equal(live.err.code, ERR_NONE);
	assert_memory_equal(live.status.out.head.data, "hello\n", 6);
	assert_ptr_equal(find("uid:1", handle), s);
	close_and_wait(s);
	assert_null(find("uid:1", handle));
	assert_false(recorded(handle, ""));
	assert_int_equal(audited("\"session.close\"", handle, "the test is done with it"), 1);
	assert_int_equal(files_in(got.runtime_dir), 0);
}

static void handles_are_told_nothing(void **state)
{
	(void)state;
	struct session *s = open_session("uid:1", false), *other = NULL;
	const char *handle = session_handle(s);
	char forged[ID_TEXT_SIZE];
	struct err first, err;
	id_new('s', forged);
	assert_true(sessions_find(got.all, "uid:1", forged, &other, &first) < 0);
	assert_int_equal(first.code, ERR_NO_SUCH_SESSION);
	assert_non_null(strstr(first.text, "action \"open\""));
	const char *const odd[] = {"", "s-", "s-0", "x", handle + 1, "s-zz", "S-00"};
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		assert_true(sessions_find(got.all, "uid:1", odd[i], &other, &err) < 0);
		assert_string_equal(err.text, first.text);
	}
	assert_true(sessions_find(got.all, "uid:2", handle, &other, &err) < 0); /* foreign */
	assert_string_equal(err.text, first.text);

	begin(s, "true", LIVE_PATIENCE_US);
	assert_int_equal(sessions_find_job(got.all, "uid:1", job, &other, &err), 0);
	assert_ptr_equal(other, s);
	assert_true(sessions_find_job(got.all, "uid:2", job, &other, &err) < 0);
	assert_int_equal(err.code, ERR_NO_SUCH_JOB);
	assert_true(sessions_find_job(got.all, "uid:1", "j-0", &other, &err) < 0);
	live_until(&live.answered);
	/* The oldest are forgotten. */
	char old[ID_TEXT_SIZE];
	memcpy(old, job, sizeof(old));
	for (int i = 0; i < LIMIT_JOBS; i++) {
		assert_int_equal(sessions_find_job(got.all, "uid:1", old, &other, &err), 0);
		id_new('j', job);
		session_note_job(s, job);
	}
	assert_true(sessions_find_job(got.all, "uid:1", old, &other, &err) < 0);
	assert_int_equal(sessions_find_job(got.all, "uid:1", job, &other, &err), 0);

	char kept[ID_TEXT_SIZE];
	memcpy(kept, handle, sizeof(kept));
	session_close(s, "closed", on_closed, NULL);
	assert_true(sessions_find(got.all, "uid:1", kept, &other, &err) < 0); /* at once */
	assert_string_equal(err.text, first.text);
	assert_true(sessions_find_job(got.all, "uid:1", job, &other, &err) < 0);
	live_until(&got.closed);
}

static int count_one(void *user, struct session *s)
{
	(void)s;
	return ++*(int *)user == 5 ? 99 : 0;
}

static int count_sessions(const char *principal)
{
	int n = 0;
	assert_int_equal(sessions_each(got.all, principal, count_one, &n), 0);
	return n;
}

static void caps(void **state)
{
	(void)state;
	struct session *other = NULL, *s[3];
	set_limit("sessions_principal", 2);
	set_limit("sessions", 3);
	s[0] = open_session("uid:1", false);
	s[1] = open_session("uid:1", true);
	assert_true(try_open("uid:1", false, &other, &live.err) < 0);
	assert_int_equal(live.err.code, ERR_LIMIT_REACHED);
	assert_non_null(strstr(live.err.text, "2 sessions are open"));
	assert_non_null(strstr(live.err.text, "\"close\""));
	s[2] = open_session("uid:2", false);
	assert_true(try_open("uid:3", false, &other, &live.err) < 0);
	assert_int_equal(live.err.code, ERR_LIMIT_REACHED);
	assert_non_null(strstr(live.err.text, "scb sessions close"));
	assert_int_equal(count_sessions("uid:1"), 2);
	assert_int_equal(count_sessions(NULL), 3);

	/* Forgotten for two minutes: explicit ones stay, held ones stay, the implicit one goes. */
	for (size_t i = 0; i < 3; i++)
		s[i]->asked_us -= SESSION_GRACE_US + 1;
	session_hold(s[1]);
	assert_true(try_open("uid:1", false, &other, &live.err) < 0);
	session_release(s[1]);
	s[1]->asked_us -= SESSION_GRACE_US + 1;
	char evicted[ID_TEXT_SIZE];
	memcpy(evicted, session_handle(s[1]), sizeof(evicted));
	other = open_session("uid:1", true);
	assert_null(find("uid:1", evicted));
	assert_int_equal(count_sessions("uid:1"), 2);
	until_gone("uid:1", evicted);
	assert_int_equal(audited("\"session.close\"", evicted, "evicted"), 1);
	/* Named again in time: it stays. */
	other->asked_us -= SESSION_GRACE_US + 1;
	assert_ptr_equal(find("uid:1", session_handle(other)), other);
	assert_true(try_open("uid:1", false, &other, &live.err) < 0);
}

static void idle_and_absolute_ends(void **state)
{
	(void)state;
	set_limit("idle_ttl_s", 1);
	struct session *s = open_session("uid:1", false);
	char handle[ID_TEXT_SIZE];
	memcpy(handle, session_handle(s), sizeof(handle));
	begin(s, "sleep 1.6", 1000);
	live_until(&live.answered);
	assert_int_equal(live.status.state, JOB_RUNNING);
	turn_for(1300 * USEC_PER_MSEC); /* idle for longer than allowed, but its job runs */
	assert_int_equal(s->state, SESSION_LIVE);
	assert_true(s->check_us > 0);
	turn_for(700 * USEC_PER_MSEC);
	s->check_us = 1; /* it would be looked at again in half a minute */
	session_hold(s);
	turn_for(1200 * USEC_PER_MSEC);
	assert_int_equal(s->state, SESSION_LIVE); /* held */
	session_release(s);
	until_gone("uid:1", handle);
	assert_int_equal(audited("\"session.close\"", handle, "idle"), 1);

	set_limit("idle_ttl_s", 900);
	set_limit("absolute_ttl_s", 1);
	s = open_session("uid:1", false);
	memcpy(handle, session_handle(s), sizeof(handle));
	session_hold(s);
	begin(s, "sleep 60", LIVE_PATIENCE_US);
	live_until(&live.answered); /* ended with the session, held or not */
	assert_string_equal(exec_reason_name(live.status.reason), "sandbox_lost");
	assert_non_null(strstr(live.status.notes[0], "longest life"));
	assert_null(find("uid:1", handle));
	/* Whoever holds it can go on asking, and is told. */
	run(s, "echo more");
	assert_int_equal(live.err.code, ERR_SANDBOX_LOST);
	session_release(s);
	until_gone("uid:1", handle);
}

static void closing_ends_what_runs(void **state)
{
	(void)state;
	struct session *s = open_session("uid:1", false);
	run(s, "true");
	session_hold(s);
	begin(s, "sleep 60", LIVE_PATIENCE_US);
	session_close(s, "closed by the caller", on_closed, NULL);
	session_close(s, "again", on_closed, NULL);
	live_until(&live.answered);
	assert_string_equal(exec_reason_name(live.status.reason), "sandbox_lost");
	assert_non_null(strstr(live.status.notes[0], "closed by the caller"));
	live_until(&got.closed);
	session_close(s, "and once it is closed", on_closed, NULL);
	live_until(&got.closed);
	session_release(s);

	s = open_session("uid:1", false); /* before it is up */
	begin(s, "true", LIVE_PATIENCE_US);
	session_close(s, "changed my mind", NULL, NULL);
	live_until(&live.answered);
	assert_int_equal(live.err.code, ERR_SANDBOX_LOST);
	assert_non_null(strstr(live.err.text, "changed my mind"));
}

static void sandbox_that_dies(void **state)
{
	(void)state;
	struct session *s = open_session("uid:1", false);
	char handle[ID_TEXT_SIZE];
	memcpy(handle, session_handle(s), sizeof(handle));
	if (strcmp(live.provider->name, "local") == 0) {
		/* The shell's parent is the job's supervisor, and its parent the agent. */
		run(s, "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 60");
		assert_non_null(strstr(live.status.notes[0], "signal 9"));
	} else { /* the code cannot do it there */
		static const struct link_stream_events nobody_waits = {0};
		struct link_stream *stream;
		run(s, "true");
		begin(s, "sleep 60", LIVE_PATIENCE_US);
		assert_int_equal(
			link_open(s->link, OP_SHUTDOWN, NULL, &nobody_waits, NULL, &stream), 0);
		live_until(&live.answered);
	}
	assert_string_equal(exec_reason_name(live.status.reason), "sandbox_lost");
	assert_ptr_equal(find("uid:1", handle), s); /* to be told so */
	assert_true(session_lost(s));
	run(s, "echo hello?");
	assert_int_equal(live.err.code, ERR_SANDBOX_LOST);
	assert_non_null(strstr(live.err.text, "open a new session"));
	assert_int_equal(audited("\"session.lost\"", handle, ""), 1);
	s->lost_us -= SESSION_GRACE_US; /* two minutes later */
	session_hold(s);
	session_release(s);
	until_gone("uid:1", handle);
	assert_int_equal(audited("\"session.close\"", handle, "lost"), 1);
}

static void sandbox_that_never_comes_up(void **state)
{
	(void)state;
	config()->agent_path = "/bin/false";
	struct session *s = open_session("uid:1", false);
	run(s, "true");
	assert_int_equal(live.err.code, ERR_PROVIDER_UNUSABLE);
	assert_non_null(strstr(live.err.text, "could not be started"));
	assert_true(session_lost(s));
	/* A lost one makes room before a cap is hit. */
	set_limit("sessions_principal", 1);
	config()->agent_path = live.agent_path;
	struct session *next = open_session("uid:1", false);
	run(next, "echo fine");
	assert_int_equal(live.err.code, ERR_NONE);

	config()->agent_path = "/nonexistent/scb-agent";
	set_limit("sessions_principal", 5);
	struct session *none = NULL;
	if (try_open("uid:1", false, &none, &live.err) == 0) {
		run(none, "true");
		assert_int_equal(live.err.code, ERR_PROVIDER_UNUSABLE);
	} else {
		assert_int_equal(live.err.code, ERR_PROVIDER_UNUSABLE);
	}
}

/* What cannot be written down does not happen. */
static void nothing_unaudited_nothing_unrecorded(void **state)
{
	(void)state;
	struct session *s = NULL;
	struct rlimit old, none;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	int r = try_open("uid:1", false, &s, &live.err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_true(r < 0);
	assert_int_equal(live.err.code, ERR_AUDIT_UNAVAILABLE);
	assert_int_equal(files_in(got.runtime_dir), 0);
	assert_true(list_empty(&got.all->sessions));

	assert_int_equal(rmdir(got.state_dir), 0);
	r = try_open("uid:1", false, &s, &live.err);
	assert_true(r < 0);
	assert_int_equal(live.err.code, ERR_IO);
	assert_int_equal(count_sessions(NULL), 0);
	turn_for(500 * USEC_PER_MSEC);
	assert_true(list_empty(&got.all->sessions));
	assert_int_equal(mkdir(got.state_dir, 0700), 0);
}

static void lease_is_renewed(void **state)
{
	(void)state;
	struct session *s = open_session("uid:1", false);
	struct link_stats before, after;
	run(s, "true");
	link_stats(s->link, &before);
	s->renewed_us -= SESSION_RENEW_US;
	session_hold(s);
	session_release(s);
	s->all->timer.timer_cb(&s->all->timer); /* it would be due later */
	turn_for(200 * USEC_PER_MSEC);
	link_stats(s->link, &after);
	assert_int_equal(after.frames_out, before.frames_out + 1);
	assert_int_equal(after.frames_in, before.frames_in + 1);
	run(s, "true");
	assert_int_equal(live.err.code, ERR_NONE);
}

static void everything_ends_together(void **state)
{
	(void)state;
	struct session *held = NULL;
	for (int i = 0; i < 3; i++)
		held = open_session("uid:1", i == 0);
	session_hold(held);
	run(held, "true");
	begin(held, "sleep 60", LIVE_PATIENCE_US);
	sessions_close(got.all, on_ended, NULL);
	struct session *none = NULL;
	assert_true(try_open("uid:1", false, &none, &live.err) < 0);
	live_until(&got.ended);
	assert_true(live.answered);
	assert_string_equal(exec_reason_name(live.status.reason), "sandbox_lost");
	assert_int_equal(files_in(got.runtime_dir), 0);
	session_release(held); /* it outlived them all */
	got.all = sessions_new(&got.config);
}

/* Its timer is due while the sandboxes are being taken down. */
static void nothing_is_kept_ready_at_the_end(void **state)
{
	(void)state;
	set_limit("pool", 1);
	run(open_session("uid:1", false), "true");
	clock_wait_us(1 * USEC_PER_SEC);
	sessions_close(got.all, on_ended, NULL);
	live_until(&got.ended);
	assert_int_equal(files_in(got.runtime_dir), 0);
	got.all = sessions_new(&got.config);
}

static void on_one_closed(void *user, const char *leftovers)
{
	assert_null(leftovers);
	++*(unsigned *)user;
}

/* As `scb sessions close --all` does it. */
static int close_one(void *user, struct session *s)
{
	session_close(s, "all are closed", on_one_closed, user);
	return 0;
}

static void many_are_closed_at_once(void **state)
{
	(void)state;
	enum { N = 30 };
	unsigned closed = 0;
	set_limit("sessions_principal", N);
	for (int i = 0; i < N; i++)
		(void)open_session("uid:1", i % 2);
	assert_int_equal(sessions_each(got.all, NULL, close_one, &closed), 0);
	assert_int_equal(count_sessions(NULL), 0);
	for (uint64_t end = clock_monotonic_us() + 60 * USEC_PER_SEC;
		closed < N && clock_monotonic_us() < end;)
		turn();
	assert_int_equal(closed, N);
	assert_int_equal(audited("\"session.close\"", "all are closed", ""), N);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(int argc, char **argv)
{
	int r;
	const struct CMUnitTest tests[] = {
		TEST(one_life),
		TEST(handles_are_told_nothing),
		TEST(caps),
		TEST(idle_and_absolute_ends),
		TEST(closing_ends_what_runs),
		TEST(sandbox_that_dies),
		TEST(sandbox_that_never_comes_up),
		TEST(nothing_unaudited_nothing_unrecorded),
		TEST(lease_is_renewed),
		TEST(everything_ends_together),
		TEST(nothing_is_kept_ready_at_the_end),
		TEST(many_are_closed_at_once),
	};
	if (live_begin(argc, argv, &r) < 0)
		return r;
	(void)signal(SIGXFSZ, SIG_IGN);
	return cmocka_run_group_tests_name(argv[1], tests, NULL, NULL);
}
