/* sync.h: a thread that makes the log and its head durable every so often, so that the loop never
 * waits for a disk. */
#pragma once

#include <stdint.h>

#include "base/mem.h"

struct sync;

/* head stays open until sync_stop(), and is the one descriptor of its file (closing another would
 * give up the lock on it, fcntl(2)). A negative errno: no thread can be made. */
int sync_start(uint64_t interval_ms, int head, struct sync **ret) MUST_CHECK;
/* This is written from now on (duplicated); what was given before is made durable once more. */
void sync_log(struct sync *s, int log);
/* Something was written. */
void sync_dirty(struct sync *s);
/* Makes all durable and ends. */
void sync_stop(struct sync *s);
