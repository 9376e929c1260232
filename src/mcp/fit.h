/* fit.h: makes a result smaller, for messages that would pass LIMIT_MCP_RESULT. Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* Makes result smaller in place: image blocks go first, then long strings are cut, with a notice,
 * ever shorter. False: nothing is left to cut. round counts the calls, from 0. */
bool fit_shrink(json_t *result, unsigned round);
