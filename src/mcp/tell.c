/* tell.c: see tell.h. */
#include "mcp/tell.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"

/* Progress: clients that count it reset a time-out of 60 s, people see that something goes on. */
#define FIRST_PROGRESS_US USEC_PER_SEC
#define NEXT_PROGRESS_US  (2500 * USEC_PER_MSEC)

static const char *const level_names[] = {
	"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"};

int tell_level_of(const char *name)
{
	for (size_t i = 0; name && i < ARRAY_SIZE(level_names); i++)
		if (strcmp(level_names[i], name) == 0)
			return (int)i;
	return -1;
}

static void send_progress(struct call *c, double progress, double total, const char *message)
{
	json_t *params =
		json_pack("{s:O,s:f}", "progressToken", c->progress_token, "progress", progress);
	if (total > 0)
		json_object_set_new(params, "total", json_real(total));
	if (message)
		json_object_set_new(params, "message", jsonrpc_text(message));
	conn_send(c->conn, 0, jsonrpc_notification("notifications/progress", params));
}

void tell_progress(struct call *c, double progress, double total, const char *message)
{
	if (!c->conn || !c->progress_token || c->cancelled)
		return;
	c->reports = true;
	send_progress(c, progress, total, message);
}

void tell_log(struct call *c, enum tell_level level, json_t *data)
{
	if (c->conn && !c->cancelled && c->server->offer->logs && c->log_level >= 0 &&
		(int)level >= c->log_level)
		conn_send(c->conn, 0,
			jsonrpc_notification("notifications/message",
				json_pack("{s:s,s:O}", "level", level_names[level], "data", data)));
	json_decref(data);
}

void tell_time(struct call *c, uint64_t now_us)
{
	uint64_t elapsed_us = now_us - c->started_us;
	if (!c->progress_token || c->cancelled || c->reports ||
		now_us < c->started_us + FIRST_PROGRESS_US ||
		(c->told_us && now_us < c->told_us + NEXT_PROGRESS_US))
		return;
	c->told_us = now_us;
	char message[200], doing[sizeof(c->doing)];
	if (c->doing[0] || !c->job[0])
		str_copy(doing, sizeof(doing), c->doing[0] ? c->doing : "working");
	else
		(void)snprintf(
			doing, sizeof(doing), "job %s runs in session %s", c->job, c->handle);
	(void)snprintf(message, sizeof(message), "%s: %s, %llu s so far", c->tool->name, doing,
		(unsigned long long)(elapsed_us / USEC_PER_SEC));
	send_progress(c, (double)(elapsed_us / USEC_PER_MSEC) / 1000.0, 0, message);
}
