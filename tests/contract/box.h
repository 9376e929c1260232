/* box.h: for tests: one real sandbox of a provider, driven until something is answered. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/id.h"
#include "exec/exec.h"
#include "link/link.h"
#include "provider/provider.h"

/* What a test sets differently from box_spec()'s defaults. */
struct box {
	uv_loop_t *loop;
	struct sandbox_spec spec;
	char id[ID_TEXT_SIZE];
	uint8_t key[AUTH_KEY]; /* spec.key */
	struct sandbox *sandbox;
	struct capabilities caps;
	struct link *link;
	struct exec *exec;
	bool ready, exited, lost;
	struct err why;    /* of exited or lost */
	uint64_t hello_us; /* from create() to hello */
};

/* The loop, paths (SCB_AGENT, SCB_KERNELS) and a fresh 0700 runtime directory for all boxes. */
struct box_host {
	uv_loop_t loop;
	const struct provider *provider;
	char *agent, *kernels;
	char runtime[128];
};

/* So long, or where the environment says how many times slower this machine is (SCB_SLOW), so many
 * times as long. */
uint64_t box_patience(uint64_t us);

int box_host_init(struct box_host *h, const char *provider);
/* Removes the runtime directory; false where it is not empty. */
bool box_host_done(struct box_host *h);

/* Was it one of this process's boxes (by box_init() or box_note()) that this name begins with?
 * Other brokers work on the same machine. */
bool box_is_ours(const char *name);
void box_note(const char *id);

/* Small: 256 MiB, 64 processes, 64/32/16 MiB of tmpfs; the system in SCB_ROOT, where that is set.
 */
void box_init(struct box *b, struct box_host *h);
int box_create(struct box *b, const struct provider *p, struct err *err);
/* create, then waits for the hello. */
bool box_open(struct box *b, const struct provider *p);
/* Finds one that another process made, by id and key (in b after box_init(), or put there), and
 * waits for the hello. The reason why not is in b->why. */
bool box_connect(struct box *b, struct box_host *h);
/* Waits until *flag, for so long at most. */
bool box_until(uv_loop_t *loop, const bool *flag, uint64_t timeout_us);
/* Destroys and waits. The leftovers' text (static), or NULL. */
const char *box_close(struct box *b);

struct box_result {
	bool answered; /* false: no answer in time, or an error (text says which) */
	char text[480];
	enum wire_job_state state;
	enum wire_reason reason;
	int exit_code, signal;
	char out[64 * 1024]; /* stdout, then stderr, NUL-terminated */
	uint64_t took_us;
};
/* Runs shell text and waits for its end. */
bool box_run(struct box *b, const char *shell_text, uint64_t timeout_us, struct box_result *ret);
/* The same without waiting for the end: after wait_us it may be running still. */
bool box_start(struct box *b, const char *shell_text, uint64_t wait_us, struct box_result *ret);
/* Does the agent answer a call within a second? */
bool box_answers(struct box *b);
