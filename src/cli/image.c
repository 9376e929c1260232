/* image.c: `scb image build|import|verify|list`: root file systems for sandboxes. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "image/images.h"
#include "provider/provider.h"

#define WORDS_MAX 64

struct image_args {
	const char *verb, *what, *name;
	const char *builder[WORDS_MAX]; /* of build: for the builder */
	size_t n_builder;
};

static int set_name(void *user, const char *value, struct err *err)
{
	(void)err;
	((struct image_args *)user)->name = value;
	return 0;
}

static int set_word(void *user, const char *value, struct err *err)
{
	struct image_args *a = user;
	return options_word(value, (const char **[]){&a->verb, &a->what}, 2, err);
}

static const struct option_def own_options[] = {{"--name", "NAME", set_name}, {0}};

/* ---- build ---- */

/* sandbox-image/build beside the kernels: in the build directory, or where scb is installed. */
static char *builder_path(void)
{
	const char *given = getenv("SCB_IMAGE_BUILDER");
	if (given && *given)
		return xstrdup(given);
	_cleanup_free_ char *kernels = provider_kernels_dir();
	return xasprintf("%s/../sandbox-image/build", kernels);
}

/* Whose progress and faults are its own words, on this process's stdout and stderr. */
static int build(int argc, char **argv)
{
	_cleanup_free_ char *program = builder_path();
	char *args[WORDS_MAX + 1] = {program};
	struct err err;
	pid_t pid;
	int status;
	if (argc > WORDS_MAX) {
		(void)err_set(&err, ERR_INVALID_ARGUMENT, 0, "too many arguments");
		return cli_failed(&err);
	}
	for (int i = 1; i < argc; i++)
		args[i] = argv[i];
	int r = posix_spawn(&pid, program, NULL, NULL, args, environ);
	if (r != 0) {
		(void)err_set(&err, ERR_NO_SUCH_FILE, r, "the builder %.300s cannot be run: %s",
			program, strerror(r));
		return cli_failed(&err);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* ---- the others ---- */

static int done(int r, const struct err *err)
{
	return r < 0 ? cli_failed(err) : fflush(stdout) == 0 ? 0 : err_info(ERR_IO)->exit_status;
}

static int import(const struct image_args *a)
{
	char full[IMAGES_FULL], size[STR_SIZE_TEXT];
	struct unpack_told told;
	bool manifest;
	struct err err = {0};
	int r = images_import(a->what, a->name, full, &told, &manifest, &err);
	if (r < 0)
		return done(r, &err);
	str_size(told.bytes, size);
	(void)printf("%s  %s\n", full, size);
	if (!manifest)
		(void)printf(
			"no manifest was beside the archive: what was unpacked is the manifest\n");
	if (told.left_out)
		(void)printf("%zu devices, FIFOs and sockets were left out\n", told.left_out);
	if (told.setid)
		(void)printf("%zu files lost their set-user-ID or set-group-ID bit\n", told.setid);
	return done(0, NULL);
}

static void print_fault(void *user, const char *text)
{
	(void)user;
	_cleanup_free_ char *copy = xstrdup(text);
	str_make_printable(copy);
	(void)printf("%s\n", copy);
}

static int verify(const struct image_args *a)
{
	struct err err = {0};
	_cleanup_manifest_ struct manifest m = {0};
	/* An archive is named by its path. */
	bool archive = strchr(a->what, '/') || access(a->what, F_OK) == 0;
	int r = archive ? images_verify_archive(a->what, &m, &err)
			: images_verify(a->what, print_fault, NULL, &m, &err);
	if (r == 0)
		(void)printf("%s: sha256:%s, %zu entries: as the manifest says\n", a->what,
			m.digest, m.n);
	return done(r, &err);
}

static int list_one(void *user, const char *full)
{
	(void)user;
	return printf("%s\n", full) < 0 ? -EIO : 0;
}

int cli_image(int argc, char **argv)
{
	struct image_args a = {0};
	struct err err = {0};
	const struct option_table options[] = {{own_options, &a}, {0}};
	if (argc > 1 && strcmp(argv[1], "build") == 0)
		return build(argc - 1, argv + 1);
	if (options_want_help(argc, argv, options))
		return cli_help();
	int r = options_parse(argc, argv, options, set_word, &err);
	if (r < 0)
		return cli_failed(&err);
	if (a.verb && strcmp(a.verb, "list") == 0 && !a.what)
		return images_each(list_one, NULL) < 0 ? err_info(ERR_IO)->exit_status
						       : done(0, NULL);
	if (a.verb && a.what && strcmp(a.verb, "import") == 0)
		return import(&a);
	if (a.verb && a.what && strcmp(a.verb, "verify") == 0)
		return verify(&a);
	(void)err_set(&err, ERR_INVALID_ARGUMENT, 0,
		"it is `scb image build [--group G]… [--out DIR]`, `import FILE.tar [--name "
		"NAME]`, "
		"`verify NAME|FILE.tar` or `list`");
	return cli_failed(&err);
}
