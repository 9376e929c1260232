/* audit.c: what the audit log costs a warm call: its four lines in the three writes that they go
 * out in, with the chain, and the same lines merely formatted and written. One line a figure: name,
 * µs a call. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit.h"
#include "audit/hash.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "provider/record.h"

#define CALLS 20000

static const struct audit_event call[] = {
	{.event = "tool.call",
		.tool = "run_code",
		.principal = "uid:1000",
		.delivery = "0b021572e542a09c",
		.provider = "bubblewrap",
		.isolation_level = "container",
		.policy_rule = "default.tools",
		.with_next = true},
	{.event = "exec.start",
		.tool = "run_code",
		.principal = "uid:1000",
		.session = "s-0123456789abcdef0123456789abcdef",
		.job = "j-0123456789abcdef0123456789abcdef",
		.delivery = "0b021572e542a09c",
		.provider = "bubblewrap",
		.isolation_level = "container",
		.sandbox_id = "x-0123456789abcdef0123456789abcdef",
		.sha256 = "2ca962787e92ce64ac9f7bd4d01b578404933b93c4263ab8a44566879718ed7b",
		.detail = "python"},
	{.event = "exec.end",
		.tool = "run_code",
		.principal = "uid:1000",
		.session = "s-0123456789abcdef0123456789abcdef",
		.job = "j-0123456789abcdef0123456789abcdef",
		.delivery = "0b021572e542a09c",
		.provider = "bubblewrap",
		.isolation_level = "container",
		.sandbox_id = "x-0123456789abcdef0123456789abcdef",
		.has_exit = true,
		.exit_reason = "exit",
		.duration_us = 131,
		.bytes_out = 2,
		.with_next = true},
	{.event = "tool.end",
		.tool = "run_code",
		.principal = "uid:1000",
		.session = "s-0123456789abcdef0123456789abcdef",
		.job = "j-0123456789abcdef0123456789abcdef",
		.delivery = "0b021572e542a09c",
		.provider = "bubblewrap",
		.isolation_level = "container",
		.sandbox_id = "x-0123456789abcdef0123456789abcdef",
		.exit_reason = "exit",
		.duration_us = 150,
		.bytes_out = 420},
};

static void stop(const char *what)
{
	(void)fprintf(stderr, "bench-audit: %s\n", what);
	_exit(1);
}

static double time_chain(const char *dir)
{
	struct audit *a = NULL;
	struct err err = {0};
	_cleanup_free_ char *path = xasprintf("%s/audit.jsonl", dir);
	_cleanup_free_ char *key = xasprintf("%s/key", dir);
	if (audit_open(path, key, NULL, &a, &err) < 0)
		stop(err.text);
	hash_load();
	uint64_t from = clock_monotonic_us();
	for (int i = 0; i < CALLS; i++)
		for (size_t k = 0; k < ARRAY_SIZE(call); k++)
			if (audit_event(a, &call[k], &err) < 0)
				stop(err.text);
	uint64_t took = clock_monotonic_us() - from;
	audit_close(a);
	return (double)took / CALLS;
}

/* The bytes that the chain wrote, in as many writes. */
static double time_plain(const char *dir)
{
	static char line[4][1024];
	_cleanup_free_ char *from_path = xasprintf("%s/audit.jsonl", dir);
	_cleanup_free_ char *path = xasprintf("%s/plain", dir);
	FILE *f = fopen(from_path, "re");
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	for (size_t i = 0; i < ARRAY_SIZE(line); i++)
		if (!f || fd < 0 || !fgets(line[i], sizeof(line[i]), f))
			stop("no log");
	(void)fclose(f);
	uint64_t from = clock_monotonic_us();
	for (int i = 0; i < CALLS; i++)
		for (size_t k = 0; k < ARRAY_SIZE(line); k += 2) {
			char two[2 * sizeof(line[0])];
			int n = snprintf(two, sizeof(two), "%s%s", line[k], line[k + 1]);
			if (write(fd, two, (size_t)n) != n)
				stop("cannot write");
		}
	uint64_t took = clock_monotonic_us() - from;
	close(fd);
	return (double)took / CALLS;
}

int main(void)
{
	char dir[] = "/tmp/scb-bench-audit-XXXXXX";
	if (!mkdtemp(dir))
		stop("no directory");
	double chain = time_chain(dir), plain = time_plain(dir);
	(void)record_remove_tree(dir);
	printf("chain_us %.2f\nplain_us %.2f\n", chain, plain);
	return 0;
}
