/* serve.c: `scb serve`: an MCP server on stdin and stdout, everything in one process. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "audit/audit.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/paths.h"
#include "files/outputs.h"
#include "mcp/server.h"
#include "mcp/stdio.h"
#include "session/session.h"
#include "store/store.h"

/* Sandboxes get so long to go away before the process ends without them. */
#define EXIT_MAX_MS 5000

struct serve {
	/* options */
	struct policy *policy;
	struct sandbox_mount mounts[LIMIT_MOUNTS];
	size_t n_mounts;
	struct session_profile profile;
	const char *state_given, *outputs_given, *provider_given;
	/* places */
	char *state, *outputs_dir, *runtime, *agent, *kernels;
	int runtime_lock;
	/* parts */
	uv_loop_t loop;
	struct audit *audit;
	struct store *store;
	struct outputs *outputs;
	struct sessions *sessions;
	struct err no_sessions, no_outputs;
	struct mcp_server *server;
	struct mcp_conn *conn;
	struct stdio *stdio;
	uv_signal_t signals[3];
	uv_timer_t shutdown, deadline;
	bool ending;
};

/* ---- options ---- */

static int set_mount(void *user, const char *value, struct err *err)
{
	struct serve *s = user;
	int r = options_mount(
		value, s->mounts, s->n_mounts, &s->mounts[MIN(s->n_mounts, LIMIT_MOUNTS - 1)], err);
	if (r == 0)
		s->n_mounts++;
	return r;
}

static int set_limit(void *user, const char *value, struct err *err)
{
	struct serve *s = user;
	return policy_set_limit(s->policy, value, err);
}

static int set_state(void *user, const char *value, struct err *err)
{
	struct serve *s = user;
	(void)err;
	s->state_given = value;
	return 0;
}

static int set_outputs(void *user, const char *value, struct err *err)
{
	struct serve *s = user;
	(void)err;
	s->outputs_given = value;
	return 0;
}

static int set_provider(void *user, const char *value, struct err *err)
{
	struct serve *s = user;
	if (strcmp(value, "auto") != 0 && !provider_by_name(value))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"option --provider takes auto, bubblewrap or local, not \"%.40s\"", value);
	s->provider_given = value;
	return 0;
}

static int set_log_level(void *user, const char *value, struct err *err)
{
	(void)user;
	enum log_level level;
	if (log_level_from_text(value, &level) < 0)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"option --log-level takes error, warning, info or debug, not \"%.40s\"",
			value);
	log_set_level(level);
	return 0;
}

static int set_solo(void *user, const char *value, struct err *err)
{
	(void)user;
	(void)value;
	(void)err;
	return 0; /* the only mode so far */
}

static const struct option_def options[] = {
	{"--mount", "NAME=DIR", set_mount},
	{"--limit", "NAME=VALUE", set_limit},
	{"--provider", "NAME", set_provider},
	{"--state", "DIR", set_state},
	{"--outputs", "DIR", set_outputs},
	{"--log-level", "LEVEL", set_log_level},
	{"--solo", NULL, set_solo},
	{0},
};

/* ---- the end ---- */

static void on_deadline(uv_timer_t *t)
{
	struct serve *s = t->data;
	log_error("sandboxes did not go away within %d s; the next start of scb removes them",
		EXIT_MAX_MS / 1000);
	(void)s;
	_exit(1);
}

static void on_sessions_closed(void *user)
{
	struct serve *s = user;
	s->sessions = NULL;
	mcp_server_close(s->server);
	s->server = NULL;
	stdio_close(s->stdio);
	s->stdio = NULL;
	uv_close((uv_handle_t *)&s->deadline, NULL);
}

/* From the loop, not from inside whatever noticed the end. */
static void on_shutdown(uv_timer_t *t)
{
	struct serve *s = t->data;
	uv_close((uv_handle_t *)&s->shutdown, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(s->signals); i++)
		uv_close((uv_handle_t *)&s->signals[i], NULL);
	(void)uv_timer_start(&s->deadline, on_deadline, EXIT_MAX_MS, 0);

	stdio_stop(s->stdio);
	mcp_conn_close(s->conn);
	s->conn = NULL;
	if (s->sessions)
		sessions_close(s->sessions, on_sessions_closed, s);
	else
		on_sessions_closed(s);
}

static void begin_end(struct serve *s)
{
	if (s->ending)
		return;
	s->ending = true;
	(void)uv_timer_start(&s->shutdown, on_shutdown, 0, 0);
}

static void on_signal(uv_signal_t *h, int number)
{
	(void)number;
	begin_end(h->data);
}

static void on_line(void *user, const char *line, size_t n)
{
	struct serve *s = user;
	mcp_conn_message(s->conn, &(struct mcp_message){.p = line, .n = n});
}

static void on_closed(void *user)
{
	begin_end(user);
}

static const struct stdio_events stdio_events = {on_line, on_closed};

/* ---- the start ---- */

static void sweep_one(const char *dir)
{
	int n = provider_sweep(dir);
	if (n > 0)
		log_info("removed what %d sandboxes of an scb that is gone had left", n);
}

/* No sandbox can be made: the server starts all the same, and its tools say why. */
static void without_sessions(struct serve *s, const struct err *why)
{
	s->no_sessions = *why;
	log_warning("%s", why->text);
}

static int open_sessions(struct serve *s, struct err *err)
{
	const char *name = s->provider_given ? s->provider_given : getenv("BROKER_PROVIDER");
	const struct provider *provider = NULL;
	struct err why = {0};
	s->agent = provider_agent_path();
	s->kernels = provider_kernels_dir();
	if (provider_select(name, &provider, &why) < 0) {
		if (why.code == ERR_INVALID_ARGUMENT) {
			*err = why;
			return -EINVAL;
		}
		without_sessions(s, &why);
		return 0;
	}
	int r = store_memory_open(&s->store); /* a sandbox lives no longer than this process */
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "no store");
	const struct sessions_config config = {
		.loop = &s->loop,
		.policy = s->policy,
		.audit = s->audit,
		.store = s->store,
		.runtime_dir = s->runtime,
		.agent_path = s->agent,
		.kernels_dir = s->kernels,
	};
	s->profile = (struct session_profile){provider, s->mounts, s->n_mounts};
	s->sessions = sessions_new(&config);
	return 0;
}

static int open_parts(struct serve *s, struct err *err)
{
	int r = paths_state(s->state_given, &s->state, err);
	if (r == 0)
		r = paths_outputs(s->outputs_given, &s->outputs_dir, err);
	if (r == 0)
		r = paths_runtime(&s->runtime, &s->runtime_lock, err);
	if (r < 0)
		return r;
	paths_sweep(s->runtime, sweep_one);
	/* Ours is new and empty; what has no directory any more is found from anywhere. */
	sweep_one(s->runtime);

	_cleanup_free_ char *log = xasprintf("%s/audit.jsonl", s->state);
	r = audit_open(log, &s->audit, err);
	if (r == 0)
		r = audit_event(s->audit,
			&(struct audit_event){.event = "broker.start", .detail = SCB_VERSION}, err);
	if (r == 0)
		r = open_sessions(s, err);
	if (r < 0)
		return r;

	if (outputs_open(s->outputs_dir, &s->outputs, &s->no_outputs) < 0)
		log_warning("present_output will not work: %s", s->no_outputs.text);
	else
		(void)outputs_expire(s->outputs);
	return 0;
}

static void start(struct serve *s, int fd_out)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		(void)uv_signal_init(&s->loop, &s->signals[i]);
		s->signals[i].data = s;
		(void)uv_signal_start(&s->signals[i], on_signal, numbers[i]);
	}
	(void)uv_timer_init(&s->loop, &s->shutdown);
	(void)uv_timer_init(&s->loop, &s->deadline);
	s->shutdown.data = s->deadline.data = s;

	char principal[32];
	(void)snprintf(principal, sizeof(principal), "uid:%u", getuid());
	const struct mcp_config config = {
		.loop = &s->loop,
		.policy = s->policy,
		.audit = s->audit,
		.sessions = s->sessions,
		.no_sessions = &s->no_sessions,
		.outputs = s->outputs,
		.no_outputs = s->outputs ? NULL : &s->no_outputs,
	};
	s->server = mcp_server_new(&config);
	CHECK(stdio_new(&s->loop, STDIN_FILENO, fd_out, &stdio_events, s, &s->stdio) == 0);
	const struct mcp_conn_config conn = {.principal = principal, .profile = &s->profile};
	s->conn = mcp_conn_new(s->server, stdio_transport(s->stdio), &conn);
}

static void close_parts(struct serve *s)
{
	outputs_close(s->outputs);
	if (s->store)
		s->store->ops->close(s->store);
	audit_close(s->audit);
	if (s->runtime) {
		paths_runtime_remove(s->runtime);
		paths_sweep(s->runtime, sweep_one); /* what was still dying at the start */
	}
	fd_closep(&s->runtime_lock);
	policy_free(s->policy);
	for (size_t i = 0; i < s->n_mounts; i++) {
		free((char *)s->mounts[i].name);
		free((char *)s->mounts[i].source);
	}
	free(s->state);
	free(s->outputs_dir);
	free(s->runtime);
	free(s->agent);
	free(s->kernels);
}

/* What this process holds (link keys, later secrets) is nobody's to read, and what its parent left
 * open is not its own. */
static int harden(void)
{
	(void)umask(0077);
	cli_ignore_sigpipe();
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	return fd_close_from(STDERR_FILENO + 1);
}

int cli_serve(int argc, char **argv)
{
	struct serve s = {.runtime_lock = -1};
	struct err err = {0};
	if (options_want_help(argc, argv, options))
		return cli_help();
	int r = harden();
	int fd_out = r < 0 ? r : stdio_take_stdout();
	if (fd_out < 0) {
		(void)err_set(&err, ERR_INTERNAL, -fd_out, "cannot start: %s", strerror(-fd_out));
		return cli_failed(&err);
	}
	s.policy = policy_new_default();
	CHECK(uv_loop_init(&s.loop) == 0);
	r = options_parse(argc, argv, options, NULL, &s, &err);
	if (r == 0)
		r = policy_check_limits(s.policy, &err);
	if (r == 0)
		r = open_parts(&s, &err);
	if (r == 0) {
		start(&s, fd_out);
		(void)uv_run(&s.loop, UV_RUN_DEFAULT);
	}
	close_parts(&s);
	(void)uv_loop_close(&s.loop);
	return r < 0 ? cli_failed(&err) : 0;
}
