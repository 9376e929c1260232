/* apps.h: pages that show a tool's results in the host's chat (MCP Apps). */
#pragma once

#include "mcp/resource.h"

/* ui://scb/dashboard.html */
extern const struct resource apps_dashboard;
/* False where scb was built without them: then nothing is said of pages, and tools answer text. */
bool apps_built(void);
