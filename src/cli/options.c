/* options.c: see options.h. */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "mcp/fronthello.h"

/* The option whose name is text[0..n), and whose table it is in. */
static const struct option_def *find(
	const struct option_table *tables, const char *text, size_t n, void **ret_user)
{
	for (const struct option_table *t = tables; t->defs; t++)
		for (const struct option_def *d = t->defs; d->name; d++)
			if (strlen(d->name) == n && strncmp(d->name, text, n) == 0) {
				*ret_user = t->user;
				return d;
			}
	return NULL;
}

static int unknown(const char *what, const char *text, struct err *err)
{
	return err_set(err, ERR_INVALID_ARGUMENT, 0, "%s%.100s\"; `scb --help` tells what there is",
		what, text);
}

/* The option at argv[*i], with its value. */
static int parse_option(
	int argc, char **argv, int *i, const struct option_table *tables, struct err *err)
{
	const char *text = argv[*i];
	size_t n = strcspn(text, "=");
	void *user = NULL;
	const struct option_def *d = find(tables, text, n, &user);
	const char *value = text[n] ? text + n + 1 : NULL;
	if (!d)
		return unknown("unknown option \"", text, err);
	if (!d->value && value)
		return err_set(err, ERR_INVALID_ARGUMENT, 0, "option %s takes no value", d->name);
	if (d->value && !value && ++*i < argc)
		value = argv[*i];
	if (d->value && !value)
		return err_set(err, ERR_INVALID_ARGUMENT, 0, "option %s needs a value: %s %s",
			d->name, d->name, d->value);
	return d->set(user, value, err);
}

int options_parse(int argc, char **argv, const struct option_table *tables,
	int (*positional)(void *user, const char *value, struct err *err), struct err *err)
{
	bool options = true;
	for (int i = 1; i < argc; i++) {
		const char *text = argv[i];
		int r;
		if (options && strcmp(text, "--") == 0) {
			options = false;
			continue;
		}
		if (options && text[0] == '-' && text[1])
			r = parse_option(argc, argv, &i, tables, err);
		else if (positional)
			r = positional(tables->user, text, err);
		else
			r = unknown("unexpected argument \"", text, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int options_word(const char *word, const char **const places[], size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		if (!*places[i]) {
			*places[i] = word;
			return 0;
		}
	}
	return unknown("unexpected argument \"", word, err);
}

bool options_want_help(int argc, char **argv, const struct option_table *tables)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		void *user;
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
		const struct option_def *d = find(tables, argv[i], strlen(argv[i]), &user);
		i += d && d->value;
	}
	return false;
}

int options_mount(const char *text, const struct sandbox_mount *have, size_t n_have,
	struct sandbox_mount *ret, struct err *err)
{
	const char *eq = strchr(text, '=');
	if (!eq || !front_mount_name_valid(text, (size_t)(eq - text)))
		return err_set(err, ERR_INVALID_ARGUMENT, 0,
			"mount \"%.100s\" is not NAME=DIR with a name of up to 64 letters, digits, "
			"\"_\", \"-\" and \".\"",
			text);
	if (n_have >= LIMIT_MOUNTS)
		return err_set(err, ERR_INVALID_ARGUMENT, 0, "at most %d mounts are accepted",
			LIMIT_MOUNTS);
	_cleanup_free_ char *name = xstrndup(text, (size_t)(eq - text));
	for (size_t i = 0; i < n_have; i++)
		if (strcmp(have[i].name, name) == 0)
			return err_set(
				err, ERR_INVALID_ARGUMENT, 0, "mount name %s is given twice", name);

	_cleanup_free_ char *real = realpath(eq + 1, NULL);
	struct stat st;
	if (!real || stat(real, &st) < 0)
		return err_set(err, ERR_INVALID_ARGUMENT, errno, "mount %s: %.200s: %s", name,
			eq + 1, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ERR_INVALID_ARGUMENT, ENOTDIR,
			"mount %s: %.200s is no directory", name, real);
	if (access(real, R_OK | X_OK) < 0)
		return err_set(err, ERR_INVALID_ARGUMENT, errno, "mount %s: %.200s: %s", name, real,
			strerror(errno));
	*ret = (struct sandbox_mount){TAKE_PTR(name), TAKE_PTR(real)};
	return 0;
}
