/* run_code.c: a cell in a live interpreter of the session. */
#include "base/limits.h"
#include "mcp/render.h"
#include "mcp/run.h"

static const struct arg args[] = {
	{"code", ARG_TEXT, .required = true, .min = 1, .max = LIMIT_CODE},
	{"language", ARG_TEXT, .max = 20, .choices = exec_languages,
		.description = "default: that of the kernel, else python"},
	{"kernel", ARG_TEXT, .min = 1, .max = 32,
		.description = "name of a separate interpreter with its own state"},
	RUN_ARGS,
};

static void run(struct call *c)
{
	struct exec_request req = {
		.kind = JOB_KIND_CELL,
		.language = args_text(c->args, "language"),
		.kernel = args_text(c->args, "kernel"),
		.code = args_text(c->args, "code"),
	};
	run_start(c, &req);
}

const struct tool tool_run_code = {
	.name = "run_code",
	.title = "Run code",
	.description =
		"Run code in a live interpreter that keeps its state between calls. python: the "
		"last expression's value is shown, matplotlib figures are returned without show(). "
		"shell: bash; folder, variables, functions stay, also after exit or set -e. "
		"Mounted data is under /mnt, scratch files in /workspace (the current directory). "
		"No network. Cells of one interpreter run one after the other.",
	.args = {.args = args, .n_args = ARRAY_SIZE(args)},
	.result = render_fields,
	.session = TOOL_SESSION_SELF,
	.starts_job = true,
	.run = run,
	.cancel = run_cancel,
};
