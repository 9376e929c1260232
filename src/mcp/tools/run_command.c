/* run_command.c: a command in the session's sandbox, fresh each time. */
#include <string.h>

#include "base/limits.h"
#include "mcp/render.h"
#include "mcp/run.h"

static const struct arg args[] = {
	{"command", ARG_TEXT, .min = 1, .max = LIMIT_ARG_BYTES - 1,
		.description = "shell text (bash)"},
	{"argv", ARG_LIST, .min = 1, .max = LIMIT_ARGS,
		.description = "program and arguments, without a shell; instead of command"},
	{"cwd", ARG_TEXT, .min = 1, .max = LIMIT_PATH - 1, .description = "default /workspace"},
	{"env", ARG_MAP, .max = LIMIT_ARGS, .description = "added variables"},
	{"stdin_open", ARG_BOOLEAN, .description = "keep stdin open for job action=input"},
	RUN_ARGS,
};

/* NAME=value texts; freed with strings_free(). */
static char **env_strings(const json_t *env, size_t *ret_n)
{
	char **list = xcalloc(json_object_size(env) + 1, sizeof(*list));
	const char *name;
	json_t *value;
	size_t n = 0;
	json_object_foreach ((json_t *)env, name, value)
		list[n++] = xasprintf("%s=%s", name, json_string_value(value));
	*ret_n = n;
	return list;
}

static void strings_free(char **list)
{
	for (size_t i = 0; list[i]; i++)
		free(list[i]);
	free(list);
}

/* A ".." part: where that leads depends on links, and out of the workspace is never meant. */
static bool climbs(const char *path)
{
	for (const char *p = path; *p; p += *p == '/') {
		size_t n = strcspn(p, "/");
		if (n == 2 && p[0] == '.' && p[1] == '.')
			return true;
		p += n;
	}
	return false;
}

static void run(struct call *c)
{
	const json_t *argv = json_object_get(c->args, "argv");
	const char *command = args_text(c->args, "command");
	if (!argv == !command) {
		call_failf(c, ERR_INVALID_ARGUMENT,
			"give either \"command\" (shell text) or \"argv\" (a list of strings)%s",
			argv ? ", not both" : "");
		return;
	}
	if (args_text(c->args, "cwd") && climbs(args_text(c->args, "cwd"))) {
		call_failf(c, ERR_INVALID_ARGUMENT,
			"argument \"cwd\" must be a directory of the sandbox without \"..\": below "
			"/workspace, or absolute");
		return;
	}

	size_t n_argv = json_array_size(argv), n_env;
	_cleanup_free_ const char **arguments = xcalloc(n_argv + 1, sizeof(*arguments));
	for (size_t i = 0; i < n_argv; i++)
		arguments[i] = json_string_value(json_array_get(argv, i));
	char **env = env_strings(json_object_get(c->args, "env"), &n_env);
	struct exec_request req = {
		.kind = JOB_KIND_COMMAND,
		.shell_text = command,
		.argv = argv ? arguments : NULL,
		.n_argv = n_argv,
		.env = (const char *const *)env,
		.n_env = n_env,
		.cwd = args_text(c->args, "cwd"),
		.stdin_open = args_bool(c->args, "stdin_open"),
	};
	run_start(c, &req);
	strings_free(env);
}

const struct tool tool_run_command = {
	.name = "run_command",
	.title = "Run a command",
	.description = "Run a shell command or program in the sandbox. Each call starts in "
		       "/workspace with a "
		       "clean environment; files and background processes (started with &) stay. "
		       "No network.",
	.args = {.args = args, .n_args = ARRAY_SIZE(args)},
	.result = render_brief_fields,
	.session = TOOL_SESSION_SELF,
	.starts_job = true,
	.run = run,
	.cancel = run_cancel,
};
