/* reach.c: reaching what is beside the code: the agent's socket, other processes of the user. */
#include "hostile.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* A connection to a path, or to an abstract name where it begins with '@'. */
static int reach(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(path);
	if (n >= sizeof(a.sun_path))
		return -1;
	memcpy(a.sun_path, path, n);
	if (path[0] == '@')
		a.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&a,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) == 0)
		return fd;
	(void)close(fd);
	return -1;
}

/* Says it is the broker: a challenge that looks right, then a confirmation without the key, then a
 * call that shuts the agent down. It must be told nothing and obeyed in nothing. */
static bool obeyed(int fd)
{
	static const unsigned char sync[16] = {0x00, 0xff, 's', 'c', 'b', 0x1a, 0xd7, 0x5e, 0x91,
		0x0c, 0xe3, 0x66, 0xba, 0x28, 0x7f, 0x00};
	unsigned char out[12 + 48 + 12 + 32 + 12 + 2] = {0}, in[4096];
	unsigned char *p = out;
	p[0] = p[60] = p[104] = 1; /* version */
	p[1] = 1;                  /* CHALLENGE, 48 bytes */
	p[11] = 48;
	memcpy(p + 12, sync, sizeof(sync));
	p[61] = 3; /* CONFIRM, 32 bytes of no key */
	p[71] = 32;
	p[105] = 5; /* OPEN, stream 1: SHUTDOWN */
	p[111] = 1;
	p[115] = 2;
	p[117] = 50;
	(void)send(fd, out, sizeof(out), MSG_NOSIGNAL);
	struct timeval patience = {.tv_sec = 1};
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	/* PROOF may come: it shows nothing but that the agent has the key. */
	for (ssize_t n; (n = recv(fd, in, sizeof(in), 0)) > 0;)
		if (in[1] != 2)
			return true;
	return false;
}

void group_connect(const char *socket_path)
{
	/* Every name that this network namespace shows, and the one that we were told. */
	char line[512], path[256];
	int found = 0;
	FILE *f = fopen("/proc/net/unix", "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %255s", path) != 1 ||
			!strstr(path, "scb"))
			continue;
		int fd = reach(path);
		found++;
		if (fd >= 0) {
			report(!obeyed(fd), "be-a-broker", path);
			(void)close(fd);
		}
	}
	if (f)
		(void)fclose(f);
	int fd = socket_path[0] ? reach(socket_path) : -1;
	report(fd < 0 || !obeyed(fd), "be-a-broker",
		fd < 0 ? "no way to the socket" : "not obeyed");
	/* Many connections at once must not keep the broker out. */
	for (int i = 0; fd >= 0 && i < 200; i++)
		(void)reach(socket_path);
	/* Where the agent of a container fetched its socket: nobody is there any more. */
	int door = reach("/.scb/door");
	report(door < 0, "the-door", door < 0 ? strerror(errno) : "somebody answered");
	(void)snprintf(line, sizeof(line), "%d names seen", found);
	report(true, "sockets", line);
}

/* "PID NAME": a process of the host, and an abstract socket that it listens on. */
void group_outside(const char *pid_and_name)
{
	char *end;
	pid_t pid = (pid_t)strtol(pid_and_name, &end, 10);
	errno = 0;
	int r = kill(pid, 0);
	report(r < 0, "signal-to-the-host", r < 0 ? strerror(errno) : "could be sent");
	int fd = *end == ' ' ? reach(end + 1) : -1;
	report(fd < 0, "abstract-socket-of-the-host", fd < 0 ? strerror(errno) : "connected");
}
