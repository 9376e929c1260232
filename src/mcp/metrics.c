/* metrics.c: see metrics.h. */
#include "mcp/metrics.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "http/server.h"
#include "mcp/build.h"
#include "mcp/conn.h"
#include "mcp/tool.h"

/* Upper bounds of the histogram, in ms: a cell in a live kernel, a new session, real work. */
static const uint64_t bounds_ms[] = {1, 5, 25, 100, 500, 2500, 10000, 60000};
#define BUCKETS ARRAY_SIZE(bounds_ms)
/* Providers that one broker has sandboxes of at a time. */
#define PROVIDERS 8

struct tool_count {
	uint64_t by_outcome[ERR_CODE_MAX_];
	uint64_t in_bucket[BUCKETS + 1];
	uint64_t sum_us;
};

struct metrics {
	const struct mcp_offer *offer;
	struct tool_count *tools; /* in the offer's order */
	uint64_t started_us;      /* CLOCK_REALTIME */
};

struct metrics *metrics_new(const struct mcp_offer *offer)
{
	struct metrics *m = xcalloc(1, sizeof(*m));
	size_t n = 0;
	while (offer->tools[n])
		n++;
	m->offer = offer;
	m->tools = xcalloc(n + 1, sizeof(*m->tools));
	m->started_us = clock_realtime_us();
	return m;
}

void metrics_free(struct metrics *m)
{
	if (!m)
		return;
	free(m->tools);
	free(m);
}

void metrics_call(
	struct metrics *m, const struct tool *tool, enum err_code outcome, uint64_t duration_us)
{
	size_t i = 0, bucket = 0;
	while (m->offer->tools[i] && m->offer->tools[i] != tool)
		i++;
	while (bucket < BUCKETS && duration_us > bounds_ms[bucket] * USEC_PER_MSEC)
		bucket++;
	struct tool_count *t = &m->tools[i];
	t->by_outcome[outcome]++;
	t->in_bucket[bucket]++;
	t->sum_us += duration_us;
}

/* ---- the page ---- */

PRINTF_LIKE(2, 3) static void put(struct buf *out, const char *fmt, ...)
{
	char line[400];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	CHECK(n > 0 && (size_t)n < sizeof(line) && buf_append(out, line, (size_t)n) == 0);
}

static void put_head(struct buf *out, const char *name, const char *type, const char *help)
{
	put(out, "# HELP scb_%s %s\n# TYPE scb_%s %s\n", name, help, name, type);
}

static void put_one(
	struct buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
	put_head(out, name, type, help);
	put(out, "scb_%s %llu\n", name, (unsigned long long)value);
}

static void put_calls(const struct metrics *m, struct buf *out)
{
	put_head(out, "tool_calls_total", "counter", "Tool calls that have ended, by outcome.");
	for (size_t i = 0; m->offer->tools[i]; i++)
		for (int e = 0; e < ERR_CODE_MAX_; e++) {
			uint64_t n = m->tools[i].by_outcome[e];
			if (n || e == ERR_NONE)
				put(out, "scb_tool_calls_total{tool=\"%s\",outcome=\"%s\"} %llu\n",
					m->offer->tools[i]->name,
					e == ERR_NONE ? "ok" : err_info((enum err_code)e)->name,
					(unsigned long long)n);
		}
	put_head(out, "tool_call_duration_seconds", "histogram",
		"From a call's arrival to its answer.");
	for (size_t i = 0; m->offer->tools[i]; i++) {
		const struct tool_count *t = &m->tools[i];
		const char *name = m->offer->tools[i]->name;
		uint64_t sum = 0;
		for (size_t b = 0; b <= BUCKETS; b++) {
			char bound[24] = "+Inf";
			sum += t->in_bucket[b];
			if (b < BUCKETS)
				(void)snprintf(
					bound, sizeof(bound), "%g", (double)bounds_ms[b] / 1000);
			put(out,
				"scb_tool_call_duration_seconds_bucket{tool=\"%s\",le=\"%s\"} "
				"%llu\n",
				name, bound, (unsigned long long)sum);
		}
		put(out,
			"scb_tool_call_duration_seconds_sum{tool=\"%s\"} %.6f\n"
			"scb_tool_call_duration_seconds_count{tool=\"%s\"} %llu\n",
			name, (double)t->sum_us / (double)USEC_PER_SEC, name,
			(unsigned long long)sum);
	}
}

struct tally {
	struct {
		const char *name;
		uint64_t by_use[SANDBOX_USES];
	} providers[PROVIDERS];
	size_t n;
	uint64_t kernels;
};

static void add_sandbox(void *user, const char *provider, enum sandbox_use use, size_t kernels)
{
	struct tally *t = user;
	size_t i = 0;
	t->kernels += kernels;
	while (i < t->n && strcmp(t->providers[i].name, provider) != 0)
		i++;
	if (i == PROVIDERS)
		return;
	t->n = MAX(t->n, i + 1);
	t->providers[i].name = provider;
	t->providers[i].by_use[use]++;
}

static void put_sandboxes(struct sessions *sessions, struct buf *out)
{
	static const char *const uses[SANDBOX_USES] = {
		[SANDBOX_LIVE] = "session",
		[SANDBOX_LOST] = "lost",
		[SANDBOX_READY] = "pool",
		[SANDBOX_ENDING] = "ending",
	};
	struct tally t = {.n = 0};
	sessions_sandboxes(sessions, add_sandbox, &t);
	put_head(out, "sandboxes", "gauge",
		"Sandboxes: of a session, kept ready in the pool, being taken down, or lost to "
		"their session.");
	for (size_t i = 0; i < t.n; i++)
		for (int use = 0; use < SANDBOX_USES; use++)
			put(out, "scb_sandboxes{provider=\"%s\",use=\"%s\"} %llu\n",
				t.providers[i].name, uses[use],
				(unsigned long long)t.providers[i].by_use[use]);
	put_one(out, "kernels", "gauge", "Kernels that this broker knows of.", t.kernels);
}

static uint64_t running_calls(const struct mcp_server *s)
{
	uint64_t n = 0;
	list_for_each (c, next, &s->conns, struct mcp_conn, link)
		n += c->n_calls;
	return n;
}

static void put_event(void *user, const char *event, uint64_t n)
{
	put(user, "scb_audit_events_total{event=\"%s\"} %llu\n", event, (unsigned long long)n);
}

static void put_audit(const struct audit *a, struct buf *out)
{
	put_one(out, "jobs_started_total", "counter", "Commands and cells that were started.",
		audit_count(a, "exec.start"));
	put_one(out, "jobs_ended_total", "counter",
		"Commands and cells that have ended; also those of an earlier broker.",
		audit_count(a, "exec.end"));
	put_head(out, "audit_events_total", "counter", "Lines of the audit log.");
	audit_each_count(a, put_event, out);
	put_one(out, "audit_failures_total", "counter",
		"Lines that could not be written; what they were about was not done.",
		audit_failures(a));
}

static void put_http(const struct http_server *door, struct buf *out)
{
	const struct http_stats *h = http_server_stats(door);
	put_head(out, "http_responses_total", "counter", "Answers over HTTP, by status.");
	for (size_t i = 0; i < HTTP_STATUSES; i++) {
		char code[16] = "other";
		if (http_status_at(i))
			(void)snprintf(code, sizeof(code), "%u", http_status_at(i));
		if (h->by_status[i])
			put(out, "scb_http_responses_total{code=\"%s\"} %llu\n", code,
				(unsigned long long)h->by_status[i]);
	}
	put_one(out, "http_connections", "gauge", "Open connections.",
		http_server_connections(door));
	put_one(out, "http_connections_total", "counter", "Connections that have come.",
		h->accepted);
	put_one(out, "http_connections_refused_total", "counter",
		"Of those, closed at once: there were too many.", h->refused);
	put_one(out, "http_tls_failures_total", "counter", "Handshakes that failed.",
		h->tls_failed);
	put_one(out, "http_received_bytes_total", "counter", "Bytes that have come.", h->bytes_in);
	put_one(out, "http_sent_bytes_total", "counter", "Bytes that were sent.", h->bytes_out);
}

/* Of /proc/self/statm, the second number is pages in memory. */
static uint64_t resident_bytes(void)
{
	char text[200];
	unsigned long long size = 0, pages = 0;
	_cleanup_close_ int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[MAX(n, 0)] = '\0';
	if (sscanf(text, "%llu %llu", &size, &pages) != 2)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void metrics_print(const struct mcp_server *s, const struct http_server *door, struct buf *out)
{
	put_head(out, "build_info", "gauge", "1; which build this is.");
	put(out, "scb_build_info{version=\"%s\"} 1\n", build.version);
	put_one(out, "start_time_seconds", "gauge", "When this broker started, since 1970.",
		s->metrics->started_us / USEC_PER_SEC);
	put_one(out, "resident_memory_bytes", "gauge", "Memory of the broker itself.",
		resident_bytes());
	put_calls(s->metrics, out);
	put_one(out, "calls_running", "gauge", "Tool calls that are not answered yet.",
		running_calls(s));
	if (s->config.sessions)
		put_sandboxes(s->config.sessions, out);
	put_audit(s->config.audit, out);
	put_http(door, out);
}
