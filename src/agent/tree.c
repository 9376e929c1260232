/* tree.c: see tree.h. Reads /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN), and where the
 * kernel has none, the parent of every process in /proc. */
#include "agent/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

static struct {
	pid_t pid[TREE_PASS];
	size_t n;
	size_t threads;
	tree_keep_fn keep;
} found;

static void add(pid_t pid)
{
	if (pid > 1 && found.n < TREE_PASS && !(found.keep && found.keep(pid)))
		found.pid[found.n++] = pid;
}

/* The numbers in one "children" file. False where there is no such file. */
static bool read_children(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	char text[4096];
	pid_t pid = 0;
	for (;;) {
		ssize_t n = read(fd, text, sizeof(text));
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
			} else {
				add(pid);
				pid = 0;
			}
		}
	}
	add(pid);
	return true;
}

/* Children of every thread. False where the kernel does not list them. */
static bool add_children(pid_t pid)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	if (!dir)
		return true; /* it has gone */
	bool listed = true;
	for (struct dirent *e; listed && (e = readdir(dir));) {
		if (e->d_name[0] == '.')
			continue;
		found.threads++;
		char file[128];
		(void)snprintf(file, sizeof(file), "%s/%.20s/children", path, e->d_name);
		listed = read_children(file) || access(path, F_OK) < 0;
	}
	(void)closedir(dir);
	return listed;
}

/* More than a machine has at once; pages of the table that are not used take no memory. */
#define TABLE_SIZE 32768

/* Where the kernel lists no children: every process, by one reading of /proc. Each reading takes
 * long where there are many processes. */
static struct {
	struct {
		pid_t pid, parent; /* parent 0: already found, or gone */
		size_t threads;
	} all[TABLE_SIZE];
	size_t n;
	bool used;
} table;

/* Parent of a process and how many threads it has, by the fields 4 and 20 of its stat. 0 where it
 * has gone. */
static pid_t parent_of(pid_t pid, size_t *ret_threads)
{
	char path[64], text[512];
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	/* The name before it may hold anything, a parenthesis too. */
	const char *p = strrchr(text, ')');
	if (!p || strlen(p) <= 4)
		return 0;
	pid_t parent = (pid_t)strtol(p + 4, NULL, 10);
	for (int field = 2; p && field < 20; field++)
		p = strchr(p + 1, ' ');
	*ret_threads = p ? strtoul(p, NULL, 10) : 1;
	return parent;
}

static void read_table(void)
{
	table.n = 0;
	DIR *dir = opendir("/proc");
	if (!dir)
		return;
	for (struct dirent *e; table.n < TABLE_SIZE && (e = readdir(dir));) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		size_t threads = 0;
		pid_t parent = pid > 1 ? parent_of(pid, &threads) : 0;
		if (parent) {
			table.all[table.n].pid = pid;
			table.all[table.n].parent = parent;
			table.all[table.n++].threads = threads;
		}
	}
	(void)closedir(dir);
}

static void add_children_of_table(pid_t pid)
{
	for (size_t i = 0; i < table.n; i++)
		if (table.all[i].parent == pid) {
			table.all[i].parent = 0;
			found.threads += table.all[i].threads;
			add(table.all[i].pid);
		}
}

static void expand(pid_t pid)
{
	if (!table.used) {
		size_t n = found.n;
		if (add_children(pid))
			return;
		table.used = true;
		found.n = n;
		found.threads = 0;
		read_table();
	}
	add_children_of_table(pid);
}

static bool is_found(pid_t pid)
{
	for (size_t i = 0; i < found.n; i++)
		if (found.pid[i] == pid)
			return true;
	return false;
}

/* Everything below what was found from there on. */
static void descend(size_t from, int sig)
{
	for (size_t i = from; i < found.n; i++) {
		if (sig)
			(void)kill(found.pid[i], sig);
		expand(found.pid[i]);
	}
}

/* Fills found with every descendant, sending sig to each before its children are looked up (by a
 * table: what is born after it was read is of the next pass). */
static void collect(tree_keep_fn keep, const struct tree_roots *more, int sig)
{
	found.n = found.threads = 0;
	found.keep = keep;
	if (table.used)
		read_table();
	expand(getpid());
	if (!table.used)
		found.threads = 0; /* one's own */
	descend(0, sig);
	for (size_t i = 0; more && i < more->n; i++) {
		size_t n = found.n, threads = 0;
		if (is_found(more->pid[i]) || kill(more->pid[i], 0) < 0)
			continue;
		add(more->pid[i]);
		if (table.used && parent_of(more->pid[i], &threads))
			found.threads += threads;
		descend(n, sig);
	}
}

size_t tree_kill_pass(tree_keep_fn keep, const struct tree_roots *more)
{
	collect(keep, more, SIGSTOP);
	for (size_t i = 0; i < found.n; i++)
		(void)kill(found.pid[i], SIGKILL);
	return found.n;
}

size_t tree_signal(tree_keep_fn keep, int sig)
{
	collect(keep, NULL, sig);
	return found.n;
}

size_t tree_threads(const struct tree_roots *more)
{
	collect(NULL, more, 0);
	return found.threads;
}
