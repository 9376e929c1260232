/* hostile.h: what the files of the hostile program share. */
#pragma once

#include <stdbool.h>

/* One line: was the attack held off? */
void report(bool held, const char *name, const char *detail);

/* hostile.c */
void group_calls(const char *argument);
void group_agent(const char *argument);
void group_host(const char *argument);
void group_leaks(const char *argument);
/* exhaust.c: only where something bounds it */
void group_bytes(const char *argument);
void group_inodes(const char *argument);
void group_memory(const char *argument);
void group_forks(const char *argument);
/* reach.c */
void group_connect(const char *socket_path);
void group_outside(const char *pid_and_name);
