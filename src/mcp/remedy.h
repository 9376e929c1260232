/* remedy.h: why a run ended, and what to do about it, in words. Pure. */
#pragma once

#include "mcp/render.h"

/* One sentence on what happened: "exit code 7", "killed by SIGSEGV", …; appended. */
void remedy_ending(const struct exec_status *s, const struct render_context *ctx, struct buf *out);
/* What the caller can do; nothing is appended where nothing needs doing. */
void remedy_advice(const struct exec_status *s, const struct render_context *ctx, struct buf *out);
/* The agent's note ("oom_kill:3") for people; appended. */
void remedy_note(const char *note, struct buf *out);
/* Does the output look as if the program wanted a network? */
bool remedy_wants_network(const struct exec_status *s);
extern const char remedy_no_network[];
/* Where it looks as if a module, package or program was missing: a sentence on what to do about
 * it; appended. Inferred from what was printed, and said so. */
void remedy_missing(const struct exec_status *s, const struct render_context *ctx, struct buf *out);
