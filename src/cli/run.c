/* run.c: `scb run`: a program in a fresh sandbox, through the same server that a model uses. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/settings.h"
#include "mcp/base64.h"

/* New output is printed about so often while the program runs. */
#define WAIT_S 0.5

enum { STATUS_FAILED = 1, STATUS_TIMEOUT = 124, STATUS_SIGNAL = 128 };

struct run {
	struct settings settings;
	const char *code_text, *file, *language;
	uint64_t timeout_s; /* 0: the server's own, by --limit */
	bool timeout_given;
	struct client *client;
	char *job;
	uint64_t printed[2]; /* of stdout and stderr */
};

/* ---- options ---- */

static int set_code(void *user, const char *value, struct err *err)
{
	struct run *r = user;
	(void)err;
	r->code_text = value;
	return 0;
}

static int set_language(void *user, const char *value, struct err *err)
{
	struct run *r = user;
	if (strcmp(value, "python") != 0 && strcmp(value, "shell") != 0)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"option --language takes python or shell, not \"%.40s\"", value);
	r->language = value;
	return 0;
}

static int set_timeout(void *user, const char *value, struct err *err)
{
	struct run *r = user;
	if (str_to_u64(value, LIMIT_TIMEOUT_S, &r->timeout_s) < 0 || r->timeout_s == 0)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"option --timeout takes seconds from 1 to %d", LIMIT_TIMEOUT_S);
	r->timeout_given = true;
	return 0;
}

static int set_file(void *user, const char *value, struct err *err)
{
	struct run *r = user;
	if (r->file)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"one file is accepted; \"%.100s\" is too many", value);
	r->file = value;
	return 0;
}

static const struct option_def own_options[] = {
	{"-c", "CODE", set_code},
	{"--language", "LANGUAGE", set_language},
	{"--timeout", "SECONDS", set_timeout},
	{0},
};

/* A time limit given for every call holds here too, instead of this command's own, which is the
 * longest that the policy gives. */
static void heed_limits(struct run *r)
{
	struct policy *p = NULL;
	struct err err;
	if (!r->timeout_given && settings_policy(&r->settings, &p, NULL, &err) == 0) {
		char principal[32];
		(void)snprintf(principal, sizeof(principal), "uid:%u", geteuid());
		r->timeout_s = policy_limits(p, principal)->max_timeout_s;
		policy_free(p);
	} /* what is wrong with it the broker will say */
	for (size_t i = 0; i < r->settings.n_limits; i++)
		if (str_starts(r->settings.limits[i], "timeout_s=") && !r->timeout_given)
			r->timeout_s = 0;
}

/* The server has it; here secrets would only stand about in /proc/PID/environ. */
static void forget_environment(void)
{
	for (char **p = environ; p && *p; p++)
		explicit_bzero(*p, strlen(*p));
	(void)clearenv();
}

/* Its server: a front of the broker, whose session ends with it, or one process with --solo. */
static int start_server(struct run *r, int *ret_status, struct err *err)
{
	_cleanup_arglist_ struct arglist argv = {0};
	arglist_add(&argv, "/proc/self/exe");
	arglist_add(&argv, "serve");
	settings_args(&r->settings, &argv);
	arglist_add(&argv, "--for-run");
	int e = client_start(argv.v, &r->client, ret_status, err);
	forget_environment();
	return e;
}

/* ---- what runs ---- */

static int read_file(const char *path, struct buf *ret, struct err *err)
{
	_cleanup_close_ int fd = strcmp(path, "-") == 0
					 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
					 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return err_set(err, ERR_NO_SUCH_FILE, errno, "%.300s: %s", path, strerror(errno));
	for (;;) {
		char piece[16 * KIB];
		ssize_t n = read(fd, piece, sizeof(piece));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_IO, errno, "%.300s: %s", path, strerror(errno));
		if (n == 0)
			return 0;
		if (buf_append(ret, piece, (size_t)n) < 0)
			return err_set(err, ERR_LIMIT_REACHED, EFBIG,
				"%.300s is larger than %llu bytes", path, LIMIT_CODE);
	}
}

static bool is_shell(const struct run *r)
{
	size_t n = r->file ? strlen(r->file) : 0;
	if (r->language)
		return strcmp(r->language, "shell") == 0;
	return n > 3 && strcmp(r->file + n - 3, ".sh") == 0;
}

/* ---- output ---- */

static int print_stream(struct run *r, int fd, struct err *err)
{
	static const char *const names[] = {"stdout", "stderr"};
	uint64_t *at = &r->printed[fd - 1];
	for (;;) {
		json_t *result = NULL;
		int e = client_call(r->client, "job",
			json_pack("{s:s,s:s,s:s,s:I,s:s}", "action", "read", "job", r->job,
				"stream", names[fd - 1], "offset", (json_int_t)*at, "encoding",
				"base64"),
			&result, err);
		if (e < 0)
			return e;
		json_t *o = json_object_get(result, "structuredContent");
		json_t *data = json_object_get(o, "data");
		uint64_t offset = (uint64_t)json_integer_value(json_object_get(o, "offset"));
		uint64_t total = (uint64_t)json_integer_value(json_object_get(o, "totalBytes"));
		_cleanup_buf_ struct buf bytes = BUF_INIT(LIMIT_READ_BASE64);
		if (base64_decode(json_string_value(data) ? json_string_value(data) : "",
			    json_string_length(data), &bytes) < 0)
			e = err_set(err, ERR_PROTOCOL, 0, "the server sent broken base64");
		json_decref(result);
		if (e == 0 && offset > *at)
			(void)fprintf(stderr, "scb: %llu bytes of %s are no longer kept\n",
				(unsigned long long)(offset - *at), names[fd - 1]);
		if (e == 0)
			e = fd_write_full(fd, bytes.data, bytes.len);
		if (e < 0)
			return e;
		*at = offset + bytes.len;
		if (bytes.len == 0 || *at >= total)
			return 0;
	}
}

static void print_lines(FILE *f, const char *text)
{
	size_t n = strlen(text);
	(void)fprintf(f, "%s%s", text, n > 0 && text[n - 1] == '\n' ? "" : "\n");
}

/* The value of a cell's last expression, as an interpreter would show it. */
static void print_results(const json_t *o)
{
	size_t i;
	json_t *bundle;
	json_array_foreach (json_object_get(o, "results"), i, bundle) {
		json_t *mime = json_object_get(bundle, "mime");
		const char *text = json_string_value(json_object_get(mime, "text/plain"));
		if (text)
			print_lines(stdout, text);
	}
	(void)fflush(stdout);
}

/* The model's remedies name tools; these name options. */
static const struct {
	const char *reason, *words;
} endings[] = {
	{"timeout", "it ran too long and was ended; --timeout SECONDS gives it more, up to 3600"},
	{"out_of_memory",
		"the sandbox's memory was used up; --limit memory=4G, say, gives it more"},
	{"disk_full", "a disk of the sandbox is full; --limit workspace=2G, say, makes it larger"},
	{"too_many_processes",
		"the sandbox has as many processes as it may; --limit pids=1024, say, allows more"},
	{"interpreter_died", "the interpreter ended before the program did"},
	{"output_limit", "it printed more than is kept; let it write to a file"},
	{"policy_denied", "the policy does not allow it"},
	{"sandbox_lost", "the sandbox was lost"},
};

static void print_end(const json_t *o)
{
	const char *traceback =
		json_string_value(json_object_get(json_object_get(o, "error"), "traceback"));
	const json_t *exit = json_object_get(o, "exit");
	const char *reason = json_string_value(json_object_get(exit, "reason"));
	size_t i;
	json_t *note;
	if (traceback)
		print_lines(stderr, traceback);
	json_array_foreach (json_object_get(exit, "notes"), i, note)
		(void)fprintf(stderr, "scb: %s\n", json_string_value(note));
	for (i = 0; reason && i < ARRAY_SIZE(endings); i++)
		if (strcmp(endings[i].reason, reason) == 0)
			(void)fprintf(stderr, "scb: %s\n", endings[i].words);
}

static int exit_status(const json_t *o)
{
	const json_t *exit = json_object_get(o, "exit"), *code = json_object_get(o, "exitCode");
	const char *reason = json_string_value(json_object_get(exit, "reason"));
	const char *name = json_string_value(json_object_get(exit, "signal"));
	if (reason && strcmp(reason, "timeout") == 0)
		return STATUS_TIMEOUT;
	for (int i = 1; name && i < NSIG; i++) {
		const char *abbrev = sigabbrev_np(i);
		if (abbrev && str_starts(name, "SIG") && strcmp(name + 3, abbrev) == 0)
			return STATUS_SIGNAL + i;
	}
	if (json_object_get(o, "error") && json_integer_value(code) == 0)
		return STATUS_FAILED;
	if (code)
		return (int)(json_integer_value(code) & 0xff);
	return reason && strcmp(reason, "exit") == 0 ? 0 : STATUS_FAILED;
}

/* ---- the run ---- */

static json_t *first_arguments(const struct run *r, const char *code, size_t n)
{
	json_t *text = json_stringn(code, n);
	if (!text)
		return NULL;
	json_t *o =
		json_pack("{s:o,s:f}", is_shell(r) ? "command" : "code", text, "wait_s", WAIT_S);
	if (r->timeout_s)
		json_object_set_new(o, "timeout_s", json_integer((json_int_t)r->timeout_s));
	return o;
}

/* Starts it, prints what it prints, returns the exit status or a negative errno. */
static int run_program(struct run *r, const char *code, size_t n, struct err *err)
{
	json_t *result = NULL, *arguments = first_arguments(r, code, n);
	if (!arguments)
		return err_set(err, ERR_INVALID_ARGUMENT, 0, "the code is not UTF-8 text");
	int e = client_call(
		r->client, is_shell(r) ? "run_command" : "run_code", arguments, &result, err);
	while (e == 0) {
		json_t *o = json_object_get(result, "structuredContent");
		const char *status = json_string_value(json_object_get(o, "status"));
		const char *job = json_string_value(json_object_get(o, "job"));
		bool done = !status || strcmp(status, "done") == 0;
		if (!r->job)
			r->job = xstrdup(job ? job : "");
		e = print_stream(r, STDOUT_FILENO, err);
		if (e == 0)
			e = print_stream(r, STDERR_FILENO, err);
		if (e == 0 && done) {
			print_results(o);
			print_end(o);
			e = exit_status(o);
			break;
		}
		json_decref(result);
		result = NULL;
		if (e == 0)
			e = client_call(r->client, "job",
				json_pack("{s:s,s:s,s:f}", "action", "wait", "job", r->job,
					"wait_s", WAIT_S),
				&result, err);
	}
	json_decref(result);
	return e;
}

int cli_run(int argc, char **argv)
{
	struct run r = {.timeout_s = LIMIT_TIMEOUT_S};
	struct err err = {0};
	int status = 0;
	_cleanup_buf_ struct buf code = BUF_INIT(LIMIT_CODE);
	const struct option_table tables[] = {
		{own_options, &r}, {settings_options, &r.settings}, {0}};
	if (options_want_help(argc, argv, tables))
		return cli_help();
	settings_init(&r.settings);

	int e = options_parse(argc, argv, tables, set_file, &err);
	if (e == 0)
		e = settings_find_image(&r.settings, &err);
	if (e == 0)
		e = settings_check(&r.settings, &err);
	if (e == 0 && !r.file == !r.code_text)
		e = err_set(&err, ERR_INVALID_ARGUMENT, 0, "give a file to run, or -c and code");
	if (e == 0 && r.code_text && buf_append_str(&code, r.code_text) < 0)
		e = err_set(&err, ERR_LIMIT_REACHED, 0, "the code is too long");
	if (e == 0 && r.file)
		e = read_file(r.file, &code, &err);
	heed_limits(&r);
	if (e == 0)
		e = start_server(&r, &status, &err);
	if (e == 0)
		e = run_program(&r, (const char *)code.data, code.len, &err);
	(void)client_close(r.client);
	settings_done(&r.settings);
	free(r.job);
	if (status > 0) /* the server has said why */
		return status;
	return e < 0 ? cli_failed(&err) : e;
}
