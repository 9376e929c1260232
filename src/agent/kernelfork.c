/* kernelfork.c: OP_KERNEL_FORK: a second kernel with the variables of one that runs; see kernel.h
 * and docs/agent-protocol.md, "Twins".
 *
 * The kernel forks itself, between two cells. It is given one end of everything that the twin and
 * its supervisor need, and answers FORKED; the agent adopts the twin by the other ends, as it does
 * with a kernel from a template. All that a kernel says is hostile input here, too: a twin is only
 * another program in the sandbox, under a supervisor that code can reach. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/kernel.h"
#include "base/fd.h"
#include "wire/frame.h"
#include "wire/tlv.h"

/* A kernel with many small objects takes longest: 30 µs for each MB of 4 KiB pages, and twice. */
#define PATIENCE_US (20 * USEC_PER_SEC)
#define TEXT_MAX    1024
/* Of a kernel's name, in the name that a twin gets by itself: hosts bound those. */
#define NAME_KEPT 28
#define NOTES_MAX (4 * KIB)
/* Of what goes to the kernel. */
#define FORK_FDS 5

struct kernel_fork {
	struct stream *stream; /* NULL: nobody asks any more */
	struct kernel *parent; /* NULL: it has answered */
	struct kernel *twin;   /* NULL: not there yet */
	char *name;
	struct proc_ends ends; /* the agent's */
	struct buf notes;      /* NOTE… of FORKED */
	struct timer patience;
};

static void fork_free(struct kernel_fork *f)
{
	timer_cancel(&f->patience);
	if (f->parent)
		f->parent->fork = NULL;
	if (f->twin)
		f->twin->birth = NULL;
	proc_ends_close(&f->ends);
	buf_done(&f->notes);
	free(f->name);
	free(f);
}

static void fork_fail(struct kernel_fork *f, enum wire_status status, int errnum, const char *text)
{
	if (f->stream)
		stream_fail(f->stream, status, errnum, "%s", text);
	f->stream = NULL;
}

/* ---- asking the kernel ---- */

/* What the kernel's side gets, in the order of the FORK frame. */
struct far_ends {
	int supervisor, control, out, err;
};

static void far_ends_close(struct far_ends *e)
{
	fd_closep(&e->supervisor);
	fd_closep(&e->control);
	fd_closep(&e->out);
	fd_closep(&e->err);
}

static int make_ends(struct proc_ends *mine, struct far_ends *theirs)
{
	static const int on = 1;
	int sup[2] = {-1, -1}, control[2] = {-1, -1}, out[2] = {-1, -1}, err[2] = {-1, -1};
	int r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sup);
	if (r == 0)
		r = setsockopt(sup[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	if (r == 0)
		r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control);
	if (r == 0)
		r = pipe2(out, O_CLOEXEC);
	if (r == 0)
		r = pipe2(err, O_CLOEXEC);
	r = r < 0 ? -errno : 0;
	*mine = (struct proc_ends){sup[0], control[0], out[0], err[0]};
	*theirs = (struct far_ends){sup[1], control[1], out[1], err[1]};
	return r;
}

/* The agent's program, which the twin's supervisor executes. */
static int own_program(void)
{
	static int fd = -1;
	if (fd < 0)
		fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int send_fork(const struct kernel *k, const struct kernel_fork *f, const struct far_ends *e)
{
	int program = own_program();
	if (program < 0)
		return program;
	_cleanup_buf_ struct buf body = BUF_INIT(LIMIT_PATH + 64), b = BUF_INIT(LIMIT_PATH + 128);
	int r = tlv_str(&body, TAG_NAME, f->name);
	r = r ? r : frame_append(&b, FRAME_FORK, 0, 0, body.data, body.len);
	if (r < 0)
		return r;
	const int fds[FORK_FDS] = {e->supervisor, e->control, e->out, e->err, program};
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(fds))];
	} control = {0};
	struct iovec iov = {b.data, b.len};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	ssize_t n = sendmsg(k->control, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	/* An idle kernel's socket is empty and takes so little whole. */
	return n == (ssize_t)b.len ? 0 : n < 0 ? -errno : -EIO;
}

/* ---- the stream ---- */

static void stream_closed(struct stream *s)
{
	((struct kernel_fork *)stream_user(s))->stream = NULL;
}

static const struct stream_ops fork_ops = {.closed = stream_closed, .goes_on = true};

/* The kernel keeps its cells waiting until it answers or ends: whatever it does, it is not done
 * with the fork. */
static void on_patience(struct timer *t)
{
	struct kernel_fork *f = container_of(t, struct kernel_fork, patience);
	if (f->twin)
		fork_fail(f, WIRE_IO, 0, "the twin was made, but does not answer");
	else
		fork_fail(
			f, WIRE_IO, 0, "the kernel does not answer; restart it where it stays so");
}

/* Why the kernel cannot be forked now; NULL where it can. */
static const char *busy(const struct kernel *k)
{
	switch (k->state) {
	case KERNEL_DOWN:
		return "it is not running, so there is nothing to fork";
	case KERNEL_STARTING:
		return "it is still starting";
	case KERNEL_ENDING:
		return "it is ending";
	case KERNEL_UP:
		break;
	}
	if (!k->forks)
		return "its language has no fork";
	if (k->fork)
		return "it is being forked already";
	if (k->current || k->n_queued || k->out.len)
		return "a cell runs or waits in it; fork it once that is done";
	return NULL;
}

/* True where the name is free for a twin; else the stream has been ended. */
static bool name_free(struct stream *s, const char *name)
{
	const struct kernel *k = kernel_find(name);
	if (k && (k->state != KERNEL_DOWN || k->n_queued)) {
		stream_fail(s, WIRE_EXISTS, 0, "kernel %.100s runs already", name);
		return false;
	}
	if (!k && kernels_full()) {
		stream_fail(s, WIRE_LIMIT, 0, "there are %d kernels already", LIMIT_KERNELS);
		return false;
	}
	return true;
}

/* The kernel's with -2, -3, … behind it, where name is NULL. */
static char *name_of(const struct kernel *k, const char *name)
{
	if (name)
		return xstrdup(name);
	for (unsigned i = 2;; i++) {
		char *own = xasprintf("%.*s-%u", NAME_KEPT, k->name, i);
		const struct kernel *other = kernel_find(own);
		if (!other || (other->state == KERNEL_DOWN && !other->n_queued))
			return own; /* at the latest the one after LIMIT_KERNELS */
		free(own);
	}
}

void kernelfork_open(struct stream *s, struct kernel *k, const char *wanted)
{
	const char *why = busy(k);
	if (why) {
		stream_fail(s, WIRE_DENIED, 0, "%s", why);
		return;
	}
	_cleanup_free_ char *name = name_of(k, wanted);
	if (!name_free(s, name))
		return;
	struct kernel_fork *f = xcalloc(1, sizeof(*f));
	f->name = TAKE_PTR(name);
	buf_init(&f->notes, NOTES_MAX);
	timer_init(&f->patience, on_patience);
	CLEANUP(far_ends_close) struct far_ends theirs;
	int r = make_ends(&f->ends, &theirs);
	if (r == 0)
		r = send_fork(k, f, &theirs);
	if (r < 0) {
		stream_fail(s, WIRE_IO, -r, "the kernel cannot be told to fork");
		fork_free(f);
		return;
	}
	f->stream = s;
	f->parent = k;
	k->fork = f;
	timer_set(&f->patience, PATIENCE_US);
	stream_serve(s, &fork_ops, f);
}

/* ---- its answer ---- */

/* Takes what FORKED says. False where it makes no sense. */
static bool read_answer(struct kernel_fork *f, const struct frame *frame, char text[TEXT_MAX + 1])
{
	struct tlv_reader body = tlv_reader(frame->payload, frame->len);
	text[0] = '\0';
	for (struct tlv t; tlv_next(&body, &t);) {
		if (t.tag == TAG_TEXT) {
			size_t n = MIN(t.n, TEXT_MAX);
			memcpy(text, t.p, n);
			text[n] = '\0';
		} else if (t.tag == TAG_NOTE) {
			if (tlv_bytes(&f->notes, t.tag, t.p, MIN(t.n, TEXT_MAX / 4)) < 0)
				return false; /* the kernel bounds them */
		}
	}
	return !body.bad;
}

/* The twin's record, defined as its parent is. NULL where its name or the last place was taken
 * meanwhile. */
static struct kernel *define_twin(const struct kernel *parent, const char *name)
{
	struct text_list argv = {0}, env = {0};
	text_list_copy(&argv, &parent->argv);
	text_list_copy(&env, &parent->env);
	char *cwd = parent->cwd ? xstrdup(parent->cwd) : NULL;
	struct kernel *k = kernel_find(name);
	if (!k)
		k = kernel_define(name, &argv, &env, &cwd);
	else if (k->state == KERNEL_DOWN && !k->n_queued)
		kernel_swap_definition(k, &argv, &env, &cwd);
	else
		k = NULL;
	text_list_done(&argv);
	text_list_done(&env);
	free(cwd);
	return k;
}

bool kernelfork_answered(struct kernel *parent, const struct frame *frame)
{
	struct kernel_fork *f = parent->fork;
	char text[TEXT_MAX + 1];
	if (!f || !read_answer(f, frame, text))
		return false;
	struct kernel *twin = text[0] ? NULL : define_twin(parent, f->name);
	f->parent = NULL;
	parent->fork = NULL;
	int r = twin ? kernel_adopt(twin, &f->ends, parent) : 0;
	if (text[0]) {
		fork_fail(f, WIRE_DENIED, 0, text);
	} else if (!twin) {
		fork_fail(f, WIRE_EXISTS, 0, "another kernel of that name was started meanwhile");
	} else if (r < 0) {
		fork_fail(f, WIRE_IO, -r, "the twin cannot be watched");
	} else {
		f->twin = twin;
		twin->birth = f;
	}
	if (!f->twin)
		fork_free(f);
	kernel_run_next(parent);
	return true;
}

void kernelfork_up(struct kernel *twin)
{
	struct kernel_fork *f = twin->birth;
	if (f->stream) {
		_cleanup_buf_ struct buf b = BUF_INIT(NOTES_MAX + LIMIT_PATH + 64);
		int r = tlv_str(&b, TAG_KERNEL, twin->name);
		r |= tlv_u64(&b, TAG_GENERATION, twin->generation);
		r |= buf_append(&b, f->notes.data, f->notes.len);
		CHECK(r == 0);
		stream_end(f->stream, WIRE_OK, &b);
		f->stream = NULL;
	}
	fork_free(f);
}

void kernelfork_ended(struct kernel *k)
{
	struct kernel_fork *both[] = {k->fork, k->birth};
	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		if (!both[i])
			continue;
		fork_fail(both[i], WIRE_GONE, 0,
			i == 0 ? "the kernel ended while it was forked"
			       : "the twin ended before it could be used");
		fork_free(both[i]);
	}
}
