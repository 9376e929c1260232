/* present_output.c: a file's only way out of a sandbox. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "files/outputs.h"
#include "mcp/call.h"
#include "mcp/resources.h"

static const struct arg args[] = {
	{"path", ARG_TEXT, .required = true, .min = 1, .max = LIMIT_PATH - 1,
		.description = "a regular file in /workspace"},
	{"title", ARG_TEXT, .max = 200, .description = "for the person"},
	{"session", ARG_TEXT, .max = 64 * KIB},
};

static const struct field result_fields[] = {
	{"session", "string", true, NULL},
	{"uri", "string", true, NULL},
	{"name", "string", true, NULL},
	{"path", "string", true, NULL},
	{"bytes", "integer", true, NULL},
	{"sha256", "string", true, NULL},
	{"mimeType", "string", true, NULL},
	{"executable", "boolean", true, NULL},
	{"link", "string", false, NULL},
	{0},
};

static void print_output(struct call *c, const struct output *o)
{
	char size[STR_SIZE_TEXT];
	uint64_t until_s;
	_cleanup_free_ char *link = c->conn ? resources_link(c->conn, o->uri, &until_s) : NULL;
	str_size(o->size, size);
	call_print(c, "presented %s (%s, %s)\n", o->name, size, o->mime_type);
	call_print(c, "uri: %s\nfile for the person: %s\nsha256: %s\n", o->uri, o->host_path,
		o->sha256);
	if (link) {
		char until[CLOCK_RFC3339_SIZE];
		clock_rfc3339(until_s * USEC_PER_SEC, until);
		call_print(c, "link for the person (until %s): %s\n", until, link);
		call_set_text(c, "link", link);
	}
	if (o->executable)
		call_print(c, "note: opening it may run something; tell the person\n");
	if (o->size > 512 * KIB)
		call_print(c, "resources/read gives it in pieces: append ?offset=N&length=M to the "
			      "uri; each answer names the next one (_meta scb/nextUri)\n");
}

static void on_presented(void *user, const struct output *o, const struct err *err)
{
	struct call *c = user;
	struct err failed = {0};
	c->state = NULL;
	_cleanup_free_ char *unread =
		o && o->unread ? xasprintf("not looked into: %s", o->unread) : NULL;
	struct audit_event e = {
		.event = err ? "file.refused" : "file.present",
		.path = args_text(c->args, "path"),
		.sha256 = o ? o->sha256 : NULL,
		.bytes_out = o ? o->size : 0,
		.detail = err ? err->text : unread,
	};
	if (call_audit(c, &e, &failed) < 0) {
		call_fail(c, &failed);
		return;
	}
	if (err) {
		call_fail(c, err);
		return;
	}
	print_output(c, o);
	call_set_text(c, "uri", o->uri);
	call_set_text(c, "name", o->name);
	call_set_text(c, "path", o->host_path);
	call_set_u64(c, "bytes", o->size);
	call_set_text(c, "sha256", o->sha256);
	call_set_text(c, "mimeType", o->mime_type);
	call_set(c, "executable", json_boolean(o->executable));
	call_finish(c);
}

static void run(struct call *c)
{
	if (!c->server->config.outputs) {
		const struct err *why = c->server->config.no_outputs;
		if (why)
			call_fail(c, why);
		else
			call_failf(c, ERR_IO, "this server has no folder for presented files");
		return;
	}
	(void)snprintf(c->doing, sizeof(c->doing), "copies a file out of session %s", c->handle);
	char id[ID_TEXT_SIZE];
	delivery_id(&c->delivery, 'o', id);
	const struct policy_outputs *rules = policy_outputs(c->policy, c->principal);
	const struct outputs_wish wish = {
		.principal = c->principal,
		.session = c->handle,
		.path = args_text(c->args, "path"),
		.title = args_text(c->args, "title"),
		.id = id,
		.max_bytes = rules->max_bytes,
		.quota = policy_limits(c->policy, c->principal)->outputs_bytes,
		.not_executable = !rules->executable,
		.again = c->delivery.replayed,
		.redactor = call_redacting(c).redactor,
	};
	c->state = outputs_present(
		c->server->config.outputs, session_files(c->session), &wish, on_presented, c);
}

static bool cancel(struct call *c)
{
	outputs_abandon(c->state);
	c->state = NULL;
	return true;
}

const struct tool tool_present_output = {
	.name = "present_output",
	.title = "Hand a file to the person",
	.description =
		"Copy a file of /workspace out of the sandbox, for the person. The only way a file "
		"leaves it. Returns a resource:// URI and where the person finds the file.",
	.args = {.args = args, .n_args = ARRAY_SIZE(args)},
	.result = result_fields,
	.run = run,
	.cancel = cancel,
};
