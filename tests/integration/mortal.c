/* mortal.c: see mortal.h. Between the two processes: a stream socket, and frames of a fixed head.
 */
#include "mortal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "files/outputs.h"
#include "mcp/server.h"
#include "policy/policy.h"
#include "session/session.h"
#include "store/store.h"

struct mortal mortal;

enum kind { MESSAGE, ANSWER, NOTE, DONE, LOST_ANSWER, LOST_DONE, SESSION };

struct head {
	uint64_t number;
	uint32_t n;
	uint8_t kind, replayed, fate;
};

/* ---- the broker's side ---- */

static struct {
	uv_loop_t loop;
	uv_poll_t in;
	uv_timer_t beat;
	int fd;
	struct policy *policy;
	struct audit *audit;
	struct store *store;
	struct outputs *outputs;
	struct sessions *sessions;
	struct mcp_server *server;
	struct mcp_conn *conn;
	enum mortal_fate fate;
} b;

static void put(enum kind kind, uint64_t number, const char *p, size_t n)
{
	const struct head h = {.number = number, .n = (uint32_t)n, .kind = (uint8_t)kind};
	if (fd_write_full(b.fd, &h, sizeof(h)) < 0 || fd_write_full(b.fd, p, n) < 0)
		_exit(3);
}

/* Only the end of a message that somebody asked has a fate, and it has it once. */
static void end(enum kind told, enum kind lost, uint64_t number, const char *p, size_t n)
{
	enum mortal_fate fate = b.fate;
	put(fate == MORTAL_TELLS ? told : lost, number, p, n);
	if (fate == MORTAL_DIES)
		(void)raise(SIGKILL);
	b.fate = MORTAL_TELLS;
}

static void on_send(struct mcp_transport *t, uint64_t number, const char *message, size_t n)
{
	(void)t;
	if (number)
		end(ANSWER, LOST_ANSWER, number, message, n);
	else
		put(NOTE, 0, message, n);
}

static void on_done(struct mcp_transport *t, uint64_t number)
{
	(void)t;
	end(DONE, LOST_DONE, number, "", 0);
}

static void on_session(struct mcp_transport *t, const char *handle)
{
	(void)t;
	put(SESSION, 0, handle, strlen(handle));
}

static bool on_congested(const struct mcp_transport *t)
{
	(void)t;
	return false;
}

static struct mcp_transport transport = {
	.send = on_send, .congested = on_congested, .done = on_done, .session = on_session};

static bool get(int fd, void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = read(fd, (char *)p + done, n - done);
		if (r == 0 || (r < 0 && errno != EINTR))
			return false;
		done += (size_t)MAX(r, 0);
	}
	return true;
}

static void on_beat_closed(uv_handle_t *h)
{
	(void)h;
}

static void on_sessions_closed(void *user)
{
	(void)user;
	mcp_server_close(b.server);
	uv_close((uv_handle_t *)&b.beat, on_beat_closed);
}

/* The other side has closed: the orderly end. */
static void end_broker(void)
{
	uv_close((uv_handle_t *)&b.in, NULL);
	mcp_conn_close(b.conn);
	sessions_close(b.sessions, on_sessions_closed, NULL);
}

static uint8_t front[DELIVERY_FRONT]; /* of all brokers of this program */

static void on_readable(uv_poll_t *p, int status, int events)
{
	struct head h;
	(void)p;
	(void)status;
	(void)events;
	if (!get(b.fd, &h, sizeof(h))) {
		end_broker();
		return;
	}
	char *text = xmalloc(h.n + 1);
	if (!get(b.fd, text, h.n))
		_exit(3);
	b.fate = (enum mortal_fate)h.fate;
	struct mcp_message m = {.p = text, .n = h.n, .number = h.number};
	delivery_make(front, h.number, h.replayed, &m.delivery);
	mcp_conn_message(b.conn, &m);
	free(text);
}

static void on_beat(uv_timer_t *t)
{
	(void)t;
}

static void open_parts(void)
{
	struct err err = {0};
	static char state[64], runtime[64]; /* borrowed */
	char key[64];
	(void)snprintf(state, sizeof(state), "%s/store", mortal.dir);
	(void)snprintf(runtime, sizeof(runtime), "%s/run", mortal.dir);
	(void)snprintf(key, sizeof(key), "%s/audit.key", mortal.dir);
	b.policy = policy_new_default();
	if (audit_open(mortal.audit_path, key, NULL, &b.audit, &err) < 0 ||
		store_file_open(state, &b.store, &err) < 0 ||
		outputs_open(mortal.outputs_dir, &b.outputs, &err) < 0) {
		(void)fprintf(stderr, "# %s\n", err.text);
		_exit(2);
	}
	const struct sessions_config sessions = {
		.loop = &b.loop,
		.policy = b.policy,
		.audit = b.audit,
		.store = b.store,
		.runtime_dir = runtime,
		.agent_path = mortal.agent_path,
		.kernels_dir = mortal.kernels_dir,
		.outlive = true,
	};
	b.sessions = sessions_new(&sessions);
	sessions_restore(b.sessions, NULL, NULL);
	b.server = mcp_server_new(&(struct mcp_config){
		.loop = &b.loop,
		.policy = b.policy,
		.audit = b.audit,
		.store = b.store,
		.sessions = b.sessions,
		.outputs = b.outputs,
	});
	const struct session_profile profile = {.provider = mortal.provider};
	b.conn = mcp_conn_new(b.server, &transport,
		&(struct mcp_conn_config){.principal = "uid:1",
			.host = "test",
			.profile = &profile,
			.default_session = mortal.session});
}

static _Noreturn void be_broker(int fd)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* cmocka's handlers are the test's */
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		(void)signal(faults[i], SIG_DFL);
	(void)signal(SIGPIPE, SIG_IGN);
	b.fd = fd;
	CHECK(uv_loop_init(&b.loop) == 0);
	CHECK(uv_timer_init(&b.loop, &b.beat) == 0);
	CHECK(uv_timer_start(&b.beat, on_beat, 20, 20) == 0);
	open_parts();
	CHECK(uv_poll_init(&b.loop, &b.in, fd) == 0);
	/* the frames are small, and their writer does not stop in the middle */
	CHECK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0);
	CHECK(uv_poll_start(&b.in, UV_READABLE, on_readable) == 0);
	(void)uv_run(&b.loop, UV_RUN_DEFAULT);
	outputs_close(b.outputs);
	b.store->ops->close(b.store);
	audit_close(b.audit);
	policy_free(b.policy);
	_exit(0);
}

/* ---- the test's side ---- */

void mortal_start(void)
{
	int ends[2];
	assert_int_equal(mortal.pid, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	(void)fflush(NULL);
	mortal.pid = fork();
	assert_true(mortal.pid >= 0);
	if (mortal.pid == 0) {
		(void)close(ends[0]);
		be_broker(ends[1]);
	}
	(void)close(ends[1]);
	mortal.fd = ends[0];
}

static int wait_for_end(void)
{
	int status = 0;
	assert_int_equal(waitpid(mortal.pid, &status, 0), mortal.pid);
	mortal.pid = 0;
	fd_closep(&mortal.fd);
	return status;
}

void mortal_stop(void)
{
	assert_int_equal(shutdown(mortal.fd, SHUT_WR), 0);
	assert_int_equal(wait_for_end(), 0);
}

void mortal_kill(void)
{
	(void)kill(mortal.pid, SIGKILL);
	int status = wait_for_end();
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

void mortal_send(uint64_t number, bool replayed, enum mortal_fate fate, const json_t *message)
{
	char *text = json_dumps(message, JSON_COMPACT);
	assert_non_null(text);
	const struct head h = {.number = number,
		.n = (uint32_t)strlen(text),
		.kind = MESSAGE,
		.replayed = replayed,
		.fate = (uint8_t)fate};
	assert_int_equal(fd_write_full(mortal.fd, &h, sizeof(h)), 0);
	assert_int_equal(fd_write_full(mortal.fd, text, h.n), 0);
	free(text);
}

/* The next frame within so long; false: none. */
static bool next(int ms, struct head *h, char **ret)
{
	struct pollfd p = {.fd = mortal.fd, .events = POLLIN};
	int r = poll(&p, 1, ms);
	if (r == 0)
		return false;
	if (r < 0 || !get(mortal.fd, h, sizeof(*h)))
		fail_msg("the broker has ended: %s", strerror(errno));
	*ret = xcalloc(1, h->n + 1);
	if (!get(mortal.fd, *ret, h->n))
		fail_msg("the broker has ended in the middle of a frame");
	if (h->kind == SESSION)
		(void)snprintf(mortal.session, sizeof(mortal.session), "%s", *ret);
	return true;
}

json_t *mortal_end(uint64_t number, bool *ret_lost)
{
	struct head h;
	char *text;
	for (;;) {
		if (!next(MORTAL_PATIENCE_MS, &h, &text))
			fail_msg("message %llu has no end", (unsigned long long)number);
		_cleanup_free_ char *owned = text;
		if (h.kind == SESSION || h.kind == NOTE)
			continue;
		if (h.number != number)
			fail_msg("an end of message %llu, while that of %llu is waited for: %.300s",
				(unsigned long long)h.number, (unsigned long long)number, text);
		*ret_lost = h.kind == LOST_ANSWER || h.kind == LOST_DONE;
		if (h.kind == DONE || h.kind == LOST_DONE)
			return NULL;
		json_t *answer = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
		assert_non_null(answer);
		return answer;
	}
}

void mortal_nothing(int ms)
{
	struct head h;
	char *text = NULL;
	while (next(ms, &h, &text)) {
		_cleanup_free_ char *owned = text;
		if (h.kind != SESSION && h.kind != NOTE)
			fail_msg("message %llu has an end too much: %.300s",
				(unsigned long long)h.number, text);
	}
}

static char *path(char *ret, size_t size, const char *name)
{
	(void)snprintf(ret, size, "%s/%s", mortal.dir, name);
	return ret;
}

int mortal_set_up(void **state)
{
	char runtime[64];
	(void)state;
	(void)snprintf(mortal.dir, sizeof(mortal.dir), "/tmp/scb-test-XXXXXX");
	assert_non_null(mkdtemp(mortal.dir));
	/* A root broker's sandboxes have other uids, and pass through the directory above. */
	assert_int_equal(chmod(mortal.dir, 0711), 0);
	assert_int_equal(mkdir(path(runtime, sizeof(runtime), "run"), 0700), 0);
	(void)path(mortal.audit_path, sizeof(mortal.audit_path), "audit.jsonl");
	(void)path(mortal.outputs_dir, sizeof(mortal.outputs_dir), "outputs");
	mortal.session[0] = '\0';
	mortal.number = 0;
	mortal_start();
	return 0;
}

int mortal_tear_down(void **state)
{
	char runtime[64];
	(void)state;
	if (mortal.pid)
		mortal_stop();
	/* Whatever a sandbox had there is gone. The template may still be dying; what is left of it
	 * is taken away as the next start of scb does it. */
	(void)path(runtime, sizeof(runtime), "run");
	for (int i = 0; rmdir(runtime) < 0; i++) {
		if (i == MORTAL_PATIENCE_MS / 100)
			fail_msg("something stays in %s", runtime);
		(void)provider_sweep(runtime);
		(void)usleep(100 * 1000);
	}
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)execl("/bin/rm", "rm", "-rf", mortal.dir, (char *)NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return 0;
}

int mortal_begin(int argc, char **argv, int *ret)
{
	id_random(front, sizeof(front));
	struct provider_probe probe = {0};
	struct err err;
	*ret = 2;
	if (argc != 4 || !realpath(argv[2], mortal.agent_path) ||
		!realpath(argv[3], mortal.kernels_dir)) {
		(void)fprintf(stderr, "usage: %s PROVIDER AGENT KERNELS-DIR\n", argv[0]);
		return -1;
	}
	(void)setenv("SCB_AGENT", mortal.agent_path, 1); /* for the probe */
	(void)setenv("SCB_KERNELS", mortal.kernels_dir, 1);
	mortal.provider = provider_by_name(argv[1]);
	if (!mortal.provider) {
		(void)printf("Bail out! no provider %s\n", argv[1]);
		return -1;
	}
	*ret = 0;
	if (mortal.provider->probe(&probe, &err) == 0 && probe.usable)
		return 0;
	(void)printf("1..0 # SKIP %s: %s\n", argv[1], probe.reason);
	return -1;
}
