/* answer.c: what a dashboard's cell displayed, taken as the hostile input that it is. */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "dashboard/dashboard_internal.h"
#include "exec/exec.h"

#define MIME "application/vnd.scb.dashboard."

static int depth_of(const json_t *v, int left)
{
	const char *key;
	json_t *item;
	size_t i;
	if (left == 0)
		return -1;
	if (json_is_object(v))
		json_object_foreach ((json_t *)v, key, item)
			if (depth_of(item, left - 1) < 0)
				return -1;
	json_array_foreach (v, i, item)
		if (depth_of(item, left - 1) < 0)
			return -1;
	return 0;
}

/* An object that says of itself what a tree, a patch or an outline says. */
static json_t *parse(const struct exec_mime *m, size_t max)
{
	if (m->n > max)
		return NULL;
	json_t *v = json_loadb((const char *)m->data, m->n, JSON_REJECT_DUPLICATES, NULL);
	if (v && json_is_object(v) && depth_of(v, LIMIT_JSON_DEPTH) == 0)
		return v;
	json_decref(v);
	return NULL;
}

static int bad(struct err *err, const char *what)
{
	return err_set(err, ERR_PROTOCOL, EPROTO,
		"the dashboard's kernel gave %s that cannot be read; run its code again", what);
}

/* What an answer may say: all else that a cell puts into it is dropped, since members of the tool's
 * result are the broker's. */
enum type { INTEGER, NUMBER, BOOLEAN, TEXT, ARRAY, OBJECT };
struct member {
	const char *name;
	enum type type;
};
static const struct member tree_members[] = {{"v", INTEGER}, {"rev", INTEGER}, {"title", TEXT},
	{"about", TEXT}, {"status", TEXT}, {"ms", NUMBER}, {"notes", ARRAY}, {"tree", ARRAY}, {0}};
static const struct member patch_members[] = {{"v", INTEGER}, {"from", INTEGER}, {"rev", INTEGER},
	{"title", TEXT}, {"about", TEXT}, {"status", TEXT}, {"ms", NUMBER}, {"ran", ARRAY},
	{"notes", ARRAY}, {"set", OBJECT}, {"order", OBJECT}, {"del", ARRAY},
	{"overtaken", BOOLEAN}, {0}};
static const struct member page_members[] = {
	{"v", INTEGER}, {"rev", INTEGER}, {"set", OBJECT}, {"export", OBJECT}, {0}};
static const struct member outline_members[] = {{"rev", INTEGER}, {"title", TEXT}, {"status", TEXT},
	{"controls", ARRAY}, {"shown", ARRAY}, {"notes", ARRAY}, {0}};

static bool is_of(const json_t *v, enum type type)
{
	switch (type) {
	case INTEGER:
		return json_is_integer(v);
	case NUMBER:
		return json_is_number(v);
	case BOOLEAN:
		return json_is_boolean(v);
	case TEXT:
		return json_is_string(v);
	case ARRAY:
		return json_is_array(v);
	case OBJECT:
		return json_is_object(v);
	}
	return false;
}

/* v is stolen; an object with no members but these. */
static json_t *only(json_t *v, const struct member *members)
{
	static const char *const states[] = {"ok", "error", "running"};
	json_t *out = json_object();
	bool known = false;
	for (const struct member *m = members; m->name; m++) {
		json_t *item = json_object_get(v, m->name);
		if (item && is_of(item, m->type))
			json_object_set(out, m->name, item);
	}
	const char *status = json_string_value(json_object_get(out, "status"));
	for (size_t i = 0; status && i < ARRAY_SIZE(states); i++)
		known |= strcmp(status, states[i]) == 0;
	if (status && !known)
		json_object_set_new(out, "status", json_string("ok"));
	json_decref(v);
	return out;
}

static int take_json(struct dashboard_run *r, const struct exec_mime *m, size_t max,
	const struct member *members, json_t **slot, struct err *err)
{
	const struct dashboards_config *c = &r->dashboard->all->config;
	json_t *v = parse(m, max);
	if (!v)
		return bad(err, "an answer");
	v = c->mask(c->user, r->session, only(v, members), err);
	if (!v)
		return -EACCES;
	json_decref(*slot);
	*slot = v;
	return 0;
}

static int take_patch(struct dashboard_run *r, const struct exec_mime *m, struct err *err)
{
	int e = take_json(r, m, LIMIT_DASHBOARD_ANSWER, patch_members, &r->patch, err);
	r->gave_way = json_is_true(json_object_get(r->patch, "overtaken"));
	json_object_del(r->patch, "overtaken"); /* which is for this broker */
	return e;
}

static int take_text(struct dashboard_run *r, const struct exec_mime *m, struct err *err)
{
	const struct dashboards_config *c = &r->dashboard->all->config;
	_cleanup_buf_ struct buf text = BUF_INIT(LIMIT_DASHBOARD_TEXT);
	if (m->n > LIMIT_DASHBOARD_TEXT / 3 || str_utf8_repair(&text, m->data, m->n, NULL) < 0)
		return bad(err, "a text");
	json_t *v =
		c->mask(c->user, r->session, json_stringn((const char *)text.data, text.len), err);
	if (!v)
		return -EACCES;
	free(r->text);
	r->text = xstrdup(json_string_value(v));
	json_decref(v);
	return 0;
}

/* A picture is looked at by no redactor, as those of run_code are not. */
static void take_image(struct dashboard_run *r, struct exec_mime *m)
{
	static const char *const types[] = {
		"image/png", "image/svg+xml", "image/jpeg", "image/gif", "image/webp"};
	bool known = false;
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		known |= strcmp(m->type, types[i]) == 0;
	if (!known || m->n > LIMIT_IMAGE_BLOCK || r->image.type)
		return;
	r->image = *m;
	*m = (struct exec_mime){.type = xstrdup(types[0])};
}

enum kind { TREE, PATCH, PAGE, OUTLINE, WORDS, KINDS };

static enum kind kind_of(const struct exec_mime *m)
{
	static const char *const names[KINDS] = {
		"tree+json", "patch+json", "page+json", "outline+json", "text"};
	enum kind kind = str_starts(m->type, MIME) ? 0 : KINDS;
	while (kind < KINDS && strcmp(m->type + strlen(MIME), names[kind]) != 0)
		kind++;
	return kind;
}

static int take(struct dashboard_run *r, enum kind kind, const struct exec_mime *m, struct err *err)
{
	switch (kind) {
	case TREE:
		return take_json(r, m, LIMIT_DASHBOARD_TREE, tree_members, &r->tree, err);
	case PATCH:
		return take_patch(r, m, err);
	case PAGE:
		return take_json(r, m, LIMIT_DASHBOARD_ANSWER, page_members, &r->page, err);
	case OUTLINE:
		return take_json(r, m, LIMIT_DASHBOARD_OUTLINE, outline_members, &r->outline, err);
	case WORDS:
		return take_text(r, m, err);
	case KINDS:
		break;
	}
	return 0;
}

/* A file leaves the sandbox only for an event that asks for one. */
static void take_export(struct dashboard_run *r)
{
	const char *path =
		json_string_value(json_object_get(json_object_get(r->page, "export"), "path"));
	if (path && dashboard_wants(r->request, "export"))
		r->export_path = xstrdup(path);
	json_object_del(r->page, "export");
}

int dashboard_answer_take(struct dashboard_run *r, struct exec_status *status, struct err *err)
{
	/* The last of each kind is the answer. Others are not even read: a cell may show 4 MiB of
	 * them, which are half a second of this loop. */
	const struct exec_mime *last[KINDS + 1] = {0};
	bool plain = json_is_true(json_object_get(r->request, "plain"));
	bool image = plain || dashboard_wants(r->request, "image");
	int e = 0;
	for (size_t i = 0; i < status->n_results; i++)
		for (size_t k = 0; k < status->results[i].n_mimes; k++) {
			struct exec_mime *m = &status->results[i].mimes[k];
			last[kind_of(m)] = m;
			if (image && str_starts(m->type, "image/"))
				take_image(r, m);
		}
	for (enum kind kind = 0; kind < KINDS && e == 0; kind++)
		e = last[kind] ? take(r, kind, last[kind], err) : 0;
	take_export(r);
	exec_status_drop_output(status);
	return e;
}

static uint64_t revision(const json_t *v, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(v, name));
	return n > 0 ? (uint64_t)n : 0;
}

bool dashboard_answer_step(struct dashboard_run *r, const struct exec_bundle *b)
{
	static const char running[] = "\"status\":\"running\"";
	struct err err;
	uint64_t before = r->rev;
	for (size_t i = 0; i < b->n_mimes; i++) {
		const struct exec_mime *m = &b->mimes[i];
		bool tree = strcmp(m->type, MIME "tree+json") == 0;
		if (!tree && strcmp(m->type, MIME "patch+json") != 0)
			continue;
		/* the last one is read at the end, and only then */
		if (!memmem(m->data, m->n, running, strlen(running)))
			continue;
		if ((tree ? take_json(r, m, LIMIT_DASHBOARD_TREE, tree_members, &r->tree, &err)
			  : take_patch(r, m, &err)) < 0)
			continue;
		r->from = tree ? 0 : revision(r->patch, "from");
		r->rev = revision(tree ? r->tree : r->patch, "rev");
	}
	return r->rev > before;
}

void dashboard_answer_keep(struct dashboard_run *r)
{
	json_t *all = json_pack("{s:O*, s:O*, s:O*, s:O*}", "tree", r->tree, "patch", r->patch,
		"page", r->page, "outline", r->outline);
	free(r->kept);
	r->kept = all ? json_dumps(all, JSON_COMPACT) : NULL;
	json_decref(all);
	json_t **slots[] = {&r->tree, &r->patch, &r->page, &r->outline};
	for (size_t i = 0; i < ARRAY_SIZE(slots); i++) {
		json_decref(*slots[i]);
		*slots[i] = NULL;
	}
}

void dashboard_answer_bring(struct dashboard_run *r)
{
	json_t *all = r->kept ? json_loads(r->kept, 0, NULL) : NULL;
	if (!all)
		return;
	r->tree = json_incref(json_object_get(all, "tree"));
	r->patch = json_incref(json_object_get(all, "patch"));
	r->page = json_incref(json_object_get(all, "page"));
	r->outline = json_incref(json_object_get(all, "outline"));
	json_decref(all);
}
