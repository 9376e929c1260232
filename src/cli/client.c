/* client.c: see client.h. */
#include "cli/client.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/cli.h"
#include "mcp/build.h"

struct client {
	pid_t pid;
	int fd_in, fd_out; /* to its stdin, from its stdout */
	json_int_t last_id;
	struct buf in;
};

static int spawn(char *const *argv, int child_in, int child_out, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawn_file_actions_adddup2(&actions, child_in, STDIN_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, child_out, STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn(ret_pid, argv[0], &actions, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -r;
}

static int handshake(struct client *c, struct err *err)
{
	json_t *result = NULL;
	int r = client_request(c, "initialize",
		json_pack("{s:s,s:{},s:{s:s,s:s}}", "protocolVersion", "2025-11-25", "capabilities",
			"clientInfo", "name", "scb", "version", build.version),
		&result, err);
	if (r < 0)
		return r;
	json_decref(result);
	static const char line[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
	r = fd_write_full(c->fd_in, line, sizeof(line) - 1);
	return r < 0 ? err_set(err, ERR_PROTOCOL, -r, "the server went away") : 0;
}

int client_start(char *const *argv, struct client **ret, int *ret_status, struct err *err)
{
	*ret_status = 0;
	int in[2] = {-1, -1}, out[2] = {-1, -1};
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0) {
		int e = errno;
		fd_closep(&in[0]);
		fd_closep(&in[1]);
		return err_set(err, ERR_INTERNAL, e, "no pipe: %s", strerror(e));
	}
	struct client *c = xcalloc(1, sizeof(*c));
	buf_init(&c->in, 2 * LIMIT_MCP_RESULT);
	int r = spawn(argv, in[0], out[1], &c->pid);
	fd_closep(&in[0]);
	fd_closep(&out[1]);
	c->fd_in = in[1];
	c->fd_out = out[0];
	if (r < 0) {
		c->pid = -1;
		(void)err_set(err, ERR_INTERNAL, -r, "%.200s cannot be started: %s", argv[0],
			strerror(-r));
	} else {
		cli_ignore_sigpipe();
		r = handshake(c, err);
	}
	if (r < 0) {
		int status = client_close(c);
		*ret_status = status > 0 ? status : 0;
		return r;
	}
	*ret = c;
	return 0;
}

/* The next line, without its newline: bytes [0, *ret_len) of c->in. */
static int read_line(struct client *c, size_t *ret_len)
{
	size_t scanned = 0;
	for (;;) {
		const uint8_t *nl = c->in.len > scanned ? memchr(c->in.data + scanned, '\n',
								  c->in.len - scanned)
							: NULL;
		if (nl) {
			*ret_len = (size_t)(nl - c->in.data);
			return 0;
		}
		scanned = c->in.len;
		int r = buf_reserve(&c->in, 64 * KIB);
		if (r < 0)
			return r;
		ssize_t n = read(c->fd_out, c->in.data + c->in.len, 64 * KIB);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		c->in.len += (size_t)n;
	}
}

/* The answer to request id; notifications before it are skipped. */
static int read_answer(struct client *c, json_int_t id, json_t **ret, struct err *err)
{
	for (;;) {
		size_t n = 0;
		int r = read_line(c, &n);
		if (r == -EPIPE)
			return err_set(
				err, ERR_PROTOCOL, EPIPE, "the server ended without an answer");
		if (r < 0)
			return err_set(
				err, ERR_PROTOCOL, -r, "reading from the server: %s", strerror(-r));
		json_t *m = json_loadb((const char *)c->in.data, n, JSON_ALLOW_NUL, NULL);
		buf_consume(&c->in, n + 1);
		if (!m)
			return err_set(err, ERR_PROTOCOL, 0, "the server sent what is no JSON");
		if (json_integer_value(json_object_get(m, "id")) == id) {
			*ret = m;
			return 0;
		}
		json_decref(m);
	}
}

int client_request(
	struct client *c, const char *method, json_t *params, json_t **ret_result, struct err *err)
{
	json_int_t id = ++c->last_id;
	json_t *m = json_pack("{s:s,s:I,s:s,s:o}", "jsonrpc", "2.0", "id", id, "method", method,
		"params", params);
	char *line = m ? json_dumps(m, JSON_COMPACT) : NULL;
	json_decref(m);
	if (!line)
		return err_set(err, ERR_INVALID_ARGUMENT, 0, "the request is not UTF-8 text");
	size_t n = strlen(line);
	line[n] = '\n'; /* instead of the NUL */
	int r = fd_write_full(c->fd_in, line, n + 1);
	free(line);
	if (r < 0)
		return err_set(err, ERR_PROTOCOL, -r, "the server went away: %s", strerror(-r));

	json_t *answer = NULL;
	r = read_answer(c, id, &answer, err);
	if (r < 0)
		return r;
	json_t *error = json_object_get(answer, "error");
	const char *text = json_string_value(json_object_get(error, "message"));
	if (error)
		r = err_set(err, ERR_PROTOCOL, 0, "%.400s", text ? text : "an error without words");
	else
		*ret_result = json_incref(json_object_get(answer, "result"));
	json_decref(answer);
	return r;
}

int client_call(
	struct client *c, const char *tool, json_t *arguments, json_t **ret_result, struct err *err)
{
	json_t *result = NULL;
	int r = client_request(c, "tools/call",
		json_pack("{s:s,s:o}", "name", tool, "arguments", arguments), &result, err);
	if (r < 0)
		return r;
	if (!json_is_true(json_object_get(result, "isError"))) {
		*ret_result = result;
		return 0;
	}
	const char *text = json_string_value(
		json_object_get(json_array_get(json_object_get(result, "content"), 0), "text"));
	/* A model needs the session's handle, which is the first line; a person has no use for it.
	 */
	const char *second = text && str_starts(text, "session ") ? strchr(text, '\n') : NULL;
	if (second)
		text = second + 1;
	r = err_set(err, ERR_PROVIDER_UNUSABLE, 0, "%.450s", text ? text : tool);
	json_decref(result);
	return r;
}

int client_close(struct client *c)
{
	int status = -1;
	if (!c)
		return -1;
	fd_closep(&c->fd_in);
	if (c->pid > 0)
		while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
			;
	fd_closep(&c->fd_out);
	buf_done(&c->in);
	free(c);
	return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
