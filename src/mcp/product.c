/* product.c: what scb offers; see offer.h. */
#include "mcp/offer.h"

#include <stddef.h>

#include "mcp/apps.h"
#include "mcp/tool.h"

static const char instructions[] =
	"Runs code and commands in a private Linux sandbox without network. Pass the session "
	"handle "
	"that a result begins with to later calls: variables and files then stay. Files of the "
	"person are under /mnt (read-only); /workspace is private scratch; present_output hands a "
	"file to the person.";

static const struct tool *const tools[] = {
	&tool_run_code,
	&tool_run_command,
	&tool_job,
	&tool_files,
	&tool_present_output,
	&tool_data_dashboard,
	&tool_dashboard_event,
	&tool_session,
	NULL,
};

static const struct resource *const resources[] = {
	&apps_dashboard,
	NULL,
};

const struct mcp_offer *product_offer(void)
{
	static const struct mcp_offer with_apps = {
		.name = "scb",
		.title = "Sandbox Compute Broker",
		.instructions = instructions,
		.tools = tools,
		.resources = resources,
		.apps = true,
	};
	static const struct mcp_offer plain = {
		.name = "scb",
		.title = "Sandbox Compute Broker",
		.instructions = instructions,
		.tools = tools,
	};
	return apps_built() ? &with_apps : &plain;
}
