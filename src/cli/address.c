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
#include "mcp/frontwire.h"

int address_read(const char *state, struct address *ret)
{
	_cleanup_free_ char *path = xasprintf("%s/broker.json", state);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[2 * PATH_MAX];
	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, text, sizeof(text));
	json_t *o = n > 0 ? json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL) : NULL;
	const char *socket = json_string_value(json_object_get(o, "socket"));
	json_int_t pid = json_integer_value(json_object_get(o, "pid"));
	bool good = socket && socket[0] == '/' && pid > 0 && pid <= INT_MAX;
	if (good)
		*ret = (struct address){xstrdup(socket), (int)pid};
	json_decref(o);
	return good ? 0 : -EBADMSG;
}

void address_done(struct address *a)
{
	free(a->socket);
	*a = (struct address){0};
}

int address_write(const char *state, const char *socket, struct err *err)
{
	json_t *o = json_pack("{s:s,s:i,s:s,s:i}", "socket", socket, "pid", (int)getpid(), "build",
		SCB_VERSION, "protocol", FRONT_PROTOCOL);
	_cleanup_free_ char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	json_decref(o);
	if (!text)
		return err_set(err, ERR_INVALID_ARGUMENT, EILSEQ,
			"the path of the runtime directory is not UTF-8 text");
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
