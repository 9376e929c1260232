/* resource.h: resources that a server offers from the start, beside the files that were presented
 * (resources.h). They are the server's own: no policy stands before them but the rate of requests.
 * Source: MCP 2026-07-28 server/resources. */
#pragma once

#include "mcp/jsonrpc.h"
#include "mcp/offer.h"

struct resource {
	/* A template has its one {variable} between what all of its URIs begin and end with. */
	const char *uri, *variable; /* variable: NULL: this is a resource */
	const char *const *choices; /* of variable, for completion, NULL at the end; NULL: none */
	const char *name, *title, *description, *mime_type;
	/* Its content: an object with "text" or "blob" (and _meta, where it has some). value: of
	 * the variable. */
	json_t *(*read)(const struct resource *r, const char *value);
	json_t *(*meta)(const struct resource *r); /* _meta of its entry; NULL: none */
};

/* Entries of resources/list, appended to list. */
void resource_list(const struct mcp_offer *o, json_t *list);
/* The result of resources/templates/list, without what the eras add. */
json_t *resource_templates(const struct mcp_offer *o);
/* The template that stands there as that text; NULL: none. */
const struct resource *resource_of_template(const struct mcp_offer *o, const char *uri);
/* The result of resources/read; NULL: there is none with that URI. */
json_t *resource_read(const struct mcp_offer *o, const char *uri);
