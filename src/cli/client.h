/* client.h: a small blocking MCP client for this program's own commands: one server as a child over
 * pipes, one request at a time. */
#pragma once

#include <jansson.h>

#include "base/err.h"

struct client;

/* Starts argv[0] (NULL-terminated list) and initializes it. Where it ends instead, *ret_status is
 * the exit status (more than 0) with which it did, having said why on stderr; else 0. */
int client_start(
	char *const *argv, struct client **ret, int *ret_status, struct err *err) MUST_CHECK;
/* params is stolen. 0 and *ret_result (owned), or a negative errno; ERR_PROTOCOL where the server
 * answers an error. */
int client_request(struct client *c, const char *method, json_t *params, json_t **ret_result,
	struct err *err) MUST_CHECK;
/* A tool's result; an isError result is an error with its text. arguments is stolen. */
int client_call(struct client *c, const char *tool, json_t *arguments, json_t **ret_result,
	struct err *err) MUST_CHECK;
/* Ends the server by closing its stdin, waits for it, and returns its exit status; -1 where it has
 * none. */
int client_close(struct client *c);
