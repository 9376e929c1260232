/* address.c: see address.h. */
#include "cli/address.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "cli/paths.h"
#include "mcp/build.h"
#include "mcp/frontwire.h"

/* Its maximum is that of what a broker can be started with. */
#define ADDRESS_MAX (128 * KIB)

static json_t *load(const char *state, int *ret_error)
{
	_cleanup_free_ char *path = xasprintf("%s/broker.json", state);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_free_ char *text = xmalloc(ADDRESS_MAX);
	ssize_t n = fd < 0 ? -1 : read(fd, text, ADDRESS_MAX);
	*ret_error = n < 0 ? -errno : -EBADMSG;
	return n > 0 ? json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

static void read_options(const json_t *options, struct arglist *ret)
{
	size_t i;
	json_t *o;
	if (json_array_size(options) > 2 * FRONT_LIMITS_MAX + 8)
		return;
	json_array_foreach (options, i, o)
		arglist_add(ret, json_is_string(o) ? json_string_value(o) : "");
}

int address_read(const char *state, struct address *ret)
{
	int r;
	json_t *o = load(state, &r);
	const char *socket = json_string_value(json_object_get(o, "socket"));
	const char *boot = json_string_value(json_object_get(o, "boot"));
	json_int_t pid = json_integer_value(json_object_get(o, "pid"));
	if (socket && socket[0] == '/' && pid > 0 && pid <= INT_MAX) {
		*ret = (struct address){.socket = xstrdup(socket),
			.pid = (int)pid,
			.since_boot = boot && strcmp(boot, paths_boot_id()) == 0};
		read_options(json_object_get(o, "options"), &ret->options);
		r = 0;
	}
	json_decref(o);
	return r;
}

void address_done(struct address *a)
{
	free(a->socket);
	arglist_done(&a->options);
	*a = (struct address){0};
}

int address_write(
	const char *state, const char *socket, const struct settings *settings, struct err *err)
{
	_cleanup_arglist_ struct arglist options = {0};
	json_t *list = json_array();
	settings_broker_args(settings, &options);
	for (size_t i = 0; i < options.n; i++)
		json_array_append_new(list, json_string(options.v[i]));
	bool whole = json_array_size(list) == options.n;
	json_t *o = json_pack("{s:s,s:i,s:s,s:s,s:i,s:o}", "socket", socket, "pid", (int)getpid(),
		"boot", paths_boot_id(), "build", build.version, "protocol", (int)build.front_max,
		"options", list);
	_cleanup_free_ char *text = o && whole ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	if (!text)
		return err_set(err, ERR_INVALID_ARGUMENT, EILSEQ,
			"the path of the runtime directory, or of the outputs, is not UTF-8 text");
	return paths_write(state, "broker.json", text, strlen(text), err);
}

void address_remove(const char *state)
{
	_cleanup_free_ char *path = xasprintf("%s/broker.json", state);
	(void)unlink(path);
}

int address_lock(const char *state, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/lock", state);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(
			err, ERR_IO, errno, "%.300s cannot be opened: %s", path, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return TAKE_FD(fd);
	if (errno == EWOULDBLOCK)
		return -EWOULDBLOCK;
	return err_set(err, ERR_IO, errno, "%.300s cannot be locked: %s", path, strerror(errno));
}

void address_lock_sign(int lock_fd)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(lock_fd, 0) == 0)
		(void)!pwrite(lock_fd, text, (size_t)n, 0);
}

int address_lock_holder(const char *state)
{
	char text[16] = "";
	uint64_t pid = 0;
	_cleanup_free_ char *path = xasprintf("%s/lock", state);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	return str_to_u64(text, INT_MAX, &pid) == 0 && pid > 0 && kill((pid_t)pid, 0) == 0
		       ? (int)pid
		       : 0;
}

bool address_is_lock(const char *state, int fd)
{
	struct stat given, named;
	_cleanup_free_ char *path = xasprintf("%s/lock", state);
	return fstat(fd, &given) == 0 && lstat(path, &named) == 0 && S_ISREG(given.st_mode) &&
	       given.st_dev == named.st_dev && given.st_ino == named.st_ino;
}
