/* options.h: options of a command line, by a table: "--name value" and "--name=value". */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "policy/policy.h"
#include "provider/provider.h"

struct option_def {
	const char *name;  /* with its dashes; NULL ends the table */
	const char *value; /* what the value is, for messages; NULL: it takes none */
	/* value is NULL where the option takes none. 0, or a negative errno and *err. */
	int (*set)(void *user, const char *value, struct err *err);
};

/* Options that belong together; user is given to their set(). */
struct option_table {
	const struct option_def *defs; /* NULL ends a list of tables */
	void *user;
};

/* Calls set() of each option, in order, and positional() (may be NULL: none accepted) for what is
 * no option, with the first table's user; "--" ends the options. ERR_INVALID_ARGUMENT says what is
 * wrong. */
int options_parse(int argc, char **argv, const struct option_table *tables,
	int (*positional)(void *user, const char *value, struct err *err),
	struct err *err) MUST_CHECK;

/* For positional(): a word goes to the first of the n places that has none yet. */
int options_word(
	const char *word, const char **const places[], size_t n, struct err *err) MUST_CHECK;

/* Is --help or -h among the options (not as another's value)? */
bool options_want_help(int argc, char **argv, const struct option_table *tables);

/* A mount from NAME=DIR: the name is checked, DIR must exist; both owned by *ret. */
int options_mount(const char *text, const struct sandbox_mount *have, size_t n_have,
	struct sandbox_mount *ret, struct err *err) MUST_CHECK;
