/* gather.c: see gather.h. */
#include "cli/gather.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "mcp/frontsecret.h"
#include "secret/source.h"

/* A variable that was read once: it is gone from the environment. */
struct variable {
	struct list link;
	char *name;
	struct secret_value *value; /* NULL: not usable */
	struct err why;
};

struct asked {
	char name[LIMIT_SECRET_NAME + 1];
	struct source_exec *exec;   /* runs */
	struct secret_value *value; /* NULL: none, why */
	struct err why;
	bool ready, given;
};

struct gather {
	struct list variables;
	struct list *all_variables; /* these, or those of the first */
	struct asked *asked;
	size_t n;
	bool again; /* this broker has asked before */
};

struct gather *gather_new(void)
{
	struct gather *g = xcalloc(1, sizeof(*g));
	list_init(&g->variables);
	g->all_variables = &g->variables;
	return g;
}

struct gather *gather_new_beside(struct gather *first)
{
	struct gather *g = gather_new();
	if (first)
		g->all_variables = first->all_variables;
	return g;
}

static void drop_asked(struct asked *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		source_exec_free(all[i].exec);
		secret_value_unref(all[i].value);
	}
	free(all);
}

void gather_free(struct gather *g)
{
	if (!g)
		return;
	drop_asked(g->asked, g->n);
	list_for_each (v, next, &g->variables, struct variable, link) {
		secret_value_unref(v->value);
		free(v->name);
		free(v);
	}
	free(g);
}

/* ---- variables ---- */

static struct variable *read_variable(struct gather *g, const char *secret, const char *name)
{
	list_for_each (v, next, g->all_variables, struct variable, link)
		if (strcmp(v->name, name) == 0)
			return v;
	struct variable *v = xcalloc(1, sizeof(*v));
	v->name = xstrdup(name);
	if (source_env(secret, name, &v->value, &v->why) < 0)
		v->value = NULL; /* why is set */
	list_append(g->all_variables, &v->link);
	return v;
}

static void answer_variable(struct gather *g, struct asked *a, const char *name)
{
	const struct variable *v = read_variable(g, a->name, name);
	a->ready = true;
	if (!v->value) {
		a->why = v->why;
		return;
	}
	size_t n;
	const uint8_t *p = secret_value_bytes(v->value, &n);
	if (secret_value_new(a->name, p, n, &a->value, &a->why) < 0) /* under this name */
		a->value = NULL;
}

/* ---- asking ---- */

/* What an earlier broker was answered with a program's value. */
static bool take_former(
	const struct gather *g, struct asked *a, struct asked *former, size_t n_former)
{
	for (size_t i = 0; !g->again && i < n_former; i++) {
		if (strcmp(former[i].name, a->name) != 0)
			continue;
		a->value = TAKE_PTR(former[i].value);
		a->exec = TAKE_PTR(former[i].exec);
		a->ready = a->value;
		return a->value || a->exec;
	}
	return false;
}

static void start_program(struct asked *a, const struct frontsecret_wish *w,
	const char *const *hidden, size_t n_hidden)
{
	if (source_exec_start(a->name, w->argv, hidden, n_hidden, &a->exec, &a->why) < 0)
		a->ready = true;
}

int gather_ask(struct gather *g, const char *p, size_t n, struct err *err)
{
	struct frontsecret_wish wishes[LIMIT_SECRETS];
	const char *hidden[LIMIT_SECRETS];
	size_t n_wishes, n_hidden = 0;
	json_t *root;
	int r = frontsecret_wishes(p, n, &root, wishes, &n_wishes, err);
	if (r < 0)
		return r;
	struct asked *former = g->asked;
	size_t n_former = g->n;
	g->asked = xcalloc(n_wishes + 1, sizeof(*g->asked));
	g->n = n_wishes;
	for (size_t i = 0; i < n_wishes; i++) {
		str_copy(g->asked[i].name, sizeof(g->asked[i].name), wishes[i].name);
		if (!wishes[i].variable)
			continue;
		hidden[n_hidden++] = wishes[i].variable;
		answer_variable(g, &g->asked[i], wishes[i].variable);
	}
	/* when no variable has a value any more that a program could read */
	for (size_t i = 0; i < n_wishes; i++)
		if (!wishes[i].variable && !take_former(g, &g->asked[i], former, n_former))
			start_program(&g->asked[i], &wishes[i], hidden, n_hidden);
	drop_asked(former, n_former);
	json_decref(root);
	g->again = true;
	return 0;
}

void gather_forget_broker(struct gather *g)
{
	g->again = false;
	for (size_t i = 0; i < g->n; i++)
		g->asked[i].given = true;
}

/* ---- programs ---- */

size_t gather_poll(const struct gather *g, struct pollfd *ret, size_t max)
{
	size_t n = 0;
	for (size_t i = 0; i < g->n && n < max; i++)
		if (g->asked[i].exec)
			ret[n++] = source_exec_poll(g->asked[i].exec);
	return n;
}

int gather_timeout_ms(const struct gather *g, int timeout_ms)
{
	uint64_t now = clock_monotonic_us();
	for (size_t i = 0; i < g->n; i++) {
		if (!g->asked[i].exec)
			continue;
		uint64_t end = source_exec_deadline_us(g->asked[i].exec);
		int left = end > now ? (int)((end - now) / USEC_PER_MSEC) + 1 : 0;
		timeout_ms = timeout_ms < 0 ? left : MIN(timeout_ms, left);
	}
	return timeout_ms;
}

void gather_work(struct gather *g)
{
	for (size_t i = 0; i < g->n; i++) {
		struct asked *a = &g->asked[i];
		if (!a->exec || source_exec_step(a->exec, &a->value, &a->why) == 0)
			continue;
		source_exec_free(TAKE_PTR(a->exec));
		a->ready = true;
	}
}

/* ---- answers ---- */

static struct asked *next_answer(const struct gather *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->asked[i].ready && !g->asked[i].given)
			return &g->asked[i];
	return NULL;
}

bool gather_answer(const struct gather *g, struct gather_answer *ret)
{
	const struct asked *a = next_answer(g);
	if (!a)
		return false;
	*ret = (struct gather_answer){a->name, a->value, a->value ? NULL : a->why.text};
	return true;
}

void gather_given(struct gather *g)
{
	struct asked *a = next_answer(g);
	CHECK(a);
	a->given = true;
	if (!a->value)
		log_warning("%s", a->why.text);
}

bool gather_done(const struct gather *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (!g->asked[i].ready || !g->asked[i].given)
			return false;
	return true;
}
