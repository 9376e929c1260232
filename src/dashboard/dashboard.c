/* dashboard.c: which dashboards there are; see dashboard.h. */
#include "dashboard/dashboard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "dashboard/dashboard_internal.h"
#include "session/session.h"

struct dashboards *dashboards_new(const struct dashboards_config *c)
{
	struct dashboards *m = xcalloc(1, sizeof(*m));
	m->config = *c;
	list_init(&m->all);
	return m;
}

static void on_settle_closed(uv_handle_t *h)
{
	struct dashboard *d = container_of((uv_timer_t *)h, struct dashboard, settle);
	free(d->tree);
	free(d->title);
	free(d->status);
	free(d->principal);
	free(d->kernel);
	free(d);
}

static void on_patience_closed(uv_handle_t *h)
{
	struct dashboard *d = container_of((uv_timer_t *)h, struct dashboard, patience);
	uv_close((uv_handle_t *)&d->settle, on_settle_closed);
}

static void dashboard_free(struct dashboard *d)
{
	list_for_each (r, next, &d->runs, struct dashboard_run, link)
		dashboard_run_free(r);
	list_remove(&d->link);
	uv_close((uv_handle_t *)&d->patience, on_patience_closed);
}

void dashboards_free(struct dashboards *m)
{
	if (!m)
		return;
	list_for_each (d, next, &m->all, struct dashboard, link)
		dashboard_free(d);
	free(m);
}

/* Room for one more: the one that was used longest ago goes, its record too; of that principal
 * where it has many. */
static void make_room(struct dashboards *m, const char *principal)
{
	struct dashboard *oldest = NULL;
	unsigned own = 0;
	list_for_each (d, next, &m->all, struct dashboard, link) {
		if (strcmp(d->principal, principal) != 0)
			continue;
		own++;
		if (!oldest && !d->users && !dashboard_busy(d))
			oldest = d;
	}
	if (own < LIMIT_DASHBOARDS || !oldest)
		return;
	dashboard_record_remove(oldest);
	dashboard_free(oldest);
}

/* Takes what filled holds. */
static struct dashboard *add(struct dashboards *m, struct dashboard *filled)
{
	make_room(m, filled->principal);
	struct dashboard *d = xmalloc(sizeof(*d));
	*d = *filled;
	d->all = m;
	list_init(&d->runs);
	(void)uv_timer_init(m->config.loop, &d->patience);
	(void)uv_timer_init(m->config.loop, &d->settle);
	uv_unref((uv_handle_t *)&d->settle);
	list_append(&m->all, &d->link);
	return d;
}

/* In memory, or on record. */
static struct dashboard *look_up(struct dashboards *m, const char *id)
{
	struct dashboard *found = NULL, loaded = {0};
	list_for_each (d, next, &m->all, struct dashboard, link)
		if (id_equal(d->id, id, ID_TEXT_SIZE))
			found = d;
	if (found || dashboard_record_get(m, id, &loaded) < 0)
		return found;
	loaded.stale = true; /* its kernel may have gone on since */
	return add(m, &loaded);
}

static void load(struct dashboards *m, const char *id)
{
	(void)look_up(m, id);
}

static void load_all(struct dashboards *m)
{
	if (!m->loaded)
		dashboard_record_each(m, load);
	m->loaded = true;
}

int dashboards_make(struct dashboards *m, struct session *s, const char *kernel, const char *id,
	struct dashboard **ret, struct err *err)
{
	struct dashboard *known = look_up(m, id), new = {0};
	if (known && strcmp(known->principal, session_principal(s)) != 0)
		return err_set(err, ERR_CONFLICT, EEXIST, "that dashboard is another's");
	if (!known) {
		load_all(m); /* those of former brokers count, too */
		str_copy(new.id, sizeof(new.id), id);
		str_copy(new.handle, sizeof(new.handle), session_handle(s));
		new.principal = xstrdup(session_principal(s));
		new.kernel = kernel ? xstrdup(kernel) : NULL;
		known = add(m, &new);
	}
	*ret = known;
	return 0;
}

static int unknown(struct err *err)
{
	return err_set(err, ERR_NO_SUCH_RESOURCE, ENOENT,
		"there is no such dashboard (any more): make one with data_dashboard and code");
}

static void use(struct dashboard *d)
{
	list_remove(&d->link);
	list_append(&d->all->all, &d->link);
}

int dashboards_find(struct dashboards *m, const char *principal, const char *id,
	struct dashboard **ret, struct err *err)
{
	struct dashboard *d = id_valid('d', id) ? look_up(m, id) : NULL;
	if (!d || strcmp(d->principal, principal) != 0)
		return unknown(err);
	use(d);
	*ret = d;
	return 0;
}

static void digest(const char *code, char ret_hex[static 2 * SHA256_SIZE + 1])
{
	uint8_t bytes[SHA256_SIZE];
	struct sha256 s;
	sha256_init(&s);
	sha256_update(&s, code, strlen(code));
	sha256_final(&s, bytes);
	id_hex(bytes, sizeof(bytes), ret_hex);
}

void dashboard_set_code(struct dashboard *d, const char *code)
{
	dashboard_record_uncode(d);
	digest(code, d->code);
	dashboard_record_put(d);
	dashboard_record_code(d);
}

static bool is_of(
	const struct dashboard *d, const char *principal, const char *session, const char *code)
{
	return strcmp(d->principal, principal) == 0 && strcmp(d->code, code) == 0 &&
	       (!session || id_equal(d->handle, session, ID_TEXT_SIZE));
}

int dashboards_find_code(struct dashboards *m, const char *principal, const char *session,
	const char *code, struct dashboard **ret, struct err *err)
{
	struct dashboard *found = NULL;
	char hex[2 * SHA256_SIZE + 1], id[ID_TEXT_SIZE];
	digest(code, hex);
	list_for_each (d, next, &m->all, struct dashboard, link)
		if (is_of(d, principal, session, hex))
			found = d;
	if (!found && dashboard_record_find(m, principal, hex, id) == 0)
		found = look_up(m, id);
	if (!found || !is_of(found, principal, session, hex))
		return unknown(err);
	use(found);
	*ret = found;
	return 0;
}

void dashboard_hold(struct dashboard *d)
{
	d->users++;
}

void dashboard_release(struct dashboard *d)
{
	CHECK(d->users > 0);
	d->users--;
}

void dashboards_each(struct dashboards *m, const char *principal,
	void (*fn)(void *user, const struct dashboard *d), void *user)
{
	load_all(m);
	list_for_each (d, next, &m->all, struct dashboard, link)
		if (strcmp(d->principal, principal) == 0)
			fn(user, d);
}

const char *dashboard_id(const struct dashboard *d)
{
	return d->id;
}

const char *dashboard_handle(const struct dashboard *d)
{
	return d->handle;
}

struct session *dashboard_session(struct dashboard *d)
{
	struct session *s = NULL;
	if (sessions_find(d->all->config.sessions, d->principal, d->handle, &s, NULL) < 0 ||
		session_lost(s))
		return NULL;
	return s;
}

/* A copy, cut: they are handed on without the tree. */
static char *member(const json_t *tree, const char *name)
{
	const char *text = json_string_value(json_object_get(tree, name));
	return text ? xstrndup(text, str_utf8_trim(text, strnlen(text, LIMIT_DASHBOARD_TITLE)))
		    : NULL;
}

void dashboard_keep_tree(struct dashboard *d, const json_t *tree)
{
	free(d->tree);
	free(d->title);
	free(d->status);
	d->tree = tree ? json_dumps(tree, JSON_COMPACT) : NULL;
	d->title = member(tree, "title");
	d->status = member(tree, "status");
}

const char *dashboard_title(const struct dashboard *d)
{
	return d->title;
}

const char *dashboard_status(const struct dashboard *d)
{
	return d->status;
}

bool dashboard_has_tree(const struct dashboard *d)
{
	return d->tree || d->tree_recorded;
}

json_t *dashboard_tree(const struct dashboard *d)
{
	if (d->tree)
		return json_loads(d->tree, 0, NULL);
	return d->tree_recorded ? dashboard_record_tree_get(d) : NULL;
}
