/* docker_door.c: see docker_door.h. */
#include "provider/docker_door.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "provider/address.h"
#include "provider/hosted.h"
#include "provider/record.h"

struct docker_door {
	uv_poll_t poll;
	int fd;        /* listens at the door */
	int passed[2]; /* the agent's listening socket, its configuration */
	char *directory;
};

char *docker_door_path(const char *directory)
{
	return xasprintf("%s/door", directory);
}

static void free_door(struct docker_door *d)
{
	fd_closep(&d->fd);
	for (size_t i = 0; i < ARRAY_SIZE(d->passed); i++)
		fd_closep(&d->passed[i]);
	free(d->directory);
	free(d);
}

static void on_closed(uv_handle_t *h)
{
	free_door(container_of((uv_poll_t *)h, struct docker_door, poll));
}

/* Nobody comes in any more. */
static void shut(struct docker_door *d)
{
	(void)uv_poll_stop(&d->poll);
	(void)shutdown(d->fd, SHUT_RDWR);
}

void docker_door_close(struct docker_door *d)
{
	if (!d)
		return;
	shut(d);
	uv_close((uv_handle_t *)&d->poll, on_closed);
}

static void pass(struct docker_door *d, int fd)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(d->passed))];
	} control = {0};
	struct iovec iov = {"", 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
		.cmsg_len = CMSG_LEN(sizeof(d->passed))};
	memcpy(CMSG_DATA(c), d->passed, sizeof(d->passed));
	/* Where it fails the agent says that it got nothing, and ends. */
	(void)sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void on_knock(uv_poll_t *poll, int status, int events)
{
	(void)events;
	struct docker_door *d = container_of(poll, struct docker_door, poll);
	_cleanup_close_ int fd = status < 0 ? -1 : accept4(d->fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0 && status == 0)
		return;
	if (fd >= 0)
		pass(d, fd);
	shut(d);
	(void)record_remove_tree(d->directory);
	for (size_t i = 0; i < ARRAY_SIZE(d->passed); i++)
		fd_closep(&d->passed[i]);
}

static int make(struct docker_door *d, const char *path, const struct buf *config, int *ret_link)
{
	_cleanup_free_ char *door = docker_door_path(d->directory);
	d->passed[0] = address_listen(path, 0600, HOSTED_BACKLOG);
	if (d->passed[0] < 0)
		return d->passed[0];
	d->passed[1] = fd_memfd("scb-boot", config->data, config->len);
	if (d->passed[1] < 0)
		return d->passed[1];
	if (mkdir(d->directory, 0700) < 0)
		return -errno;
	/* The agent's uid is another one; others on this host do not get into the runtime
	 * directory. */
	d->fd = address_listen(door, 0666, 1);
	int r = d->fd < 0 ? d->fd : fd_set_nonblock(d->fd, true);
	return r < 0 ? r : (*ret_link = address_connect(path, SOCK_STREAM));
}

int docker_door_new(uv_loop_t *loop, const char *path, const char *directory,
	const struct buf *config, struct docker_door **ret, int *ret_link, struct err *err)
{
	struct docker_door *d = xcalloc(1, sizeof(*d));
	*d = (struct docker_door){.fd = -1, .passed = {-1, -1}, .directory = xstrdup(directory)};
	int r = make(d, path, config, ret_link);
	if (r >= 0)
		r = uv_poll_init(loop, &d->poll, d->fd);
	if (r >= 0 && (r = uv_poll_start(&d->poll, UV_READABLE, on_knock)) < 0) {
		docker_door_close(TAKE_PTR(d));
	}
	if (r < 0) {
		if (d)
			free_door(d);
		return err_set(err, ERR_PROVIDER_UNUSABLE, -r,
			"cannot make the sandbox's socket %.300s: %s", path, strerror(-r));
	}
	*ret = d;
	return 0;
}
