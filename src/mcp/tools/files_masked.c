/* files_masked.c: see files_masked.h. */
#include "mcp/tools/files_masked.h"

#include <string.h>

#include "base/glob.h"
#include "base/limits.h"
#include "files/path.h"

/* Of a hit's line, as the agent tells them: before the hit, and in all. */
#define LINE_BEFORE 133
#define LINE_TEXT   400

/* ---- read ---- */

void files_mask_read(struct call *c, struct files_result *r, uint64_t offset, uint64_t length)
{
	struct redact_hits hits = {0};
	const struct redactor *redactor = call_redacting(c).redactor;
	size_t n = r->bytes.len, skip = (size_t)MIN(offset - MIN(offset, r->offset), n);
	size_t keep = (size_t)MIN(length, n - skip);
	_cleanup_free_ uint8_t *raw = NULL;
	if (redactor && n) {
		raw = xmemdup(r->bytes.data, n);
		redact_piece(
			redactor, r->bytes.data, n, r->offset > 0, r->offset + n < r->size, &hits);
		if (keep && memcmp(raw + skip, r->bytes.data + skip, keep) != 0)
			redact_hits_add(&c->hits, &hits);
		redact_hits_done(&hits);
	}
	buf_consume(&r->bytes, skip);
	r->bytes.len = keep;
	r->offset = MAX(r->offset, offset);
}

/* ---- search ---- */

struct files_check {
	struct call *call;
	struct files *files;
	struct files_call **op;
	files_masked_fn done;
	const char *pattern, *name;
	size_t limit;
	struct files_result result; /* entries alone */
	size_t next, kept;
	uint64_t from; /* where the window around the hit begins */
	bool dropped;
};

static void entry_free(struct files_entry *e)
{
	free(e->path);
	free(e->line_text);
	*e = (struct files_entry){0};
}

void files_check_free(struct files_check *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->result.n_entries; i++)
		entry_free(&k->result.entries[i]);
	free(k->result.entries);
	free(k);
}

static void keep(struct files_check *k)
{
	struct files_entry e = k->result.entries[k->next];
	k->result.entries[k->next] = (struct files_entry){0};
	k->result.entries[k->kept++] = e;
	k->next++;
}

static void drop(struct files_check *k)
{
	entry_free(&k->result.entries[k->next++]);
	k->dropped = true;
}

/* Was it found by a name that it does not have any more, once what is secret is masked? */
static bool name_was_secret(const struct files_check *k, const struct files_entry *e)
{
	const struct redactor *redactor = call_redacting(k->call).redactor;
	if (!k->name || !redact_find(redactor, e->path, strlen(e->path)))
		return false;
	if (strchr(k->name, '/'))
		return true;
	_cleanup_free_ char *path = xstrdup(e->path);
	redact_bytes(redactor, path, strlen(path), NULL);
	const char *slash = strrchr(path, '/');
	return !glob_match(k->name, slash ? slash + 1 : path, false);
}

/* What is shown of the line of a hit at p[at], where the pattern stands in its masked form. NULL:
 * nowhere. */
static char *masked_line(
	const struct files_check *k, const uint8_t *p, const uint8_t *raw, size_t n, size_t at)
{
	const uint8_t *end = memchr(raw + at, '\n', n - at); /* of the line as it is */
	size_t to = end ? (size_t)(end - raw) : n;
	const uint8_t *hit = memmem(p + at, to - at, k->pattern, strlen(k->pattern));
	if (!hit)
		return NULL;
	at = (size_t)(hit - p);
	size_t from = at - MIN(at, LINE_BEFORE);
	const uint8_t *start = memrchr(raw + from, '\n', at - from);
	from = start ? (size_t)(start - raw) + 1 : from;
	to = MIN(to, from + LINE_TEXT);
	return path_printable(p + from, to - from - (to > from && p[to - 1] == '\r'));
}

static void on_window(void *user, struct files_result *r, const struct err *err)
{
	struct files_check *k = user;
	struct files_entry *e = &k->result.entries[k->next];
	*k->op = NULL;
	size_t at = (size_t)(e->offset - k->from), n = r ? r->bytes.len : 0;
	char *line = NULL;
	if (!err && at < n) {
		struct redact_hits hits = {0};
		struct redacting w = call_redacting(k->call);
		_cleanup_free_ uint8_t *raw = xmemdup(r->bytes.data, n);
		redact_piece(
			w.redactor, r->bytes.data, n, k->from > 0, k->from + n < r->size, &hits);
		line = masked_line(k, r->bytes.data, raw, n, at);
		if (line)
			redact_hits_add(&k->call->hits, &hits);
		redact_hits_done(&hits);
	}
	if (line) {
		free(e->line_text);
		e->line_text = line;
		keep(k);
	} else {
		drop(k); /* a secret, or another file by now */
	}
	files_check_start(k);
}

void files_check_start(struct files_check *k)
{
	while (k->next < k->result.n_entries) {
		struct files_entry *e = &k->result.entries[k->next];
		if (name_was_secret(k, e) || (e->line && !e->has_offset)) {
			drop(k);
		} else if (!e->line) {
			keep(k);
		} else {
			uint64_t reach = redactor_reach(call_redacting(k->call).redactor);
			uint64_t before = MIN(e->offset, MAX(reach, LINE_BEFORE));
			k->from = e->offset - before;
			*k->op = files_read(k->files, e->path, k->from,
				before + 2 * LINE_TEXT + strlen(k->pattern) + reach, on_window, k);
			return;
		}
	}
	struct files_result *r = &k->result;
	/* that there was more must not tell of what was dropped */
	r->more = (r->more && !k->dropped) || k->kept > k->limit;
	for (size_t i = k->limit; i < k->kept; i++)
		entry_free(&r->entries[i]);
	r->n_entries = MIN(k->kept, k->limit);
	k->done(k->call, r);
}

struct files_check *files_check_new(struct call *c, struct files *f, struct files_result *r,
	const char *pattern, const char *name, size_t limit, struct files_call **op,
	files_masked_fn done)
{
	struct files_check *k = xcalloc(1, sizeof(*k));
	k->call = c;
	k->files = f;
	k->op = op;
	k->done = done;
	k->pattern = pattern;
	k->name = name;
	k->limit = limit;
	k->result.entries = TAKE_PTR(r->entries);
	k->result.n_entries = r->n_entries;
	k->result.more = r->more;
	r->n_entries = 0;
	return k;
}
