/* present.c: see present.h. */
#include "mcp/present.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "mcp/resources.h"

struct present {
	struct call *call;
	struct outputs_call *op;
	char *path;
	present_fn done;
};

static void present_free(struct present *p)
{
	free(p->path);
	free(p);
}

static void on_presented(void *user, const struct output *o, const struct err *err)
{
	struct present *p = user;
	struct call *c = p->call;
	present_fn done = p->done;
	struct err failed = {0};
	_cleanup_free_ char *unread =
		o && o->unread ? xasprintf("not looked into: %s", o->unread) : NULL;
	struct audit_event e = {
		.event = err ? "file.refused" : "file.present",
		.path = p->path,
		.sha256 = o ? o->sha256 : NULL,
		.bytes_out = o ? o->size : 0,
		.detail = err ? err->text : unread,
	};
	int r = call_audit(c, &e, &failed);
	present_free(p);
	if (r < 0)
		done(c, NULL, &failed);
	else
		done(c, o, err);
}

static int check_folder(const struct call *c, struct err *err)
{
	const struct err *why = c->server->config.no_outputs;
	if (c->server->config.outputs)
		return 0;
	if (why)
		return err_set(err, why->code, why->errnum, "%s", why->text);
	return err_set(err, ERR_IO, 0, "this server has no folder for presented files");
}

int present_start(struct call *c, const struct present_wish *wish, present_fn done,
	struct present **ret, struct err *err)
{
	int r = check_folder(c, err);
	if (r == 0)
		r = call_permit_tool(c, tool_present_output.name, err);
	if (r < 0)
		return r;
	struct present *p = xcalloc(1, sizeof(*p));
	p->call = c;
	p->path = xstrdup(wish->path);
	p->done = done;
	(void)snprintf(c->doing, sizeof(c->doing), "copies a file out of session %s", c->handle);
	const struct policy_outputs *rules = policy_outputs(c->policy, c->principal);
	const struct outputs_wish how = {
		.principal = c->principal,
		.session = c->handle,
		.path = p->path,
		.title = wish->title,
		.id = wish->id,
		.max_bytes = rules->max_bytes,
		.quota = policy_limits(c->policy, c->principal)->outputs_bytes,
		.not_executable = !rules->executable,
		.again = wish->again,
		.redactor = call_redacting(c).redactor,
	};
	p->op = outputs_present(
		c->server->config.outputs, session_files(c->session), &how, on_presented, p);
	*ret = p;
	return 0;
}

void present_abandon(struct present *p)
{
	if (!p)
		return;
	outputs_abandon(p->op);
	present_free(p);
}

static char *link_of(const struct call *c, const struct output *o, uint64_t *ret_until_s)
{
	return c->conn ? resources_link(c->conn, o->uri, ret_until_s) : NULL;
}

void present_tell(struct call *c, const struct output *o)
{
	char size[STR_SIZE_TEXT], until[CLOCK_RFC3339_SIZE];
	uint64_t until_s;
	_cleanup_free_ char *link = link_of(c, o, &until_s);
	str_size(o->size, size);
	call_print(c, "presented %s (%s, %s)\n", o->name, size, o->mime_type);
	call_print(c, "uri: %s\nfile for the person: %s\nsha256: %s\n", o->uri, o->host_path,
		o->sha256);
	if (link) {
		clock_rfc3339(until_s * USEC_PER_SEC, until);
		call_print(c, "link for the person (until %s): %s\n", until, link);
	}
	if (o->executable)
		call_print(c, "note: opening it may run something; tell the person\n");
	if (o->size > 512 * KIB)
		call_print(c, "resources/read gives it in pieces: append ?offset=N&length=M to the "
			      "uri; each answer names the next one (_meta scb/nextUri)\n");
}

static void set_text(json_t *into, const char *name, const char *text)
{
	if (text)
		json_object_set_new(into, name, jsonrpc_text(text));
}

void present_set(const struct call *c, const struct output *o, json_t *into)
{
	uint64_t until_s;
	_cleanup_free_ char *link = link_of(c, o, &until_s);
	set_text(into, "uri", o->uri);
	set_text(into, "name", o->name);
	set_text(into, "path", o->host_path);
	json_object_set_new(into, "bytes", json_integer((json_int_t)o->size));
	set_text(into, "sha256", o->sha256);
	set_text(into, "mimeType", o->mime_type);
	json_object_set_new(into, "executable", json_boolean(o->executable));
	set_text(into, "link", link);
}
