/* err.h: the closed set of domain errors, and the reason that a person or a model reads. */
#pragma once

#include "base/mem.h"

/* Order is part of nothing; names are (audit log, tests). */
enum err_code {
	ERR_NONE = 0,
	ERR_INTERNAL,         /* a bug, or the host failed us */
	ERR_INVALID_ARGUMENT, /* the caller's argument; the text says which and what is accepted */
	ERR_NO_SUCH_SESSION,  /* foreign, forged, expired and destroyed handles alike */
	ERR_NO_SUCH_JOB,
	ERR_NO_SUCH_FILE,
	ERR_NO_SUCH_RESOURCE,
	ERR_FILE_REFUSED, /* a path or file kind that may not be touched or presented */
	ERR_IO,           /* the sandbox's file system said no (full, read-only, …) */
	ERR_POLICY_DENIED,
	ERR_LIMIT_REACHED,     /* a cap: sessions, queue, quota, size */
	ERR_PROVIDER_UNUSABLE, /* no sandbox can be made; the text says what to do about it */
	ERR_INTERPRETER_MISSING,
	ERR_SANDBOX_LOST,
	ERR_PROTOCOL, /* the peer broke the protocol */
	ERR_CONFLICT, /* same name or key, other content */
	ERR_TIMEOUT,
	ERR_CANCELLED,
	ERR_AUDIT_UNAVAILABLE, /* nothing runs unaudited */
	ERR_UNSUPPORTED,
	ERR_SECRET_UNAVAILABLE, /* what a session was given is not known: nothing it says can leave
				 */
	ERR_CODE_MAX_
};

struct err_info {
	const char *name; /* as in the audit log, e.g. "policy_denied" */
	int jsonrpc;      /* code of a protocol error; tools answer isError instead */
	int http_status;
	int exit_status; /* of the command line */
};

/* One reason. Lives on the caller's stack, holds no memory. */
struct err {
	enum err_code code;
	int errnum;     /* positive errno, 0 where none fits */
	char text[480]; /* one or two sentences: cause and remedy; valid UTF-8, no controls */
};

/* Fills *e (which may be NULL) and returns a negative errno: -errnum, or -EINVAL where errnum is 0.
 */
int err_set(struct err *e, enum err_code code, int errnum, const char *fmt, ...)
	PRINTF_LIKE(4, 5) UNLIKELY_CALL;
/* Puts context before the text: "context: text". Returns the same value that err_set() did. */
int err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3) UNLIKELY_CALL;
/* The one table: names and the codes of each outer protocol. Never NULL. */
const struct err_info *err_info(enum err_code code);
