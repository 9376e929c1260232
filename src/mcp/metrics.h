/* metrics.h: what a server has done and has now, in Prometheus' text format 0.0.4. Labels are of
 * this program's own making: nothing that comes from outside can make more of them. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct http_server;
struct mcp_offer;
struct mcp_server;
struct metrics;
struct tool;

struct metrics *metrics_new(const struct mcp_offer *offer);
void metrics_free(struct metrics *m);
/* A call has ended so; ERR_NONE: with a result, whatever that says. */
void metrics_call(
	struct metrics *m, const struct tool *tool, enum err_code outcome, uint64_t duration_us);

/* The page. */
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_MAX  (256 * 1024)
/* Appends it to out, of METRICS_MAX bytes. */
void metrics_print(const struct mcp_server *s, const struct http_server *door, struct buf *out);
