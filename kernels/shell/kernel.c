/* kernel.c: the shell kernel of a sandbox: runs cells that the agent sends, in one shell.
 *
 *   SCB_KERNEL_FD=3 kernel [SHELL]
 *
 * Speaks frames on the descriptor that SCB_KERNEL_FD names (docs/agent-protocol.md, "Kernels"); the
 * cells' own output goes to descriptors 1 and 2. Needs no Python and no library.
 *
 * A cell ends when the shell says so or has ended. `exit`, a failing `set -e` and SIGINT end a
 * shell, but not what it knew (shell.h). A shell that ends without having written its state, by
 * SIGKILL or in another program's place, takes the kernel with it in the same way: the agent then
 * tells the truth about it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/sig.h"
#include "base/str.h"
#include "shell.h"
#include "wire/frame.h"
#include "wire/proto.h"
#include "wire/tlv.h"

#define INPUT_SIZE (FRAME_HEADER + LIMIT_FRAME_PAYLOAD)
/* Standard input of a cell that its program has not read; above it the agent has to wait. */
#define STDIN_MAX (4 * LIMIT_FRAME_PAYLOAD)
/* A shell that makes the state of the one before it its own. */
#define RESTART_PATIENCE_US (20 * USEC_PER_SEC)
/* A shell forgets a SIGINT that comes while a child ends; until the cell is over it gets another.
 */
#define INTERRUPT_AGAIN_US (100 * USEC_PER_MSEC)
/* A program that is just being started may lose it, too: as often, all of them get another. */
#define AGAIN_TO_ALL 20
/* An interrupt comes as SIGINT and as a frame. Where only the frame finds the cell, the signal is
 * sent here. */
#define SIGNAL_PATIENCE_US (30 * USEC_PER_MSEC)

static struct shell shell;
static int agent = -1;
static uint8_t *in;
static size_t in_len;
static bool greeted;

/* The cell. */
static bool running;
static bool interrupted; /* the agent has asked for its end */
static bool signalled;   /* by SIGINT, and so has all that runs */
static unsigned n_again;
static bool leaving;  /* the shell has begun to write its state, and is not to be disturbed */
static bool saved;    /* there is a state that the next shell can begin with */
static bool snapshot; /* it is the one before this cell */
static char losses[200];
static int last_status;
static uint64_t again_us;
static int input[2] = {-1, -1};
static struct buf pending; /* its standard input */
static bool pending_fin;

/* After a shell's end: what DONE will say once there is another one. */
static bool restarting, owes_done;
static enum wire_cell ending;
static uint64_t restart_end_us;

static volatile sig_atomic_t got_sigint;

static void on_sigint(int sig)
{
	(void)sig;
	got_sigint = 1;
}

static void on_sigchld(int sig)
{
	(void)sig;
}

static void say(const char *text)
{
	_cleanup_free_ char *line = xasprintf("shell: %s\n", text);
	(void)!fd_write_full(STDERR_FILENO, line, strlen(line));
}

/* The end of the kernel, like that of its shell. */
NORETURN static void end_like(int wait_status)
{
	shell_done(&shell);
	if (WIFSIGNALED(wait_status)) {
		const struct rlimit none = {0, 0};
		(void)setrlimit(RLIMIT_CORE, &none);
		sig_reset();
		(void)raise(WTERMSIG(wait_status));
		_exit(128 + WTERMSIG(wait_status));
	}
	_exit(WEXITSTATUS(wait_status));
}

NORETURN static void end(int status)
{
	shell_done(&shell);
	_exit(status);
}

/* ---- to the agent ---- */

static void send_frame(uint8_t type, const struct buf *body)
{
	_cleanup_buf_ struct buf b = BUF_INIT(INPUT_SIZE);
	if (frame_append(&b, type, 0, 0, body->data, body->len) < 0 ||
		fd_write_full(agent, b.data, b.len) < 0)
		end(0); /* there is nobody to talk to */
}

static void send_ready(const char *version)
{
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	int r = tlv_str(&b, TAG_LANGUAGE, "shell");
	r |= tlv_str(&b, TAG_ENGINE, shell.name);
	r |= tlv_str(&b, TAG_VERSION, version);
	CHECK(r == 0);
	send_frame(FRAME_READY, &b);
}

static void close_input(void)
{
	fd_closep(&input[0]);
	fd_closep(&input[1]);
	buf_done(&pending);
	pending_fin = false;
}

static void cell_over(enum wire_cell status, const char *name, const char *message)
{
	_cleanup_buf_ struct buf b = BUF_INIT(KIB);
	int r = tlv_u64(&b, TAG_CELL_STATUS, status);
	r |= tlv_u64(&b, TAG_EXIT_CODE, (uint64_t)last_status);
	if (name) {
		r |= tlv_str(&b, TAG_ERROR_NAME, name);
		r |= tlv_str(&b, TAG_ERROR_MESSAGE, message);
	}
	CHECK(r == 0);
	close_input();
	running = interrupted = signalled = leaving = saved = snapshot = owes_done = false;
	n_again = 0;
	losses[0] = '\0';
	send_frame(FRAME_DONE, &b);
}

/* ---- cells ---- */

static void interrupt(bool by_signal)
{
	if (!running || owes_done)
		return;
	if (!interrupted || by_signal)
		again_us = clock_monotonic_us() +
			   (by_signal ? INTERRUPT_AGAIN_US : SIGNAL_PATIENCE_US);
	interrupted = true;
	signalled |= by_signal;
}

static void on_cell(struct tlv_reader body)
{
	struct tlv code = {0};
	uint64_t stdin_mode = STDIN_EMPTY;
	for (struct tlv t; tlv_next(&body, &t);) {
		if (t.tag == TAG_CODE)
			code = t;
		else if (t.tag == TAG_STDIN_MODE && tlv_get_u64(&t, &stdin_mode) < 0)
			end(1);
	}
	if (body.bad || running || !greeted)
		end(1);
	running = true;
	int r = 0;
	if (code.n && memchr(code.p, '\0', code.n)) {
		last_status = 1;
		cell_over(CELL_ERROR, "NulInCell", "a shell has no NUL in what it runs");
		return;
	}
	if (stdin_mode == STDIN_OPEN) {
		if (pipe2(input, O_CLOEXEC) < 0)
			r = -errno;
		else
			r = fd_set_nonblock(input[1], true);
	}
	/* `exec` may put a program in the shell's place, and then nothing is left to write its
	 * state. */
	snapshot = saved = code.n && memmem(code.p, code.n, "exec", 4);
	if (r == 0)
		r = shell_run(&shell, code.p, code.n, last_status, input[0], snapshot);
	if (r == -EBADMSG) {
		last_status = 2; /* as bash says */
		cell_over(CELL_OK, NULL, NULL);
	} else if (r < 0 && r != -EPIPE) { /* that one has ended, and its end is told */
		last_status = 1;
		cell_over(CELL_ERROR, "OSError", strerror(-r));
	}
}

static void flush_input(void)
{
	while (pending.len) {
		ssize_t n = write(input[1], pending.data, pending.len);
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0)
			break;
		buf_consume(&pending, (size_t)n);
	}
	buf_clear(&pending);
	if (pending_fin)
		fd_closep(&input[1]);
}

static void on_data(const struct frame *f)
{
	if (!running || input[1] < 0 || pending_fin)
		return; /* late */
	if (buf_append(&pending, f->payload, f->len) < 0)
		end(1);
	pending_fin = f->flags & FRAME_FLAG_FIN;
	flush_input();
}

static void take_frame(const struct frame *f)
{
	if (f->type == FRAME_CELL)
		on_cell(tlv_reader(f->payload, f->len));
	else if (f->type == FRAME_DATA)
		on_data(f);
	else if (f->type == FRAME_INTERRUPT)
		interrupt(false);
}

static void read_agent(void)
{
	ssize_t n = recv(agent, in + in_len, INPUT_SIZE - in_len, MSG_DONTWAIT);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0)
		end(0);
	in_len += (size_t)n;
	size_t at = 0;
	struct frame f;
	ssize_t r;
	while ((r = frame_parse(in + at, in_len - at, &f)) > 0) {
		take_frame(&f);
		at += (size_t)r;
	}
	if (r < 0)
		end(1);
	in_len -= at;
	memmove(in, in + at, in_len);
}

/* ---- the shell ---- */

static void on_ready(const char *text)
{
	const char *bar = strchr(text, '|');
	_cleanup_free_ char *version = strndup(text, bar ? (size_t)(bar - text) : strlen(text));
	if (!greeted)
		send_ready(version ? version : "");
	greeted = true;
	if (bar && bar[1]) {
		_cleanup_free_ char *line = xasprintf("the folder %s is gone", bar + 1);
		say(line);
	}
	if (!restarting)
		return;
	restarting = false;
	if (owes_done)
		cell_over(ending, NULL, NULL);
}

static void read_shell(void)
{
	struct shell_message m;
	shell_read(&shell);
	while ((m = shell_next(&shell)).event != SHELL_NOTHING) {
		if (m.event == SHELL_READY) {
			on_ready(m.text);
		} else if (m.event == SHELL_DONE && running && !owes_done) {
			last_status = m.status;
			cell_over(interrupted ? CELL_INTERRUPTED : CELL_OK, NULL, NULL);
		} else if (m.event == SHELL_LEAVING) {
			leaving = true;
			saved = snapshot = false;
		} else if (m.event == SHELL_SAVED) {
			saved = true;
			(void)snprintf(losses, sizeof(losses), "%s", m.text);
		}
	}
}

static void tell_losses(void)
{
	if (snapshot) {
		say("exec put another program in the shell's place, which has ended; a new shell "
		    "begins with what there was before this cell");
		return;
	}
	bool plain = strcmp(shell.name, "bash") != 0;
	if (!plain && !losses[0])
		return;
	_cleanup_free_ char *line =
		xasprintf("it ended, and a new one took over its variables and settings; %s%s%s",
			plain ? "functions are lost (there is no bash here)" : "",
			plain && losses[0] ? ", " : "", losses);
	say(line);
}

static void begin_again(void)
{
	if (shell_start(&shell, false) == 0)
		return;
	say("it ended, and another one cannot be started; its variables are lost");
	if (owes_done)
		cell_over(ending, NULL, NULL);
	end(1);
}

static void on_shell_end(int wait_status)
{
	shell.pid = 0;
	read_shell(); /* its last words */
	bool by_int = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGINT;
	bool other_signal = WIFSIGNALED(wait_status) && !by_int && !(snapshot && interrupted);
	if (restarting && by_int && (saved || !leaving)) {
		leaving = false;
		begin_again(); /* the state is whole */
		return;
	}
	if (restarting || !saved || other_signal)
		end_like(wait_status);
	last_status =
		WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
	ending = by_int || interrupted ? CELL_INTERRUPTED : CELL_EXIT;
	owes_done = running;
	if (owes_done)
		tell_losses();
	restarting = true;
	leaving = false;
	restart_end_us = clock_monotonic_us() + RESTART_PATIENCE_US;
	begin_again();
}

static void reap(void)
{
	int status;
	pid_t pid;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == shell.pid)
			on_shell_end(status);
}

/* ---- the loop ---- */

static void on_time(void)
{
	uint64_t now = clock_monotonic_us();
	if (restarting && now >= restart_end_us) {
		say("a new shell does not come up with the state of the old one, which is lost");
		(void)kill(shell.pid, SIGKILL);
		if (owes_done)
			cell_over(ending, NULL, NULL);
		end(1);
	}
	if (interrupted && !leaving && !restarting && shell.pid && now >= again_us) {
		/* To the whole group, where that has not had it; a plain shell ignores it between
		 * cells, so that what it started then may not know. */
		bool all = !signalled || strcmp(shell.name, "bash") != 0 ||
			   ++n_again % AGAIN_TO_ALL == 0;
		(void)kill(all ? 0 : shell.pid, SIGINT);
		again_us = now + INTERRUPT_AGAIN_US;
	}
}

NORETURN static void loop(const sigset_t *unblocked)
{
	for (;;) {
		bool full = pending.len >= STDIN_MAX - LIMIT_FRAME_PAYLOAD;
		struct pollfd p[] = {
			{.fd = full ? -1 : agent, .events = POLLIN},
			{.fd = shell.say[0], .events = POLLIN},
			{.fd = pending.len ? input[1] : -1, .events = POLLOUT},
		};
		const struct timespec tick = {.tv_nsec = 20 * 1000 * 1000};
		(void)ppoll(p, ARRAY_SIZE(p), interrupted || restarting ? &tick : NULL, unblocked);
		if (got_sigint) {
			got_sigint = 0;
			interrupt(true);
		}
		if (p[1].revents)
			read_shell();
		reap();
		if (p[2].revents)
			flush_input();
		if (p[0].revents)
			read_agent();
		on_time();
	}
}

static void set_up_signals(sigset_t *ret_unblocked)
{
	const struct sigaction sigint = {.sa_handler = on_sigint};
	const struct sigaction sigchld = {.sa_handler = on_sigchld};
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigset_t blocked;
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGINT);
	(void)sigaddset(&blocked, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &blocked, ret_unblocked);
	(void)sigdelset(ret_unblocked, SIGINT);
	(void)sigdelset(ret_unblocked, SIGCHLD);
	(void)sigaction(SIGINT, &sigint, NULL);
	(void)sigaction(SIGCHLD, &sigchld, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL);
}

int main(int argc, char **argv)
{
	const char *number = getenv("SCB_KERNEL_FD");
	uint64_t fd;
	if (argc > 2 || !number || str_to_u64(number, INT32_MAX, &fd) < 0 ||
		fd_set_cloexec((int)fd, true) < 0) {
		(void)fprintf(stderr, "usage: SCB_KERNEL_FD=FD %s [SHELL]\n", argv[0]);
		return 2;
	}
	agent = (int)fd;
	(void)unsetenv("SCB_KERNEL_FD");
	in = xmalloc(INPUT_SIZE);
	buf_init(&pending, STDIN_MAX);
	sigset_t unblocked;
	set_up_signals(&unblocked);
	char *slash = strrchr(argv[0], '/');
	_cleanup_free_ char *folder = slash ? strndup(argv[0], (size_t)(slash - argv[0])) : NULL;
	int r = shell_init(&shell, argc > 1 ? argv[1] : NULL, folder ? folder : ".");
	if (r == 0)
		r = shell_start(&shell, true);
	if (r < 0) {
		(void)fprintf(stderr, "%s: %s\n", shell.program, strerror(-r));
		return 1;
	}
	loop(&unblocked);
}
