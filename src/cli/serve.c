/* serve.c: `scb serve`: an MCP server on stdin and stdout: a front of the broker, or with --solo
 * everything in one process. */
#include "cli/serve.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/web.h"
#include "mcp/stdio.h"

struct serve {
	struct settings settings;
	struct web_settings web;
	enum front_kind kind;
};

/* `scb run` starts it so: what is opened ends with the connection. */
static int set_for_run(void *user, const char *value, struct err *err)
{
	(void)value;
	(void)err;
	((struct serve *)user)->kind = FRONT_RUN;
	return 0;
}

static const struct option_def own_options[] = {{"--for-run", NULL, set_for_run}, {0}};

int serve_harden(int low)
{
	(void)umask(0077);
	cli_ignore_sigpipe();
	/* What it knows of secrets must get into no core file, and be read by nobody else of its
	 * uid. (1: no file, and nothing to a program that core_pattern names, which 0 would not
	 * stop.) */
	const struct rlimit best = {1, 1}, none = {0, 0};
	if ((setrlimit(RLIMIT_CORE, &best) < 0 && setrlimit(RLIMIT_CORE, &none) < 0) ||
		prctl(PR_SET_DUMPABLE, 0) < 0)
		return -errno;
	return fd_close_from(low);
}

int cli_serve(int argc, char **argv)
{
	struct serve s = {.kind = FRONT_SERVE};
	struct err err = {0};
	const struct option_table tables[] = {
		{own_options, &s}, {settings_options, &s.settings}, {web_options, &s.web}, {0}};
	if (options_want_help(argc, argv, tables))
		return cli_help();
	int r = serve_harden(STDERR_FILENO + 1);
	int fd_out = r < 0 ? r : stdio_take_stdout();
	if (fd_out < 0) {
		(void)err_set(&err, ERR_INTERNAL, -fd_out, "cannot start: %s", strerror(-fd_out));
		return cli_failed(&err);
	}
	settings_init(&s.settings);
	r = options_parse(argc, argv, tables, NULL, &err);
	if (r == 0)
		r = settings_find_image(&s.settings, &err);
	if (r == 0)
		r = settings_check(&s.settings, &err);
	if (r == 0)
		r = web_check(&s.web, &err);
	if (r == 0 && s.web.host[0] && s.settings.solo)
		r = err_set(&err, ERR_INVALID_ARGUMENT, 0,
			"--http and --solo contradict each other: HTTP's clients come and go");
	if (r == 0 && s.web.host[0]) {
		(void)close(fd_out);
		r = broker_serve_http(&s.settings, &s.web, &err);
		settings_done(&s.settings);
		return r < 0 ? cli_failed(&err) : 0;
	}
	int status = r < 0             ? cli_failed(&err)
		     : s.settings.solo ? solo_serve(&s.settings, fd_out)
				       : front_serve(&s.settings, s.kind, fd_out);
	settings_done(&s.settings);
	return status;
}
