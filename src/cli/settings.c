/* settings.c: see settings.h. */
#include "cli/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/paths.h"
#include "image/images.h"

void settings_init(struct settings *s)
{
	*s = (struct settings){0};
}

void settings_done(struct settings *s)
{
	for (size_t i = 0; i < s->n_mounts; i++) {
		free((char *)s->mounts[i].name);
		free((char *)s->mounts[i].source);
	}
	free(s->policy);
	free(s->outputs);
	free(s->root);
	*s = (struct settings){0};
}

static int set_mount(void *user, const char *value, struct err *err)
{
	struct settings *s = user;
	int r = options_mount(
		value, s->mounts, s->n_mounts, &s->mounts[MIN(s->n_mounts, LIMIT_MOUNTS - 1)], err);
	if (r == 0)
		s->n_mounts++;
	return r;
}

static int set_limit(void *user, const char *value, struct err *err)
{
	struct settings *s = user;
	if (s->n_limits == FRONT_LIMITS_MAX)
		return err_set(err, ERR_INVALID_ARGUMENT, 0, "at most %d limits are accepted",
			FRONT_LIMITS_MAX);
	s->limits[s->n_limits++] = value;
	return policy_check_limit(value, err);
}

int settings_set_policy(struct settings *s, const char *path, struct err *err)
{
	free(s->policy);
	s->policy = NULL;
	return paths_absolute(path, &s->policy, err);
}

static int set_policy(void *user, const char *value, struct err *err)
{
	return settings_set_policy(user, value, err);
}

static int set_state(void *user, const char *value, struct err *err)
{
	(void)err;
	((struct settings *)user)->state = value;
	return 0;
}

static int set_outputs(void *user, const char *value, struct err *err)
{
	struct settings *s = user;
	free(s->outputs);
	s->outputs = NULL;
	return paths_outputs(value, &s->outputs, err);
}

static int set_provider(void *user, const char *value, struct err *err)
{
	if (strcmp(value, "auto") != 0 && !provider_by_name(value))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"option --provider takes auto, docker, bubblewrap or local, not \"%.40s\"",
			value);
	((struct settings *)user)->provider = value;
	return 0;
}

static int set_image(void *user, const char *value, struct err *err)
{
	(void)err;
	((struct settings *)user)->image = value;
	return 0;
}

int settings_find_image(struct settings *s, struct err *err)
{
	const char *env = getenv("BROKER_IMAGE");
	const char *provider = s->provider ? s->provider : getenv("BROKER_PROVIDER");
	if (provider && strcmp(provider, "docker") == 0) {
		/* the engine's own, which is asked for it by that variable */
		if (s->image && setenv("BROKER_IMAGE", s->image, 1) < 0)
			return err_set(err, ERR_INTERNAL, errno, "setenv: %s", strerror(errno));
		return 0;
	}
	if (!s->image && env && *env)
		s->image = env;
	return s->image ? images_root(s->image, &s->root, err) : 0;
}

static int set_name(void *user, const char *value, struct err *err)
{
	if (!front_mount_name_valid(value, strlen(value)))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"option --name takes up to 64 letters, digits, \"_\", \"-\" and \".\"");
	((struct settings *)user)->name = value;
	return 0;
}

static int set_log_level(void *user, const char *value, struct err *err)
{
	enum log_level level;
	if (log_level_from_text(value, &level) < 0)
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"option --log-level takes error, warning, info or debug, not \"%.40s\"",
			value);
	log_set_level(level);
	((struct settings *)user)->log_level = value;
	return 0;
}

static int set_solo(void *user, const char *value, struct err *err)
{
	(void)value;
	(void)err;
	((struct settings *)user)->solo = true;
	return 0;
}

const struct option_def settings_options[] = {
	{"--mount", "NAME=DIR", set_mount},
	{"--limit", "NAME=VALUE", set_limit},
	{"--policy", "FILE", set_policy},
	{"--provider", "NAME", set_provider},
	{"--image", "NAME", set_image},
	{"--state", "DIR", set_state},
	{"--outputs", "DIR", set_outputs},
	{"--name", "NAME", set_name},
	{"--log-level", "LEVEL", set_log_level},
	{"--solo", NULL, set_solo},
	{0},
};

static bool is_below(const char *path, const char *dir)
{
	size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
	return strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* Code must not read the keys of sandboxes and of the audit log, whoever owns the files. */
static int check_mounts(const struct settings *s, struct err *err)
{
	_cleanup_free_ char *state = NULL, *key = NULL;
	if (s->n_mounts == 0)
		return 0;
	int r = paths_state(s->state, &state, err);
	if (r == 0)
		r = paths_audit_key(&key, err);
	if (r < 0)
		return r;
	_cleanup_free_ char *real_state = realpath(state, NULL), *real_key = realpath(key, NULL);
	for (size_t i = 0; i < s->n_mounts; i++) {
		const struct sandbox_mount *m = &s->mounts[i];
		const char *found = real_state && (is_below(real_state, m->source) ||
							  is_below(m->source, real_state))
					    ? real_state
				    : is_below(real_key ? real_key : key, m->source) ? key
										     : NULL;
		if (found)
			return err_set(err, ERR_INVALID_ARGUMENT, EPERM,
				"mount %s: scb's own files (%.200s) would be shown with %.200s; "
				"mount "
				"the folders in it that are needed",
				m->name, found, m->source);
	}
	return 0;
}

int settings_check(const struct settings *s, struct err *err)
{
	int r = check_mounts(s, err);
	if (r < 0)
		return r;
	_cleanup_free_ char *own = paths_policy();
	if (s->policy || (own && access(own, F_OK) == 0))
		return 0; /* the broker will see */
	const struct policy_source src = {.limits = s->limits, .n_limits = s->n_limits};
	struct policy *p = NULL;
	r = policy_open(&src, &p, NULL, err);
	policy_free(p);
	return r;
}

int settings_policy(const struct settings *s, struct policy **ret, struct policy_problems *problems,
	struct err *err)
{
	_cleanup_free_ char *own = s->policy ? NULL : paths_policy();
	const struct policy_source src = {
		.path = s->policy ? s->policy : own,
		.optional = !s->policy,
		.limits = s->limits,
		.n_limits = s->n_limits,
	};
	return policy_open(&src, ret, problems, err);
}

/* ---- as arguments ---- */

void arglist_add(struct arglist *a, const char *text)
{
	CHECK(a->n + 1 < ARRAY_SIZE(a->v)); /* every option that is given on has its maximum */
	a->v[a->n++] = xstrdup(text);
}

void arglist_add_option(struct arglist *a, const char *name, const char *value)
{
	if (!value)
		return;
	arglist_add(a, name);
	arglist_add(a, value);
}

void arglist_done(struct arglist *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->v[i]);
	*a = (struct arglist){0};
}

void settings_broker_args(const struct settings *s, struct arglist *a)
{
	arglist_add_option(a, "--policy", s->policy);
	for (size_t i = 0; i < s->n_limits; i++)
		arglist_add_option(a, "--limit", s->limits[i]);
	arglist_add_option(a, "--outputs", s->outputs);
	arglist_add_option(a, "--log-level", s->log_level);
}

void settings_args(const struct settings *s, struct arglist *a)
{
	settings_broker_args(s, a);
	for (size_t i = 0; i < s->n_mounts; i++) {
		_cleanup_free_ char *text =
			xasprintf("%s=%s", s->mounts[i].name, s->mounts[i].source);
		arglist_add_option(a, "--mount", text);
	}
	arglist_add_option(a, "--provider", s->provider);
	arglist_add_option(a, "--image", s->image);
	arglist_add_option(a, "--state", s->state);
	arglist_add_option(a, "--name", s->name);
	if (s->solo)
		arglist_add(a, "--solo");
}
