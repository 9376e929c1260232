/* mem.c: see mem.h. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Beyond it calloc() may have pages that are zero already. */
#define CALLOC_SMALL 1024

NORETURN static void out_of_memory(void)
{
	static const char msg[] = "scb: out of memory\n";
	(void)!write(STDERR_FILENO, msg, sizeof(msg) - 1);
	abort();
}

void *xmalloc(size_t n)
{
	void *p = malloc(n ? n : 1);
	if (!p)
		out_of_memory();
	return p;
}

void *xcalloc(size_t count, size_t size)
{
	size_t n;
	if (__builtin_mul_overflow(count, size, &n))
		out_of_memory();
	/* glibc's calloc() takes none of the small blocks that free() keeps at hand. */
	if (n > CALLOC_SMALL) {
		void *p = calloc(1, n);
		if (!p)
			out_of_memory();
		return p;
	}
	void *p = xmalloc(n);
	memset(p, 0, n);
	return p;
}

void *xrealloc(void *old, size_t n)
{
	void *p = realloc(old, n ? n : 1);
	if (!p)
		out_of_memory();
	return p;
}

char *xstrdup(const char *s)
{
	return xmemdup(s, strlen(s) + 1);
}

char *xstrndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *p = xmalloc(len + 1);
	memcpy(p, s, len);
	p[len] = '\0';
	return p;
}

void *xmemdup(const void *src, size_t n)
{
	void *p = xmalloc(n);
	if (n)
		memcpy(p, src, n);
	return p;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *p = NULL;
	int n = vasprintf(&p, fmt, ap);
	va_end(ap);
	if (n < 0)
		out_of_memory();
	return p;
}

NORETURN void mem_check_failed(const char *cond, const char *file, int line)
{
	(void)fprintf(stderr, "scb: check failed: %s (%s:%d)\n", cond, file, line);
	abort();
}
