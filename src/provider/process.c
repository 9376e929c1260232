/* process.c: see process.h. */
#include "provider/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"

bool process_read(pid_t pid, struct process *ret)
{
	char path[40], stat[1024], state;
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof(stat) - 1);
	if (n <= 0)
		return false;
	stat[n] = '\0';
	int parent;
	unsigned long long start;
	const char *end = strrchr(stat, ')'); /* the name may hold anything */
	/* proc(5): state, ppid, then 17 more, and the start is the 22nd field of all */
	if (!end || sscanf(end,
			    ") %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			    "%*s %*s %llu",
			    &state, &parent, &start) != 3)
		return false;
	*ret = (struct process){
		.pid = pid, .parent = parent, .dead = state == 'Z' || state == 'X', .start = start};
	return true;
}

size_t process_list(struct process **ret)
{
	size_t n = 0, room = 0;
	struct process *all = NULL, p;
	DIR *d = opendir("/proc");
	for (struct dirent *e; d && (e = readdir(d));) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		if (pid <= 0 || !process_read(pid, &p))
			continue;
		if (n == room) {
			room = room ? 2 * room : 256;
			all = xrealloc(all, room * sizeof(*all));
		}
		all[n++] = p;
	}
	if (d)
		(void)closedir(d);
	*ret = all;
	return n;
}

int process_open(pid_t pid, uint64_t start)
{
	struct process p;
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return -errno;
	/* Looked at behind the opening: while this one lives, nobody else has its number. */
	if (!process_read(pid, &p))
		return start ? -ESRCH : TAKE_FD(fd);
	if (p.dead || (start && p.start != start))
		return -ESRCH;
	return TAKE_FD(fd);
}

int process_signal(int pidfd, int sig)
{
	return syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}

pid_t process_child(pid_t parent)
{
	_cleanup_free_ struct process *all = NULL;
	size_t n = process_list(&all);
	for (size_t i = 0; i < n; i++)
		if (all[i].parent == parent && !all[i].dead)
			return all[i].pid;
	return 0;
}
