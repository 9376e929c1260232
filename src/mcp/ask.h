/* ask.h: what a server asks its client for while it works on a request: an answer of the person
 * (elicitation), of the model (sampling), or the client's folders (roots).
 *
 * It goes in rounds, written once for both eras. A round names what it asks for, each by a key of
 * its own; the next one begins from the start and finds the answers under these keys. What it must
 * know of earlier rounds it keeps. In the modern era a round ends with a result of type
 * "input_required", and the next one is another request of the client's, which brings back what was
 * kept, sealed: it is worth something only for the same principal and the same request, and not for
 * long. In the older era the server sends requests of its own (callask.h).
 *
 * Source: MCP 2026-07-28 basic/patterns/mrtr; 2025-11-25 client/{elicitation,sampling,roots}. */
#pragma once

#include "mcp/jsonrpc.h"
#include "mcp/redaction.h"

#define ASK_KEY 32

enum ask_kind { ASK_ELICITATION, ASK_SAMPLING, ASK_ROOTS };

struct ask;

/* A request, as it came. Borrowed, but for ask_open() alone. */
struct ask_request {
	const uint8_t *key; /* ASK_KEY bytes, the server's: what seals */
	const char *principal, *method;
	json_t *params; /* may be NULL */
	bool modern;
	json_t *capabilities; /* that the client has declared; NULL: not known, all is tried */
};
/* 0, or -EINVAL and *ret_error: answers that are none, or something kept that does not belong here.
 */
int ask_open(
	const struct ask_request *r, struct ask **ret, struct jsonrpc_error *ret_error) MUST_CHECK;
void ask_free(struct ask *a);

/* ---- for tools and prompts ---- */

/* May the client be asked for that? */
bool ask_can(const struct ask *a, enum ask_kind kind);
/* What it answered under that key in the last round: the kind's result, with the members that it
 * must have. NULL: nothing, or nothing of that form; then it is asked again. */
const json_t *ask_answer(const struct ask *a, const char *key, enum ask_kind kind);
/* The round asks for it. params is stolen: those of the kind's request. */
void ask_for(struct ask *a, const char *key, enum ask_kind kind, json_t *params);
/* The next round finds v (stolen) again with ask_kept(). */
void ask_keep(struct ask *a, json_t *v);
const json_t *ask_kept(const struct ask *a); /* NULL: nothing was */

/* ---- for who runs them ---- */

/* Does the round ask for something that the client has not declared? Then *ret_error. */
bool ask_refused(const struct ask *a, struct jsonrpc_error *ret_error);
/* Has the round asked, or kept anything? */
bool ask_pending(const struct ask *a);
/* The round's result in the modern era. What is kept is masked with w before it is sealed; the rest
 * is masked with the answer. */
json_t *ask_result(struct ask *a, const struct redacting *w);
/* key → {method, params}; borrowed. */
json_t *ask_requests(const struct ask *a);
/* The next round begins with these answers (key → result, stolen). */
void ask_next(struct ask *a, json_t *answers);
