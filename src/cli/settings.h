/* settings.h: the options that `serve`, `run` and the broker have in common, in one table. */
#pragma once

#include "base/limits.h"
#include "cli/options.h"
#include "mcp/fronthello.h"
#include "policy/policy.h"
#include "provider/provider.h"

struct settings {
	struct sandbox_mount mounts[LIMIT_MOUNTS]; /* owned */
	size_t n_mounts;
	const char *limits[FRONT_LIMITS_MAX]; /* as given: NAME=VALUE */
	size_t n_limits;
	char *policy; /* its file, absolute; NULL: not given */
	const char *state, *provider, *name, *log_level;
	const char *image; /* as given, or BROKER_IMAGE */
	char *root;        /* of that image, unpacked; NULL: no image is asked for */
	char *outputs;     /* absolute; NULL: not given */
	bool solo;
};

void settings_init(struct settings *s);
void settings_done(struct settings *s);
#define _cleanup_settings_ CLEANUP(settings_done)

/* --mount, --limit, --policy, --provider, --state, --outputs, --name, --log-level, --solo, --image;
 * their user is a struct settings. */
extern const struct option_def settings_options[];
/* As --policy does. */
int settings_set_policy(struct settings *s, const char *path, struct err *err) MUST_CHECK;
/* Once all are parsed: finds the image's root. With the provider docker the engine knows it. */
int settings_find_image(struct settings *s, struct err *err) MUST_CHECK;
/* Does no mount show scb's own files, and, where no policy file has a say in
 * it, do the limits fit together? */
int settings_check(const struct settings *s, struct err *err) MUST_CHECK;
/* The policy of these settings: the file given, else the user's own where there is one, else the
 * built-in one; problems may be NULL. */
int settings_policy(const struct settings *s, struct policy **ret, struct policy_problems *problems,
	struct err *err) MUST_CHECK;

/* An argument list, each element owned; NULL at the end. */
struct arglist {
	char *v[128];
	size_t n;
};
void arglist_add(struct arglist *a, const char *text);
/* --name and value, where value is not NULL. */
void arglist_add_option(struct arglist *a, const char *name, const char *value);
void arglist_done(struct arglist *a);
#define _cleanup_arglist_ CLEANUP(arglist_done)
/* What belongs to a broker: policy, limits, outputs, log level. */
void settings_broker_args(const struct settings *s, struct arglist *a);
/* All, as they are to be given to `scb serve`. */
void settings_args(const struct settings *s, struct arglist *a);
