/* offer.h: what a server offers, as tables: the library (server.h) knows no tool, prompt or
 * resource but those. scb's own are in product.c; tests/conformance has others. */
#pragma once

#include <stdbool.h>

struct prompt;
struct resource;
struct tool;

/* Static, like all that it points to. Lists end with NULL and are in the order in which clients see
 * them. */
struct mcp_offer {
	const char *name, *title; /* serverInfo */
	const char *instructions; /* for the model; NULL: none */
	const struct tool *const *tools;
	const struct prompt *const *prompts;     /* NULL: none */
	const struct resource *const *resources; /* beside presented files; NULL: none */
	bool apps;                               /* its tools have pages (MCP Apps) */
	bool logs;                               /* its tools call tell_log() */
	bool changes; /* its lists change: mcp_server_changed() is called */
};

/* scb's. */
const struct mcp_offer *product_offer(void);
