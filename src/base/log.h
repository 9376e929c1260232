/* log.h: lines for the person who runs the program, on stderr. stdout belongs to the protocol. */
#pragma once

#include "base/mem.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Default: LOG_LEVEL_WARNING. */
void log_set_level(enum log_level level);
/* "error", "warning", "info", "debug"; 0 or -EINVAL. */
int log_level_from_text(const char *text, enum log_level *ret_level);
/* stderr leads to this file (path stays the caller's): once more than max bytes are in it, it
 * becomes PATH.1, and a new one is begun. */
void log_bound_file(const char *path, size_t max);
/* Is given each line before it is written, to mask in it what must not stand in a log; as long as
 * it was. NULL: nobody is. */
void log_set_mask(void (*mask)(void *user, char *line, size_t n), void *user);
void log_msg(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3) UNLIKELY_CALL;

#define log_error(...)   log_msg(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_msg(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    log_msg(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   log_msg(LOG_LEVEL_DEBUG, __VA_ARGS__)
