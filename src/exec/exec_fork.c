/* exec_fork.c: a kernel's twin; see exec.h. */
#include "exec/exec.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "exec/exec_call.h"
#include "exec/exec_parse.h"

/* A kernel with much memory takes a while; the agent itself gives up after 20 s. */
#define FORK_US (25 * USEC_PER_SEC)

struct fork_call {
	struct exec_call call;
	char *parent, *wanted;
	struct exec_twin twin;
	exec_twin_fn done;
	void *user;
};

static int fork_end(struct exec_call *c, struct tlv_reader msg)
{
	struct fork_call *f = (struct fork_call *)c;
	int r = exec_parse_twin(msg, &f->twin);
	if (r == 0 && (!exec_kernel_name_valid(f->twin.kernel) ||
			      (f->wanted && strcmp(f->wanted, f->twin.kernel) != 0)))
		r = -EPROTO;
	if (r < 0)
		return r;
	/* It runs already, and in its parent's language. */
	struct exec_kernel_ref *parent = exec_kernel_named(c->exec, f->parent);
	struct exec_kernel_ref *twin = exec_kernel_named(c->exec, f->twin.kernel);
	if (!twin || !parent)
		return 0; /* more names than are remembered here: each cell says its language */
	twin->language = parent->language;
	twin->started = true;
	twin->generation = MAX(twin->generation, f->twin.generation);
	twin->restart_asked = false;
	twin->restarted_for[0] = '\0';
	return 0;
}

static void fork_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct fork_call *f = (struct fork_call *)c;
	(void)lost;
	f->done(f->user, err ? NULL : &f->twin, err);
}

static void fork_done(struct exec_call *c)
{
	struct fork_call *f = (struct fork_call *)c;
	free(f->parent);
	free(f->wanted);
	exec_twin_done(&f->twin);
}

static const struct exec_call_type fork_type = {
	.end = fork_end, .finish = fork_finish, .done = fork_done};

struct exec_call *exec_kernel_fork(struct exec *x, const char *kernel, const char *name,
	const uint8_t *tag, exec_twin_fn done, void *user)
{
	const char *parent = kernel ? kernel : exec_languages[0];
	struct fork_call *f = exec_call_new(x, &fork_type, sizeof(*f), "fork of kernel", parent);
	f->parent = xstrdup(parent);
	f->wanted = name ? xstrdup(name) : NULL;
	f->done = done;
	f->user = user;
	exec_call_within(&f->call, FORK_US);
	if (!exec_kernel_name_valid(parent) || (name && !exec_kernel_name_valid(name))) {
		exec_call_fail(&f->call, ERR_INVALID_ARGUMENT, EINVAL,
			"a kernel's name has letters, digits, _ and -");
		return &f->call;
	}
	_cleanup_buf_ struct buf b = BUF_INIT(EXEC_BODY_MAX);
	int r = exec_body_tag(&b, tag);
	r = r ? r : tlv_str(&b, TAG_KERNEL, parent);
	if (r == 0 && name)
		r = tlv_str(&b, TAG_TARGET, name);
	exec_call_open(&f->call, OP_KERNEL_FORK, &b, r);
	return &f->call;
}
