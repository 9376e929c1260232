/* survival.c: what every provider promises of sandboxes that outlive their broker (SPEC.md,
 * "connect"), tried on real ones.
 *
 *   survival PROVIDER root|user
 *
 * The broker that dies is a child of this process. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "contract/box.h"
#include "contract/tap.h"
#include "contract/traces.h"
#include "provider/process.h"
#include "provider/record.h"

static struct box_host host;

/* Long enough for every test, and an end for what one forgets. */
#define ORPHAN_MS 120000

/* Its engine knows how it ended, and takes its time. */
static bool is_docker(void)
{
	return strcmp(host.provider->name, "docker") == 0;
}

/* ---- calls ---- */

struct answer {
	bool done;
	char text[1024]; /* output, or the error */
	enum wire_job_state state;
	bool restarted;
	uint64_t offset, total;
};

static void take_bytes(struct answer *a, const struct buf *b)
{
	size_t at = strlen(a->text), n = MIN(b->len, sizeof(a->text) - 1 - at);
	if (n)
		memcpy(a->text + at, b->data, n);
	a->text[at + n] = '\0';
}

static void on_status(void *user, struct exec_status *s, const struct err *err)
{
	struct answer *a = user;
	a->done = true;
	if (err) {
		(void)snprintf(a->text, sizeof(a->text), "error: %s", err->text);
		return;
	}
	a->state = s->state;
	a->restarted = s->kernel_restarted;
	take_bytes(a, &s->out.head);
	take_bytes(a, &s->out.tail);
}

static void on_read(void *user, struct exec_read *r, const struct err *err)
{
	struct answer *a = user;
	a->done = true;
	if (err) {
		(void)snprintf(a->text, sizeof(a->text), "error: %s", err->text);
		return;
	}
	a->offset = r->offset;
	a->total = r->total;
	take_bytes(a, &r->bytes);
}

static bool answered(struct box *b, struct answer *a)
{
	return box_until(b->loop, &a->done, box_patience(15 * USEC_PER_SEC));
}

static bool cell(struct box *b, const char *code, struct answer *ret)
{
	char job[ID_TEXT_SIZE];
	*ret = (struct answer){0};
	id_new('j', job);
	const struct exec_request q = {.kind = JOB_KIND_CELL,
		.job = job,
		.language = "python",
		.code = code,
		.wait_us = box_patience(10 * USEC_PER_SEC)};
	(void)exec_run(b->exec, &q, on_status, ret);
	return answered(b, ret);
}

static bool command(struct box *b, const char *job, const char *text, uint64_t wait_us)
{
	struct answer a = {0};
	const struct exec_request q = {
		.kind = JOB_KIND_COMMAND, .job = job, .shell_text = text, .wait_us = wait_us};
	(void)exec_run(b->exec, &q, on_status, &a);
	return answered(b, &a);
}

/* ---- another broker ---- */

struct told {
	char id[ID_TEXT_SIZE], job[ID_TEXT_SIZE];
	uint8_t key[AUTH_KEY];
	bool up;
};

/* A child with one sandbox in which work goes on; what is needed to find it. */
static pid_t other_broker(struct told *ret)
{
	int fds[2];
	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct box b;
		struct answer a;
		struct told t = {0};
		uv_loop_t loop;
		CHECK(uv_loop_init(&loop) == 0);
		box_init(&b, &host);
		b.loop = &loop;
		b.spec.orphan_ms = ORPHAN_MS;
		b.spec.lease_ms = ORPHAN_MS;
		id_new('j', t.job);
		t.up = box_open(&b, host.provider) && cell(&b, "x = 41", &a) &&
		       command(&b, t.job,
			       "echo kept > file; setsid sleep 1000 & echo one; sleep 1; echo two",
			       USEC_PER_SEC / 5);
		memcpy(t.id, b.id, sizeof(t.id));
		memcpy(t.key, b.key, sizeof(t.key));
		(void)!write(fds[1], &t, sizeof(t));
		for (;;)
			(void)pause();
	}
	(void)close(fds[1]);
	*ret = (struct told){0};
	if (fd_read_full(fds[0], ret, sizeof(*ret)) < 0)
		*ret = (struct told){0};
	(void)close(fds[0]);
	box_note(ret->id);
	return pid;
}

static void kill_broker(pid_t pid)
{
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
}

static void init_told(struct box *b, const struct told *t)
{
	box_init(b, &host);
	memcpy(b->id, t->id, sizeof(b->id));
	memcpy(b->key, t->key, sizeof(b->key));
}

/* ---- tests ---- */

static void test_killed(void)
{
	struct traces before = traces(&host);
	struct told t;
	struct box b;
	struct answer a;
	pid_t pid = other_broker(&t);
	tap_ok(t.up, "another broker has a sandbox");
	kill_broker(pid);
	(void)provider_sweep(host.runtime);
	init_told(&b, &t);
	if (!tap_ok(box_connect(&b, &host), "it is found after that one was killed with -9"))
		tap_note("%s", b.why.text);
	tap_note("connect to hello: %.1f ms", (double)b.hello_us / 1000);
	if (b.ready) {
		tap_ok(cell(&b, "print(x + 1)", &a) && strcmp(a.text, "42\n") == 0 && !a.restarted,
			"its kernel has its state");
		tap_note("%s", a.text);
		a = (struct answer){0};
		(void)exec_wait(b.exec, t.job, box_patience(5 * USEC_PER_SEC), on_status, &a);
		tap_ok(answered(&b, &a) && a.state == JOB_DONE && strcmp(a.text, "one\ntwo\n") == 0,
			"its job went on to the end");
		a = (struct answer){0};
		(void)exec_read(b.exec, t.job, CHANNEL_STDOUT, 4, 100, on_read, &a);
		tap_ok(answered(&b, &a) && a.offset == 4 && a.total == 8 &&
				strcmp(a.text, "two\n") == 0,
			"with its output at the offsets that it had");
		struct box_result r;
		tap_ok(box_run(&b, "cat file; pgrep -c sleep", 5 * USEC_PER_SEC, &r) &&
				str_starts(r.out, "kept\n"),
			"its files are there");
		tap_ok(b.caps.isolation_level && strcmp(b.caps.isolation_level, "unknown") != 0 &&
				strcmp(b.caps.host_uid, geteuid() == 0 ? "dedicated" : "own") == 0,
			"and what holds it is known");
	}
	const char *left = box_close(&b);
	struct traces after = traces(&host);
	tap_ok(!left && traces_same(&before, &after), "destroyed, it leaves nothing");
	if (left)
		tap_note("%s", left);
}

static void test_stopped(void)
{
	struct traces before = traces(&host);
	struct told t;
	struct box b;
	struct answer a = {0};
	pid_t pid = other_broker(&t);
	CHECK(kill(pid, SIGSTOP) == 0);
	init_told(&b, &t);
	tap_ok(box_connect(&b, &host) && cell(&b, "print(x)", &a) && strcmp(a.text, "41\n") == 0,
		"a broker that hangs is replaced");
	tap_note("%s", b.ready ? a.text : b.why.text);
	const char *left = box_close(&b);
	tap_ok(left == NULL, "what it had is destroyed");
	kill_broker(pid);
	(void)provider_sweep(host.runtime);
	struct traces after = traces(&host);
	tap_ok(traces_same(&before, &after), "and leaves nothing");
}

static void test_twice(void)
{
	struct traces before = traces(&host);
	struct told t;
	struct box first, second;
	kill_broker(other_broker(&t));
	init_told(&first, &t);
	init_told(&second, &t);
	bool up = box_connect(&first, &host) && box_connect(&second, &host);
	tap_ok(up && box_until(first.loop, &first.lost, box_patience(15 * USEC_PER_SEC)) &&
			box_answers(&second),
		"connected to twice: the newcomer has the link");
	tap_ok(box_close(&first) == NULL, "destroyed by the first");
	tap_ok(box_until(second.loop, &second.exited, box_patience(15 * USEC_PER_SEC)) &&
			second.why.code == ERR_SANDBOX_LOST,
		"the second is told: %s", second.why.text);
	tap_ok(box_close(&second) == NULL, "and destroys what is gone");
	struct traces after = traces(&host);
	tap_ok(traces_same(&before, &after), "nothing is left");
}

static void test_ended(void)
{
	struct traces before = traces(&host);
	struct told t;
	struct box b;
	struct link_stream *stream;
	static const struct link_stream_events nobody = {0};
	kill_broker(other_broker(&t));
	init_told(&b, &t);
	bool up = box_connect(&b, &host) &&
		  link_open(b.link, OP_SHUTDOWN, NULL, &nobody, NULL, &stream) == 0;
	tap_ok(up && box_until(b.loop, &b.exited, box_patience(5 * USEC_PER_SEC)) &&
			strstr(b.why.text, is_docker() ? "status 0" : "why is not known"),
		"one that ends is told of, as far as it is known");
	tap_note("%s", b.why.text);
	tap_ok(box_close(&b) == NULL, "destroyed");
	struct box again;
	init_told(&again, &t);
	tap_ok(!box_connect(&again, &host) && again.why.code == ERR_SANDBOX_LOST,
		"and is not found any more: %s", again.why.text);
	struct traces after = traces(&host);
	tap_ok(traces_same(&before, &after), "nothing is left");
}

static void kill_container(const char *name)
{
	pid_t pid = fork();
	if (pid == 0) {
		(void)!freopen("/dev/null", "w", stdout);
		(void)execlp("docker", "docker", "kill", name, (char *)NULL);
		_exit(127);
	}
	CHECK(waitpid(pid, NULL, 0) == pid);
}

/* Kills every process that the record names. */
static void kill_recorded(const char *id)
{
	struct record r;
	struct record_facts f;
	struct err err;
	if (record_open(host.runtime, id, &r, &f, &err) < 0)
		return;
	if (f.container)
		kill_container(f.container);
	const pid_t pids[] = {f.init.pid, f.first.pid};
	for (size_t i = 0; i < 2; i++) {
		struct process p;
		if (pids[i])
			(void)kill(pids[i], SIGKILL);
		while (pids[i] && process_read(pids[i], &p) && !p.dead)
			(void)usleep(1000);
	}
	free(TAKE_PTR(r.path));
	record_remove(&r);
	record_facts_done(&f);
}

static void test_ended_meanwhile(void)
{
	struct traces before = traces(&host);
	struct told t;
	struct box b;
	kill_broker(other_broker(&t));
	kill_recorded(t.id);
	init_told(&b, &t);
	/* What code left behind (local) may hold nothing, and is killed with the group or uid. */
	tap_ok(!box_connect(&b, &host) && b.why.code == ERR_SANDBOX_LOST,
		"one that ended meanwhile is gone: %s", b.why.text);
	(void)box_close(&b);
	struct traces after = traces(&host);
	tap_ok(traces_same(&before, &after), "nothing is left");
}

static void test_only_its_agent_lives(void)
{
	struct traces before = traces(&host);
	struct told t;
	struct box b;
	struct answer a = {0};
	struct record r;
	struct record_facts f = {0};
	struct err err;
	if (strcmp(host.provider->name, "bubblewrap") != 0) {
		tap_skip("its agent alone", "the first process is the agent");
		return;
	}
	kill_broker(other_broker(&t));
	CHECK(record_open(host.runtime, t.id, &r, &f, &err) == 0);
	CHECK(kill(f.first.pid, SIGKILL) == 0);
	for (struct process p; process_read(f.first.pid, &p) && !p.dead;)
		(void)usleep(1000);
	free(TAKE_PTR(r.path));
	record_remove(&r);
	record_facts_done(&f);
	init_told(&b, &t);
	tap_ok(box_connect(&b, &host) && cell(&b, "print(x)", &a) && strcmp(a.text, "41\n") == 0,
		"bubblewrap was killed, its child was not: found");
	tap_note("%s", b.ready ? a.text : b.why.text);
	tap_ok(box_close(&b) == NULL, "destroyed");
	struct traces after = traces(&host);
	tap_ok(traces_same(&before, &after), "nothing is left");
}

static void test_unreachable(void)
{
	struct traces before = traces(&host), after;
	struct told t;
	struct box b;
	kill_broker(other_broker(&t));
	_cleanup_free_ char *socket = xasprintf("%s/%s.sock", host.runtime, t.id);
	CHECK(unlink(socket) == 0);
	init_told(&b, &t);
	tap_ok(!box_connect(&b, &host) && b.why.code == ERR_SANDBOX_LOST,
		"one without its socket is given up: %s", b.why.text);
	(void)box_close(&b);
	uint64_t end = clock_monotonic_us() + box_patience(10 * USEC_PER_SEC);
	do {
		bool never = false;
		(void)box_until(&host.loop, &never, 20 * USEC_PER_MSEC);
		after = traces(&host);
	} while (memcmp(&before, &after, sizeof(after)) != 0 && clock_monotonic_us() < end);
	tap_ok(traces_same(&before, &after), "and ended: nothing is left");
}

static void test_other_boot(void)
{
	struct traces before = traces(&host);
	struct box b;
	box_init(&b, &host);
	_cleanup_free_ char *ref = xasprintf("%s 01234567-89ab-cdef-0123-456789abcdef %s %s",
		host.provider->name, b.id, host.runtime);
	static const struct sandbox_events nobody = {0};
	int r = host.provider->connect(b.loop, ref, &nobody, NULL, &b.sandbox, &b.why);
	tap_ok(r < 0 && b.why.code == ERR_SANDBOX_LOST, "another boot's: %s", b.why.text);
	static const char *const nonsense[] = {"", "x", "bubblewrap a b c", "local b x-1 /tmp",
		"bubblewrap 1 x-00000000000000000000000000000000"};
	bool refused = true;
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++)
		refused &= host.provider->connect(
				   b.loop, nonsense[i], &nobody, NULL, &b.sandbox, &b.why) < 0;
	tap_ok(refused, "nonsense is refused");
	struct traces after = traces(&host);
	tap_ok(traces_same(&before, &after), "nothing is left");
}

static void test_left(void)
{
	struct traces before = traces(&host);
	struct box b, again;
	box_init(&b, &host);
	b.spec.orphan_ms = b.spec.lease_ms = ORPHAN_MS;
	bool up = box_open(&b, host.provider);
	exec_free(b.exec);
	link_close(b.link);
	host.provider->leave(TAKE_PTR(b.sandbox));
	bool never = false;
	(void)box_until(b.loop, &never, 50 * USEC_PER_MSEC);
	box_init(&again, &host);
	memcpy(again.id, b.id, sizeof(again.id));
	memcpy(again.key, b.key, sizeof(again.key));
	tap_ok(up && box_connect(&again, &host) && box_answers(&again),
		"one that was left is found");
	tap_ok(box_close(&again) == NULL, "destroyed");
	struct traces after = traces(&host);
	tap_ok(traces_same(&before, &after), "nothing is left");
}

/* At any moment of a sandbox's beginning: it is found and destroyed, or was never made. */
static void test_killed_early(void)
{
	const unsigned times = is_docker() ? 12 : 40, longest_us = is_docker() ? 2400000 : 40000;
	struct traces before = traces(&host), after;
	unsigned found = 0;
	for (unsigned i = 0; i < times; i++) {
		struct box b;
		struct err err;
		uv_loop_t loop;
		box_init(&b, &host);
		b.spec.orphan_ms = b.spec.lease_ms = ORPHAN_MS;
		pid_t pid = fork();
		if (pid == 0) {
			CHECK(uv_loop_init(&loop) == 0);
			b.loop = &loop;
			bool never = false;
			(void)box_create(&b, host.provider, &err);
			(void)box_until(&loop, &never, 10 * USEC_PER_SEC);
			_exit(0);
		}
		(void)usleep(longest_us / times * i);
		kill_broker(pid);
		found += box_connect(&b, &host);
		const char *left = box_close(&b);
		if (left)
			tap_note("%u: %s", i, left);
	}
	/* Groups that no record names yet are swept ten seconds later; a container that an engine
	 * does not have yet is waited for for twenty. */
	uint64_t end = clock_monotonic_us() + box_patience((is_docker() ? 40 : 15) * USEC_PER_SEC);
	do {
		bool never = false;
		(void)box_until(&host.loop, &never, (is_docker() ? 2000 : 20) * USEC_PER_MSEC);
		(void)provider_sweep(host.runtime);
		after = traces(&host);
	} while (memcmp(&before, &after, sizeof(after)) != 0 && clock_monotonic_us() < end);
	tap_note("%u of %u were found", found, times);
	tap_ok(traces_same(&before, &after),
		"brokers killed while they make a sandbox: nothing lives on");
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		(void)fprintf(stderr, "usage: survival PROVIDER root|user\n");
		return 2;
	}
	bool want_root = strcmp(argv[2], "root") == 0;
	if (!want_root) {
		int status = tap_as_user(argc, argv);
		if (status >= 0)
			return status;
	} else if (geteuid() != 0) {
		(void)printf("1..0 # SKIP needs root\n");
		return 0;
	}
	CHECK(box_host_init(&host, argv[1]) == 0);
	traces_own_uids();
	test_killed();
	test_stopped();
	test_twice();
	test_ended();
	test_ended_meanwhile();
	test_only_its_agent_lives();
	test_unreachable();
	test_other_boot();
	test_left();
	test_killed_early();
	tap_ok(box_host_done(&host), "the runtime directory is empty at the end");
	return tap_done();
}
