/* tap.h: test results in the Test Anything Protocol, for programs that are not cmocka's. */
#pragma once

#include <stdbool.h>

#include "base/mem.h"

/* "ok N - name" or "not ok N - name"; returns ok. */
bool tap_ok(bool ok, const char *fmt, ...) PRINTF_LIKE(2, 3);
void tap_skip(const char *name, const char *why);
/* A line that explains. */
void tap_note(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* The plan, at the end; exit status of the program. */
int tap_done(void);

/* For "user" modes: runs this program anew as an ordinary user, with its own copy of what is beside
 * it in a place that the user can read; returns the exit status. Where this process is not root, it
 * is such a user already: returns -1. Sets SCB_AGENT and SCB_KERNELS for the copy. */
int tap_as_user(int argc, char **argv);
