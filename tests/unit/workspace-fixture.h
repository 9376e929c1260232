/* workspace-fixture.h: a workspace, a mount and a folder beside them, and the agent's file
 * operations asked without a link: the streams are doubles that remember. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/config.h"
#include "agent/stream.h"
#include "base/mem.h"

struct stream {
	const struct stream_ops *ops;
	void *user;
	size_t room;
	bool ended;
	enum wire_status status;
	struct buf data, end, msgs; /* msgs: be32 length, TLVs */
	size_t n_msgs, consumed;
	uint64_t taken_before, taken;
};

extern struct stream ws;   /* of the last operation */
extern struct buf ws_body; /* of the next request */

/* For cmocka. work/, out/ (with secret and dir/f), mount/ (at /mnt/data, with m). */
int ws_set_up(void **state);
int ws_tear_down(void **state);

/* A path below the place of the test; of the last eight calls. */
char *ws_at(const char *path);
void ws_put(const char *path, const char *text);
/* The first 4 KB of a file, or "(none)"; until the next call. */
const char *ws_get(const char *path);
void ws_shell(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* Begins a request: PATH first, then further tags. */
void ws_ask(const char *path);
void ws_tag(uint16_t t, uint64_t v);
void ws_tag_str(uint16_t t, const char *v);
void ws_clear(void);
/* Opens the operation; run: to its end. */
void ws_start(uint16_t op);
enum wire_status ws_run(uint16_t op);
enum wire_status ws_write_text(const char *text);
/* A number of END. */
uint64_t ws_end_u64(uint16_t t);
/* Paths of all messages, sorted by strcmp, one a line with its line number where it has one. */
const char *ws_msg_paths(void);
