/* address.c: see address.h. */
#include "provider/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"

int address_of(const char *path, struct sockaddr_un *ret, int *ret_dir)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	*ret_dir = -1;
	if (strlen(path) < sizeof(ret->sun_path)) {
		str_copy(ret->sun_path, sizeof(ret->sun_path), path);
		return 0;
	}
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = xstrndup(path, (size_t)(slash - path));
	*ret_dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*ret_dir < 0)
		return -errno;
	(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%.60s", *ret_dir,
		slash + 1);
	return 0;
}

int address_listen(const char *path, mode_t mode, int backlog)
{
	struct sockaddr_un address;
	_cleanup_close_ int dir = -1;
	int r = address_of(path, &address, &dir);
	if (r < 0)
		return r;
	const struct sockaddr *sa = (const struct sockaddr *)&address;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, sa, sizeof(address)) < 0 || chmod(path, mode) < 0 ||
		listen(fd, backlog) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int address_connect(const char *path, int type)
{
	struct sockaddr_un address;
	_cleanup_close_ int dir = -1;
	int r = address_of(path, &address, &dir);
	if (r < 0)
		return r;
	_cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return TAKE_FD(fd);
}
