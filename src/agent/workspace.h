/* workspace.h: the file operations of the protocol (OP_FILE_…), confined to workspace and mounts.
 *
 * Short ones are done at once; reading goes on as credit allows; lists, searches, deletions and
 * hashes work in turns, so the agent's loop must run agent/turn.h. */
#pragma once

#include "agent/config.h"
#include "agent/stream.h"

/* c must outlive every stream. */
void workspace_init(const struct config *c);
/* For the agent's table of operations; ends with op 0. */
extern const struct stream_handler workspace_handlers[];
