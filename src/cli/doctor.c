/* doctor.c: `scb doctor`: what can make sandboxes here, really tried, and what to do where it
 * cannot. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/start.h"
#include "mcp/build.h"
#include "policy/policy.h"
#include "provider/provider.h"

struct colours {
	const char *good, *bad, *bold, *off;
};

static struct colours choose_colours(void)
{
	const char *no = getenv("NO_COLOR");
	if (!isatty(STDOUT_FILENO) || (no && *no))
		return (struct colours){"", "", "", ""};
	return (struct colours){"\033[32m", "\033[31m", "\033[1m", "\033[0m"};
}

/* Wrapped at words, so that a remedy can be read on any terminal. */
static void print_wrapped(const char *text, size_t indent)
{
	size_t column = indent;
	(void)printf("%*s", (int)indent, "");
	while (*text) {
		size_t n = strcspn(text, " ");
		if (column > indent && column + 1 + n > 92) {
			(void)printf("\n%*s", (int)indent, "");
			column = indent;
		}
		column += (size_t)printf("%s%.*s", column > indent ? " " : "", (int)n, text);
		text += n + (text[n] == ' ' ? 1 : 0);
	}
	(void)printf("\n");
}

static void print_enforced(const struct provider *p, struct policy *policy)
{
	const struct policy_limits *l = policy_limits(policy, NULL);
	const struct sandbox_spec spec = {
		.memory_max = l->memory,
		.workspace_size = l->workspace,
		.tmp_size = l->tmp,
		.shm_size = l->shm,
		.cpus = l->cpus,
		.pids_max = l->pids,
	};
	struct capabilities k = {0};
	p->capabilities(&spec, &k);
	const struct {
		const char *name, *value;
	} rows[] = {
		{"isolation", k.isolation_level},
		{"network", k.egress},
		{"memory", k.memory},
		{"processes", k.pids},
		{"cpu", k.cpu},
		{"disk", k.disk},
		{"system calls", k.seccomp},
		{"read-only root", k.read_only_root},
		{"host uid", k.host_uid},
		{"agent apart", k.agent_apart},
		{"kills a tree by", k.kill_tree},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].value)
			(void)printf("    %-16s %s\n", rows[i].name, rows[i].value);
}

/* What an ordinary user without a control group of its own does not get. */
static void warn_of_limits(const struct provider *p)
{
	const struct sandbox_spec spec = {0};
	struct capabilities k = {0};
	p->capabilities(&spec, &k);
	bool memory = str_starts(k.memory, "cgroup"), cpu = str_starts(k.cpu, "cgroup");
	if (memory && cpu)
		return;
	_cleanup_free_ char *text = xasprintf("warning: %s%s%s",
		memory ? ""
		       : "a sandbox as a whole has no memory limit, only each of its processes for "
			 "its heap. ",
		cpu ? "" : "CPU time is not limited. ",
		p == &provider_local
			? ""
			: "Real limits need a control group (cgroup v2) that is delegated to you "
			  "(Delegate=yes); the broker asks your systemd manager for it.");
	print_wrapped(text, 4);
}

static bool examine(const struct provider *p, const char *remark, struct policy *policy,
	const struct colours *k)
{
	struct provider_probe probe = {0};
	struct err err = {0};
	int r = p->probe(&probe, &err);
	bool usable = r == 0 && probe.usable;
	(void)printf("%s%s%s: %s%s%s%s\n", k->bold, p->name, k->off, usable ? k->good : k->bad,
		usable ? "usable" : "not usable", k->off, remark);
	if (usable) /* what follows the version is in the table */
		probe.reason[strcspn(probe.reason, ";")] = '\0';
	const char *reason = r < 0 ? err.text : probe.reason;
	if (*reason && !(usable && str_starts(reason, "isolation:")))
		print_wrapped(reason, 4);
	if (usable) {
		print_enforced(p, policy);
		warn_of_limits(p);
	}
	(void)printf("\n");
	return usable;
}

/* Runs argv to its end. Its exit status, or -1. */
static int run(char *const *argv, bool quiet)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int status = -1;
	(void)posix_spawn_file_actions_init(&actions);
	if (quiet)
		(void)posix_spawn_file_actions_addopen(
			&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	int r = posix_spawn(&pid, argv[0], &actions, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	while (r == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return r == 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What holds for the broker holds in its scope: looks from there. True, and the exit status, where
 * that could be done. */
static bool run_in_scope(int *ret_status)
{
	_cleanup_arglist_ struct arglist trial = {0}, again = {0};
	if (!start_has_scope())
		return false;
	start_scope_args(&trial);
	arglist_add(&trial, "/bin/true");
	if (run(trial.v, true) != 0)
		return false;
	_cleanup_free_ char *self = start_program();
	start_scope_args(&again);
	arglist_add(&again, self);
	arglist_add(&again, "doctor");
	arglist_add(&again, "--in-scope");
	*ret_status = run(again.v, false);
	return *ret_status >= 0;
}

/* Where the broker runs, and what is lost where it has no scope of its own. */
static void examine_broker(bool in_scope, const struct colours *k)
{
	(void)printf(
		"%sbroker%s: one for all hosts of a user and state directory, started by the first "
		"of them\n",
		k->bold, k->off);
	if (in_scope)
		print_wrapped("it runs in a scope of its own of your systemd manager, with control "
			      "groups for its sandboxes",
			4);
	else if (geteuid() != 0)
		print_wrapped(
			"warning: no systemd manager of yours can be asked for a scope "
			"($XDG_RUNTIME_DIR/systemd/private). The broker stays in the control group "
			"of the host that starts it: where that group is ended as a whole (a "
			"service that is stopped, a session that is logged out), broker and "
			"sandboxes end with it; and its sandboxes have no control groups. Log in "
			"so that one is started, or have it run always: `loginctl enable-linger`.",
			4);
	(void)printf("\n");
}

static int set_in_scope(void *user, const char *value, struct err *err)
{
	(void)value;
	(void)err;
	*(bool *)user = true;
	return 0;
}

/* Given by itself. */
static const struct option_def own_options[] = {{"--in-scope", NULL, set_in_scope}, {0}};

int cli_doctor(int argc, char **argv)
{
	const struct colours k = choose_colours();
	_cleanup_free_ char *chosen = NULL;
	struct err err = {0};
	bool in_scope = false;
	int status;
	const struct option_table options[] = {{own_options, &in_scope}, {0}};
	if (options_want_help(argc, argv, options))
		return cli_help();
	if (options_parse(argc, argv, options, NULL, &err) < 0)
		return cli_failed(&err);
	if (!in_scope && run_in_scope(&status))
		return status;

	bool any = false;
	struct policy *policy = policy_new_default();
	(void)printf("scb %s\n\n", build.version);
	for (size_t i = 0; provider_auto_order[i]; i++) {
		const struct provider *p = provider_auto_order[i];
		bool usable = examine(p, "", policy, &k);
		if (usable && !chosen)
			chosen = xstrdup(p->name);
		any = any || usable;
	}
	(void)examine(&provider_local, " (no boundary: for tests only, never chosen by itself)",
		policy, &k);
	examine_broker(in_scope, &k);
	const struct provider *named = NULL;
	bool wrong = provider_select(getenv("BROKER_PROVIDER"), &named, &err) < 0 &&
		     err.code == ERR_INVALID_ARGUMENT;
	if (wrong)
		(void)printf("%s%s%s\n", k.bad, err.text, k.off);
	if (chosen)
		(void)printf("\"auto\" takes %s.\n", chosen);
	else
		(void)printf("No sandbox can be made here: do what is said above, then run this "
			     "again.\n");
	policy_free(policy);
	if (fflush(stdout) != 0)
		return err_info(ERR_IO)->exit_status;
	if (wrong)
		return err_info(ERR_INVALID_ARGUMENT)->exit_status;
	return any ? 0 : err_info(ERR_PROVIDER_UNUSABLE)->exit_status;
}
