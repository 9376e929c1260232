/* bubblewrap.h: the one thing about it that selecting and probing ask. */
#pragma once

/* Path of bubblewrap's program, or NULL where it is not installed. */
const char *bubblewrap_program(void);
