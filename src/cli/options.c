/* options.c: see options.h. */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/str.h"

static const struct option_def *find(const struct option_def *defs, const char *text, size_t n)
{
	for (; defs->name; defs++)
		if (strlen(defs->name) == n && strncmp(defs->name, text, n) == 0)
			return defs;
	return NULL;
}

int options_parse(int argc, char **argv, const struct option_def *defs,
	int (*positional)(void *user, const char *value, struct err *err), void *user,
	struct err *err)
{
	bool options = true;
	for (int i = 1; i < argc; i++) {
		const char *text = argv[i];
		if (options && strcmp(text, "--") == 0) {
			options = false;
			continue;
		}
		int r;
		if (!options || text[0] != '-' || !text[1]) {
			if (!positional)
				return err_set(err, ERR_INVALID_ARGUMENT, 0,
					"unexpected argument \"%.100s\"; `scb --help` tells what "
					"there is",
					text);
			r = positional(user, text, err);
		} else {
			size_t n = strcspn(text, "=");
			const struct option_def *d = find(defs, text, n);
			const char *value = text[n] ? text + n + 1 : NULL;
			if (!d)
				return err_set(err, ERR_INVALID_ARGUMENT, 0,
					"unknown option %.100s; `scb --help` tells what there is",
					text);
			if (!d->value && value)
				return err_set(err, ERR_INVALID_ARGUMENT, 0,
					"option %s takes no value", d->name);
			if (d->value && !value && ++i < argc)
				value = argv[i];
			if (d->value && !value)
				return err_set(err, ERR_INVALID_ARGUMENT, 0,
					"option %s needs a value: %s %s", d->name, d->name,
					d->value);
			r = d->set(user, value, err);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

bool options_want_help(int argc, char **argv, const struct option_def *defs)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
		const struct option_def *d = find(defs, argv[i], strlen(argv[i]));
		i += d && d->value;
	}
	return false;
}

/* A name becomes a path in the sandbox and stands in what models read. */
static bool mount_name_ok(const char *name, size_t n)
{
	if (n == 0 || n > 64 || name[0] == '.' || name[0] == '-')
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = name[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    c == '_' || c == '-' || c == '.'))
			return false;
	}
	return true;
}

int options_mount(const char *text, const struct sandbox_mount *have, size_t n_have,
	struct sandbox_mount *ret, struct err *err)
{
	const char *eq = strchr(text, '=');
	if (!eq || !mount_name_ok(text, (size_t)(eq - text)))
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
