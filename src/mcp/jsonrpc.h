/* jsonrpc.h: one line of bytes to one JSON-RPC 2.0 message, or to the error that answers it.
 * Sans-I/O. Source: jsonrpc.org/specification; MCP 2026-07-28, basic: ids are strings or integers,
 * no batches. */
#pragma once

#include <stdbool.h>
#include <jansson.h>

#include "base/buf.h"

#define JSONRPC_PARSE_ERROR      (-32700)
#define JSONRPC_INVALID_REQUEST  (-32600)
#define JSONRPC_METHOD_NOT_FOUND (-32601)
#define JSONRPC_INVALID_PARAMS   (-32602)
#define JSONRPC_INTERNAL         (-32603)

enum jsonrpc_kind { JSONRPC_REQUEST, JSONRPC_NOTIFICATION, JSONRPC_RESPONSE };

struct jsonrpc_msg {
	enum jsonrpc_kind kind;
	json_t *root;       /* owns everything below */
	json_t *id;         /* string (LIMIT_MCP_ID) or integer; NULL: a notification */
	const char *method; /* NULL: a response */
	json_t *params;     /* an object, or NULL where there is none */
};
void jsonrpc_msg_done(struct jsonrpc_msg *m);

struct jsonrpc_error {
	int code;
	char text[240];
	json_t *id;   /* owned; NULL: unknown, "id": null goes out */
	json_t *data; /* owned; NULL: none */
};
void jsonrpc_error_done(struct jsonrpc_error *e);
/* Fills code and text; id and data stay. */
void jsonrpc_error_set(struct jsonrpc_error *e, int code, const char *fmt, ...)
	PRINTF_LIKE(3, 4) UNLIKELY_CALL;

/* p[0..n) is one message. 0, or -EINVAL and *ret_error. Nesting is checked against
 * LIMIT_JSON_DEPTH before the (recursive) parser runs; duplicate keys are refused. */
int jsonrpc_parse(const char *p, size_t n, struct jsonrpc_msg *ret,
	struct jsonrpc_error *ret_error) MUST_CHECK;
/* The check alone, for other JSON texts that come from outside: deeper than max? */
bool jsonrpc_too_deep(const char *p, size_t n, unsigned max);

/* Whole messages. id is borrowed, result and params are stolen; never NULL. */
json_t *jsonrpc_result(json_t *id, json_t *result);
json_t *jsonrpc_error_message(const struct jsonrpc_error *e);
json_t *jsonrpc_notification(const char *method, json_t *params);
/* One line without its newline, appended to out. 0, or -ENOBUFS where out is too small. */
int jsonrpc_encode(const json_t *message, struct buf *out) MUST_CHECK;
/* text as a JSON string, repaired where it is no UTF-8; never NULL, also where n is 0 and p NULL.
 */
json_t *jsonrpc_text(const char *text);
json_t *jsonrpc_text_n(const void *p, size_t n);
