/* birth.c: see birth.h.
 *
 * All state is static: caller, helper, supervisor and kernel see the same, and only one of them at
 * a time runs: whoever makes the next waits for it (CLONE_VFORK), and the kernel waits for the end
 * of a pipe that the others hold open until they have let go of the memory (in exec and in exit the
 * operating system closes descriptors after that). Each has a stack of its own, so that the
 * caller's stays as it is for who goes on with it. Signals are blocked throughout. */
#include "agent/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#include "agent/enter.h"
#include "agent/supervise.h"
#include "base/mem.h"

#define EXPORT __attribute__((visibility("default")))

/* Room for what libraries do before and after a fork(). */
#define STACK (256 * 1024)
/* Arguments of clone(): memory and, with WAIT, time are shared until the new process lets go. */
#define SHARE (CLONE_VM | SIGCHLD)
#define WAIT  CLONE_VFORK

enum { LEAVING, SUPERVISING, BEING_BORN, STACKS };

static struct {
	bool takes; /* else copies */
	bool begun;
	int supervisor_fd;
	const char *program; /* NULL: program_fd */
	int program_fd;
	const int *joins;
	int n_joins;
	int alone[2]; /* a pipe: at its end the kernel has the memory for itself */
	pid_t *tid;   /* where the C library keeps the thread's number */
	ucontext_t caller, leaving;
	sigset_t mask;
	int error; /* why there is no kernel */
	const char *step;
} birth;

static _Alignas(64) char stacks[STACKS][STACK];

static char *top(int stack)
{
	return stacks[stack] + STACK;
}

static int fail(const char *step)
{
	birth.step = step;
	birth.error = -errno;
	return -1;
}

/* ---- the kernel ---- */

/* What the operating system and the C library have for each thread, and clone() does not give. */
static void renew_thread(void)
{
	/* The caller's end has zeroed it. */
	if (birth.takes)
		*birth.tid = (pid_t)syscall(SYS_set_tid_address, birth.tid);
#ifdef RSEQ_SIG
	if (__rseq_size)
		(void)syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset,
			MAX(__rseq_size, 32U), 0, RSEQ_SIG);
#endif
}

static void wait_until_alone(void)
{
	char byte;
	(void)close(birth.alone[1]);
	while (read(birth.alone[0], &byte, 1) < 0 && errno == EINTR)
		;
	(void)close(birth.alone[0]);
}

NORETURN static void be_born(void)
{
	if (birth.takes)
		wait_until_alone();
	renew_thread();
	(void)setsid();
	const struct supervise_msg m = {.kind = SUPERVISE_STARTED};
	(void)send(birth.supervisor_fd, &m, sizeof(m), MSG_NOSIGNAL);
	(void)close(birth.supervisor_fd);
	(void)setcontext(&birth.caller);
	_exit(1);
}

static int kernel_main(void *unused)
{
	(void)unused;
	be_born();
}

/* ---- the supervisor ---- */

static void become_agent(pid_t kernel)
{
	char pid[12];
	(void)snprintf(pid, sizeof(pid), "%d", (int)kernel);
	char *const argv[] = {"scb-agent", "supervise", pid, NULL}, *const env[] = {NULL};
	if (dup2(birth.supervisor_fd, STDIN_FILENO) < 0)
		return;
	if (birth.program)
		(void)execve(birth.program, argv, env);
	else
		(void)fexecve(birth.program_fd, argv, env);
}

static int supervisor_main(void *unused)
{
	(void)unused;
	for (int i = 0; i < birth.n_joins; i++)
		if (write(birth.joins[i], "0", 1) != 1)
			return fail("join the supervisor's groups");
	pid_t kernel = birth.takes ? clone(kernel_main, top(BEING_BORN), SHARE, NULL) : fork();
	if (kernel == 0)
		be_born();
	if (kernel < 0)
		return fail("fork the kernel");
	become_agent(kernel);
	(void)fail("execute scb-agent");
	(void)kill(kernel, SIGKILL);
	(void)waitpid(kernel, NULL, 0);
	return -1;
}

/* Returns once it is another program, or has ended. */
static int make_supervisor(void)
{
	pid_t pid = clone(supervisor_main, top(SUPERVISING), SHARE | WAIT, NULL);
	return pid < 0 ? fail("fork the supervisor") : pid;
}

/* ---- the caller ---- */

static void block_signals(void)
{
	sigset_t all;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &birth.mask);
}

static int result(int value, char *ret_step)
{
	(void)sigprocmask(SIG_SETMASK, &birth.mask, NULL);
	if (!birth.error)
		return value;
	(void)snprintf(ret_step, ENTER_STEP, "%s", birth.step);
	return birth.error;
}

static int find_tid(void)
{
	birth.tid = NULL;
	if (prctl(PR_GET_TID_ADDRESS, &birth.tid, 0, 0, 0) < 0)
		return fail("ask for the thread's number");
	if (birth.tid && *birth.tid == (pid_t)syscall(SYS_gettid))
		return 0;
	errno = ENOTSUP;
	return fail("find the thread's number");
}

EXPORT int scb_birth_check(char *ret_step)
{
	birth.error = 0;
	(void)sigprocmask(SIG_BLOCK, NULL, &birth.mask);
	return result(find_tid(), ret_step);
}

/* On a stack of its own: the other one goes to the kernel. */
static void leave(void)
{
	(void)make_supervisor();
	if (!birth.error)
		_exit(0);
	(void)setcontext(&birth.caller);
}

EXPORT int scb_birth_take(int supervisor_fd, const char *program, const int *joins, int n_joins,
	const void *config, size_t config_size, char *ret_step)
{
	birth.takes = true;
	birth.begun = false;
	birth.error = 0;
	birth.supervisor_fd = supervisor_fd;
	birth.program = program;
	birth.joins = joins;
	birth.n_joins = n_joins;
	block_signals();
	if (find_tid() < 0 || (pipe2(birth.alone, O_CLOEXEC) < 0 && fail("pipe") < 0))
		return result(-1, ret_step);
	/* Returns a second time: in the kernel, or here where none could be made. */
	(void)getcontext(&birth.caller);
	if (!birth.begun) {
		birth.begun = true;
		birth.leaving = birth.caller;
		birth.leaving.uc_stack = (stack_t){.ss_sp = stacks[LEAVING], .ss_size = STACK};
		birth.leaving.uc_link = NULL;
		makecontext(&birth.leaving, leave, 0);
		(void)setcontext(&birth.leaving);
	}
	int r = result(0, ret_step);
	return r < 0 ? r : scb_enter_confine(config, config_size, ret_step);
}

static int helper_main(void *unused)
{
	(void)unused;
	return make_supervisor() < 0;
}

EXPORT int scb_birth_twin(int supervisor_fd, int program_fd, char *ret_step)
{
	birth.takes = birth.begun = false;
	birth.error = 0;
	birth.supervisor_fd = supervisor_fd;
	birth.program = NULL;
	birth.program_fd = program_fd;
	birth.n_joins = 0;
	block_signals();
	/* Returns a second time, in the twin. */
	(void)getcontext(&birth.caller);
	if (birth.begun)
		return result(0, ret_step);
	birth.begun = true;
	pid_t helper = clone(helper_main, top(LEAVING), SHARE | WAIT, NULL);
	if (helper < 0)
		(void)fail("fork a helper");
	else if (birth.error)
		(void)waitpid(helper, NULL, 0);
	return result(helper, ret_step);
}
