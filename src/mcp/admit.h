/* admit.h: whether a call may run: its principal's rate, the policy, then the record, then its
 * arguments. */
#pragma once

#include "mcp/call.h"

/* arguments: an object, as it came. 0, and c->args are those checked; or a negative errno and why,
 * which the call is answered with. */
int admit_call(struct call *c, const json_t *arguments, struct err *err) MUST_CHECK;
