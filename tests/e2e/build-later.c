/* build-later.c: another build of the same program, for test_front.py: a later version that no
 * longer speaks the protocol of this one. */
#include "mcp/build.h"

const struct build build = {.version = "100.0.0", .front_min = 2, .front_max = 2};
