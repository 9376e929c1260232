/* render.h: a job's status as what the model is given: text that stands alone, structured content
 * that stands alone, images. Pure. */
#pragma once

#include <jansson.h>

#include "exec/exec.h"
#include "mcp/schema.h"
#include "policy/policy.h"
#include "secret/redact.h"

struct render_context {
	const struct policy_limits *limits;
	uint64_t timeout_us;               /* that the job was started with; 0: not known here */
	uint64_t waited_us;                /* for "still running after …" */
	bool image;                        /* the sandbox has an image's programs, not the host's */
	const struct redacting *redacting; /* NULL: nothing is masked */
};

/* s has been masked (exec/masked.h). Appends to text, sets members of structured, appends image
 * blocks; n_before of content stand before the images. */
void render_status(const struct exec_status *s, const struct render_context *ctx, struct buf *text,
	json_t *structured, json_t *blocks);
/* Members of the result, for outputSchema. */
extern const struct field render_fields[], render_brief_fields[];

/* One line: "j-…  running  12.3 s  pip list". */
void render_job_line(const struct exec_status *s, struct buf *text);
json_t *render_job_json(const struct exec_status *s);
/* "SIGSEGV"; a number where the signal has no name. */
void render_signal(int signal, char *ret_text, size_t size);
