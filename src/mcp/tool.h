/* tool.h: a tool: what a model is told of it, and what runs. One file each under tools/. */
#pragma once

#include "mcp/offer.h"
#include "mcp/schema.h"

struct call;

enum tool_session {
	TOOL_SESSION_ANY,  /* the one named, else the connection's own, made on first need */
	TOOL_SESSION_SELF, /* the tool finds out itself */
};

struct tool {
	const char *name, *title, *description;
	bool read_only, destructive, idempotent;
	struct arg_table args;
	/* JSON text that tools/list gives as its inputSchema, where args says less than that; NULL:
	 * the one that args makes. */
	const char *input_schema;
	const struct field *result; /* NULL: its results have no structured content */
	enum tool_session session;
	bool asks;       /* it may ask its client: callask.h */
	bool starts_job; /* before it does anything it records exec.start */
	const char *ui;  /* the ui:// resource that shows its results (MCP Apps); NULL: none */
	bool app_only;   /* … and calls it, which models do not */
	/* Starts it; ends with call_finish() or call_fail(), now or later, exactly once. Arguments
	 * are checked, c->session is set (TOOL_SESSION_ANY). */
	void (*run)(struct call *c);
	/* The answer is not wanted any more: ends what the call started. True: nothing is waited
	 * for any more, and the caller ends the call. False: a callback still comes (what cannot be
	 * let go of, or word that it was cancelled) and ends it. NULL: always false. */
	bool (*cancel)(struct call *c);
};

extern const struct tool tool_run_code, tool_run_command, tool_job, tool_files, tool_present_output,
	tool_session, tool_data_dashboard, tool_dashboard_event;
/* The page that shows dashboards. */
#define DASHBOARD_URI "ui://scb/dashboard.html"

const struct tool *tools_find(const struct mcp_offer *o, const char *name);
/* The result of tools/list, without what the eras add. */
json_t *tools_list(const struct mcp_offer *o);
