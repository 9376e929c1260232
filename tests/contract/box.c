/* box.c: see box.h. */
#include "contract/box.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#define HELLO_US (10 * USEC_PER_SEC)

static char (*ours)[ID_TEXT_SIZE];
static size_t n_ours;

uint64_t box_patience(uint64_t us)
{
	const char *text = getenv("SCB_SLOW");
	uint64_t times = 1;
	if (text && str_to_u64(text, 100, &times) < 0)
		times = 1;
	return us * MAX(times, 1U);
}

int box_host_init(struct box_host *h, const char *provider)
{
	*h = (struct box_host){0};
	h->provider = provider_by_name(provider);
	provider_await_now(provider);
	h->agent = provider_agent_path();
	h->kernels = provider_kernels_dir();
	(void)snprintf(h->runtime, sizeof(h->runtime), "/tmp/scb-test-XXXXXX");
	if (!h->provider || !mkdtemp(h->runtime))
		return -EINVAL;
	return uv_loop_init(&h->loop);
}

bool box_host_done(struct box_host *h)
{
	bool empty = rmdir(h->runtime) == 0;
	bool closed = uv_loop_close(&h->loop) == 0;
	free(h->agent);
	free(h->kernels);
	free(TAKE_PTR(ours));
	return empty && closed;
}

void box_note(const char *id)
{
	ours = xrealloc(ours, (n_ours + 1) * sizeof(*ours));
	(void)snprintf(ours[n_ours++], sizeof(*ours), "%s", id);
}

bool box_is_ours(const char *name)
{
	for (size_t i = n_ours; i-- > 0;)
		if (strncmp(name, ours[i], ID_TEXT_SIZE - 1) == 0)
			return true;
	return false;
}

void box_init(struct box *b, struct box_host *h)
{
	*b = (struct box){.loop = &h->loop};
	id_new('x', b->id);
	box_note(b->id);
	b->spec = (struct sandbox_spec){
		.id = b->id,
		.runtime_dir = h->runtime,
		.agent_path = h->agent,
		.kernels_dir = h->kernels,
		.memory_max = 256 * MIB,
		.workspace_size = 64 * MIB,
		.tmp_size = 32 * MIB,
		.shm_size = 16 * MIB,
		.cpus = 2,
		.pids_max = 64,
		.key = b->key,
		.root = getenv("SCB_ROOT"),
	};
	id_random(b->key, sizeof(b->key));
}

static void on_exited(void *user, const struct err *why)
{
	struct box *b = user;
	b->exited = true;
	b->why = *why;
	if (b->link)
		link_fail(b->link, why);
}

static void on_ready(void *user, const struct link_hello *hello)
{
	struct box *b = user;
	(void)hello;
	b->ready = true;
}

static void on_lost(void *user, const struct err *why)
{
	struct box *b = user;
	b->lost = true;
	if (!b->exited)
		b->why = *why;
}

static const struct sandbox_events events = {.exited = on_exited};

static void link_up(struct box *b)
{
	static const struct link_events link_events = {.ready = on_ready, .lost = on_lost};
	b->caps = b->sandbox->caps;
	CHECK(link_new(b->loop, TAKE_FD(b->sandbox->link_fd), b->key, &link_events, b, &b->link) ==
		0);
	if (b->sandbox->link_tears)
		link_tears(b->link);
	if (b->sandbox->explain_ms)
		link_explained_within(b->link, b->sandbox->explain_ms);
	if (b->sandbox->hello_ms)
		link_answers_within(b->link, b->sandbox->hello_ms);
	b->exec = exec_new(b->link, b->sandbox->kernels_dir, b->sandbox->workspace);
}

int box_create(struct box *b, const struct provider *p, struct err *err)
{
	int r = p->create(b->loop, &b->spec, &events, b, &b->sandbox, err);
	if (r == 0)
		link_up(b);
	return r;
}

static void on_time(uv_timer_t *t)
{
	*(bool *)t->data = true;
}

bool box_until(uv_loop_t *loop, const bool *flag, uint64_t timeout_us)
{
	bool late = false;
	uv_timer_t timer;
	CHECK(uv_timer_init(loop, &timer) == 0);
	timer.data = &late;
	(void)uv_timer_start(&timer, on_time, timeout_us / USEC_PER_MSEC + 1, 0);
	while (!*flag && !late)
		(void)uv_run(loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	(void)uv_run(loop, UV_RUN_NOWAIT);
	return *flag;
}

static bool wait_ready(struct box *b, uint64_t start)
{
	/* An engine says itself how long it may take. */
	uint64_t limit_us = b->sandbox->hello_ms ? b->sandbox->hello_ms * USEC_PER_MSEC : HELLO_US;
	for (uint64_t end = start + box_patience(limit_us);
		!b->ready && !b->lost && clock_monotonic_us() < end;)
		(void)uv_run(b->loop, UV_RUN_ONCE);
	b->hello_us = clock_monotonic_us() - start;
	return b->ready;
}

bool box_open(struct box *b, const struct provider *p)
{
	uint64_t start = clock_monotonic_us();
	return box_create(b, p, &b->why) == 0 && wait_ready(b, start);
}

bool box_connect(struct box *b, struct box_host *h)
{
	uint64_t start = clock_monotonic_us();
	b->spec.id = b->id;
	_cleanup_free_ char *ref = h->provider->ref(&b->spec);
	if (h->provider->connect(b->loop, ref, &events, b, &b->sandbox, &b->why) < 0)
		return false;
	link_up(b);
	return wait_ready(b, start);
}

static char leftovers_text[512];
static bool destroyed;

static void on_destroyed(void *user, const char *leftovers)
{
	(void)user;
	(void)snprintf(leftovers_text, sizeof(leftovers_text), "%s", leftovers ? leftovers : "");
	destroyed = true;
}

const char *box_close(struct box *b)
{
	exec_free(b->exec);
	link_close(b->link);
	if (!b->sandbox)
		return NULL;
	destroyed = false;
	b->sandbox->provider->destroy(TAKE_PTR(b->sandbox), on_destroyed, b);
	if (!box_until(b->loop, &destroyed, box_patience(30 * USEC_PER_SEC)))
		return "destroy() did not call back in 30 s";
	return leftovers_text[0] ? leftovers_text : NULL;
}

struct running {
	struct box_result *result;
	bool done;
};

static size_t append(struct box_result *r, size_t at, const struct buf *b)
{
	size_t n = MIN(b->len, sizeof(r->out) - 1 - at);
	if (n)
		memcpy(r->out + at, b->data, n);
	r->out[at + n] = '\0';
	return at + n;
}

static void on_done(void *user, struct exec_status *s, const struct err *err)
{
	struct running *running = user;
	struct box_result *r = running->result;
	running->done = true;
	if (err) {
		(void)snprintf(r->text, sizeof(r->text), "%s", err->text);
		return;
	}
	r->answered = true;
	r->state = s->state;
	r->reason = s->reason;
	r->exit_code = s->has_exit_code ? s->exit_code : -1;
	r->signal = s->signal;
	size_t at = append(r, 0, &s->out.head);
	at = append(r, at, &s->out.tail);
	at = append(r, at, &s->err.head);
	(void)append(r, at, &s->err.tail);
}

static bool run(struct box *b, const char *shell_text, uint64_t timeout_us, uint64_t wait_us,
	struct box_result *ret)
{
	char job[ID_TEXT_SIZE];
	struct running running = {.result = ret};
	*ret = (struct box_result){0};
	id_new('j', job);
	const struct exec_request req = {
		.kind = JOB_KIND_COMMAND,
		.job = job,
		.shell_text = shell_text,
		.timeout_us = timeout_us,
		.wait_us = wait_us,
	};
	uint64_t start = clock_monotonic_us();
	struct exec_call *call = exec_run(b->exec, &req, on_done, &running);
	if (!box_until(b->loop, &running.done, wait_us + box_patience(3 * USEC_PER_SEC))) {
		exec_abandon(call);
		(void)snprintf(ret->text, sizeof(ret->text), "no answer in time");
	}
	ret->took_us = clock_monotonic_us() - start;
	return ret->answered;
}

bool box_run(struct box *b, const char *shell_text, uint64_t timeout_us, struct box_result *ret)
{
	timeout_us = box_patience(timeout_us);
	return run(b, shell_text, timeout_us, timeout_us + USEC_PER_SEC, ret) &&
	       ret->state == JOB_DONE;
}

bool box_start(struct box *b, const char *shell_text, uint64_t wait_us, struct box_result *ret)
{
	return run(b, shell_text, 300 * USEC_PER_SEC, wait_us, ret);
}

struct asking {
	bool done, ok;
};

static void on_usage(void *user, const struct exec_usage *u, const struct err *err)
{
	struct asking *a = user;
	(void)u;
	a->done = true;
	a->ok = err == NULL;
}

/* Asks for its usage: needs no process of the sandbox, which may have none left to give. */
bool box_answers(struct box *b)
{
	struct asking asking = {0};
	struct exec_call *call = exec_usage(b->exec, on_usage, &asking);
	if (!box_until(b->loop, &asking.done, box_patience(USEC_PER_SEC)))
		exec_abandon(call);
	return asking.ok;
}
