/* mem.h: allocation that cannot fail for sizes the program chooses, and scope-bound cleanup. */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <sys/param.h> /* MIN, MAX */

#define MUST_CHECK             __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN               __attribute__((noreturn))
/* Of a function that is called where something has gone wrong: what leads to it stands apart from
 * the code that runs each time. */
#define UNLIKELY_CALL __attribute__((cold))

/* Abort the process when memory is gone. For sizes that the program chooses; what input chooses
 * goes through struct buf, which has a maximum. */
void *xmalloc(size_t n);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
void *xmemdup(const void *p, size_t n);
/* Owned by the caller. */
char *xasprintf(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* "unused": clang says so of a variable that is there only to be cleaned up. */
#define CLEANUP(fn) __attribute__((cleanup(fn), unused))

static inline void mem_freep(void *p)
{
	free(*(void **)p);
}
#define _cleanup_free_ CLEANUP(mem_freep)

/* Passes ownership out of a cleanup variable. */
#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) take_ = (p);                                                         \
		(p) = NULL;                                                                        \
		take_;                                                                             \
	})
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int take_ = (fd);                                                                  \
		(fd) = -1;                                                                         \
		take_;                                                                             \
	})

#define ARRAY_SIZE(a)                   (sizeof(a) / sizeof((a)[0]))
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* A program error: prints to stderr and aborts, in release builds too. Never guards input. */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond))                                                                       \
			mem_check_failed(#cond, __FILE__, __LINE__);                               \
	} while (0)
NORETURN UNLIKELY_CALL void mem_check_failed(const char *cond, const char *file, int line);
