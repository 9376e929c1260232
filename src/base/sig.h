/* sig.h: signals of a process that is about to become another program. */
#pragma once

/* Every signal has its default action and none is blocked: those, too, that the C library keeps for
 * its own use and lets nobody change (glibc: 32 and 33). A parent's settings would be inherited
 * through exec otherwise. Makes system calls and nothing else. */
void sig_reset(void);
