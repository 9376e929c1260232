/* exec_kernel.c: kernels: started with their first cell, interrupted, ended, listed; see exec.h. */
#include "exec/exec.h"

#include <errno.h>
#include <string.h>

#include "base/fd.h"
#include "base/limits.h"
#include "exec/exec_call.h"
#include "exec/exec_parse.h"

#define KERNEL_NAME_MAX 40

/* ---- languages ---- */

/* What runs a language: a program of the kernels' folder, and what that is run by, if it needs
 * something. A language's name is also that of its own kernel. */
struct exec_language {
	const char *name, *interpreter, *program;
};

static const struct exec_language languages[] = {
	{"python", "/usr/bin/python3", "python/kernel.py"},
	{"shell", NULL, "shell/kernel"},
};

const char *const exec_languages[] = {"python", "shell", NULL};

static const struct exec_language *find_language(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(languages); i++)
		if (strcmp(languages[i].name, name) == 0)
			return &languages[i];
	return NULL;
}

/* ---- what is known of a kernel ---- */

bool exec_kernel_name_valid(const char *name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	size_t n = strlen(name);
	return n > 0 && n <= KERNEL_NAME_MAX && strspn(name, allowed) == n;
}

static struct exec_kernel_ref *find_kernel(const struct exec *x, const char *name, size_t *ret_n)
{
	*ret_n = 0;
	list_for_each (k, next, &x->kernels, struct exec_kernel_ref, kernels) {
		if (strcmp(k->name, name) == 0)
			return k;
		++*ret_n;
	}
	return NULL;
}

struct exec_kernel_ref *exec_kernel_named(struct exec *x, const char *name)
{
	size_t n;
	struct exec_kernel_ref *k = find_kernel(x, name, &n);
	if (k || n >= LIMIT_KERNELS || !exec_kernel_name_valid(name))
		return k;
	k = xcalloc(1, sizeof(*k));
	k->name = xstrdup(name);
	k->language = find_language(name);
	list_append(&x->kernels, &k->kernels);
	return k;
}

const char *exec_language_of(const struct exec *x, const char *kernel)
{
	size_t n;
	const struct exec_kernel_ref *k = kernel ? find_kernel(x, kernel, &n) : NULL;
	const struct exec_language *l = k ? k->language : kernel ? find_language(kernel) : NULL;
	return l ? l->name : languages[0].name;
}

struct exec_kernel_ref *exec_kernel_ref(
	struct exec *x, const char *language, const char *name, struct err *err)
{
	const struct exec_language *l =
		find_language(language ? language : exec_language_of(x, name));
	if (!l) {
		(void)err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"language: this build runs python and shell; for anything else use "
			"run_command");
		return NULL;
	}
	struct exec_kernel_ref *k = exec_kernel_named(x, name ? name : l->name);
	if (!k) {
		(void)err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"kernel: a name of letters, digits, _ and -, and at most %d kernels a "
			"session; leave it out to use the default one",
			LIMIT_KERNELS);
		return NULL;
	}
	if (k->language && k->language != l) {
		(void)err_set(err, ERR_INVALID_ARGUMENT, EINVAL,
			"kernel: \"%s\" runs %s; leave it out to use that of %s, or choose another "
			"name",
			k->name, k->language->name, l->name);
		return NULL;
	}
	k->language = l;
	return k;
}

void exec_kernel_seen(struct exec_kernel_ref *k, struct exec_status *s)
{
	if (s->generation > k->generation) {
		bool surprise = k->generation && !k->restart_asked;
		(void)memcpy(k->restarted_for, surprise ? s->job : "", surprise ? ID_TEXT_SIZE : 1);
		k->generation = s->generation;
		k->restart_asked = false;
	}
	/* A job that first answered "running" says it again when it is done. */
	s->kernel_restarted = s->generation == k->generation &&
			      strcmp(k->restarted_for, s->job) == 0 &&
			      s->reason != REASON_INTERPRETER_DIED; /* which says as much */
}

void exec_kernel_found(struct exec *x, const struct exec_kernel *k)
{
	struct exec_kernel_ref *ref = exec_kernel_named(x, k->name);
	if (!ref || k->generation <= ref->generation)
		return;
	if (!ref->language && k->language)
		ref->language = find_language(k->language);
	ref->started = true;
	ref->generation = k->generation;
	ref->restart_asked = k->stopped;
}

/* ---- starting ---- */

struct start_call {
	struct exec_call call;
	struct exec_kernel_ref *kernel;
	exec_simple_fn done; /* of an adoption */
	void *user;
};

static int start_end(struct exec_call *c, struct tlv_reader msg)
{
	struct exec_kernel_ref *k = ((struct start_call *)c)->kernel;
	uint64_t generation = 0;
	for (struct tlv t; tlv_next(&msg, &t);)
		if (t.tag == TAG_GENERATION &&
			(tlv_get_u64(&t, &generation) < 0 || generation > UINT32_MAX))
			return -EPROTO;
	if (generation > k->generation) {
		k->generation = (uint32_t)generation;
		k->restart_asked = false;
		k->restarted_for[0] = '\0';
	}
	return 0;
}

static void start_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct exec_kernel_ref *k = ((struct start_call *)c)->kernel;
	if (!err || lost)
		return;
	k->started = false;
	free(k->start_err);
	k->start_err = xmemdup(err, sizeof(*err));
}

static const struct exec_call_type start_type = {.end = start_end, .finish = start_finish};

static int start_body(struct buf *b, const struct exec *x, const struct exec_kernel_ref *k)
{
	const struct exec_language *l = k->language;
	_cleanup_free_ char *program = xasprintf("%s/%s", x->kernels_dir, l->program);
	int r = tlv_str(b, TAG_KERNEL, k->name);
	r = r ? r : tlv_str(b, TAG_LANGUAGE, l->name);
	if (r == 0 && l->interpreter)
		r = tlv_str(b, TAG_ARGV, l->interpreter);
	r = r ? r : tlv_str(b, TAG_ARGV, program);
	r = r ? r : tlv_str(b, TAG_ENV, "SCB_KERNEL_FD=3");
	if (r == 0 && x->warm) /* it loads what most cells need (kernels/python, warm.py) */
		r = tlv_str(b, TAG_ENV, "SCB_KERNEL_WARM=1");
	return r ? r : tlv_str(b, TAG_CWD, x->workspace);
}

static void start_plainly(struct exec *x, struct exec_kernel_ref *k)
{
	_cleanup_buf_ struct buf b = BUF_INIT(EXEC_BODY_MAX);
	int r = start_body(&b, x, k);
	free(k->start_err);
	k->start_err = NULL;
	k->started = true;
	struct start_call *c = exec_call_new(x, &start_type, sizeof(*c), "kernel", k->name);
	c->kernel = k;
	exec_call_open(&c->call, OP_KERNEL_START, &b, r);
}

void exec_kernel_start(struct exec *x, struct exec_kernel_ref *k)
{
	bool first = k->generation == 0 && strcmp(k->name, exec_languages[0]) == 0;
	if (k->started)
		return;
	if (first && !x->spawning && x->spawner.spawn && x->spawner.spawn(x->spawner.user) == 0) {
		k->started = true;
		x->spawning = k;
		return;
	}
	start_plainly(x, k);
}

void exec_kernel_prepare(struct exec *x)
{
	struct err err;
	struct exec_kernel_ref *k = exec_kernel_ref(x, languages[0].name, NULL, &err);
	x->warm = true;
	if (k)
		exec_kernel_start(x, k);
	x->warm = false;
}

void exec_set_spawner(struct exec *x, const struct exec_spawner *s)
{
	x->spawner = *s;
}

/* ---- adopting ---- */

static void adopt_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct start_call *a = (struct start_call *)c;
	(void)lost;
	if (err) /* the agent keeps the definition: the next cell starts the kernel plainly */
		a->kernel->started = false;
	if (a->done)
		a->done(a->user, err);
}

static const struct exec_call_type adopt_type = {.end = start_end, .finish = adopt_finish};

static void close_fds(int fds[4])
{
	for (int i = 0; i < 4; i++)
		fd_closep(&fds[i]);
}

int exec_kernel_adopt(
	struct exec *x, const char *kernel, int fds[4], exec_simple_fn done, void *user)
{
	struct err err;
	struct exec_kernel_ref *k = exec_kernel_ref(x, languages[0].name, kernel, &err);
	int r = !k ? -EINVAL : k->started ? -EEXIST : !link_has(x->link, "adopt") ? -EOPNOTSUPP : 0;
	_cleanup_buf_ struct buf b = BUF_INIT(EXEC_BODY_MAX);
	if (r == 0)
		r = start_body(&b, x, k);
	if (r < 0) {
		close_fds(fds);
		return r;
	}
	struct start_call *c = exec_call_new(x, &adopt_type, sizeof(*c), "kernel", k->name);
	exec_call_within(&c->call, EXEC_ANSWER_US);
	c->kernel = k;
	c->done = done;
	c->user = user;
	r = exec_call_open_with_fds(&c->call, OP_KERNEL_ADOPT, &b, fds, 4);
	close_fds(fds);
	if (r < 0)
		exec_abandon(&c->call);
	else
		k->started = true;
	return r;
}

void exec_kernel_spawned(struct exec *x, int ends[4])
{
	struct exec_kernel_ref *k = TAKE_PTR(x->spawning);
	CHECK(k);
	k->started = false;
	if (!ends || exec_kernel_adopt(x, k->name, ends, NULL, NULL) < 0)
		start_plainly(x, k);
	exec_call_send_held(x);
}

/* ---- interrupting, ending, signals: calls that answer yes or no ---- */

struct simple_call {
	struct exec_call call;
	exec_simple_fn done;
	void *user;
	bool (*forgives)(enum wire_status status);
};

/* Nothing is left to be ended. */
static bool ended_already(enum wire_status status)
{
	return status == WIRE_GONE;
}

static bool absent(enum wire_status status)
{
	return status == WIRE_GONE || status == WIRE_NOT_FOUND;
}

static bool simple_forgives(const struct exec_call *c, enum wire_status status)
{
	const struct simple_call *s = (const struct simple_call *)c;
	return s->forgives && s->forgives(status);
}

static void simple_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct simple_call *s = (struct simple_call *)c;
	(void)lost;
	if (s->done)
		s->done(s->user, err);
}

static const struct exec_call_type simple_type = {
	.forgives = simple_forgives, .finish = simple_finish};

static struct simple_call *simple_new(
	struct exec *x, const char *what, const char *name, exec_simple_fn done, void *user)
{
	struct simple_call *s = exec_call_new(x, &simple_type, sizeof(*s), what, name);
	s->done = done;
	s->user = user;
	exec_call_within(&s->call, EXEC_ANSWER_US);
	return s;
}

static void kernel_call(struct simple_call *s, const char *name, uint16_t op, const uint8_t *tag)
{
	_cleanup_buf_ struct buf b = BUF_INIT(EXEC_BODY_MAX);
	int r = exec_body_tag(&b, tag);
	if (!exec_kernel_name_valid(name))
		exec_call_fail(&s->call, ERR_INVALID_ARGUMENT, EINVAL,
			"a kernel's name has letters, digits, _ and -, at most %d",
			KERNEL_NAME_MAX);
	else
		exec_call_open(&s->call, op, &b, r ? r : tlv_str(&b, TAG_KERNEL, name));
}

void exec_kernel_interrupt(
	struct exec *x, const char *kernel, const uint8_t *tag, exec_simple_fn done, void *user)
{
	const char *name = kernel ? kernel : exec_languages[0];
	kernel_call(simple_new(x, "kernel", name, done, user), name, OP_KERNEL_INTERRUPT, tag);
}

void exec_kernel_restart(
	struct exec *x, const char *kernel, const uint8_t *tag, exec_simple_fn done, void *user)
{
	const char *name = kernel ? kernel : exec_languages[0];
	struct exec_kernel_ref *k = exec_kernel_named(x, name);
	if (k) {
		k->restart_asked = k->generation > 0;
		k->started = false;
	}
	struct simple_call *s = simple_new(x, "kernel", name, done, user);
	s->forgives = absent;
	kernel_call(s, name, OP_KERNEL_STOP, tag);
}

static void signal_call(struct simple_call *s, const char *job, uint64_t signal, const uint8_t *tag)
{
	_cleanup_buf_ struct buf b = BUF_INIT(EXEC_BODY_MAX);
	if (exec_body_job(&b, job) < 0) {
		exec_call_fail(&s->call, ERR_NO_SUCH_JOB, EINVAL, "\"%.40s\" is no job", job);
		return;
	}
	int r = exec_body_tag(&b, tag);
	exec_call_open(&s->call, OP_JOB_SIGNAL, &b, r ? r : tlv_u64(&b, TAG_SIGNAL, signal));
}

void exec_cancel(
	struct exec *x, const char *job, const uint8_t *tag, exec_simple_fn done, void *user)
{
	struct simple_call *s = simple_new(x, "job", job, done, user);
	s->forgives = ended_already;
	signal_call(s, job, 0, tag);
}

void exec_signal(struct exec *x, const char *job, int signal, const uint8_t *tag,
	exec_simple_fn done, void *user)
{
	CHECK(signal >= 1 && signal <= 64);
	signal_call(simple_new(x, "job", job, done, user), job, (uint64_t)signal, tag);
}

/* ---- what was done under a tag ---- */

struct recall_call {
	struct exec_call call;
	bool unknown; /* or an agent that remembers nothing */
	exec_recall_fn done;
	void *user;
};

static bool recall_forgives(const struct exec_call *c, enum wire_status status)
{
	struct recall_call *r = (struct recall_call *)c;
	r->unknown = status == WIRE_NOT_FOUND || status == WIRE_UNSUPPORTED;
	return r->unknown;
}

static void recall_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct recall_call *r = (struct recall_call *)c;
	(void)lost;
	r->done(r->user, !r->unknown, err);
}

static const struct exec_call_type recall_type = {
	.forgives = recall_forgives, .finish = recall_finish};

struct exec_call *exec_recall(
	struct exec *x, const uint8_t tag[static DELIVERY_TAG], exec_recall_fn done, void *user)
{
	struct recall_call *r = exec_call_new(x, &recall_type, sizeof(*r), "delivery", NULL);
	exec_call_within(&r->call, EXEC_ANSWER_US);
	r->done = done;
	r->user = user;
	_cleanup_buf_ struct buf b = BUF_INIT(EXEC_BODY_MAX);
	exec_call_open(&r->call, OP_RECALL, &b, exec_body_tag(&b, tag));
	return &r->call;
}

/* ---- listing ---- */

struct kernels_call {
	struct exec_call call;
	struct exec_kernel *kernels;
	size_t n;
	exec_kernels_fn done;
	void *user;
};

static int kernels_msg(struct exec_call *c, struct tlv_reader msg)
{
	struct kernels_call *k = (struct kernels_call *)c;
	if (k->n >= LIMIT_KERNELS)
		return -EPROTO;
	k->kernels = xrealloc(k->kernels, (k->n + 1) * sizeof(*k->kernels));
	int r = exec_parse_kernel(msg, &k->kernels[k->n]);
	if (r == 0)
		k->n++;
	return r;
}

static void kernels_finish(struct exec_call *c, const struct err *err, bool lost)
{
	struct kernels_call *k = (struct kernels_call *)c;
	(void)lost;
	k->done(k->user, err ? NULL : k->kernels, err ? 0 : k->n, err);
}

static void kernels_done(struct exec_call *c)
{
	struct kernels_call *k = (struct kernels_call *)c;
	for (size_t i = 0; i < k->n; i++)
		exec_kernel_done(&k->kernels[i]);
	free(k->kernels);
}

static const struct exec_call_type kernels_type = {
	.msg = kernels_msg, .finish = kernels_finish, .done = kernels_done};

struct exec_call *exec_kernels(struct exec *x, exec_kernels_fn done, void *user)
{
	struct kernels_call *k = exec_call_new(x, &kernels_type, sizeof(*k), "kernels", NULL);
	exec_call_within(&k->call, EXEC_ANSWER_US);
	k->done = done;
	k->user = user;
	exec_call_open(&k->call, OP_KERNEL_LIST, NULL, 0);
	return &k->call;
}
