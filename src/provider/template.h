/* template.h: a preloaded interpreter outside every sandbox, from which kernels are forked into
 * sandboxes of this host (kernels/python/template.py; docs/agent-protocol.md, "The template").
 *
 * Under a root broker it runs as a uid of its own, with the capabilities that entering a sandbox
 * needs and no others, sees the host read-only and has no network. An ordinary user's runs as that
 * user, and refuses where its program lies in files that this uid may write. Whoever cannot have
 * one starts kernels plainly: nothing else depends on it.
 *
 * Its life is in provider.h; here is what providers do with it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "provider/provider.h"

struct template_fork;

/* What a kernel is forked with (enum wire_template). All borrowed for the time of the call. */
struct template_request {
	const struct buf *config;
	const char *kernels_dir, *agent; /* as the kernel sees them */
	const int *fds;                  /* in the order of TEMPLATE_FORK */
	size_t n_fds;
	size_t n_namespaces, n_joins;
	bool touch;
};
/* done is called once, from the loop: err is NULL where the kernel is confined in its sandbox. */
int template_fork(struct template *t, const struct template_request *q,
	void (*done)(void *user, const struct err *err), void *user, struct template_fork **ret,
	struct err *err) MUST_CHECK;
/* No callback any more. The kernel, if there is one, ends when its other ends close. */
void template_fork_cancel(struct template_fork *f);
