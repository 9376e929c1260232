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

static int take_json(struct dashboard_run *r, const struct exec_mime *m, size_t max, json_t **slot,
	struct err *err)
{
	const struct dashboards_config *c = &r->dashboard->all->config;
	json_t *v = parse(m, max);
	if (!v)
		return bad(err, "an answer");
	v = c->mask(c->user, r->session, v, err);
	if (!v)
		return -EACCES;
	json_decref(*slot);
	*slot = v;
	return 0;
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

static int take(struct dashboard_run *r, const struct exec_mime *m, struct err *err)
{
	if (!str_starts(m->type, MIME))
		return 0;
	const char *kind = m->type + strlen(MIME);
	if (strcmp(kind, "tree+json") == 0)
		return take_json(r, m, LIMIT_DASHBOARD_TREE, &r->tree, err);
	if (strcmp(kind, "patch+json") == 0)
		return take_json(r, m, LIMIT_DASHBOARD_ANSWER, &r->patch, err);
	if (strcmp(kind, "page+json") == 0)
		return take_json(r, m, LIMIT_DASHBOARD_ANSWER, &r->page, err);
	if (strcmp(kind, "outline+json") == 0)
		return take_json(r, m, LIMIT_DASHBOARD_OUTLINE, &r->outline, err);
	if (strcmp(kind, "text") == 0)
		return take_text(r, m, err);
	return 0;
}

int dashboard_answer_take(
	struct dashboard_run *r, const struct exec_status *status, struct err *err)
{
	int e = 0;
	for (size_t i = 0; i < status->n_results; i++)
		for (size_t k = 0; k < status->results[i].n_mimes && e == 0; k++)
			e = take(r, &status->results[i].mimes[k], err);
	return e;
}
