/* session.c: sandboxes as such: open, info, list, interrupt, restart, fork, close. */
#include "session/session.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "exec/exec.h"
#include "exec/masked.h"
#include "mcp/call.h"
#include "mcp/render.h"
#include "secret/vault.h"

static const struct arg args[] = {
	{"action", ARG_TEXT, .required = true, .max = 20},
	{"session", ARG_TEXT, .max = 64 * KIB},
	{"kernel", ARG_TEXT, .min = 1, .max = 32, .description = "interrupt, restart, fork: which"},
	{"name", ARG_TEXT, .min = 1, .max = 32, .description = "fork: the new kernel's name"},
};

static const struct arg_action actions[] = {
	{"open", {NULL}},
	{"info", {NULL}},
	{"list", {NULL}},
	{"interrupt", {NULL}},
	{"restart", {NULL}},
	{"fork", {NULL}},
	{"close", {"session"}},
};

static const struct field kernel_fields[] = {
	{"name", "string", true, NULL},
	{"language", "string", false, NULL},
	{"engine", "string", false, NULL},
	{"alive", "boolean", true, NULL},
	{"busy", "boolean", true, NULL},
	{"queued", "integer", false, NULL},
	{0},
};
static const struct field result_fields[] = {
	{"session", "string", false, NULL},
	{"provider", "string", false, NULL},
	{"isolationLevel", "string", false, NULL},
	{"enforced", "object", false, NULL},
	{"limits", "object", false, NULL},
	{"kernels", "[object]", false, kernel_fields},
	{"jobs", "[object]", false, NULL},
	{"usage", "object", false, NULL},
	{"secrets", "[object]", false, NULL},
	{"expiresAt", "string", false, NULL},
	{"sessions", "[object]", false, NULL},
	{"closed", "boolean", false, NULL},
	{"kernel", "string", false, NULL},
	{"shared", "[string]", false, NULL},
	{0},
};

/* ---- info and open ---- */

static json_t *enforced_json(const struct capabilities *k)
{
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "memory", k->memory,
		"pids", k->pids, "cpu", k->cpu, "disk", k->disk, "inodes", k->inodes, "killTree",
		k->kill_tree, "egress", k->egress, "agentApart", k->agent_apart, "seccomp",
		k->seccomp, "readOnlyRoot", k->read_only_root, "hostUid", k->host_uid);
}

static json_t *limits_json(const struct policy_limits *l)
{
	return json_pack("{s:I,s:I,s:I,s:I,s:I}", "memoryBytes", (json_int_t)l->memory,
		"workspaceBytes", (json_int_t)l->workspace, "tmpBytes", (json_int_t)l->tmp, "cpus",
		(json_int_t)l->cpus, "processes", (json_int_t)l->pids);
}

static void set_expiry(struct session *s, json_t *o)
{
	char when[CLOCK_RFC3339_SIZE];
	clock_rfc3339(session_expires_us(s), when);
	json_object_set_new(o, "expiresAt", json_string(when));
}

/* Which secrets it has, never what they are. */
static void describe_secrets(struct call *c)
{
	const struct vault_granted *list;
	size_t n = session_secrets(c->session, &list);
	json_t *all = json_array();
	for (size_t i = 0; i < n; i++) {
		const struct vault_granted *one = &list[i];
		bool placeholder = one->exposure == VAULT_PLACEHOLDER;
		if (one->why[0])
			continue;
		json_array_append_new(all,
			json_pack("{s:s,s:s,s:s}", "name", one->name, "variable", one->variable,
				"exposure", placeholder ? "placeholder" : "session"));
		call_print(c, "secret %s: in the variable %s%s\n", one->name, one->variable,
			placeholder ? ", as a placeholder that is worth nothing here"
				    : "; what is printed of it is masked");
	}
	if (json_array_size(all) > 0)
		call_set(c, "secrets", all);
	else
		json_decref(all);
	call_tell_secrets(c, c->session);
}

static void describe(struct call *c)
{
	struct session *s = c->session;
	const struct capabilities *k = session_capabilities(s);
	const struct policy_limits *l = session_limits(s);
	const char *provider = session_provider(s)->name;
	call_set_text(c, "provider", provider);
	call_set_text(c, "isolationLevel", k->isolation_level);
	call_set(c, "enforced", enforced_json(k));
	call_set(c, "limits", limits_json(l));
	set_expiry(s, c->structured);
	describe_secrets(c);
	call_print(c,
		"provider %s (isolation: %s), %llu MiB memory (%s), %u processes (%s), %u CPUs "
		"(%s), network: %s\n",
		provider, k->isolation_level, (unsigned long long)(l->memory / MIB), k->memory,
		l->pids, k->pids, l->cpus, strcmp(k->cpu, "none") == 0 ? "not limited" : k->cpu,
		k->egress);
	call_print(c, "ends %s if not used before\n",
		json_string_value(json_object_get(c->structured, "expiresAt")));
}

/* What is not counted here is left out. */
static void print_usage(struct call *c, const struct exec_usage *u)
{
	const char *before = "in use: ";
	if (u->memory) {
		call_print(c, "%s%llu MiB memory", before, (unsigned long long)(u->memory / MIB));
		before = ", ";
	}
	if (u->pids) {
		call_print(c, "%s%llu process%s", before, (unsigned long long)u->pids,
			u->pids == 1 ? "" : "es");
		before = ", ";
	}
	if (u->disk_total)
		call_print(c, "%s%llu of %llu MiB of the workspace", before,
			(unsigned long long)((u->disk_total - u->disk_free) / MIB),
			(unsigned long long)(u->disk_total / MIB));
	if (u->memory || u->pids || u->disk_total)
		call_print(c, "\n");
}

static void on_usage(void *user, const struct exec_usage *u, const struct err *err)
{
	struct call *c = user;
	c->op = NULL;
	if (!err) {
		json_t *o = json_object();
		const struct {
			const char *name;
			uint64_t value;
		} values[] = {
			{"memoryBytes", u->memory},
			{"processes", u->pids},
			{"diskTotalBytes", u->disk_total},
			{"diskFreeBytes", u->disk_free},
			{"spoolBytes", u->spool},
		};
		for (size_t i = 0; i < ARRAY_SIZE(values); i++)
			if (values[i].value)
				json_object_set_new(o, values[i].name,
					json_integer((json_int_t)values[i].value));
		call_set(c, "usage", o);
		print_usage(c, u);
	}
	call_finish(c);
}

static void on_jobs(void *user, struct exec_status *jobs, size_t n, const struct err *err)
{
	struct call *c = user;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	struct redacting redacting = call_redacting(c);
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++) {
		exec_status_mask(&jobs[i], &redacting);
		if (jobs[i].state != JOB_DONE)
			render_job_line(&jobs[i], &c->text);
		json_array_append_new(list, render_job_json(&jobs[i]));
	}
	call_set(c, "jobs", list);
	c->op = exec_usage(session_exec(c->session), on_usage, c);
}

static void on_kernels(
	void *user, const struct exec_kernel *kernels, size_t n, const struct err *err)
{
	struct call *c = user;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	json_t *list = json_array();
	for (size_t i = 0; i < n; i++) {
		const struct exec_kernel *k = &kernels[i];
		json_t *o = json_object();
		json_object_set_new(o, "name", jsonrpc_text(k->name));
		if (k->language)
			json_object_set_new(o, "language", jsonrpc_text(k->language));
		if (k->engine)
			json_object_set_new(o, "engine", jsonrpc_text(k->engine));
		json_object_set_new(o, "alive", json_boolean(k->alive));
		json_object_set_new(o, "busy", json_boolean(k->busy));
		json_object_set_new(o, "queued", json_integer(k->queued));
		json_array_append_new(list, o);
		call_print(c, "kernel %s: %s%s\n", json_string_value(json_object_get(o, "name")),
			!k->alive ? "not running"
			: k->busy ? "busy"
				  : "idle",
			k->queued ? ", cells waiting" : "");
	}
	call_set(c, "kernels", list);
	c->op = exec_list(session_exec(c->session), on_jobs, c);
}

static void do_info(struct call *c)
{
	describe(c);
	c->op = exec_kernels(session_exec(c->session), on_kernels, c);
}

static void do_open(struct call *c)
{
	struct err err = {0};
	struct session *s = NULL;
	if (!c->server->config.sessions || !c->conn->profile.provider) {
		if (call_find_session(c, true, &err) < 0)
			call_fail(c, &err);
		return;
	}
	const struct session_wish wish = {c->principal, &c->conn->profile, false, &c->delivery};
	if (sessions_open(c->server->config.sessions, &wish, &s, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	call_use_session(c, s);
	if (!c->conn->default_session[0])
		conn_set_session(c->conn, c->handle);
	describe(c);
	call_finish(c);
}

/* ---- list ---- */

struct list_state {
	struct call *call;
	json_t *list;
};

static int add_session(void *user, struct session *s)
{
	struct list_state *l = user;
	json_t *o = json_object();
	char created[CLOCK_RFC3339_SIZE];
	clock_rfc3339(session_created_us(s), created);
	json_object_set_new(o, "session", json_string(session_handle(s)));
	json_object_set_new(o, "provider", json_string(session_provider(s)->name));
	json_object_set_new(o, "createdAt", json_string(created));
	set_expiry(s, o);
	bool own = strcmp(session_handle(s), l->call->conn->default_session) == 0;
	call_print(l->call, "%s  since %s%s\n", session_handle(s), created,
		own ? "  (used when session is left out)" : "");
	json_array_append_new(l->list, o);
	return 0;
}

static void do_list(struct call *c)
{
	struct list_state l = {c, json_array()};
	if (c->server->config.sessions)
		(void)sessions_each(c->server->config.sessions, c->principal, add_session, &l);
	if (json_array_size(l.list) == 0)
		call_print(c, "no session is open\n");
	call_set(c, "sessions", l.list);
	call_finish(c);
}

/* ---- interrupt, restart, fork ---- */

static const char *kernel_asked(const struct call *c)
{
	const char *name = args_text(c->args, "kernel");
	return name ? name : exec_languages[0];
}

static void on_kernel_done(void *user, const struct err *err)
{
	struct call *c = user;
	if (err) {
		call_fail(c, err);
		return;
	}
	call_print(
		c, strcmp(c->action, "restart") == 0
			   ? "restarted: variables are gone, files are kept\n"
			   : "interrupted: what ran in the interpreter ends, variables are kept\n");
	call_finish(c);
}

/* A note of what kernel and twin both have open, in words. */
static json_t *shared_json(const char *note)
{
	const char *value = strchr(note, ':');
	size_t n = value ? (size_t)(value++ - note) : 0;
	static const struct {
		const char *note, *one, *more;
	} counts[] = {
		{"shared_sockets", "socket", "sockets"},
		{"shared_pipes", "pipe end", "pipe ends"},
		{"shared_files_more", "more file", "more files"},
	};
	uint64_t count;
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		if (n == strlen(counts[i].note) && strncmp(note, counts[i].note, n) == 0 &&
			str_to_u64(value, UINT32_MAX, &count) == 0)
			return json_sprintf("%llu %s", (unsigned long long)count,
				count == 1 ? counts[i].one : counts[i].more);
	return jsonrpc_text(n && strncmp(note, "shared_file", n) == 0 ? value : note);
}

static void print_shared(struct call *c, const json_t *shared)
{
	size_t i;
	json_t *one;
	call_print(c, "both have open, with common positions and locks: ");
	json_array_foreach (shared, i, one)
		call_print(c, "%s%s", i ? ", " : "", json_string_value(one));
	call_print(c, "; do not use one connection or database from both\n");
}

static void on_twin(void *user, const struct exec_twin *twin, const struct err *err)
{
	struct call *c = user;
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	call_set_text(c, "kernel", twin->kernel);
	call_print(c,
		"kernel %s is a copy of %s: the same variables and working directory, and from now "
		"on each for itself (files are common); run code in it with run_code, kernel "
		"\"%s\"\n",
		twin->kernel, kernel_asked(c), twin->kernel);
	if (twin->n_notes) {
		json_t *shared = json_array();
		for (size_t i = 0; i < twin->n_notes; i++)
			json_array_append_new(shared, shared_json(twin->notes[i]));
		print_shared(c, shared);
		call_set(c, "shared", shared);
	}
	call_finish(c);
}

static void fork_kernel(struct call *c)
{
	uint8_t room[DELIVERY_TAG];
	c->op = exec_kernel_fork(session_exec(c->session), kernel_asked(c),
		args_text(c->args, "name"), call_tag(c, STEP_CHANGE, room), on_twin, c);
}

static void no_such_kernel(
	struct call *c, const char *name, const struct exec_kernel *kernels, size_t n)
{
	char names[240] = "";
	for (size_t i = 0; i < n; i++) {
		size_t used = strlen(names);
		(void)snprintf(names + used, sizeof(names) - used, "%s%.40s", i ? ", " : "",
			kernels[i].name);
	}
	call_failf(c, ERR_INVALID_ARGUMENT, "there is no kernel \"%.40s\" in this session; %s%s",
		name, n ? "there are: " : "none runs yet", names);
}

/* Whoever interrupts, restarts or forks what is not there, or does nothing, is told so. */
static void on_kernels_known(
	void *user, const struct exec_kernel *kernels, size_t n, const struct err *err)
{
	struct call *c = user;
	const char *name = kernel_asked(c);
	const struct exec_kernel *k = NULL;
	uint8_t room[DELIVERY_TAG];
	c->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	for (size_t i = 0; i < n && !k; i++)
		k = strcmp(kernels[i].name, name) == 0 ? &kernels[i] : NULL;
	bool restart = strcmp(c->action, "restart") == 0;
	if (!k && strcmp(name, exec_languages[0]) != 0) {
		no_such_kernel(c, name, kernels, n);
	} else if (!k) {
		call_print(c, "no interpreter runs yet: there is nothing to %s\n", c->action);
		call_finish(c);
	} else if (strcmp(c->action, "fork") == 0) {
		fork_kernel(c);
	} else if (!restart && !k->busy && k->queued == 0) {
		call_print(c, "nothing was running in kernel %s; variables are kept\n", name);
		call_finish(c);
	} else if (restart) {
		exec_kernel_restart(session_exec(c->session), name, call_tag(c, STEP_CHANGE, room),
			on_kernel_done, c);
	} else {
		exec_kernel_interrupt(session_exec(c->session), name,
			call_tag(c, STEP_CHANGE, room), on_kernel_done, c);
	}
}

/* A broker that died may have done it: then the kernels are as it left them, and the answer is what
 * the agent remembers. */
static void on_recalled(void *user, bool known, const struct err *err)
{
	struct call *c = user;
	c->op = NULL;
	if (known || err)
		on_kernel_done(c, err);
	else
		c->op = exec_kernels(session_exec(c->session), on_kernels_known, c);
}

static void do_change(struct call *c)
{
	struct exec *x = session_exec(c->session);
	uint8_t room[DELIVERY_TAG];
	if (c->again && strcmp(c->action, "fork") == 0) {
		fork_kernel(c); /* once made, the agent answers with the same twin */
		return;
	}
	c->op = c->again ? exec_recall(x, call_tag(c, STEP_CHANGE, room), on_recalled, c)
			 : exec_kernels(x, on_kernels_known, c);
}

/* ---- close ---- */

static void on_closed(void *user, const char *leftovers)
{
	struct call *c = user;
	if (leftovers) {
		log_warning("left over from a session: %s", leftovers);
		call_failf(c, ERR_INTERNAL,
			"the session is closed, but something of it is left: %.300s", leftovers);
		return;
	}
	c->session_over = true;
	call_print(
		c, "session %s is closed: its sandbox, files and variables are gone\n", c->handle);
	call_set(c, "closed", json_true());
	call_finish(c);
}

/* The connection's own session is none from now on. */
static void forget_own(struct call *c)
{
	if (strcmp(c->conn->default_session, c->handle) == 0)
		conn_set_session(c->conn, "");
}

static void do_close(struct call *c)
{
	forget_own(c);
	session_set_closer(c->session, &c->delivery);
	session_close(c->session, "closed by the caller", on_closed, c);
}

/* A broker that died may have closed it, and the connection may have forgotten its handle. True:
 * the call answers, now or once that has come to its end. */
static bool closed_before(struct call *c)
{
	struct session_closed closed;
	if (!c->again || !sessions_closed_by(
				 c->server->config.sessions, c->principal, &c->delivery, &closed))
		return false;
	memcpy(c->handle, closed.handle, sizeof(c->handle));
	memcpy(c->sandbox_id, closed.sandbox_id, sizeof(c->sandbox_id));
	forget_own(c);
	if (closed.ending) {
		call_use_session(c, closed.ending);
		session_close(c->session, "closed by the caller", on_closed, c);
	} else {
		on_closed(c, NULL);
	}
	return true;
}

static void run(struct call *c)
{
	const char *a = c->action;
	struct err err = {0};
	if (strcmp(a, "open") == 0) {
		do_open(c);
		return;
	}
	if (strcmp(a, "list") == 0) {
		do_list(c);
		return;
	}
	c->silent = strcmp(a, "close") == 0;
	if (c->silent && closed_before(c))
		return;
	if (call_find_session(c, strcmp(a, "info") == 0, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	if (strcmp(a, "info") == 0)
		do_info(c);
	else if (strcmp(a, "close") == 0)
		do_close(c);
	else
		do_change(c);
}

static bool cancel(struct call *c)
{
	if (!c->op)
		return false; /* a kernel's or session's end is under way */
	exec_abandon(c->op);
	c->op = NULL;
	return true;
}

const struct tool tool_session = {
	.name = "session",
	.title = "Sessions",
	.description =
		"Sandboxes as such: open a fresh one, info (limits, isolation, "
		"interpreters, jobs), "
		"list, interrupt or restart the interpreter, fork it (a second one with the "
		"same variables, in milliseconds; while no cell runs and it has no threads), "
		"close. Most tasks need no call of this: "
		"the first run opens a session. One not used for 15 minutes ends.",
	.destructive = true,
	.args = {args, ARRAY_SIZE(args), actions, ARRAY_SIZE(actions)},
	.result = result_fields,
	.session = TOOL_SESSION_SELF,
	.run = run,
	.cancel = cancel,
};
