/* streams.h: all streams of the link together; what one of them can do is in stream.h. */
#pragma once

#include "agent/stream.h"
#include "wire/frame.h"

/* Tables end with NULL, each table with op 0. */
void streams_init(const struct stream_handler *const *handler_tables);
/* A frame of the broker. False where it breaks the protocol. */
bool streams_frame(const struct frame *f);
/* The link is gone. */
void streams_close_all(void);
/* The link's queue has room again. */
void streams_writable(void);
