/* parse.h: HTTP/1.1 messages (RFC 9112), without I/O: bytes in, heads and bodies out. Strict: what
 * two parsers could read in two ways is refused, so that nobody in between sees another message
 * than this one. llhttp reads; a head is looked over line by line before it does.
 *
 * Refused beyond what RFC 9112 asks: lines that do not end in CR LF, folded lines, fields in the
 * trailer, Content-Length beside Transfer-Encoding or given twice, a transfer coding other than
 * chunked, targets that are no path (an asterisk is one for OPTIONS, a host and port for CONNECT).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

enum http_kind { HTTP_KIND_REQUEST, HTTP_KIND_RESPONSE };

enum http_verb {
	HTTP_VERB_GET,
	HTTP_VERB_HEAD,
	HTTP_VERB_POST,
	HTTP_VERB_PUT,
	HTTP_VERB_DELETE,
	HTTP_VERB_OPTIONS,
	HTTP_VERB_PATCH,
	HTTP_VERB_CONNECT,
	HTTP_VERB_OTHER
};

/* NUL-terminated; a name in lower case, a value without blanks around it. */
struct http_field {
	char *name, *value;
};

/* Valid until the message's end. */
struct http_head {
	enum http_verb verb;
	char *target; /* "/path?query" */
	unsigned status;
	unsigned minor; /* HTTP/1.minor */
	struct http_field *fields;
	size_t n_fields;
	bool keep_alive; /* the connection can carry another message */
	bool expects_continue;
	bool chunked;
	bool has_length;
	uint64_t length;
	bool upgrade; /* a response: what follows is no HTTP any more */
};
/* The value of the one field of that (lower-case) name; NULL where there is none, or more than one.
 */
const char *http_field(const struct http_head *h, const char *name);
size_t http_count(const struct http_head *h, const char *name);

/* Why a message is refused: the status to answer a request with (in a response: 502), and words. */
struct http_problem {
	unsigned status;
	const char *text;
};

struct http_events {
	/* What is not 0 refuses the message with that status: body bytes are not read. */
	unsigned (*head)(void *user, const struct http_head *h);
	/* Not 0: as above. */
	unsigned (*body)(void *user, const void *p, size_t n);
	void (*end)(void *user);
};

struct http_parser;
/* max_body: bytes of one body; a longer one is 413. events are copied. */
struct http_parser *http_parser_new(
	enum http_kind kind, const struct http_events *events, void *user, uint64_t max_body);
void http_parser_free(struct http_parser *p);
/* A response to a HEAD request has no body, whatever it says. Before its first byte. */
void http_parser_no_body(struct http_parser *p);
/* Takes bytes up to the end of one message: *ret_used of n. 0, or -EBADMSG with *ret_problem; then
 * nothing more can be fed. After an end: http_parser_next() for the next message. */
int http_parser_feed(struct http_parser *p, const void *data, size_t n, size_t *ret_used,
	struct http_problem *ret_problem) MUST_CHECK;
/* The peer sends no more. 0 where that ends a response without a length, or between messages. */
int http_parser_eof(struct http_parser *p, struct http_problem *ret_problem) MUST_CHECK;
/* Has the present message begun, is its head whole, has it ended? */
bool http_parser_begun(const struct http_parser *p);
bool http_parser_in_body(const struct http_parser *p);
bool http_parser_ended(const struct http_parser *p);
void http_parser_next(struct http_parser *p);
