/* clock.c: see clock.h. */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

#include "base/limits.h"

static uint64_t now_us(clockid_t id)
{
	struct timespec t;
	(void)clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * USEC_PER_SEC + (uint64_t)t.tv_nsec / 1000;
}

uint64_t clock_monotonic_us(void)
{
	return now_us(CLOCK_MONOTONIC);
}

uint64_t clock_boottime_us(void)
{
	return now_us(CLOCK_BOOTTIME);
}

uint64_t clock_realtime_us(void)
{
	return now_us(CLOCK_REALTIME);
}

void clock_wait_us(uint64_t us)
{
	struct timespec t = {
		.tv_sec = (time_t)(us / USEC_PER_SEC), .tv_nsec = (long)(us % USEC_PER_SEC) * 1000};
	while (nanosleep(&t, &t) < 0)
		;
}

void clock_rfc3339(uint64_t realtime_us, char ret_text[static CLOCK_RFC3339_SIZE])
{
	time_t secs = (time_t)(realtime_us / USEC_PER_SEC);
	struct tm tm;
	char date[24];
	(void)gmtime_r(&secs, &tm);
	if (!strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm))
		date[0] = '\0';
	(void)snprintf(ret_text, CLOCK_RFC3339_SIZE, "%s.%06uZ", date,
		(unsigned)(realtime_us % USEC_PER_SEC));
}
