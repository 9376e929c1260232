/* build.c: see build.h. */
#include "mcp/build.h"

const struct build build = {.version = SCB_VERSION, .front_min = 1, .front_max = 1};
