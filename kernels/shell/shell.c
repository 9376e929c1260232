/* shell.c: see shell.h. */
#include "shell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/sig.h"
#include "base/str.h"

#define CONTROL_MAX (8 * 1024)

static bool runs(const char *program)
{
	return access(program, X_OK) == 0;
}

/* Error messages of a cell begin with its file's name, and this one is shorter than its real one.
 * It may be taken away by the cells, or not be possible: then it is the other. */
static void name_cell(struct shell *s)
{
	char target[64], now[64];
	const char *tmp = getenv("TMPDIR");
	(void)snprintf(target, sizeof(target), "/proc/%d/fd/%d", (int)getpid(), s->cell);
	int n = snprintf(s->cell_path, sizeof(s->cell_path), "%s/.cell-%d",
		tmp && tmp[0] == '/' ? tmp : "/tmp", (int)getpid());
	if (n < (int)sizeof(s->cell_path)) {
		ssize_t len = readlink(s->cell_path, now, sizeof(now));
		if (len == (ssize_t)strlen(target) && memcmp(now, target, (size_t)len) == 0)
			return;
		if (symlink(target, s->cell_path) == 0)
			return;
	}
	(void)snprintf(s->cell_path, sizeof(s->cell_path), "%s", target);
}

int shell_init(struct shell *s, const char *program, const char *folder)
{
	*s = (struct shell){.program = program, .folder = folder, .control = -1};
	if (!program)
		s->program = runs("/bin/bash") ? "/bin/bash" : "/bin/sh";
	const char *slash = strrchr(s->program, '/');
	s->name = strcmp(slash ? slash + 1 : s->program, "bash") == 0 ? "bash" : "sh";
	s->cell = memfd_create("cell", MFD_CLOEXEC);
	s->state = memfd_create("state", MFD_CLOEXEC);
	if (s->cell < 0 || s->state < 0 || pipe2(s->say, O_CLOEXEC) < 0)
		return -errno;
	return fd_set_nonblock(s->say[0], true);
}

/* ---- talking to it ---- */

static int put_quoted(struct buf *b, const char *text)
{
	int r = buf_append_str(b, "'");
	for (const char *p = text; *p && r == 0; p++)
		r = *p == '\'' ? buf_append_str(b, "'\\''") : buf_append(b, p, 1);
	return r ? r : buf_append_str(b, "'");
}

static int put_fd(struct buf *b, int fd)
{
	return buf_printf(b, "/proc/%d/fd/%d", (int)getpid(), fd);
}

#define QUIET "; } >/dev/null 2>&1"

static int send_line(struct shell *s, const struct buf *b)
{
	return fd_write_full(s->control, b->data, b->len);
}

NORETURN static void become_shell(const struct shell *s, int input)
{
	const char *bash[] = {s->name, "--norc", "--noprofile", "-s", NULL};
	const char *sh[] = {s->name, "-s", NULL};
	sig_reset();
	if (dup2(input, STDIN_FILENO) == STDIN_FILENO)
		(void)execv(s->program, (char *const *)(strcmp(s->name, "bash") == 0 ? bash : sh));
	_exit(127);
}

int shell_start(struct shell *s, bool fresh)
{
	int input[2];
	if (fresh && ftruncate(s->state, 0) < 0)
		return -errno;
	fd_closep(&s->control);
	s->n_said = 0;
	if (pipe2(input, O_CLOEXEC) < 0)
		return -errno;
	s->pid = fork();
	if (s->pid == 0)
		become_shell(s, input[0]);
	int r = s->pid < 0 ? -errno : 0;
	(void)close(input[0]);
	s->control = input[1];
	if (r < 0) {
		s->pid = 0;
		return r;
	}
	_cleanup_buf_ struct buf b = BUF_INIT(CONTROL_MAX);
	_cleanup_free_ char *script = xasprintf("%s/%s.sh", s->folder, s->name);
	r = buf_append_str(&b, "{ __scb_say=");
	r = r ? r : put_fd(&b, s->say[1]);
	r = r ? r : buf_append_str(&b, " __scb_state=");
	r = r ? r : put_fd(&b, s->state);
	r = r ? r : buf_append_str(&b, "; . ");
	r = r ? r : put_quoted(&b, script);
	r = r ? r : buf_append_str(&b, "; . ");
	r = r ? r : put_fd(&b, s->state);
	r = r ? r : buf_append_str(&b, "; __scb_ready" QUIET "\n");
	return r ? r : send_line(s, &b);
}

/* True where bash reads the cell as a whole without an error; else it has said what it is. */
static bool parses(const struct shell *s)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		sig_reset();
		(void)execl(
			s->program, s->name, "--norc", "-O", "extglob", "-n", s->cell_path, NULL);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 0 || WEXITSTATUS(status) > 2;
}

static bool substitutes(const void *code, size_t n)
{
	return n &&
	       (memmem(code, n, "$(", 2) || memmem(code, n, "<(", 2) || memmem(code, n, ">(", 2));
}

int shell_run(struct shell *s, const void *code, size_t n, int status, int input, bool snapshot)
{
	_cleanup_buf_ struct buf b = BUF_INIT(CONTROL_MAX);
	if (ftruncate(s->cell, 0) < 0 || lseek(s->cell, 0, SEEK_SET) < 0)
		return -errno;
	int r = fd_write_full(s->cell, code, n);
	name_cell(s);
	/* A substitution that is not closed spoils bash's memory (5.2: it aborts a few cells
	 * later). */
	if (r == 0 && strcmp(s->name, "bash") == 0 && substitutes(code, n) && !parses(s))
		return -EBADMSG;
	/* A cell is the last part of an && or || list, where `set -e` holds. */
	r = r ? r
	      : buf_printf(&b, "{ __scb_begin %d%s" QUIET " %s . ", status,
			snapshot ? " save \"$@\"" : "", status ? "||" : "&&");
	r = r ? r : put_quoted(&b, s->cell_path);
	r = r ? r : buf_append_str(&b, " <");
	r = r ? r : input < 0 ? buf_append_str(&b, "/dev/null") : put_fd(&b, input);
	r = r ? r : buf_append_str(&b, "; { __scb_end $?" QUIET "\n");
	return r ? r : send_line(s, &b);
}

/* ---- listening ---- */

void shell_read(struct shell *s)
{
	ssize_t n;
	while ((n = read(s->say[0], s->said + s->n_said, sizeof(s->said) - s->n_said)) > 0) {
		s->n_said += (size_t)n;
		if (s->n_said == sizeof(s->said))
			s->said[s->n_said - 1] = '\0'; /* longer than any that it means to say */
		if (memchr(s->said, '\0', s->n_said))
			return;
	}
}

/* "FDS|PIDS", in words. */
static void read_losses(const char *text, char *ret, size_t size)
{
	const char *bar = strchr(text, '|');
	int n = bar ? (int)(bar - text) : 0, jobs = 0;
	for (const char *p = bar; p && *p; p++)
		jobs += *p == '\n';
	char job_text[64] = "";
	if (jobs)
		(void)snprintf(job_text, sizeof(job_text),
			jobs == 1 ? "1 background job goes on by itself"
				  : "%d background jobs go on by themselves",
			jobs);
	if (n)
		(void)snprintf(ret, size, "%s%sdescriptors%.*s are closed", job_text,
			jobs ? ", " : "", MIN(n, 40), text);
	else
		(void)snprintf(ret, size, "%s", job_text);
}

struct shell_message shell_next(struct shell *s)
{
	struct shell_message m = {.event = SHELL_NOTHING};
	char *end = memchr(s->said, '\0', s->n_said);
	if (!end)
		return m;
	const char *rest = s->said[0] ? s->said + 1 : "";
	rest += *rest == ' ';
	uint64_t status;
	if (s->said[0] == 'R') {
		m.event = SHELL_READY;
		(void)snprintf(m.text, sizeof(m.text), "%s", rest);
	} else if (s->said[0] == 'D' && str_to_u64(rest, 255, &status) == 0) {
		m.event = SHELL_DONE;
		m.status = (int)status;
	} else if (s->said[0] == 'S') {
		m.event = SHELL_LEAVING;
	} else if (s->said[0] == 'L') {
		m.event = SHELL_SAVED;
		read_losses(s->said + 1, m.text, sizeof(m.text));
	}
	size_t used = (size_t)(end - s->said) + 1;
	s->n_said -= used;
	memmove(s->said, s->said + used, s->n_said);
	if (m.event == SHELL_NOTHING && s->n_said)
		return shell_next(s); /* code has written there; it means nothing */
	return m;
}

void shell_done(struct shell *s)
{
	if (strncmp(s->cell_path, "/proc/", 6) != 0 && s->cell_path[0])
		(void)unlink(s->cell_path);
}
