/* stdio.h: MCP over two descriptors (stdin and stdout), one message a line.
 * Source: MCP 2026-07-28, basic/transports/stdio. */
#pragma once

#include <uv.h>

#include "base/err.h"
#include "mcp/transport.h"

struct stdio;

struct stdio_events {
	/* NULL: a line of more than LIMIT_MCP_LINE was thrown away. */
	void (*line)(void *user, const char *line, size_t n);
	/* End of file, or the peer reads no more. Once; nothing follows. */
	void (*closed)(void *user);
};

/* Keeps stdout for the protocol alone: returns a private CLOEXEC duplicate of fd 1, which itself
 * then leads to stderr. To be called before anything can print. The descriptor or a negative errno.
 */
int stdio_take_stdout(void);

/* Owns both descriptors. Pipes, sockets, terminals and files; blocking mode is left as it is where
 * the kernel cannot poll the descriptor. */
int stdio_new(uv_loop_t *loop, int fd_in, int fd_out, const struct stdio_events *events, void *user,
	struct stdio **ret) MUST_CHECK;
struct mcp_transport *stdio_transport(struct stdio *s);
/* Stops reading: no events any more. What is queued still goes out while the loop runs. */
void stdio_stop(struct stdio *s);
/* Frees it from the loop's next turn. */
void stdio_close(struct stdio *s);
