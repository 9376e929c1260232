/* exhaust.c: using up what a sandbox has: bytes, inodes, memory, processes. Each must be met by a
 * limit of the sandbox, and the agent must answer afterwards: whoever started this asks it. */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MIB      (1024UL * 1024UL)

/* Everything that code may write to, and what it may not. */
static const char *const places[] = {"/workspace", "/tmp", "/dev/shm", "/var/tmp", "/dev", "/run",
	"/var", "/etc", "/mnt", "/.scb", "/", "/usr", "/proc", "/dev/pts"};

/* How many MiB fit, 1,024 at most. */
static unsigned long fill(const char *dir)
{
	static char block[MIB];
	char path[64];
	(void)snprintf(path, sizeof(path), "%s/filler", dir);
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	unsigned long n = 0;
	memset(block, 'x', sizeof(block));
	while (fd >= 0 && n < 1024 && write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
		n++;
	if (fd >= 0)
		(void)close(fd);
	return n;
}

void group_bytes(const char *argument)
{
	(void)argument;
	for (size_t i = 0; i < COUNT(places); i++) {
		char name[64], detail[64];
		unsigned long n = fill(places[i]);
		(void)snprintf(name, sizeof(name), "fill-%s", places[i]);
		(void)snprintf(detail, sizeof(detail), "%lu MiB", n);
		report(n < 512, name, detail);
	}
	for (size_t i = 0; i < COUNT(places); i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "%s/filler", places[i]);
		(void)unlink(path);
	}
}

/* In a child, because the limit may be that it is killed. */
static unsigned long many_files(const char *dir)
{
	int p[2];
	unsigned long n = 0, got;
	if (pipe(p) < 0)
		return 0;
	pid_t pid = fork();
	if (pid == 0) {
		char path[64];
		for (n = 0; n < 2000000; n++) {
			(void)snprintf(path, sizeof(path), "%s/%lu", dir, n);
			int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
			if (fd < 0)
				break;
			(void)close(fd);
			if (n % 1000 == 0)
				(void)!write(p[1], &n, sizeof(n));
		}
		_exit(0);
	}
	(void)close(p[1]);
	while (read(p[0], &got, sizeof(got)) == (ssize_t)sizeof(got))
		n = got;
	(void)close(p[0]);
	(void)waitpid(pid, NULL, 0);
	return n;
}

void group_inodes(const char *argument)
{
	(void)argument;
	char detail[64];
	unsigned long n = many_files("/tmp");
	(void)snprintf(detail, sizeof(detail), "about %lu files", n);
	report(n < 1999000, "inodes", detail);
}

/* Many small processes: none is an obvious victim, and the agent is small too. */
void group_memory(const char *argument)
{
	(void)argument;
	unsigned long started = 0, failed = 0;
	for (int i = 0; i < 3000; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (p != MAP_FAILED)
				memset(p, 'x', MIB);
			(void)sleep(5);
			_exit(0);
		}
		started += pid > 0;
		failed += pid < 0;
	}
	char detail[80];
	(void)snprintf(detail, sizeof(detail), "%lu processes of 1 MiB started, %lu refused",
		started, failed);
	report(true, "memory", detail);
}

/* Children that fork and end at once, out of every group and session that they were in. */
void group_forks(const char *argument)
{
	(void)argument;
	for (int i = 0; i < 30; i++) {
		if (fork() == 0) {
			for (;;) {
				if (fork() > 0)
					_exit(0); /* the child goes on under another pid */
				(void)setsid();
				(void)fork();
			}
		}
	}
	(void)sleep(30);
	report(true, "forks", "a storm is going on");
}
