/* outputs.c: see outputs.h.
 *
 * One call: prepare (thread), fetch (loop), finish (thread). A call that is abandoned goes on to
 * finish, which then takes away what there is. */
#include "files/outputs.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/str.h"
#include "files/mime.h"
#include "files/name.h"
#include "files/path.h"
#include "files/meta.h"
#include "files/shelf.h"
#include "secret/redact.h"

struct outputs {
	struct shelf shelf;
	struct list calls;
	bool closed;
};

struct outputs_call {
	struct list calls;
	struct outputs *outputs;
	uv_work_t work;
	uv_loop_t *loop;
	struct files *files; /* gone once abandoned */
	struct files_call *fetch;
	outputs_present_fn done; /* NULL: abandoned */
	void *user;
	char *principal;
	struct output out;
	struct shelf_draft draft;
	struct err err;
	uint64_t max_bytes;
	bool not_executable;
	uint64_t used; /* by the principal, without this file */
	bool over_quota;
	bool again; /* look first whether it is there */
	bool found; /* it is, in out */
	uint8_t head[MIME_HEAD];
	size_t n_head;
	/* is it UTF-8? */
	bool not_utf8;
	uint8_t rest[4]; /* of a character that the next piece ends */
	size_t n_rest;
	/* is a secret in it? */
	struct redactor *redactor;
	struct redact_search search;
};

void output_done(struct output *o)
{
	free(o->uri);
	free(o->name);
	free(o->title);
	free(o->source_path);
	free(o->host_path);
	free(o->session);
	*o = (struct output){0};
}

int outputs_open(const char *dir, struct outputs **ret, struct err *err)
{
	struct outputs *o = xcalloc(1, sizeof(*o));
	int r = shelf_open(dir, &o->shelf, err);
	if (r < 0) {
		free(o);
		return r;
	}
	list_init(&o->calls);
	*ret = o;
	return 0;
}

static void outputs_drop(struct outputs *o)
{
	if (!o->closed || !list_empty(&o->calls))
		return;
	shelf_close(&o->shelf);
	free(o);
}

void outputs_close(struct outputs *o)
{
	if (!o)
		return;
	o->closed = true;
	outputs_drop(o);
}

/* ---- presenting: finish ---- */

static void finish_work(uv_work_t *w)
{
	struct outputs_call *c = container_of(w, struct outputs_call, work);
	int r = c->err.code ? -EINVAL
		: c->found  ? 0
			    : shelf_publish(
				      &c->outputs->shelf, c->principal, &c->draft, &c->out, &c->err);
	if (r < 0)
		shelf_discard(&c->draft);
}

static void discard_work(uv_work_t *w)
{
	shelf_discard(&container_of(w, struct outputs_call, work)->draft);
}

static void call_free(struct outputs_call *c)
{
	struct outputs *o = c->outputs;
	list_remove(&c->calls);
	shelf_draft_done(&c->draft);
	output_done(&c->out);
	redactor_unref(c->redactor);
	free(c->principal);
	free(c);
	outputs_drop(o);
}

static void after_discard(uv_work_t *w, int status)
{
	(void)status;
	call_free(container_of(w, struct outputs_call, work));
}

static void after_finish(uv_work_t *w, int status)
{
	struct outputs_call *c = container_of(w, struct outputs_call, work);
	(void)status;   /* nothing cancels work */
	if (!c->done) { /* abandoned while it was put there */
		CHECK(uv_queue_work(c->loop, &c->work, discard_work, after_discard) == 0);
		return;
	}
	list_for_each (other, next, &c->outputs->calls, struct outputs_call, calls) {
		if (!c->err.code && !c->found && other != c &&
			strcmp(other->principal, c->principal) == 0)
			other->used += c->out.size;
	}
	outputs_present_fn done = TAKE_PTR(c->done);
	done(c->user, c->err.code ? NULL : &c->out, c->err.code ? &c->err : NULL);
	call_free(c);
}

static void finish(struct outputs_call *c)
{
	CHECK(uv_queue_work(c->loop, &c->work, finish_work, after_finish) == 0);
}

/* ---- presenting: fetch ---- */

static void check_utf8(struct outputs_call *c, const uint8_t *p, size_t n)
{
	while (c->n_rest && n) {
		c->rest[c->n_rest++] = *p++;
		n--;
		if (str_utf8_trim(c->rest, c->n_rest) == c->n_rest) {
			c->not_utf8 |= !str_utf8_valid(c->rest, c->n_rest);
			c->n_rest = 0;
		}
	}
	size_t whole = str_utf8_trim(p, n);
	c->not_utf8 |= !str_utf8_valid(p, whole) || (whole && memchr(p, 0, whole));
	if (whole < n) {
		memcpy(c->rest, p + whole, n - whole);
		c->n_rest = n - whole;
	}
}

/* What the principal's files would take with those that are on their way. */
static uint64_t in_use(const struct outputs_call *c)
{
	uint64_t sum = c->used;
	list_for_each (other, next, &c->outputs->calls, struct outputs_call, calls) {
		if (strcmp(other->principal, c->principal) == 0)
			sum += other->out.size;
	}
	return sum;
}

static int on_piece(void *user, const uint8_t *p, size_t n)
{
	struct outputs_call *c = user;
	c->out.size += n;
	if (in_use(c) > c->draft.quota) {
		c->over_quota = true;
		return -EDQUOT;
	}
	if (redact_search_feed(&c->search, p, n))
		return -EACCES; /* on_fetched() says why */
	size_t head = MIN(n, MIME_HEAD - c->n_head);
	memcpy(c->head + c->n_head, p, head);
	c->n_head += head;
	if (!c->not_utf8)
		check_utf8(c, p, n);
	return fd_write_full(c->draft.file, p, n);
}

static void on_fetched(void *user, struct files_result *r, const struct err *err)
{
	struct outputs_call *c = user;
	c->fetch = NULL;
	if (c->over_quota) {
		(void)shelf_over_quota(&c->outputs->shelf, &c->draft, c->used, &c->err);
	} else if (c->search.name) {
		(void)err_set(&c->err, ERR_FILE_REFUSED, EACCES,
			"%.200s is not handed over: the secret %s stands in it, from byte %llu on; "
			"a file is never changed on its way out, so write it without the secret",
			c->out.name, c->search.name, (unsigned long long)c->search.offset);
	} else if (err) {
		c->err = *err;
	} else {
		struct mime m = mime_of(
			c->out.name, c->head, c->n_head, !c->not_utf8 && !c->n_rest, r->stat.mode);
		c->out.mime_type = m.type;
		c->out.text = m.text;
		c->out.executable = m.runs;
		if (c->redactor)
			c->out.unread = mime_packed(c->head, c->n_head);
		id_hex(r->sha256, sizeof(r->sha256), c->out.sha256);
		if (m.runs && c->not_executable)
			(void)err_set(&c->err, ERR_POLICY_DENIED, EPERM,
				"the policy lets no file out that would run something when it is "
				"opened (rule: outputs.executable), and %.200s would; present it "
				"in "
				"another form",
				c->out.name);
	}
	finish(c);
}

/* ---- presenting: prepare ---- */

static void prepare_work(uv_work_t *w)
{
	struct outputs_call *c = container_of(w, struct outputs_call, work);
	struct output found = {0};
	if (!c->err.code && c->again &&
		shelf_find_id(&c->outputs->shelf, c->principal, c->out.id, &found) == 0) {
		output_done(&c->out);
		c->out = found;
		c->found = true;
	} else if (!c->err.code && shelf_begin(&c->outputs->shelf, c->principal, &c->out, &c->draft,
					   &c->used, &c->err) < 0)
		CHECK(c->err.code);
}

static void after_prepare(uv_work_t *w, int status)
{
	struct outputs_call *c = container_of(w, struct outputs_call, work);
	(void)status;
	if (!c->done && !c->err.code)
		(void)err_set(&c->err, ERR_CANCELLED, ECANCELED, "abandoned");
	if (c->err.code || c->found)
		finish(c);
	else
		c->fetch = files_fetch(
			c->files, c->out.source_path, c->max_bytes, on_piece, on_fetched, c);
}

static char *clean_title(const char *title)
{
	if (!title || !title[0])
		return NULL;
	size_t n = strlen(title);
	return path_printable(title, n > LIMIT_NAME ? str_utf8_trim(title, LIMIT_NAME) : n);
}

/* What is mounted did not come out of the sandbox, and the person has it. */
static int check_workspace(const char *path, struct err *err)
{
	if (!str_starts(path, "/mnt"))
		return 0;
	const char *name = path + strlen("/mnt") + strspn(path + strlen("/mnt"), "/");
	if (!name[0])
		return err_set(err, ERR_FILE_REFUSED, EISDIR,
			"/mnt is the list of mounts; a file of /workspace can be presented");
	return err_set(err, ERR_FILE_REFUSED, EXDEV,
		"that file is already on the person's machine, in the mounted folder '%.*s'; files "
		"of /workspace can be presented",
		(int)strcspn(name, "/"), name);
}

/* What goes out beside the bytes. */
static int check_words(
	const struct redactor *r, const char *what, const char *words, struct err *err)
{
	const char *secret = words ? redact_find(r, words, strlen(words)) : NULL;
	if (!secret)
		return 0;
	return err_set(err, ERR_FILE_REFUSED, EACCES,
		"the file is not handed over: the secret %s stands in its %s; give it another one",
		secret, what);
}

struct outputs_call *outputs_present(struct outputs *o, struct files *f,
	const struct outputs_wish *wish, outputs_present_fn done, void *user)
{
	struct outputs_call *c = xcalloc(1, sizeof(*c));
	c->outputs = o;
	c->files = f;
	c->loop = files_loop(f);
	c->done = done;
	c->user = user;
	c->principal = xstrdup(wish->principal);
	c->again = wish->again && wish->id;
	c->redactor = redactor_ref(wish->redactor);
	c->search = (struct redact_search){.redactor = c->redactor};
	c->max_bytes = wish->max_bytes ? wish->max_bytes : LIMIT_PRESENT_BYTES;
	c->not_executable = wish->not_executable;
	c->draft = SHELF_DRAFT_INIT;
	if (wish->quota)
		c->draft.quota = wish->quota;
	list_append(&o->calls, &c->calls);
	if (wish->id)
		memcpy(c->out.id, wish->id, sizeof(c->out.id));
	else
		id_new('o', c->out.id);
	c->out.session = path_printable(wish->session, strlen(wish->session));
	c->out.title = clean_title(wish->title);
	c->out.created_us = clock_realtime_us();
	if (files_path(f, wish->path, &c->out.source_path, &c->err) == 0 &&
		check_workspace(c->out.source_path, &c->err) == 0 &&
		check_words(c->redactor, "path", c->out.source_path, &c->err) == 0 &&
		check_words(c->redactor, "title", wish->title, &c->err) == 0) {
		const char *slash = strrchr(c->out.source_path, '/');
		c->out.name = xstrdup(slash ? slash + 1 : c->out.source_path);
		if (name_check(c->out.name, &c->err) == 0)
			c->out.uri = meta_uri(c->out.id, c->out.name);
	}
	CHECK(uv_queue_work(c->loop, &c->work, prepare_work, after_prepare) == 0);
	return c;
}

void outputs_abandon(struct outputs_call *c)
{
	c->done = NULL;
	if (!c->fetch)
		return; /* a thread is at it */
	files_abandon(TAKE_PTR(c->fetch));
	(void)err_set(&c->err, ERR_CANCELLED, ECANCELED, "abandoned");
	finish(c);
}

/* ---- reading ---- */

static int no_such_resource(struct err *err)
{
	return err_set(err, ERR_NO_SUCH_RESOURCE, ENOENT,
		"no such resource; present_output gives the URI of a file, and keeps it for 7 "
		"days");
}

int outputs_find(struct outputs *o, const char *principal, const char *uri, struct output *ret,
	struct err *err)
{
	return shelf_find(&o->shelf, principal, uri, ret, NULL) < 0 ? no_such_resource(err) : 0;
}

int outputs_open_file(struct outputs *o, const char *principal, const char *uri, struct output *ret,
	int *ret_fd, struct err *err)
{
	return shelf_find(&o->shelf, principal, uri, ret, ret_fd) < 0 ? no_such_resource(err) : 0;
}

int outputs_read(struct outputs *o, const char *principal, const char *uri, uint64_t offset,
	uint64_t length, struct buf *ret, struct err *err)
{
	struct output found = {0};
	_cleanup_close_ int fd = -1;
	if (shelf_find(&o->shelf, principal, uri, &found, &fd) < 0)
		return no_such_resource(err);
	uint64_t left = found.size - MIN(found.size, offset);
	size_t want = (size_t)MIN(length, left);
	output_done(&found);
	if (buf_reserve(ret, want) < 0)
		return err_set(err, ERR_LIMIT_REACHED, EFBIG,
			"at most %zu bytes can be read at once", ret->max - ret->len);
	while (want) {
		ssize_t n = pread(fd, ret->data + ret->len, want, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(err, ERR_IO, errno, "cannot read the presented file: %s",
				strerror(errno));
		if (n == 0)
			break;
		ret->len += (size_t)n;
		offset += (uint64_t)n;
		want -= (size_t)n;
	}
	return 0;
}

int outputs_list(struct outputs *o, const char *principal,
	int (*fn)(void *user, const struct output *o), void *user, struct err *err)
{
	struct err why = {0};
	int r = shelf_list(&o->shelf, principal, fn, user, &why);
	if (r < 0 && why.code)
		*err = why;
	else if (r < 0)
		(void)err_set(err, ERR_IO, -r, "cannot list the presented files: %s", strerror(-r));
	return r;
}

int outputs_expire(struct outputs *o)
{
	return shelf_expire(&o->shelf, LIMIT_OUTPUTS_AGE_S);
}
