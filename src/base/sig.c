/* sig.c: see sig.h. */
#include "base/sig.h"

#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's, not the library's: 64 signals, 1 to 64 (signal(7)). */
#define SIGNALS 64

void sig_reset(void)
{
	/* The kernel's struct sigaction, on every architecture not longer: handler (SIG_DFL is 0),
	 * flags, restorer, mask. */
	static const uint64_t normal[4];
	static const uint64_t none;
	for (int sig = 1; sig <= SIGNALS; sig++)
		(void)syscall(SYS_rt_sigaction, sig, normal, NULL, sizeof(none));
	(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof(none));
}
