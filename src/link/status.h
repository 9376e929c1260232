/* status.h: how an operation of the agent ended, in words for whoever asked for it. */
#pragma once

#include "base/err.h"
#include "wire/proto.h"
#include "wire/tlv.h"

/* WIRE_OK is 0 and leaves *err alone. what is the thing asked for: "job j-…", "cell j-…" (to
 * be run), "input of j-…", "kernel python", "file x"; its first word chooses code and sentence.
 * agent_text what the agent says about it (hostile; may be NULL). */
int link_status_error(
	enum wire_status status, const char *what, const char *agent_text, struct err *err);
/* The TEXT of an END as one line of valid UTF-8, "" where there is none. */
#define LINK_STATUS_TEXT 200
void link_status_text(struct tlv_reader end, char ret_text[static LINK_STATUS_TEXT]);
