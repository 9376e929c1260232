/* lease.c: see lease.h. */
#include "agent/lease.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "agent/evidence.h"
#include "agent/job.h"
#include "agent/loop.h"
#include "agent/proc.h"
#include "agent/uplink.h"
#include "base/clock.h"
#include "base/log.h"

/* Nobody has ever come: the broker died while it made this sandbox. */
#define FIRST_LINK_US (60 * USEC_PER_SEC)
/* A broker that has just come has so long to prolong what is about to run out. */
#define RENEW_US (2 * USEC_PER_SEC)

static const struct config *config;
static struct source timer, lifeline;
static uint64_t lease_until_us, first_link_until_us; /* CLOCK_BOOTTIME; 0: none */
static bool unlimited;                               /* the last lease given was none */
static bool told_to_end, ran_out;
static bool ran_out_busy;

NORETURN void lease_end(const char *why)
{
	log_info("ending: %s", why);
	proc_end_all();
	exit(0);
}

static void arm(void)
{
	uint64_t due = lease_until_us;
	if (first_link_until_us && (!due || first_link_until_us < due))
		due = first_link_until_us;
	struct itimerspec t = {.it_value = {.tv_sec = (time_t)(due / USEC_PER_SEC),
				       .tv_nsec = (long)(due % USEC_PER_SEC) * 1000}};
	(void)timerfd_settime(timer.fd, TFD_TIMER_ABSTIME, &t, NULL);
}

static void on_timer(struct source *s, uint32_t events)
{
	(void)events;
	uint64_t expirations;
	if (read(s->fd, &expirations, sizeof(expirations)) < 0)
		return;
	uint64_t now = clock_boottime_us();
	if (first_link_until_us && now >= first_link_until_us)
		lease_end("no broker has come");
	if (lease_until_us && now >= lease_until_us) {
		lease_until_us = 0;
		ran_out = true;
		ran_out_busy = jobs_busy() > 0;
	}
	arm();
}

static void on_lifeline(struct source *s, uint32_t events)
{
	(void)s;
	(void)events;
	lease_end("the broker is gone");
}

static void run_until(uint64_t until_us)
{
	ran_out = false;
	lease_until_us = until_us;
	arm();
}

static void set_lease(uint64_t ms)
{
	unlimited = ms == 0;
	run_until(ms ? clock_boottime_us() + ms * USEC_PER_MSEC : 0);
}

/* The one that it gives itself. */
static void set_own_lease(void)
{
	run_until(clock_boottime_us() + config->orphan_ms * USEC_PER_MSEC);
}

int lease_init(const struct config *c)
{
	config = c;
	int fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	timer.ready = on_timer;
	int r = loop_add(&timer, fd, EPOLLIN);
	lifeline.ready = on_lifeline;
	if (r == 0 && c->lifeline_fd >= 0 && c->orphan_ms == 0)
		r = loop_add(&lifeline, c->lifeline_fd, EPOLLIN);
	if (r < 0)
		return r;
	first_link_until_us = clock_boottime_us() + FIRST_LINK_US;
	set_lease(c->lease_ms);
	return 0;
}

void lease_link_up(void)
{
	first_link_until_us = 0;
	if (unlimited)
		run_until(0);
	else
		run_until(MAX(lease_until_us, clock_boottime_us() + RENEW_US));
}

void lease_link_down(void)
{
	if (config->orphan_ms == 0)
		lease_end("the link has ended");
	if (unlimited)
		set_own_lease();
}

void lease_end_if_due(void)
{
	if (told_to_end)
		lease_end("the broker said so");
	if (!ran_out || jobs_busy() > 0)
		return;
	if (!ran_out_busy || config->orphan_ms == 0)
		lease_end("the lease has run out");
	set_own_lease(); /* whoever asked for the job may still come for what it said */
}

/* ---- operations ---- */

static void op_lease(struct stream *s, struct tlv_reader body)
{
	uint64_t ms = 0;
	bool given = false;
	for (struct tlv t; tlv_next(&body, &t);)
		if (t.tag == TAG_LEASE_MS)
			given = tlv_get_u64(&t, &ms) == 0 && ms <= UINT32_MAX;
	if (!given) {
		stream_fail(s, WIRE_BAD_REQUEST, 0, "LEASE_MS is missing or too large");
		return;
	}
	set_lease(ms);
	stream_end(s, WIRE_OK, NULL);
}

static void op_shutdown(struct stream *s, struct tlv_reader body)
{
	(void)body;
	stream_end(s, WIRE_OK, NULL);
	told_to_end = true;
}

static void op_usage(struct stream *s, struct tlv_reader body)
{
	(void)body;
	_cleanup_buf_ struct buf b = BUF_INIT(1024);
	int r = 0;
	if (config->memory_fd >= 0)
		r |= tlv_u64(&b, TAG_MEMORY, evidence_number(config->memory_fd));
	if (config->memory_max)
		r |= tlv_u64(&b, TAG_MEMORY_MAX, config->memory_max);
	if (config->pids_fd >= 0)
		r |= tlv_u64(&b, TAG_PIDS, evidence_number(config->pids_fd));
	if (config->pids_max)
		r |= tlv_u64(&b, TAG_PIDS_MAX, config->pids_max);
	struct statvfs v;
	if (statvfs(config->workspace, &v) == 0) {
		r |= tlv_u64(&b, TAG_DISK_TOTAL, (uint64_t)v.f_blocks * v.f_frsize);
		r |= tlv_u64(&b, TAG_DISK_FREE, (uint64_t)v.f_bavail * v.f_frsize);
	}
	r |= tlv_u64(&b, TAG_SPOOL, spool_used());
	CHECK(r == 0);
	stream_end(s, WIRE_OK, &b);
}

const struct stream_handler lease_handlers[] = {
	{OP_LEASE, op_lease},
	{OP_SHUTDOWN, op_shutdown},
	{OP_USAGE, op_usage},
	{0, NULL},
};
