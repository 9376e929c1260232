/* httpfiles.c: see httpfiles.h. */
#include "mcp/httpfiles.h"

#include <stdio.h>
#include <string.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "files/handout.h"
#include "http/fields.h"
#include "mcp/conn.h"
#include "mcp/redaction.h"
#include "mcp/resources.h"

struct httpfiles {
	struct httpfiles_config config;
	struct handouts *handouts; /* made on first need */
	size_t n_transfers;
};

/* One request for a file. */
struct transfer {
	struct httpfiles *files;
	struct http_exchange *x;
	struct handout *handout;
	char *principal;
	bool linked; /* it came with a link, and not with a token */
	uint64_t at, left;
};

/* What every answer says: who has a link has the file, so it must not be told to other sites. */
static const struct http_field discreet[] = {
	{"referrer-policy", "no-referrer"}, {"cache-control", "private, no-cache"}};

static void answer(struct http_exchange *x, unsigned status, const char *text)
{
	_cleanup_free_ char *line = xasprintf("%s: %s\n", http_reason(status), text);
	http_answer(x, status, "text/plain; charset=utf-8", discreet, ARRAY_SIZE(discreet), line,
		strlen(line));
}

static void answer_err(struct http_exchange *x, const struct err *err)
{
	answer(x, (unsigned)err_info(err->code)->http_status, err->text);
}

static void transfer_free(struct transfer *t)
{
	handout_close(t->handout);
	t->files->n_transfers--;
	free(t->principal);
	free(t);
}

/* ---- the bytes ---- */

static void next_piece(struct transfer *t);

static void on_piece(void *user, const void *p, size_t n, const struct err *err)
{
	struct transfer *t = user;
	if (err) {
		log_warning("a file was cut off on its way out: %s", err->text);
		http_abort(t->x);
		transfer_free(t);
		return;
	}
	t->at += n;
	t->left -= n;
	http_write(t->x, p, n);
	if (t->left == 0) {
		http_end(t->x);
		transfer_free(t);
	} else if (http_queued(t->x) == 0) { /* else drained() */
		next_piece(t);
	}
}

static void next_piece(struct transfer *t)
{
	handout_read(t->handout, t->at, (size_t)MIN(t->left, HANDOUT_PIECE), on_piece, t);
}

static void on_gone(void *user)
{
	transfer_free(user);
}

static void on_drained(void *user)
{
	next_piece(user);
}

static const struct http_watcher watcher = {on_gone, on_drained};

/* ---- the head ---- */

/* What a browser shows, and nothing in it runs. */
static bool is_shown(const struct output *o)
{
	static const char *const types[] = {"image/png", "image/jpeg", "image/gif", "image/webp",
		"text/plain", "text/csv", "text/tab-separated-values", "text/markdown",
		"application/json"};
	for (size_t i = 0; !o->executable && i < ARRAY_SIZE(types); i++)
		if (strcmp(o->mime_type, types[i]) == 0)
			return true;
	return false;
}

static int put_on_record(struct transfer *t, const struct output *o, struct err *err)
{
	const struct mcp_server *s = t->files->config.server;
	_cleanup_free_ char *detail = xasprintf(
		"by %s, from byte %llu", t->linked ? "link" : "token", (unsigned long long)t->at);
	const struct audit_event e = {
		.event = "file.fetch",
		.principal = t->principal,
		.session = o->session,
		.path = o->source_path,
		.sha256 = o->sha256,
		.bytes_out = t->left,
		.detail = detail,
		.redactor = redaction_of(s, t->principal),
	};
	return audit_event(s->config.audit, &e, err);
}

static void begin(struct transfer *t, const struct output *o, const char *etag, bool part)
{
	char range[80];
	_cleanup_free_ char *disposition = http_disposition(!is_shown(o), o->name);
	_cleanup_free_ char *type = xasprintf("%s%s", o->mime_type,
		o->text && strncmp(o->mime_type, "text/", 5) == 0 ? "; charset=utf-8" : "");
	(void)snprintf(range, sizeof(range), "bytes %llu-%llu/%llu", (unsigned long long)t->at,
		(unsigned long long)(t->at + t->left - 1), (unsigned long long)o->size);
	const struct http_field fields[] = {
		discreet[0],
		discreet[1],
		{"content-disposition", disposition},
		{"content-security-policy",
			"default-src 'none'; style-src 'unsafe-inline'; sandbox"},
		{"accept-ranges", "bytes"},
		{"etag", (char *)etag},
		{"content-range", range},
	};
	http_begin(t->x, part ? 206 : 200, type, fields, ARRAY_SIZE(fields) - !part, t->left);
}

/* What the request's conditions come to. True: answered. */
static bool answer_condition(
	struct transfer *t, const struct output *o, const char *etag, bool *ret_part)
{
	const struct http_head *head = http_head(t->x);
	const char *if_range = http_field(head, "if-range"), *range = http_field(head, "range");
	struct http_range r = {0, o->size};
	char size[40];
	if (http_etag_listed(http_field(head, "if-none-match"), etag)) {
		const struct http_field fields[] = {
			discreet[0], discreet[1], {"etag", (char *)etag}};
		http_answer(t->x, 304, NULL, fields, ARRAY_SIZE(fields), NULL, 0);
		return true;
	}
	bool may = head->verb == HTTP_VERB_GET &&
		   (http_count(head, "if-range") == 0 || (if_range && strcmp(if_range, etag) == 0));
	enum http_range_kind kind = may ? http_range(range, o->size, &r) : HTTP_RANGE_WHOLE;
	if (kind == HTTP_RANGE_OUTSIDE) {
		(void)snprintf(size, sizeof(size), "bytes */%llu", (unsigned long long)o->size);
		const struct http_field fields[] = {
			discreet[0], discreet[1], {"content-range", size}};
		http_answer(t->x, 416, NULL, fields, ARRAY_SIZE(fields), NULL, 0);
		return true;
	}
	*ret_part = kind == HTTP_RANGE_PART;
	t->at = r.first;
	t->left = r.length;
	return false;
}

static void on_opened(void *user, const struct output *o, const struct err *err)
{
	struct transfer *t = user;
	char etag[sizeof(o->sha256) + 2];
	struct err why;
	bool part;
	if (err) {
		t->handout = NULL;
		answer_err(t->x, err);
		transfer_free(t);
		return;
	}
	(void)snprintf(etag, sizeof(etag), "\"%s\"", o->sha256);
	if (answer_condition(t, o, etag, &part)) {
		transfer_free(t);
		return;
	}
	bool bytes = t->left && http_head(t->x)->verb == HTTP_VERB_GET;
	if (put_on_record(t, o, &why) < 0) {
		answer_err(t->x, &why);
		transfer_free(t);
		return;
	}
	begin(t, o, etag, part);
	if (bytes) {
		next_piece(t);
	} else {
		http_end(t->x);
		transfer_free(t);
	}
}

/* ---- who asks ---- */

static void fetch(struct httpfiles *f, struct http_exchange *x, const struct weblink *l,
	const char *principal)
{
	struct mcp_server *s = f->config.server;
	struct err err;
	if (resources_permit(s, principal, &err) < 0) {
		answer_err(x, &err);
		return;
	}
	if (!s->config.outputs || f->n_transfers == LIMIT_HTTP_TRANSFERS) {
		answer(x, 503,
			s->config.outputs ? "too many files are being fetched; try again"
					  : "there is no folder for presented files");
		return;
	}
	if (!f->handouts)
		f->handouts = handouts_new(f->config.loop, s->config.outputs);
	struct transfer *t = xcalloc(1, sizeof(*t));
	t->files = f;
	t->x = x;
	t->principal = xstrdup(principal);
	t->linked = l->principal;
	f->n_transfers++;
	http_watch(x, &watcher, t);
	t->handout = handout_open(
		f->handouts, principal, l->uri, redaction_of(s, principal), on_opened, t);
}

bool httpfiles_answer(struct httpfiles *f, struct http_exchange *x, const char *principal)
{
	static const char unauthorized[] =
		"Unauthorized: this address needs a link as present_output gives it, or a token\n";
	static const struct http_field bearer[] = {{"www-authenticate", "Bearer realm=\"scb\""}};
	struct weblink l;
	if (weblink_read(f->config.key, http_head(x)->target, &l) < 0) {
		answer(x, 404, "no such file");
		return true;
	}
	bool forged =
		l.principal && (!l.valid || !f->config.is_principal(f->config.user, l.principal));
	bool late = l.principal && l.until_s <= clock_realtime_us() / USEC_PER_SEC;
	if (forged)
		answer(x, 404, "no such file");
	else if (l.principal && !late)
		fetch(f, x, &l, l.principal);
	else if (principal && (!l.principal || strcmp(l.principal, principal) == 0))
		fetch(f, x, &l, principal);
	else if (l.principal)
		answer(x, 410, "this link has expired; resources/read gives a new one");
	else
		http_answer(x, 401, "text/plain; charset=utf-8", bearer, 1, unauthorized,
			sizeof(unauthorized) - 1);
	weblink_done(&l);
	return !forged;
}

struct httpfiles *httpfiles_new(const struct httpfiles_config *c)
{
	struct httpfiles *f = xcalloc(1, sizeof(*f));
	f->config = *c;
	return f;
}

void httpfiles_free(struct httpfiles *f)
{
	if (!f)
		return;
	CHECK(f->n_transfers == 0);
	handouts_free(f->handouts);
	free(f);
}
