/* files.c: the session's workspace, and mounted data. */
#include "files/files.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "mcp/base64.h"
#include "mcp/call.h"
#include "mcp/tools/files_masked.h"

static const char *const encodings[] = {"text", "base64", NULL};

static const struct arg args[] = {
	{"action", ARG_TEXT, .required = true, .max = 20},
	{"path", ARG_TEXT, .min = 1, .max = LIMIT_PATH - 1,
		.description = "in /workspace (relative, default .) or /mnt/NAME"},
	{"session", ARG_TEXT, .max = 64 * KIB},
	{"depth", ARG_INTEGER, .min = 1, .max = 16, .description = "list: levels; default 1"},
	{"offset", ARG_INTEGER, .max = 9e15, .description = "read, write: first byte"},
	{"length", ARG_INTEGER, .min = 1, .max = LIMIT_READ_TEXT, .description = "read: bytes"},
	{"encoding", ARG_TEXT, .max = 10, .choices = encodings,
		.description = "of content; read: up to 65536 bytes in base64"},
	{"content", ARG_TEXT, .binary = true, .max = LIMIT_MCP_LINE, .description = "write"},
	{"append", ARG_BOOLEAN, .description = "write: at the end"},
	{"old_text", ARG_TEXT, .min = 1, .max = 2 * MIB,
		.description = "edit: must occur exactly once, unless all"},
	{"new_text", ARG_TEXT, .max = 2 * MIB},
	{"all", ARG_BOOLEAN, .description = "edit: every occurrence"},
	{"pattern", ARG_TEXT, .min = 1, .max = 1024, .description = "search: literal text"},
	{"name", ARG_TEXT, .min = 1, .max = LIMIT_NAME, .description = "search: e.g. *.csv"},
	{"target", ARG_TEXT, .min = 1, .max = LIMIT_PATH - 1, .description = "move"},
	{"replace", ARG_BOOLEAN, .description = "move: over an existing file"},
	{"recursive", ARG_BOOLEAN, .description = "delete: a directory with what is in it"},
	{"limit", ARG_INTEGER, .min = 1, .max = LIMIT_LIST_ENTRIES,
		.description = "list, search: most entries"},
};

static const struct arg_action actions[] = {
	{"list", {NULL}},
	{"stat", {"path"}},
	{"read", {"path"}},
	{"write", {"path", "content"}},
	{"edit", {"path", "old_text", "new_text"}},
	{"search", {NULL}},
	{"move", {"path", "target"}},
	{"delete", {"path"}},
	{"mkdir", {"path"}},
};

static const struct field entry_fields[] = {
	{"path", "string", true, NULL},
	{"kind", "string", true, NULL},
	{"bytes", "integer", false, NULL},
	{"modified", "string", false, NULL},
	{"line", "integer", false, NULL},
	{"text", "string", false, NULL},
	{0},
};
static const struct field result_fields[] = {
	{"session", "string", true, NULL},
	{"path", "string", true, NULL},
	{"kind", "string", false, NULL},
	{"entries", "[object]", false, entry_fields},
	{"more", "boolean", false, NULL},
	{"text", "string", false, NULL},
	{"data", "string", false, NULL},
	{"encoding", "string", false, NULL},
	{"offset", "integer", false, NULL},
	{"bytes", "integer", false, NULL},
	{"totalBytes", "integer", false, NULL},
	{"modified", "string", false, NULL},
	{"count", "integer", false, NULL},
	{0},
};

/* Entries whose JSON would pass this are left out, and "more" says so. */
#define ENTRIES_TEXT_MAX (64 * KIB)

struct files_state {
	struct files_call *op;
	const char *path;
	bool base64;
	uint64_t offset, length;   /* read: as asked for */
	struct files_check *check; /* search: hits that are looked up */
};

static void state_free(void *state)
{
	struct files_state *st = state;
	files_check_free(st->check);
	free(st);
}

static const char *kind_name(enum wire_file_kind kind)
{
	switch (kind) {
	case FILE_REGULAR:
		return "file";
	case FILE_DIRECTORY:
		return "directory";
	case FILE_LINK:
		return "link";
	case FILE_FIFO:
		return "fifo";
	case FILE_SOCKET:
		return "socket";
	case FILE_DEVICE:
		return "device";
	}
	return "unknown";
}

/* ---- answers ---- */

static void print_text(struct call *c, const char *text)
{
	json_t *v = jsonrpc_text(text);
	call_print(c, "%s", json_string_value(v));
	json_decref(v);
}

static json_t *entry_json(const struct files_entry *e)
{
	json_t *o = json_object();
	json_object_set_new(o, "path", jsonrpc_text(e->path));
	if (e->line > 0) {
		json_object_set_new(o, "kind", json_string("file"));
		json_object_set_new(o, "line", json_integer((json_int_t)e->line));
		if (e->line_text)
			json_object_set_new(o, "text", jsonrpc_text(e->line_text));
		return o;
	}
	json_object_set_new(o, "kind", json_string(kind_name(e->kind)));
	if (e->kind == FILE_REGULAR)
		json_object_set_new(o, "bytes", json_integer((json_int_t)e->size));
	if (e->mtime_us) {
		char when[CLOCK_RFC3339_SIZE];
		clock_rfc3339(e->mtime_us, when);
		json_object_set_new(o, "modified", json_string(when));
	}
	return o;
}

static void print_entry(struct call *c, const struct files_entry *e)
{
	print_text(c, e->path);
	if (e->line > 0) {
		call_print(c, ":%llu: ", (unsigned long long)e->line);
		print_text(c, e->line_text ? e->line_text : "");
	} else if (e->kind == FILE_DIRECTORY) {
		call_print(c, "/");
	} else if (e->kind == FILE_REGULAR) {
		call_print(c, "  %llu byte%s", (unsigned long long)e->size, str_plural(e->size));
	} else {
		call_print(c, "  (%s)", kind_name(e->kind));
	}
	call_print(c, "\n");
}

static void answer_entries(struct call *c, struct files_result *r)
{
	json_t *list = json_array();
	bool more = r->more;
	for (size_t i = 0; i < r->n_entries; i++) {
		if (c->text.len > ENTRIES_TEXT_MAX) {
			more = true;
			break;
		}
		print_entry(c, &r->entries[i]);
		json_array_append_new(list, entry_json(&r->entries[i]));
	}
	if (r->n_entries == 0)
		call_print(c, "nothing there\n");
	if (more)
		call_print(c, "(more was left out; name a deeper path, or search)\n");
	call_set(c, "entries", list);
	call_set(c, "more", json_boolean(more));
}

static void answer_stat(struct call *c, const struct files_result *r)
{
	json_t *o = entry_json(&r->stat);
	json_object_del(o, "path");
	json_object_update(c->structured, o);
	json_decref(o);
	print_text(c, c->state ? ((struct files_state *)c->state)->path : "");
	call_print(c, ": %s, %llu byte%s\n", kind_name(r->stat.kind),
		(unsigned long long)r->stat.size, str_plural(r->stat.size));
}

static void answer_read(struct call *c, const struct files_result *r)
{
	const struct files_state *st = c->state;
	size_t n = r->bytes.len;
	uint64_t end = r->offset + n;
	if (!st->base64 && end < r->size)
		n = str_utf8_trim(r->bytes.data, n); /* the next piece begins with that character */
	if (!st->base64 && !str_utf8_valid(r->bytes.data, n)) {
		call_failf(c, ERR_INVALID_ARGUMENT,
			"the file is not UTF-8 text; read it with \"encoding\": \"base64\", or "
			"look at "
			"it with run_code");
		return;
	}
	end = r->offset + n;
	if (st->base64) {
		json_t *data = base64_json(r->bytes.data, n);
		call_print(c, "base64: %s\n", json_string_value(data));
		call_set(c, "data", data);
		call_set_text(c, "encoding", "base64");
	} else {
		json_t *text = jsonrpc_text_n(r->bytes.data, n);
		call_print_n(c, json_string_value(text), json_string_length(text));
		if (n > 0 && r->bytes.data[n - 1] != '\n')
			call_print(c, "\n");
		call_set(c, "text", text);
	}
	call_set_u64(c, "offset", r->offset);
	call_set_u64(c, "bytes", n);
	call_set_u64(c, "totalBytes", r->size);
	if (end < r->size)
		call_print(c, "[bytes %llu to %llu of %llu; next: offset=%llu]\n",
			(unsigned long long)r->offset, (unsigned long long)end,
			(unsigned long long)r->size, (unsigned long long)end);
	call_finish(c);
}

static void answer_change(struct call *c, const struct files_result *r)
{
	const struct files_state *st = c->state;
	const char *a = c->action;
	print_text(c, st->path);
	if (strcmp(a, "write") == 0) {
		call_print(c, ": written, %llu byte%s now\n", (unsigned long long)r->size,
			str_plural(r->size));
		call_set_u64(c, "totalBytes", r->size);
	} else if (strcmp(a, "edit") == 0) {
		call_print(c, ": %llu replaced\n", (unsigned long long)r->count);
		call_set_u64(c, "count", r->count);
		call_set_u64(c, "totalBytes", r->size);
	} else if (strcmp(a, "move") == 0) {
		call_print(c, ": moved to ");
		print_text(c, args_text(c->args, "target"));
		call_print(c, "\n");
	} else if (strcmp(a, "delete") == 0) {
		call_print(c, ": deleted\n");
		call_set_u64(c, "count", r->count);
	} else {
		call_print(c, ": made\n");
	}
}

static uint32_t search_limit(const struct call *c)
{
	return (uint32_t)MIN(args_u64(c->args, "limit", LIMIT_SEARCH_HITS), LIMIT_SEARCH_HITS);
}

static void answer_search(struct call *c, struct files_result *r)
{
	answer_entries(c, r);
	call_finish(c);
}

static void on_done(void *user, struct files_result *r, const struct err *err)
{
	struct call *c = user;
	struct files_state *st = c->state;
	st->op = NULL;
	if (err) {
		call_fail(c, err);
		return;
	}
	call_set_text(c, "path", st->path);
	if (strcmp(c->action, "read") == 0) {
		files_mask_read(c, r, st->offset, st->length);
		answer_read(c, r);
		return;
	}
	if (strcmp(c->action, "search") == 0 && call_redacting(c).redactor) {
		st->check = files_check_new(c, session_files(c->session), r,
			args_text(c->args, "pattern"), args_text(c->args, "name"), search_limit(c),
			&st->op, answer_search);
		files_check_start(st->check);
		return;
	}
	if (strcmp(c->action, "list") == 0 || strcmp(c->action, "search") == 0)
		answer_entries(c, r);
	else if (strcmp(c->action, "stat") == 0)
		answer_stat(c, r);
	else
		answer_change(c, r);
	call_finish(c);
}

/* ---- requests ---- */

static void do_write(struct call *c, struct files *f, struct files_state *st, const uint8_t *tag)
{
	const char *content = args_text(c->args, "content");
	size_t n = args_text_len(c->args, "content");
	bool at_offset = json_object_get(c->args, "offset") != NULL;
	bool append = args_bool(c->args, "append");
	_cleanup_buf_ struct buf bytes = BUF_INIT(LIMIT_MCP_LINE);
	if (at_offset && append) {
		call_failf(c, ERR_INVALID_ARGUMENT, "give \"offset\" or \"append\", not both");
		return;
	}
	if (st->base64) {
		if (base64_decode(content, n, &bytes) < 0) {
			call_failf(c, ERR_INVALID_ARGUMENT,
				"argument \"content\" is not base64 (RFC 4648, padded, no blanks)");
			return;
		}
		content = (const char *)bytes.data;
		n = bytes.len;
	}
	st->op = files_write(f, st->path,
		append      ? FILES_APPEND
		: at_offset ? FILES_AT_OFFSET
			    : FILES_REPLACE,
		args_u64(c->args, "offset", 0), content ? content : "", n, tag, on_done, c);
}

static void do_search(struct call *c, struct files *f, struct files_state *st)
{
	const char *pattern = args_text(c->args, "pattern"), *name = args_text(c->args, "name");
	if (!pattern && !name)
		call_failf(c, ERR_INVALID_ARGUMENT,
			"action search needs \"pattern\" (text in files), \"name\" (like *.csv), "
			"or "
			"both");
	else
		st->op = files_search(f, st->path, pattern, name,
			call_redacting(c).redactor ? LIMIT_SEARCH_HITS : search_limit(c), on_done,
			c);
}

static void do_read(struct call *c, struct files *f, struct files_state *st)
{
	/* what stands around the range is read with it: a secret may begin or end there */
	uint64_t reach = redactor_reach(call_redacting(c).redactor);
	uint64_t fallback = st->base64 ? LIMIT_READ_BASE64 : LIMIT_ANSWER_TEXT;
	uint64_t max = st->base64 ? LIMIT_READ_BASE64 : LIMIT_READ_TEXT - 2 * reach;
	st->offset = args_u64(c->args, "offset", 0);
	st->length = MIN(args_u64(c->args, "length", fallback), max);
	uint64_t before = MIN(st->offset, reach);
	st->op = files_read(
		f, st->path, st->offset - before, before + st->length + reach, on_done, c);
}

static void run(struct call *c)
{
	struct files *f = session_files(c->session);
	struct files_state *st = xcalloc(1, sizeof(*st));
	const char *path = args_text(c->args, "path"), *a = c->action;
	const char *encoding = args_text(c->args, "encoding");
	uint8_t room[DELIVERY_TAG];
	const uint8_t *tag = call_tag(c, STEP_CHANGE, room);
	c->state = st;
	c->state_free = state_free;
	st->path = path ? path : ".";
	st->base64 = encoding && strcmp(encoding, "base64") == 0;
	(void)snprintf(c->doing, sizeof(c->doing), "%s in session %s", a, c->handle);

	if (strcmp(a, "list") == 0)
		st->op = files_list(f, st->path, (uint32_t)args_u64(c->args, "depth", 1),
			(uint32_t)args_u64(c->args, "limit", LIMIT_LIST_ENTRIES), on_done, c);
	else if (strcmp(a, "stat") == 0)
		st->op = files_stat(f, st->path, on_done, c);
	else if (strcmp(a, "read") == 0)
		do_read(c, f, st);
	else if (strcmp(a, "write") == 0)
		do_write(c, f, st, tag);
	else if (strcmp(a, "edit") == 0)
		st->op = files_edit(f, st->path, args_text(c->args, "old_text"),
			args_text(c->args, "new_text"), args_bool(c->args, "all"),
			call_redacting(c).redactor, tag, c->delivery.replayed, on_done, c);
	else if (strcmp(a, "search") == 0)
		do_search(c, f, st);
	else if (strcmp(a, "move") == 0)
		st->op = files_move(f, st->path, args_text(c->args, "target"),
			args_bool(c->args, "replace"), tag, on_done, c);
	else if (strcmp(a, "delete") == 0)
		st->op =
			files_delete(f, st->path, args_bool(c->args, "recursive"), tag, on_done, c);
	else
		st->op = files_mkdir(f, st->path, tag, on_done, c);
}

static bool cancel(struct call *c)
{
	struct files_state *st = c->state;
	files_abandon(st->op);
	st->op = NULL;
	return true;
}

const struct tool tool_files = {
	.name = "files",
	.title = "Files",
	.description =
		"Files of the sandbox: list, stat, read (by offset), write (whole, append or at "
		"offset), edit, search, move, delete, mkdir. /workspace is private scratch, "
		"/mnt/NAME "
		"the person's data, read-only. A file reaches the person by present_output only.",
	.destructive = true,
	.args = {args, ARRAY_SIZE(args), actions, ARRAY_SIZE(actions)},
	.result = result_fields,
	.run = run,
	.cancel = cancel,
};
