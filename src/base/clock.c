/* clock.c: see clock.h. */
#include "base/clock.h"

#include <time.h>

#include "base/limits.h"
#include "base/mem.h"

/* Of the year 9999: RFC 3339 knows no later one. */
#define LAST_SECOND ((time_t)253402300799)

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

/* The last so many digits of v, and what stands behind them: where that ends. */
static char *put(char *to, unsigned v, size_t digits, char behind)
{
	for (size_t i = digits; i-- > 0; v /= 10)
		to[i] = (char)('0' + v % 10);
	to[digits] = behind;
	return to + digits + 1;
}

void clock_rfc3339(uint64_t realtime_us, char ret_text[static CLOCK_RFC3339_SIZE])
{
	time_t secs = MIN((time_t)(realtime_us / USEC_PER_SEC), LAST_SECOND);
	struct tm tm;
	char *p = ret_text;
	(void)gmtime_r(&secs, &tm);
	p = put(p, (unsigned)tm.tm_year + 1900, 4, '-');
	p = put(p, (unsigned)tm.tm_mon + 1, 2, '-');
	p = put(p, (unsigned)tm.tm_mday, 2, 'T');
	p = put(p, (unsigned)tm.tm_hour, 2, ':');
	p = put(p, (unsigned)tm.tm_min, 2, ':');
	p = put(p, (unsigned)tm.tm_sec, 2, '.');
	p = put(p, (unsigned)(realtime_us % USEC_PER_SEC), 6, 'Z');
	*p = '\0';
}
