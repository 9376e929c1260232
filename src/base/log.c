/* log.c: see log.h. One write(2) a line, so that lines of several processes do not mix. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const names[] = {"error", "warning", "info", "debug"};
static enum log_level threshold = LOG_LEVEL_WARNING;

void log_set_level(enum log_level level)
{
	threshold = level;
}

int log_level_from_text(const char *text, enum log_level *ret_level)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(text, names[i]) == 0) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

static const char *file_path; /* NULL: stderr is no file of ours */
static size_t file_max, file_size;

static void begin_new_file(void)
{
	char old[4096];
	if (snprintf(old, sizeof(old), "%s.1", file_path) >= (int)sizeof(old))
		return;
	(void)rename(file_path, old);
	int fd = open(file_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) /* better no words than words without end */
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		(void)dup2(fd, STDERR_FILENO);
		(void)close(fd);
	}
	file_size = 0;
}

static void count_written(size_t n)
{
	file_size += n;
	if (file_path && file_size > file_max)
		begin_new_file();
}

void log_bound_file(const char *path, size_t max)
{
	struct stat st;
	file_path = path;
	file_max = max;
	count_written(fstat(STDERR_FILENO, &st) == 0 ? (size_t)st.st_size : 0);
}

static void (*mask_line)(void *user, char *line, size_t n);
static void *mask_user;

void log_set_mask(void (*mask)(void *user, char *line, size_t n), void *user)
{
	mask_line = mask;
	mask_user = user;
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	if (level > threshold)
		return;
	char line[1024];
	int n = snprintf(line, sizeof(line), "scb: %s: ", names[level]);
	va_list ap;
	va_start(ap, fmt);
	int m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	size_t len = (size_t)n + (m > 0 ? MIN((size_t)m, sizeof(line) - (size_t)n - 2) : 0);
	if (mask_line)
		mask_line(mask_user, line, len);
	for (size_t i = 0; i < len; i++) /* text from a sandbox must not steer a terminal */
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = ' ';
	line[len++] = '\n';
	(void)!write(STDERR_FILENO, line, len);
	count_written(len);
}
