/* vault.c: see vault.h. */
#include "secret/vault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/str.h"
#include "secret/redact.h"
#include "secret/source.h"

#define WHY_SIZE sizeof(((struct vault_granted *)0)->why)

/* A value that somebody holds. */
struct known {
	struct list link; /* of its principal; the latest last */
	struct secret_value *value;
	unsigned holders;
	bool masked; /* the redactor has it, or will: it is not given up any more */
};

/* What there is for one want, from one place. */
struct answer {
	char name[LIMIT_SECRET_NAME + 1];
	bool open; /* asked, and not answered */
	struct known *known;
	char why[WHY_SIZE]; /* not available */
};

struct principal {
	struct list link;
	char *name;
	struct vault_want *wants; /* owned, with their texts */
	struct answer *files;     /* one a want */
	size_t n;
	bool wants_set;
	struct list known, givers, grants;
	struct redactor *redactor;
	bool stale;
};

struct vault {
	struct list principals;
};

struct vault_giver {
	struct list link;
	struct principal *principal;
	struct answer *answers;
	size_t n;
};

struct vault_grant {
	struct list link;
	struct principal *principal;
	struct vault_granted *list;
	struct known **known; /* one each; NULL: a placeholder, or none */
	size_t n;
	bool found, other;
};

static struct principal *find(const struct vault *v, const char *name)
{
	list_for_each (p, next, &v->principals, struct principal, link)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

static struct principal *get(struct vault *v, const char *name)
{
	struct principal *p = find(v, name);
	if (p)
		return p;
	p = xcalloc(1, sizeof(*p));
	p->name = xstrdup(name);
	list_init(&p->known);
	list_init(&p->givers);
	list_init(&p->grants);
	list_append(&v->principals, &p->link);
	return p;
}

/* ---- values ---- */

static void let_go(struct principal *p, struct known **k)
{
	struct known *old = TAKE_PTR(*k);
	if (!old || --old->holders > 0)
		return;
	p->stale |= old->masked;
	list_remove(&old->link);
	secret_value_unref(old->value);
	free(old);
}

/* NULL: too many of that name are known. */
static struct known *hold(struct principal *p, struct secret_value *value)
{
	size_t same_name = 0;
	list_for_each (k, next, &p->known, struct known, link) {
		if (secret_value_equal(k->value, value)) {
			k->holders++;
			return k;
		}
		same_name += strcmp(secret_value_name(k->value), secret_value_name(value)) == 0;
	}
	if (same_name >= LIMIT_SECRET_VALUES)
		return NULL;
	struct known *k = xcalloc(1, sizeof(*k));
	k->value = secret_value_ref(value);
	k->holders = 1;
	list_append(&p->known, &k->link);
	p->stale = true;
	return k;
}

static void answer_nothing(struct principal *p, struct answer *a, const char *why)
{
	let_go(p, &a->known);
	a->open = false;
	(void)snprintf(a->why, sizeof(a->why), "%.239s", why);
	str_make_printable(a->why);
}

static void answer_value(struct principal *p, struct answer *a, struct secret_value *value)
{
	struct known *k = hold(p, value);
	let_go(p, &a->known);
	a->known = k;
	a->open = false;
	a->why[0] = '\0';
	if (!k)
		answer_nothing(p, a,
			"too many values of this name are in use; close sessions that have older "
			"ones");
}

/* Whoever holds it no longer does, for this reason. Nobody's session has it. */
static void refuse(struct principal *p, struct known *k, const struct err *why)
{
	struct known *last = k;
	k->holders++; /* it goes with the last line */
	for (size_t i = 0; i < p->n; i++)
		if (p->files[i].known == k)
			answer_nothing(p, &p->files[i], why->text);
	list_for_each (g, next, &p->givers, struct vault_giver, link)
		for (size_t i = 0; i < g->n; i++)
			if (g->answers[i].known == k)
				answer_nothing(p, &g->answers[i], why->text);
	let_go(p, &last);
}

static struct known *latest_unmasked(struct principal *p)
{
	struct known *latest = NULL;
	list_for_each (k, next, &p->known, struct known, link)
		if (!k->masked)
			latest = k;
	return latest;
}

static int build(struct principal *p, struct redactor **ret, struct err *err)
{
	struct secret_value *values[LIMIT_SECRETS * LIMIT_SECRET_VALUES];
	size_t n = 0;
	*ret = NULL;
	list_for_each (k, next, &p->known, struct known, link) {
		if (n == ARRAY_SIZE(values))
			return err_set(
				err, ERR_SECRET_UNAVAILABLE, 0, "too many secrets are in use");
		values[n++] = k->value;
	}
	return n ? redactor_new(values, n, ret, err) : 0;
}

/* Before a value goes anywhere it can be masked. One that cannot be is not kept; what is masked
 * already stays so. */
static void update(struct principal *p)
{
	struct redactor *r;
	struct known *latest;
	struct err err;
	while (p->stale) {
		if (build(p, &r, &err) == 0) {
			redactor_unref(p->redactor);
			p->redactor = r;
			p->stale = false;
		} else if ((latest = latest_unmasked(p)) != NULL) {
			refuse(p, latest, &err);
		} else { /* fewer than before: the old one masks them all */
			p->stale = false;
		}
	}
	list_for_each (k, next, &p->known, struct known, link)
		k->masked = true;
}

struct redactor *vault_redactor(struct vault *v, const char *principal)
{
	struct principal *p = find(v, principal);
	if (!p)
		return NULL;
	update(p);
	return p->redactor;
}

void vault_mask(struct vault *v, char *text, size_t n)
{
	list_for_each (p, next, &v->principals, struct principal, link) {
		update(p);
		redact_text(p->redactor, text, n, false, true, NULL);
	}
}

/* ---- what is wanted ---- */

static void want_copy(struct vault_want *to, const struct vault_want *from)
{
	size_t n = 0;
	*to = *from;
	to->name = xstrdup(from->name);
	to->place = from->place ? xstrdup(from->place) : NULL;
	to->variable = xstrdup(from->variable);
	while (from->argv && from->argv[n])
		n++;
	char **argv = from->argv ? xcalloc(n + 1, sizeof(*argv)) : NULL;
	for (size_t i = 0; i < n; i++)
		argv[i] = xstrdup(from->argv[i]);
	to->argv = (const char *const *)argv;
}

static void want_free(struct vault_want *w)
{
	free((char *)w->name);
	free((char *)w->place);
	free((char *)w->variable);
	for (size_t i = 0; w->argv && w->argv[i]; i++)
		free((char *)w->argv[i]);
	free((char **)w->argv);
}

static const struct vault_want *find_want(const struct principal *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->wants[i].name, name) == 0)
			return &p->wants[i];
	return NULL;
}

static bool from_front(const struct vault_want *w)
{
	return w && w->source != VAULT_FILE;
}

static void read_files(struct principal *p)
{
	for (size_t i = 0; i < p->n; i++) {
		_cleanup_secret_ struct secret_value *value = NULL;
		struct err err;
		if (p->wants[i].source != VAULT_FILE)
			continue;
		if (source_file(p->wants[i].name, p->wants[i].place, &value, &err) < 0)
			answer_nothing(p, &p->files[i], err.text);
		else
			answer_value(p, &p->files[i], value);
	}
}

static void drop_wants(struct principal *p)
{
	for (size_t i = 0; i < p->n; i++) {
		let_go(p, &p->files[i].known);
		want_free(&p->wants[i]);
	}
	free(p->files);
	free(p->wants);
	p->files = NULL;
	p->wants = NULL;
	p->n = 0;
}

void vault_set_wants(
	struct vault *v, const char *principal, const struct vault_want *wants, size_t n)
{
	struct principal *p = get(v, principal);
	CHECK(n <= LIMIT_SECRETS);
	p->wants_set = true;
	drop_wants(p);
	p->wants = xcalloc(n + 1, sizeof(*p->wants));
	p->files = xcalloc(n + 1, sizeof(*p->files));
	for (; p->n < n; p->n++) {
		CHECK(secret_name_valid(wants[p->n].name));
		want_copy(&p->wants[p->n], &wants[p->n]);
	}
	list_for_each (g, next, &p->givers, struct vault_giver, link)
		for (size_t i = 0; i < g->n; i++)
			if (!from_front(find_want(p, g->answers[i].name)))
				answer_nothing(p, &g->answers[i], "the policy no longer names it");
	read_files(p);
	update(p);
}

bool vault_has(const struct vault *v, const char *principal)
{
	const struct principal *p = find(v, principal);
	return p && p->wants_set;
}

void vault_each(struct vault *v, void (*fn)(void *user, const char *principal), void *user)
{
	list_for_each (p, next, &v->principals, struct principal, link)
		fn(user, p->name);
}

size_t vault_wants(const struct vault *v, const char *principal, const struct vault_want **ret)
{
	const struct principal *p = find(v, principal);
	*ret = p ? p->wants : NULL;
	return p ? p->n : 0;
}

/* ---- fronts ---- */

struct vault_giver *vault_giver_new(struct vault *v, const char *principal)
{
	struct vault_giver *g = xcalloc(1, sizeof(*g));
	g->principal = get(v, principal);
	list_append(&g->principal->givers, &g->link);
	return g;
}

void vault_giver_free(struct vault_giver *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n; i++)
		let_go(g->principal, &g->answers[i].known);
	list_remove(&g->link);
	free(g->answers);
	free(g);
}

static struct answer *find_answer(const struct vault_giver *g, const char *name)
{
	for (size_t i = 0; i < g->n; i++)
		if (strcmp(g->answers[i].name, name) == 0)
			return &g->answers[i];
	return NULL;
}

/* What it gave for a secret that is still wanted stays until it has answered anew. */
void vault_giver_ask(struct vault_giver *g)
{
	struct principal *p = g->principal;
	struct answer *answers = xcalloc(p->n + 1, sizeof(*answers));
	size_t n = 0;
	for (size_t i = 0; i < p->n; i++) {
		if (!from_front(&p->wants[i]))
			continue;
		struct answer *a = &answers[n++], *before = find_answer(g, p->wants[i].name);
		str_copy(a->name, sizeof(a->name), p->wants[i].name);
		a->open = true;
		if (before)
			a->known = TAKE_PTR(before->known);
	}
	for (size_t i = 0; i < g->n; i++)
		let_go(p, &g->answers[i].known);
	free(g->answers);
	g->answers = answers;
	g->n = n;
}

void vault_give(struct vault_giver *g, struct secret_value *value)
{
	struct answer *a = find_answer(g, secret_value_name(value));
	if (a)
		answer_value(g->principal, a, value);
}

void vault_give_nothing(struct vault_giver *g, const char *name, const char *why)
{
	struct answer *a = find_answer(g, name);
	if (a)
		answer_nothing(g->principal, a, why);
}

bool vault_giver_open(const struct vault_giver *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->answers[i].open)
			return true;
	return false;
}

void vault_giver_late(struct vault_giver *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->answers[i].open)
			answer_nothing(g->principal, &g->answers[i],
				"the scb that was asked for it did not answer in time");
}

/* The present value of a secret: NULL and why (may be NULL) where there is none. */
static struct known *present(const struct principal *p, const char *name, char why[static WHY_SIZE])
{
	const struct vault_want *w = find_want(p, name);
	struct known *k = NULL;
	(void)snprintf(why, WHY_SIZE, "no scb that could give it is connected");
	if (!w)
		(void)snprintf(why, WHY_SIZE, "the policy does not name it");
	for (size_t i = 0; i < p->n; i++)
		if (&p->wants[i] == w && w->source == VAULT_FILE) {
			str_copy(why, WHY_SIZE, p->files[i].why);
			return p->files[i].known;
		}
	list_for_each (g, next, &p->givers, struct vault_giver, link) {
		const struct answer *a = find_answer(g, name);
		if (a && a->known)
			k = a->known; /* of the one that came last */
		else if (a && !k && !a->open)
			str_copy(why, WHY_SIZE, a->why);
	}
	return w ? k : NULL;
}

bool vault_pending(const struct vault *v, const char *principal)
{
	const struct principal *p = find(v, principal);
	char why[WHY_SIZE];
	if (!p)
		return false;
	list_for_each (g, next, &p->givers, struct vault_giver, link)
		for (size_t i = 0; i < g->n; i++)
			if (g->answers[i].open && !present(p, g->answers[i].name, why))
				return true;
	return false;
}

/* ---- sessions ---- */

static struct vault_grant *grant_make(struct principal *p, bool found)
{
	struct vault_grant *g = xcalloc(1, sizeof(*g));
	g->principal = p;
	g->found = found;
	list_append(&p->grants, &g->link);
	return g;
}

static struct vault_granted *grant_add(
	struct vault_grant *g, const char *name, const char *variable, enum vault_exposure exposure)
{
	CHECK(g->n < LIMIT_SECRETS);
	g->list = xrealloc(g->list, (g->n + 1) * sizeof(*g->list));
	g->known = xrealloc(g->known, (g->n + 1) * sizeof(struct known *));
	g->known[g->n] = NULL;
	struct vault_granted *one = &g->list[g->n++];
	*one = (struct vault_granted){.exposure = exposure};
	str_copy(one->name, sizeof(one->name), name);
	str_copy(one->variable, sizeof(one->variable), variable);
	return one;
}

static void grant_take(struct vault_grant *g, size_t i, struct known *k)
{
	k->holders++;
	g->known[i] = k;
	g->list[i].value = secret_value_ref(k->value);
	g->list[i].why[0] = '\0';
}

static void grant_placeholder(struct vault_granted *one)
{
	uint8_t random[ID_BYTES];
	char hex[2 * ID_BYTES + 1];
	id_random(random, sizeof(random));
	id_hex(random, sizeof(random), hex);
	one->why[0] = '\0';
	(void)snprintf(one->placeholder, sizeof(one->placeholder), "scb-placeholder-%s-%s",
		one->name, hex);
}

struct vault_grant *vault_grant_new(struct vault *v, const char *principal)
{
	struct principal *p = find(v, principal);
	if (!p || p->n == 0)
		return NULL;
	read_files(p);
	update(p);
	struct vault_grant *g = grant_make(p, false);
	for (size_t i = 0; i < p->n; i++) {
		const struct vault_want *w = &p->wants[i];
		struct vault_granted *one = grant_add(g, w->name, w->variable, w->exposure);
		struct known *k = present(p, w->name, one->why);
		if (k && w->exposure == VAULT_SESSION)
			grant_take(g, i, k);
		else if (k)
			grant_placeholder(one);
	}
	return g;
}

struct vault_grant *vault_grant_found(struct vault *v, const char *principal)
{
	return grant_make(get(v, principal), true);
}

void vault_grant_found_add(
	struct vault_grant *g, const char *name, const char *variable, enum vault_exposure exposure)
{
	(void)grant_add(g, name, variable, exposure);
}

void vault_grant_free(struct vault_grant *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n; i++) {
		let_go(g->principal, &g->known[i]);
		secret_value_unref(g->list[i].value);
	}
	list_remove(&g->link);
	free(g->list);
	free(g->known);
	free(g);
}

size_t vault_grant_list(const struct vault_grant *g, const struct vault_granted **ret)
{
	*ret = g ? g->list : NULL;
	return g ? g->n : 0;
}

bool vault_grant_complete(struct vault_grant *g, struct err *err)
{
	if (!g || (!g->found && !g->other))
		return true;
	if (g->other) {
		(void)err_set(err, ERR_SECRET_UNAVAILABLE, 0,
			"this session was given another value of a secret than is known now, after "
			"its "
			"broker was started anew, so that what it says cannot be masked; close it "
			"and "
			"open another");
		return false;
	}
	update(g->principal);
	for (size_t i = 0; i < g->n; i++) {
		char why[WHY_SIZE];
		if (g->known[i] || g->list[i].exposure != VAULT_SESSION)
			continue;
		struct known *k = present(g->principal, g->list[i].name, why);
		if (!k) {
			(void)err_set(err, ERR_SECRET_UNAVAILABLE, 0,
				"this session was given the secret \"%s\", which its broker, "
				"started "
				"anew, does not know yet, so that what it says cannot be masked: "
				"%s",
				g->list[i].name, why);
			return false;
		}
		grant_take(g, i, k);
	}
	return true;
}

void vault_grant_other(struct vault_grant *g)
{
	g->other = true;
}

/* ---- all of it ---- */

struct vault *vault_new(void)
{
	struct vault *v = xcalloc(1, sizeof(*v));
	list_init(&v->principals);
	return v;
}

void vault_free(struct vault *v)
{
	if (!v)
		return;
	list_for_each (p, next, &v->principals, struct principal, link) {
		list_for_each (s, next_s, &p->grants, struct vault_grant, link)
			vault_grant_free(s);
		list_for_each (g, next_g, &p->givers, struct vault_giver, link)
			vault_giver_free(g);
		drop_wants(p);
		redactor_unref(p->redactor);
		free(p->name);
		free(p);
	}
	free(v);
}
