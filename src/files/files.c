/* files.c: see files.h. */
#include "files/files.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/list.h"
#include "base/str.h"
#include "files/digest.h"
#include "files/edit.h"
#include "files/path.h"
#include "link/link.h"
#include "link/status.h"
#include "provider/provider.h"
#include "secret/redact.h"

struct files {
	struct link *link;
	char *workspace;       /* NULL: only /workspace */
	struct path_view view; /* of workspace and mounts */
	char *mounts[LIMIT_MOUNTS];
	struct list calls;
	struct list failed; /* calls that failed at once; the timer reports them */
	uv_timer_t timer;
};

struct files_call {
	struct list calls;
	struct files *files;
	struct link_stream *stream;
	uint16_t op;
	char *path; /* canonical */
	files_done_fn done;
	void *user;
	struct files_result result;
	struct err err; /* a failure found here: it counts, whatever the agent says */
	uint32_t limit; /* of entries */
	uint64_t max;   /* of bytes */
	/* what is written */
	struct buf out;
	size_t out_sent;
	/* edit: first the read, then the write */
	char *old_text, *new_text;
	struct redactor *redactor;
	bool all;
	bool tagged;
	uint8_t tag[DELIVERY_TAG];
	/* fetch */
	files_sink_fn sink;
	struct digest *digest;
	uint64_t got;
};

/* ---- life of a call ---- */

static void entry_done(struct files_entry *e)
{
	free(e->path);
	free(e->line_text);
}

static void call_free(struct files_call *c)
{
	list_remove(&c->calls);
	for (size_t i = 0; i < c->result.n_entries; i++)
		entry_done(&c->result.entries[i]);
	free(c->result.entries);
	entry_done(&c->result.stat);
	buf_done(&c->result.bytes);
	buf_done(&c->out);
	digest_free(c->digest);
	free(c->old_text);
	free(c->new_text);
	redactor_unref(c->redactor);
	free(c->path);
	free(c);
}

static void call_finish(struct files_call *c)
{
	list_remove(&c->calls); /* done() may call files_free() */
	bool failed = c->err.code != ERR_NONE;
	if (c->done)
		c->done(c->user, failed ? NULL : &c->result, failed ? &c->err : NULL);
	call_free(c);
}

static void on_timer(uv_timer_t *t)
{
	struct files *f = container_of(t, struct files, timer);
	/* One at a time: done() may start calls, and may free f (the timer then is closed). */
	if (list_empty(&f->failed))
		return;
	struct files_call *c = container_of(f->failed.next, struct files_call, calls);
	if (f->failed.next != f->failed.prev)
		(void)uv_timer_start(t, on_timer, 0, 0);
	call_finish(c);
}

/* The error is told from the loop. */
static void fail_later(struct files_call *c)
{
	list_remove(&c->calls);
	list_append(&c->files->failed, &c->calls);
	(void)uv_timer_start(&c->files->timer, on_timer, 0, 0);
}

/* Ends a call whose stream is still open, from one of its callbacks. */
static void fail_now(struct files_call *c)
{
	link_reset(c->stream);
	c->stream = NULL;
	fail_later(c);
}

static const char *what(const struct files_call *c, char ret_text[static PATH_SHOWN + 8])
{
	char shown[PATH_SHOWN];
	path_shown(c->path, shown);
	memcpy(ret_text, "file ", 6);
	memcpy(ret_text + 5, shown, strlen(shown) + 1);
	return ret_text;
}

struct files *files_new(struct link *l)
{
	struct files *f = xcalloc(1, sizeof(*f));
	f->link = l;
	list_init(&f->calls);
	list_init(&f->failed);
	(void)uv_timer_init(link_loop(l), &f->timer);
	return f;
}

void files_set_workspace(struct files *f, const char *path)
{
	free(f->workspace);
	f->workspace = xstrdup(path);
	f->view.workspace = f->workspace;
}

void files_set_mounts(struct files *f, const struct sandbox_mount *mounts, size_t n)
{
	CHECK(f->view.n_mounts == 0 && n <= LIMIT_MOUNTS);
	for (size_t i = 0; i < n; i++)
		f->mounts[i] = xstrdup(mounts[i].name);
	f->view.mounts = f->mounts;
	f->view.n_mounts = n;
}

uv_loop_t *files_loop(const struct files *f)
{
	return link_loop(f->link);
}

int files_path(const struct files *f, const char *path, char **ret, struct err *err)
{
	return path_canonical(&f->view, path, ret, err);
}

void files_abandon(struct files_call *c)
{
	if (c->stream)
		link_reset(c->stream);
	call_free(c);
}

static void on_closed(uv_handle_t *h)
{
	struct files *f = container_of((uv_timer_t *)h, struct files, timer);
	for (size_t i = 0; i < f->view.n_mounts; i++)
		free(f->mounts[i]);
	free(f->workspace);
	free(f);
}

void files_free(struct files *f)
{
	if (!f)
		return;
	list_for_each (c, next, &f->calls, struct files_call, calls) {
		files_abandon(c);
	}
	list_for_each (c, next, &f->failed, struct files_call, calls) {
		files_abandon(c);
	}
	uv_close((uv_handle_t *)&f->timer, on_closed);
}

/* ---- what the agent says ---- */

static void take_entry_tag(const struct tlv *t, struct files_entry *e)
{
	uint64_t v = 0;
	if (t->tag != TAG_LINE_TEXT && tlv_get_u64(t, &v) < 0)
		return;
	switch (t->tag) {
	case TAG_KIND:
		e->kind = v >= FILE_REGULAR && v <= FILE_DEVICE ? (enum wire_file_kind)v
								: FILE_DEVICE;
		break;
	case TAG_SIZE:
		e->size = v;
		break;
	case TAG_MODE:
		e->mode = (uint32_t)(v & 07777);
		break;
	case TAG_MTIME_US:
		e->mtime_us = v;
		break;
	case TAG_LINE:
		e->line = v;
		break;
	case TAG_OFFSET:
		e->has_offset = true;
		e->offset = MIN(v, INT64_MAX);
		break;
	case TAG_LINE_TEXT:
		free(e->line_text);
		/* of a line that ends with CR LF, the CR is no text */
		e->line_text = path_printable(t->p, t->n - (t->n > 0 && t->p[t->n - 1] == '\r'));
		break;
	default:
		break;
	}
}

/* An entry's path as a caller would name it; rel is relative to the path that was asked for. */
static char *entry_path(const struct files_call *c, const uint8_t *rel, size_t n)
{
	_cleanup_free_ char *name = path_printable(rel, n);
	if (strcmp(c->path, ".") == 0)
		return name[0] ? TAKE_PTR(name) : xstrdup(".");
	return xasprintf("%s%s%s", c->path, name[0] ? "/" : "", name);
}

static void on_msg(void *user, struct tlv_reader msg)
{
	struct files_call *c = user;
	struct files_result *r = &c->result;
	if (r->n_entries == c->limit) { /* more than it was asked for */
		r->more = true;
		return;
	}
	struct files_entry e = {0};
	for (struct tlv t; tlv_next(&msg, &t);) {
		if (t.tag == TAG_PATH && !e.path && t.n <= LIMIT_PATH)
			e.path = entry_path(c, t.p, t.n);
		else
			take_entry_tag(&t, &e);
	}
	if (!e.path) {
		entry_done(&e);
		return;
	}
	if (!r->entries)
		r->entries = xcalloc(c->limit, sizeof(*r->entries));
	r->entries[r->n_entries++] = e;
}

static void on_bytes(void *user, const uint8_t *p, size_t n, bool fin)
{
	struct files_call *c = user;
	(void)fin;
	if (buf_append(&c->result.bytes, p, n) < 0) {
		char text[PATH_SHOWN + 8];
		(void)err_set(&c->err, ERR_PROTOCOL, EPROTO,
			"%s: the sandbox sent more bytes than it was asked for", what(c, text));
		fail_now(c);
		return;
	}
	link_consumed(c->stream, n);
}

static int by_path(const void *a, const void *b)
{
	const struct files_entry *x = a, *y = b;
	int order = strcmp(x->path, y->path);
	return order ? order : x->line < y->line ? -1 : x->line > y->line;
}

static void take_end_tag(const struct tlv *t, struct files_result *r)
{
	uint64_t v;
	take_entry_tag(t, &r->stat);
	if (t->tag == TAG_COUNT && tlv_get_u64(t, &v) == 0)
		r->count = v;
	else if (t->tag == TAG_MORE && tlv_get_u64(t, &v) == 0)
		r->more = r->more || v;
	else if (t->tag == TAG_SHA256 && t->n == SHA256_SIZE)
		memcpy(r->sha256, t->p, SHA256_SIZE);
}

/* The agent's refusal in words. */
static void set_status_error(
	struct files_call *c, enum wire_status status, struct tlv_reader msg, struct err *err)
{
	char text[LINK_STATUS_TEXT], name[PATH_SHOWN + 8];
	const struct err *lost = link_lost_reason(c->files->link);
	if (status == WIRE_GONE && lost) {
		*err = *lost;
		return;
	}
	link_status_text(msg, text);
	if (c->op == OP_FILE_DELETE && status == WIRE_EXISTS)
		(void)err_set(err, ERR_CONFLICT, ENOTEMPTY,
			"%s: the directory is not empty; delete it with recursive", what(c, name));
	else
		(void)link_status_error(status, what(c, name), text, err);
}

static void on_end(void *user, enum wire_status status, struct tlv_reader msg)
{
	struct files_call *c = user;
	c->stream = NULL;
	if (status != WIRE_OK)
		set_status_error(c, status, msg, &c->err);
	for (struct tlv t; tlv_next(&msg, &t);)
		take_end_tag(&t, &c->result);
	c->result.stat.path = xstrdup(c->path);
	c->result.size = c->result.stat.size;
	if (c->result.n_entries)
		qsort(c->result.entries, c->result.n_entries, sizeof(*c->result.entries), by_path);
	call_finish(c);
}

static const struct link_stream_events plain_events = {.end = on_end};
static const struct link_stream_events list_events = {.msg = on_msg, .end = on_end};
static const struct link_stream_events read_events = {.data = on_bytes, .end = on_end};

/* ---- starting ---- */

/* "/mnt" is a list of names and no directory of any sandbox: it can be listed, and no more. */
static int check_mounts_itself(
	const struct files *f, uint16_t op, const char *path, struct err *err)
{
	char mounts[PATH_MOUNTS];
	if (strcmp(path, "/mnt") != 0 || op == OP_FILE_STAT || op == OP_FILE_LIST)
		return 0;
	path_mounts(&f->view, mounts);
	if (op == OP_FILE_SEARCH || op == OP_FILE_READ)
		return err_set(err, ERR_INVALID_ARGUMENT, EISDIR,
			"/mnt itself can only be listed; name one of the mounts, as /mnt/NAME (%s)",
			mounts);
	return err_set(
		err, ERR_FILE_REFUSED, EROFS, "/mnt is read-only; write to /workspace instead");
}

/* A call on path; where path is not possible the call has failed already. */
static struct files_call *call_new(
	struct files *f, uint16_t op, const char *path, files_done_fn done, void *user)
{
	struct files_call *c = xcalloc(1, sizeof(*c));
	c->files = f;
	c->op = op;
	c->done = done;
	c->user = user;
	list_append(&f->calls, &c->calls);
	if (path_canonical(&f->view, path, &c->path, &c->err) < 0)
		c->path = NULL;
	else
		(void)check_mounts_itself(f, op, c->path, &c->err);
	return c;
}

/* The first tags of its request. */
static struct buf body_new(const struct files_call *c)
{
	struct buf b = BUF_INIT(4 * LIMIT_PATH);
	CHECK(tlv_str(&b, TAG_PATH, c->path ? c->path : "") == 0);
	return b;
}

/* Opens the stream, unless the call has failed already. Frees body. */
static struct files_call *call_start(
	struct files_call *c, struct buf *body, const struct link_stream_events *events)
{
	int r = c->err.code ? -EINVAL
			    : link_open(c->files->link, c->op, body, events, c, &c->stream);
	buf_done(body);
	const struct err *lost = link_lost_reason(c->files->link);
	if (r < 0 && !c->err.code && lost)
		c->err = *lost;
	else if (r < 0 && !c->err.code)
		(void)err_set(&c->err, ERR_LIMIT_REACHED, -r,
			"too much is going on in this session at once; wait for an answer first");
	if (r < 0) {
		c->stream = NULL;
		fail_later(c);
	}
	return c;
}

static void put_u64(struct buf *b, uint16_t tag, uint64_t v)
{
	CHECK(tlv_u64(b, tag, v) == 0);
}

static void put_tag(struct buf *b, const uint8_t *tag)
{
	if (tag)
		CHECK(tlv_bytes(b, TAG_DELIVERY, tag, DELIVERY_TAG) == 0);
}

struct files_call *files_stat(struct files *f, const char *path, files_done_fn done, void *user)
{
	struct files_call *c = call_new(f, OP_FILE_STAT, path, done, user);
	struct buf body = body_new(c);
	return call_start(c, &body, &plain_events);
}

struct files_call *files_list(struct files *f, const char *path, uint32_t depth, uint32_t limit,
	files_done_fn done, void *user)
{
	struct files_call *c = call_new(f, OP_FILE_LIST, path, done, user);
	struct buf body = body_new(c);
	c->limit = MIN(limit ? limit : LIMIT_LIST_ENTRIES, LIMIT_LIST_ENTRIES);
	put_u64(&body, TAG_DEPTH, depth);
	put_u64(&body, TAG_LIMIT, c->limit);
	return call_start(c, &body, &list_events);
}

struct files_call *files_read(struct files *f, const char *path, uint64_t offset, uint64_t length,
	files_done_fn done, void *user)
{
	struct files_call *c = call_new(f, OP_FILE_READ, path, done, user);
	struct buf body = body_new(c);
	length = MIN(length, LIMIT_READ_TEXT);
	if (offset > INT64_MAX && !c->err.code)
		(void)err_set(&c->err, ERR_INVALID_ARGUMENT, EINVAL, "offset is too large");
	c->result.bytes = BUF_INIT(length);
	c->result.offset = offset;
	put_u64(&body, TAG_OFFSET, offset);
	put_u64(&body, TAG_LENGTH, length);
	return call_start(c, &body, &read_events);
}

struct files_call *files_search(struct files *f, const char *path, const char *pattern,
	const char *name, uint32_t limit, files_done_fn done, void *user)
{
	struct files_call *c = call_new(f, OP_FILE_SEARCH, path, done, user);
	struct buf body = body_new(c);
	size_t n_pattern = pattern ? strlen(pattern) : 0, n_name = name ? strlen(name) : 0;
	if (!c->err.code && !n_pattern && !n_name)
		(void)err_set(&c->err, ERR_INVALID_ARGUMENT, EINVAL,
			"give pattern (text to look for), name (like *.csv), or both");
	else if (!c->err.code && (n_pattern > LIMIT_PATTERN || n_name > LIMIT_PATTERN))
		(void)err_set(&c->err, ERR_INVALID_ARGUMENT, EINVAL,
			"pattern and name may have %d bytes each", LIMIT_PATTERN);
	else if (!c->err.code && n_pattern && strchr(pattern, '\n'))
		(void)err_set(&c->err, ERR_INVALID_ARGUMENT, EINVAL,
			"pattern is looked for line by line and may hold no newline");
	c->limit = MIN(limit ? limit : LIMIT_SEARCH_HITS, LIMIT_SEARCH_HITS);
	if (!c->err.code && n_pattern)
		CHECK(tlv_str(&body, TAG_PATTERN, pattern) == 0);
	if (!c->err.code && n_name)
		CHECK(tlv_str(&body, TAG_NAME_PATTERN, name) == 0);
	put_u64(&body, TAG_LIMIT, c->limit);
	return call_start(c, &body, &list_events);
}

struct files_call *files_move(struct files *f, const char *path, const char *target, bool replace,
	const uint8_t *tag, files_done_fn done, void *user)
{
	struct files_call *c = call_new(f, OP_FILE_MOVE, path, done, user);
	struct buf body = body_new(c);
	_cleanup_free_ char *to = NULL;
	if (!c->err.code && path_canonical(&f->view, target, &to, &c->err) == 0 &&
		check_mounts_itself(f, c->op, to, &c->err) == 0)
		CHECK(tlv_str(&body, TAG_TARGET, to) == 0);
	put_u64(&body, TAG_REPLACE, replace);
	put_u64(&body, TAG_PARENTS, 1);
	put_tag(&body, tag);
	return call_start(c, &body, &plain_events);
}

struct files_call *files_delete(struct files *f, const char *path, bool recursive,
	const uint8_t *tag, files_done_fn done, void *user)
{
	struct files_call *c = call_new(f, OP_FILE_DELETE, path, done, user);
	struct buf body = body_new(c);
	if (!c->err.code && strcmp(c->path, ".") == 0)
		(void)err_set(&c->err, ERR_FILE_REFUSED, EBUSY,
			"the workspace itself stays; delete what is in it by name");
	put_u64(&body, TAG_RECURSIVE, recursive);
	put_tag(&body, tag);
	return call_start(c, &body, &plain_events);
}

struct files_call *files_mkdir(
	struct files *f, const char *path, const uint8_t *tag, files_done_fn done, void *user)
{
	struct files_call *c = call_new(f, OP_FILE_MKDIR, path, done, user);
	struct buf body = body_new(c);
	put_u64(&body, TAG_PARENTS, 1);
	put_tag(&body, tag);
	return call_start(c, &body, &plain_events);
}

/* ---- writing ---- */

static void on_writable(void *user)
{
	struct files_call *c = user;
	c->out_sent +=
		link_write(c->stream, c->out.data + c->out_sent, c->out.len - c->out_sent, true);
}

static const struct link_stream_events write_events = {.writable = on_writable, .end = on_end};

/* Starts writing what is in c->out. */
static struct files_call *write_start(
	struct files_call *c, struct buf *body, const struct link_stream_events *events)
{
	(void)call_start(c, body, events);
	if (c->stream && c->out.len == 0)
		(void)link_write(c->stream, "", 0, true);
	else if (c->stream)
		on_writable(c);
	return c;
}

struct files_call *files_write(struct files *f, const char *path, enum files_write_mode mode,
	uint64_t offset, const void *p, size_t n, const uint8_t *tag, files_done_fn done,
	void *user)
{
	struct files_call *c = call_new(f, OP_FILE_WRITE, path, done, user);
	struct buf body = body_new(c);
	if (offset > INT64_MAX && !c->err.code)
		(void)err_set(&c->err, ERR_INVALID_ARGUMENT, EINVAL, "offset is too large");
	put_u64(&body, TAG_PARENTS, 1);
	if (mode == FILES_APPEND)
		put_u64(&body, TAG_APPEND, 1);
	else if (mode == FILES_AT_OFFSET)
		put_u64(&body, TAG_OFFSET, offset);
	put_tag(&body, tag);
	c->out = BUF_INIT(n);
	CHECK(buf_append(&c->out, p, n) == 0);
	return write_start(c, &body, &write_events);
}

/* ---- editing ---- */

/* The file was read: writes it anew, if it still is the one that was read. */
static void on_edit_read(void *user, enum wire_status status, struct tlv_reader msg)
{
	struct files_call *c = user;
	struct files_entry st = {0};
	if (status != WIRE_OK) {
		on_end(c, status, msg);
		return;
	}
	c->stream = NULL;
	for (struct tlv t; tlv_next(&msg, &t);)
		take_entry_tag(&t, &st);
	free(st.line_text);
	char text[PATH_SHOWN + 8];
	c->out = BUF_INIT(LIMIT_EDIT_BYTES);
	if (st.size > LIMIT_EDIT_BYTES) {
		(void)err_set(&c->err, ERR_LIMIT_REACHED, EFBIG,
			"%s has %llu bytes; files up to %llu can be edited", what(c, text),
			(unsigned long long)st.size, LIMIT_EDIT_BYTES);
	} else {
		int places = edit_replace(&c->result.bytes, c->old_text, c->new_text, c->all,
			c->redactor, &c->out, &c->err);
		if (places < 0)
			(void)err_wrap(&c->err, "%s", what(c, text));
		else
			c->result.count = (uint64_t)places;
	}
	buf_done(&c->result.bytes);
	struct buf body = body_new(c);
	c->op = OP_FILE_WRITE;
	put_u64(&body, TAG_SIZE, st.size);
	put_u64(&body, TAG_MTIME_US, st.mtime_us);
	put_u64(&body, TAG_COUNT, c->result.count); /* comes back in END, now and when recalled */
	put_tag(&body, c->tagged ? c->tag : NULL);
	(void)write_start(c, &body, &write_events);
}

static void edit_read(struct files_call *c)
{
	static const struct link_stream_events events = {.data = on_bytes, .end = on_edit_read};
	struct buf body = body_new(c);
	c->op = OP_FILE_READ;
	c->result.bytes = BUF_INIT(LIMIT_EDIT_BYTES);
	put_u64(&body, TAG_LENGTH, LIMIT_EDIT_BYTES);
	(void)call_start(c, &body, &events);
}

/* Done before: that is the answer. */
static void on_edit_recalled(void *user, enum wire_status status, struct tlv_reader msg)
{
	struct files_call *c = user;
	if (status != WIRE_NOT_FOUND && status != WIRE_UNSUPPORTED) {
		c->op = OP_FILE_WRITE;
		on_end(c, status, msg);
		return;
	}
	c->stream = NULL;
	edit_read(c);
}

struct files_call *files_edit(struct files *f, const char *path, const char *old_text,
	const char *new_text, bool all, const struct redactor *redactor, const uint8_t *tag,
	bool again, files_done_fn done, void *user)
{
	static const struct link_stream_events recall = {.end = on_edit_recalled};
	struct files_call *c = call_new(f, OP_FILE_READ, path, done, user);
	c->old_text = xstrdup(old_text);
	c->new_text = xstrdup(new_text);
	c->all = all;
	c->redactor = redactor_ref(redactor);
	c->tagged = tag;
	if (tag)
		memcpy(c->tag, tag, DELIVERY_TAG);
	if (!tag || !again) {
		edit_read(c);
		return c;
	}
	struct buf body = BUF_INIT(64);
	put_tag(&body, tag);
	c->op = OP_RECALL;
	return call_start(c, &body, &recall);
}

/* ---- promotion ---- */

static void on_fetched(void *user, const uint8_t *p, size_t n, bool fin)
{
	struct files_call *c = user;
	char text[PATH_SHOWN + 8];
	(void)fin;
	c->got += n;
	int r = 0;
	if (c->got > c->max)
		r = err_set(&c->err, ERR_PROTOCOL, EPROTO,
			"%s: the sandbox sent more bytes than it was asked for", what(c, text));
	else if ((r = digest_update(c->digest, p, n, &c->err)) == 0 &&
		 (r = c->sink(c->user, p, n)) < 0)
		(void)err_set(&c->err, ERR_IO, -r, "%s could not be stored: %s", what(c, text),
			strerror(-r));
	if (r < 0)
		fail_now(c);
	else
		link_consumed(c->stream, n);
}

static void on_fetch_end(void *user, enum wire_status status, struct tlv_reader msg)
{
	struct files_call *c = user;
	char text[PATH_SHOWN + 8];
	struct files_entry st = {0};
	struct tlv_reader tags = msg;
	for (struct tlv t; tlv_next(&tags, &t);)
		take_entry_tag(&t, &st);
	free(st.line_text);
	if (status == WIRE_LIMIT && st.size > c->max) {
		char size[STR_SIZE_TEXT], max[STR_SIZE_TEXT];
		str_size(st.size, size);
		str_size(c->max, max);
		(void)err_set(&c->err, ERR_LIMIT_REACHED, EFBIG, "%s has %s; one file may have %s",
			what(c, text), size, max);
		status = WIRE_OK;
	} else if (status == WIRE_OK && st.size != c->got) {
		(void)err_set(&c->err, ERR_PROTOCOL, EPROTO,
			"%s: the sandbox sent another number of bytes than it said", what(c, text));
	} else if (status == WIRE_OK && !c->err.code) {
		int r = digest_final(c->digest, c->result.sha256, &c->err);
		CHECK(r == 0 || c->err.code);
	}
	on_end(c, status, msg);
}

struct files_call *files_fetch(struct files *f, const char *path, uint64_t max, files_sink_fn sink,
	files_done_fn done, void *user)
{
	static const struct link_stream_events events = {.data = on_fetched, .end = on_fetch_end};
	struct files_call *c = call_new(f, OP_FILE_READ, path, done, user);
	struct buf body = body_new(c);
	c->max = MIN(max, UINT32_MAX);
	c->sink = sink;
	if (!c->err.code && digest_new(&c->digest, &c->err) < 0)
		CHECK(c->err.code); /* call_start() tells it */
	put_u64(&body, TAG_STABLE, 1);
	put_u64(&body, TAG_LIMIT, c->max);
	return call_start(c, &body, &events);
}
