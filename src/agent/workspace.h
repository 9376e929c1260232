/* workspace.h: the file operations of the protocol (OP_FILE_…), confined to workspace and mounts. */
#pragma once

#include "agent/config.h"
#include "agent/stream.h"

/* c must outlive every stream. */
void workspace_init(const struct config *c);
/* For the agent's table of operations; ends with op 0. */
extern const struct stream_handler workspace_handlers[];
