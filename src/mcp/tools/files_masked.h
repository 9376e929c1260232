/* files_masked.h: files read and searched where secrets are known. */
#pragma once

#include "files/files.h"
#include "mcp/call.h"

/* Masks what was read, and cuts it to [offset, offset + length): r holds what stands around it,
 * too. Nothing is masked without a redactor. */
void files_mask_read(struct call *c, struct files_result *r, uint64_t offset, uint64_t length);

/* The agent has searched files as they are, so it has found parts of secrets, too. Each hit is
 * looked up: it counts where the pattern stands in the masked line. files_check_start() calls done,
 * at once or from the loop, with what is left, at most limit; *op is what to abandon meanwhile.
 * Takes the entries of r. name: the pattern for names, or NULL. */
typedef void (*files_masked_fn)(struct call *c, struct files_result *r);
struct files_check;
struct files_check *files_check_new(struct call *c, struct files *f, struct files_result *r,
	const char *pattern, const char *name, size_t limit, struct files_call **op,
	files_masked_fn done);
void files_check_start(struct files_check *k);
void files_check_free(struct files_check *k); /* NULL is allowed */
