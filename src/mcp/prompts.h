/* prompts.h: texts that a person picks, with blanks to be filled in. They run at once, without
 * policy and audit: they do nothing, and say nothing that is not the server's own.
 * Source: MCP 2026-07-28 server/prompts. */
#pragma once

#include "mcp/conn.h"

struct prompt_arg {
	const char *name, *description;
	bool required;
	const char *const *choices; /* offered for completion, NULL at the end; NULL: none are */
};

struct prompt {
	const char *name, *title, *description;
	const struct prompt_arg *args;
	size_t n_args;
	/* Its messages, an array; args holds strings, all that are required among them. NULL: it
	 * asks its client for something first. */
	json_t *(*messages)(const json_t *args, struct ask *ask);
};

/* Of a message's content: "user" says it. content is stolen. */
json_t *prompt_says(json_t *content);

/* The result of prompts/list, without what the eras add. */
json_t *prompts_list(const struct mcp_offer *o);
const struct prompt *prompts_find(const struct mcp_offer *o, const char *name);
/* prompts/get. 0 and *ret_result, or -EINVAL and *ret_error (its id is the caller's to set). */
int prompts_get(struct mcp_conn *c, const struct jsonrpc_msg *m,
	const struct mcp_envelope *envelope, json_t **ret_result,
	struct jsonrpc_error *ret_error) MUST_CHECK;
