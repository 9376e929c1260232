/* clock.h: time is unsigned microseconds inside; RFC 3339 only at the edges. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t clock_monotonic_us(void);
/* Goes on while the machine sleeps: leases. */
uint64_t clock_boottime_us(void);
uint64_t clock_realtime_us(void);
/* Sleeps. Never on a loop. */
void clock_wait_us(uint64_t us);
#define CLOCK_RFC3339_SIZE 32
/* "2026-11-29T19:46:01.123456Z" */
void clock_rfc3339(uint64_t realtime_us, char ret_text[static CLOCK_RFC3339_SIZE]);
