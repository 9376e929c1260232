/* evidence.c: see evidence.h. */
#include "agent/evidence.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/proc.h"
#include "base/clock.h"

#define FREE_MIN (64 * KIB)

static const struct config *config;

void evidence_init(const struct config *c)
{
	config = c;
}

static bool read_text(int fd, char *text, size_t size)
{
	ssize_t n = fd < 0 ? -1 : pread(fd, text, size - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The number behind "name " at a line's start. */
static uint64_t counter(int fd, const char *name)
{
	char text[512];
	if (!read_text(fd, text, sizeof(text)))
		return 0;
	size_t n = strlen(name);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, n) == 0 && line[n] == ' ')
			return strtoull(line + n + 1, NULL, 10);
	}
	return 0;
}

static bool is_full(const char *path)
{
	struct statvfs v;
	if (statvfs(path, &v) < 0)
		return false;
	return (uint64_t)v.f_bavail * v.f_frsize < FREE_MIN || (v.f_files && !v.f_favail);
}

static bool disk_full(void)
{
	return is_full(config->workspace) || is_full(config->tmp);
}

static struct evidence last;
static uint64_t last_us; /* when it was read; 0: never */

static void read_all(void)
{
	last.oom_kills = counter(config->oom_fd, "oom_kill");
	last.pids_max = counter(config->pids_events_fd, "max");
	last.disk_full = disk_full();
	last_us = clock_monotonic_us();
}

void evidence_read(struct evidence *ret)
{
	read_all();
	*ret = last;
}

static bool is_younger_than(uint64_t us)
{
	return last_us && clock_monotonic_us() - last_us <= us;
}

void evidence_recent(struct evidence *ret)
{
	if (!is_younger_than(EVIDENCE_AGE_US))
		read_all();
	*ret = last;
}

void evidence_renew(void)
{
	if (!is_younger_than(EVIDENCE_AGE_US / 2))
		read_all();
}

uint64_t evidence_number(int fd)
{
	char text[32];
	return read_text(fd, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

bool evidence_crowded(void)
{
	if (config->pids_fd >= 0 && config->pids_max)
		return evidence_number(config->pids_fd) >= config->pids_max;
	return evidence_at_process_limit(0);
}

bool evidence_at_process_limit(size_t ended)
{
	const size_t agent = 1;
	return config->pids_events_fd < 0 && config->rlimit_nproc &&
	       proc_count_threads() + agent + ended >= config->rlimit_nproc;
}
