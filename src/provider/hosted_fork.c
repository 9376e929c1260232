/* hosted_fork.c: a kernel from the template into a sandbox of this host. See hosted.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "provider/hosted.h"
#include "wire/proto.h"
#include "wire/tlv.h"

/* That of users first: it gives the rights over the others. */
static const char *const namespaces[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};

#define ENDS 4 /* supervisor, control, stdout, stderr */

struct hosted_fork {
	struct hosted *hosted;
	struct template_fork *fork;
	int ends[ENDS]; /* the agent's */
	kernel_forked_fn done;
	void *user;
};

static void free_fork(struct hosted_fork *f)
{
	f->hosted->fork = NULL;
	for (int i = 0; i < ENDS; i++)
		fd_closep(&f->ends[i]);
	free(f);
}

void hosted_fork_cancel(struct hosted *h)
{
	if (!h->fork)
		return;
	template_fork_cancel(h->fork->fork);
	free_fork(h->fork);
}

static void on_forked(void *user, const struct err *err)
{
	struct hosted_fork *f = user;
	kernel_forked_fn done = f->done;
	void *done_user = f->user;
	int ends[ENDS];
	memcpy(ends, f->ends, sizeof(ends));
	if (!err)
		memset(f->ends, -1, sizeof(f->ends));
	free_fork(f);
	done(done_user, err ? NULL : ends, err);
}

/* Descriptors that go with the request: fds[0..n) are owned. */
struct parcel {
	int fds[TEMPLATE_FDS];
	size_t n;
};

static void parcel_done(struct parcel *p)
{
	for (size_t i = 0; i < p->n; i++)
		(void)close(p->fds[i]);
}

static int put(struct parcel *p, int fd)
{
	if (fd < 0)
		return -errno;
	CHECK(p->n < TEMPLATE_FDS);
	p->fds[p->n++] = fd;
	return 0;
}

static int add_ends(struct parcel *p, int mine[ENDS])
{
	static const int on = 1;
	int pair[2];
	for (int i = 0; i < ENDS; i++) {
		bool is_pipe = i >= 2;
		int type = i == 0 ? SOCK_SEQPACKET : SOCK_STREAM;
		if ((is_pipe ? pipe2(pair, O_CLOEXEC)
			     : socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair)) < 0)
			return -errno;
		mine[i] = pair[0];
		(void)put(p, pair[1]);
	}
	/* Before anybody writes there: the agent believes who a message's sender is only so. */
	return setsockopt(mine[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ? -errno : 0;
}

/* Of the sandbox's first process, which is still the one that its pidfd says afterwards. */
static int add_namespaces(struct parcel *p, const struct hosted *h)
{
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
		char path[64];
		(void)snprintf(
			path, sizeof(path), "/proc/%d/ns/%s", (int)h->init_pid, namespaces[i]);
		int r = put(p, open(path, O_RDONLY | O_CLOEXEC));
		if (r < 0)
			return r;
	}
	return syscall(SYS_pidfd_send_signal, h->init_pidfd, 0, NULL, 0) < 0 ? -errno : 0;
}

static int add_joins(struct parcel *p, const struct hosted *h, bool code)
{
	int join[CGROUP_JOIN];
	int n = cgroup_box_open(&h->groups, code, join);
	for (int i = 0; i < n; i++)
		(void)put(p, join[i]);
	return n;
}

/* The configuration with the numbers that the code's groups have there. */
static int add_code_joins(struct parcel *p, const struct hosted *h, struct buf *config)
{
	size_t first = p->n;
	int n = add_joins(p, h, true);
	int r = n < 0 ? n : buf_append(config, h->kernel_config.data, h->kernel_config.len);
	for (int i = 0; r == 0 && i < n; i++)
		r = tlv_u64(config, BOOT_JOIN_FD, TEMPLATE_FIRST_FD + first + (size_t)i);
	return r;
}

static int request(
	struct hosted *h, struct template *t, bool touch, struct hosted_fork *f, struct err *err)
{
	CLEANUP(parcel_done) struct parcel p = {.n = 0};
	_cleanup_buf_ struct buf config = BUF_INIT(TEMPLATE_DATAGRAM);
	int joins = 0;
	int r = add_ends(&p, f->ends);
	if (r == 0)
		r = add_namespaces(&p, h);
	if (r == 0) {
		joins = add_joins(&p, h, false);
		r = MIN(joins, 0);
	}
	if (r == 0)
		r = add_code_joins(&p, h, &config);
	if (r < 0)
		return err_set(err, ERR_PROVIDER_UNUSABLE, -r,
			"the sandbox cannot be opened to a kernel: %s", strerror(-r));
	const struct template_request q = {
		.config = &config,
		.kernels_dir = h->base.kernels_dir,
		.agent = h->agent,
		.fds = p.fds,
		.n_fds = p.n,
		.n_namespaces = ARRAY_SIZE(namespaces),
		.n_joins = (size_t)joins,
		.touch = touch,
	};
	return template_fork(t, &q, on_forked, f, &f->fork, err);
}

int hosted_fork_kernel(struct sandbox *s, struct template *t, bool touch, kernel_forked_fn done,
	void *user, struct err *err)
{
	struct hosted *h = container_of(s, struct hosted, base);
	if (h->fork || h->destroying || h->init_pidfd < 0 || !h->agent)
		return err_set(err, ERR_PROVIDER_UNUSABLE, EBUSY,
			"the sandbox is not one that a kernel can be forked into now");
	struct hosted_fork *f = xcalloc(1, sizeof(*f));
	f->hosted = h;
	f->done = done;
	f->user = user;
	memset(f->ends, -1, sizeof(f->ends));
	h->fork = f;
	int r = request(h, t, touch, f, err);
	if (r < 0)
		free_fork(f);
	return r;
}
