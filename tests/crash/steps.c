/* steps.c: kills a broker at a numbered step. Loaded into an unchanged `scb broker` by LD_PRELOAD.
 *
 * Steps are counted from 1: one before and one after each write to the audit log and its head, each
 * change of the store's directory, each write to a socket and each read from one that brought
 * bytes. (But not EXPECT on a link: whether that is said depends on how long nothing came before,
 * so that steps would have other numbers each time.)
 *
 *   STEPS_KILL=N    ends this process with SIGKILL at step N
 *   STEPS_LOG=PATH  appends a line for each step: "N before store rename session/s-…"
 *   STEPS_BYTE=1    what goes over links (sockets under a runtime directory named *.sock) goes one
 *                   byte at a time, in both directions
 *
 * Children of the process are not counted: the launcher's child has another pid, and what it
 * executes gets no environment. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire/frame.h"

static pid_t self;
static unsigned long step, kill_at;
static const char *log_path;
static int by_byte;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
	void *f = dlsym(RTLD_NEXT, name);
	if (!f)
		abort();
	return f;
}

__attribute__((constructor)) static void begin(void)
{
	const char *n = getenv("STEPS_KILL");
	self = getpid();
	kill_at = n ? strtoul(n, NULL, 10) : 0;
	by_byte = getenv("STEPS_BYTE") != NULL;
	log_path = getenv("STEPS_LOG") ? strdup(getenv("STEPS_LOG")) : NULL;
	unsetenv("LD_PRELOAD");
}

/* Opened for each line: scb closes what it did not open. */
static void write_log(const char *when, const char *what, const char *detail)
{
	char line[300];
	int n = snprintf(line, sizeof(line), "%lu %s %s %.200s\n", step, when, what, detail);
	int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	(void)!REAL(write)(fd, line, (size_t)n);
	(void)close(fd);
}

static void at(const char *when, const char *what, const char *detail)
{
	int saved = errno;
	if (getpid() != self)
		return;
	step++;
	if (log_path)
		write_log(when, what, detail);
	if (step == kill_at)
		(void)kill(self, SIGKILL);
	errno = saved;
}

enum kind { OTHER, AUDIT, LINK, PEER };

static enum kind kind_of(int fd)
{
	struct stat st;
	int saved = errno;
	enum kind kind = OTHER;
	if (fstat(fd, &st) < 0) {
		kind = OTHER;
	} else if (S_ISSOCK(st.st_mode)) {
		struct sockaddr_un a = {0};
		socklen_t n = sizeof(a);
		kind = PEER;
		if (getpeername(fd, (struct sockaddr *)&a, &n) == 0 && a.sun_family == AF_UNIX &&
			n > offsetof(struct sockaddr_un, sun_path) && strstr(a.sun_path, "/x-"))
			kind = LINK;
	} else if (S_ISREG(st.st_mode)) {
		char link[40], path[4096];
		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		ssize_t n = readlink(link, path, sizeof(path) - 1);
		path[n > 0 ? n : 0] = '\0';
		if (strstr(path, "/audit"))
			kind = AUDIT;
	}
	errno = saved;
	return kind;
}

static const char *const names[] = {"other", "audit", "link", "peer"};

/* ---- writing ---- */

ssize_t write(int fd, const void *p, size_t n)
{
	enum kind k = getpid() == self ? kind_of(fd) : OTHER;
	if (k == OTHER)
		return REAL(write)(fd, p, n);
	if (k == LINK && by_byte && n > 1)
		n = 1;
	at("before", names[k], "write");
	ssize_t r = REAL(write)(fd, p, n);
	at("after", names[k], "write");
	return r;
}

/* The head of the audit log. */
ssize_t pwrite(int fd, const void *p, size_t n, off_t offset)
{
	enum kind k = getpid() == self ? kind_of(fd) : OTHER;
	if (k != AUDIT)
		return REAL(pwrite)(fd, p, n, offset);
	at("before", names[k], "pwrite");
	ssize_t r = REAL(pwrite)(fd, p, n, offset);
	at("after", names[k], "pwrite");
	return r;
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
	enum kind k = getpid() == self ? kind_of(fd) : OTHER;
	if (k == OTHER)
		return REAL(writev)(fd, iov, count);
	at("before", names[k], "writev");
	ssize_t r = REAL(writev)(fd, iov, count);
	at("after", names[k], "writev");
	return r;
}

/* Byte by byte, as far as the socket takes them. */
static ssize_t send_bytes(int fd, const struct msghdr *m, int flags)
{
	ssize_t sent = 0;
	for (size_t i = 0; i < m->msg_iovlen; i++) {
		for (size_t k = 0; k < m->msg_iov[i].iov_len; k++) {
			const char *p = (const char *)m->msg_iov[i].iov_base + k;
			ssize_t r = REAL(send)(fd, p, 1, flags);
			if (r < 0)
				return sent ? sent : r;
			sent++;
		}
	}
	return sent;
}

static int is_expect(const struct msghdr *m)
{
	const struct iovec *head = m->msg_iov;
	return m->msg_iovlen > 0 && head->iov_len == FRAME_HEADER &&
	       ((const char *)head->iov_base)[1] == FRAME_EXPECT;
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	enum kind k = getpid() == self ? kind_of(fd) : OTHER;
	if (k == OTHER)
		return REAL(sendmsg)(fd, m, flags);
	int counts = k != LINK || !is_expect(m);
	if (counts)
		at("before", names[k], "sendmsg");
	ssize_t r = k == LINK && by_byte ? send_bytes(fd, m, flags) : REAL(sendmsg)(fd, m, flags);
	if (counts)
		at("after", names[k], "sendmsg");
	return r;
}

ssize_t send(int fd, const void *p, size_t n, int flags)
{
	enum kind k = getpid() == self ? kind_of(fd) : OTHER;
	if (k == OTHER)
		return REAL(send)(fd, p, n, flags);
	if (k == LINK && by_byte && n > 1)
		n = 1;
	at("before", names[k], "send");
	ssize_t r = REAL(send)(fd, p, n, flags);
	at("after", names[k], "send");
	return r;
}

/* ---- reading: a step only where bytes came ---- */

static ssize_t received(int fd, ssize_t n)
{
	int saved = errno;
	if (n > 0 && getpid() == self) {
		enum kind k = kind_of(fd);
		if (k == LINK || k == PEER)
			at("after", names[k], "receive");
	}
	errno = saved;
	return n;
}

static size_t wanted(int fd, size_t n)
{
	return by_byte && n > 1 && getpid() == self && kind_of(fd) == LINK ? 1 : n;
}

ssize_t read(int fd, void *p, size_t n)
{
	return received(fd, REAL(read)(fd, p, wanted(fd, n)));
}

ssize_t recv(int fd, void *p, size_t n, int flags)
{
	return received(fd, REAL(recv)(fd, p, wanted(fd, n), flags));
}

ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	return received(fd, REAL(recvmsg)(fd, m, flags));
}

/* ---- the store ---- */

static int in_store(int dir, const char *path)
{
	char link[40], at_dir[4096];
	int saved = errno;
	if (getpid() != self)
		return 0;
	at_dir[0] = '\0';
	if (path[0] != '/' && dir != AT_FDCWD) {
		(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
		ssize_t n = readlink(link, at_dir, sizeof(at_dir) - 1);
		at_dir[n > 0 ? n : 0] = '\0';
	}
	errno = saved;
	return strstr(at_dir, "/store") || strstr(path, "/store");
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	if (!in_store(to_dir, to))
		return REAL(renameat)(from_dir, from, to_dir, to);
	at("before", "store rename", to);
	int r = REAL(renameat)(from_dir, from, to_dir, to);
	at("after", "store rename", to);
	return r;
}

int rename(const char *from, const char *to)
{
	if (!in_store(AT_FDCWD, to))
		return REAL(rename)(from, to);
	at("before", "store rename", to);
	int r = REAL(rename)(from, to);
	at("after", "store rename", to);
	return r;
}

int unlinkat(int dir, const char *path, int flags)
{
	if (!in_store(dir, path))
		return REAL(unlinkat)(dir, path, flags);
	at("before", "store unlink", path);
	int r = REAL(unlinkat)(dir, path, flags);
	at("after", "store unlink", path);
	return r;
}

int unlink(const char *path)
{
	if (!in_store(AT_FDCWD, path))
		return REAL(unlink)(path);
	at("before", "store unlink", path);
	int r = REAL(unlink)(path);
	at("after", "store unlink", path);
	return r;
}
