/* build-newer.c: another build of the same program, for test_front.py: a later version. */
#include "mcp/build.h"

const struct build build = {.version = "99.0.0", .front_min = 1, .front_max = 1};
