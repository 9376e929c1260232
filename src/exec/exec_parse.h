/* exec_parse.h: what the agent says about jobs and kernels, read without I/O. All of it is hostile
 * input: enums are checked against their range, counts and lengths against limits.h, texts come out
 * as valid UTF-8 without NUL. The TLVs themselves may be broken (fuzzing), too.
 *
 * Each returns 0 and fills *ret, or -EPROTO and leaves *ret without memory. Unknown tags are
 * skipped. */
#pragma once

#include "exec/exec.h"
#include "wire/tlv.h"

/* The status of one job: an END of OP_JOB_START and OP_JOB_WAIT, a MSG of OP_JOB_LIST. STATE must
 * be there; where the job is done, REASON and EVIDENCE. ret->job is "" where JOB is not there;
 * results stay empty: they come in MSGs. Freed by exec_status_done(). */
int exec_parse_status(struct tlv_reader msg, struct exec_status *ret) MUST_CHECK;

/* One MIME bundle of a cell: a MSG of OP_JOB_START and OP_JOB_WAIT. */
int exec_parse_bundle(struct tlv_reader msg, struct exec_bundle *ret) MUST_CHECK;
void exec_bundle_done(struct exec_bundle *b);

/* A MSG of OP_KERNEL_LIST. */
int exec_parse_kernel(struct tlv_reader msg, struct exec_kernel *ret) MUST_CHECK;
void exec_kernel_done(struct exec_kernel *k);

/* The END of OP_KERNEL_FORK. */
int exec_parse_twin(struct tlv_reader msg, struct exec_twin *ret) MUST_CHECK;
void exec_twin_done(struct exec_twin *t);

/* A MSG of OP_JOB_READ with CHANNEL_BOTH; ret->p points into msg. */
int exec_parse_piece(struct tlv_reader msg, struct exec_piece *ret) MUST_CHECK;
/* The END of OP_JOB_READ; bytes and pieces of *ret are left alone. */
int exec_parse_read(struct tlv_reader msg, struct exec_read *ret) MUST_CHECK;
/* A MSG of OP_JOB_SEARCH, and its END, which leaves the hits of *ret alone. */
int exec_parse_hit(struct tlv_reader msg, struct exec_hit *ret) MUST_CHECK;
int exec_parse_found(struct tlv_reader msg, struct exec_found *ret) MUST_CHECK;
int exec_parse_usage(struct tlv_reader msg, struct exec_usage *ret) MUST_CHECK;
