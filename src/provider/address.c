/* address.c: see address.h. */
#include "provider/address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

int address_of(const char *path, struct sockaddr_un *ret, int *ret_dir)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	*ret_dir = -1;
	if (strlen(path) < sizeof(ret->sun_path)) {
		(void)snprintf(ret->sun_path, sizeof(ret->sun_path), "%s", path);
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
