/* apps.c: pages that show a tool's results in the host's chat (MCP Apps, specification 2026-01-26).
 * They are a part of this program: nothing of them comes from a sandbox. */
#include "mcp/apps.h"

#include "mcp/protocol.h"
#include "mcp/tool.h"
#include "ui_app.h"

static json_t *page_meta(const struct resource *r)
{
	(void)r;
	/* It loads nothing and asks nobody but its host: the default policy is all it needs. */
	return json_pack("{s:{s:b}}", "ui", "prefersBorder", 0);
}

static json_t *page_read(const struct resource *r, const char *value)
{
	(void)value;
	return json_pack("{s:o, s:o}", "text", json_stringn((const char *)ui_app_html, ui_app_size),
		"_meta", page_meta(r));
}

const struct resource apps_dashboard = {
	.uri = DASHBOARD_URI,
	.name = "dashboard",
	.title = "Dashboard",
	.description = "The page that shows what data_dashboard makes.",
	.mime_type = MCP_UI_MIME_TYPE,
	.read = page_read,
	.meta = page_meta,
};

bool apps_built(void)
{
	return ui_app_size > 0;
}
