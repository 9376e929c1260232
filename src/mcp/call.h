/* call.h: one tools/call from its arrival to its answer. Policy and audit stand here and nowhere
 * else: a tool runs only after both have said yes, and its answer leaves only once its end is on
 * record. */
#pragma once

#include "base/id.h"
#include "base/list.h"
#include "mcp/conn.h"
#include "mcp/protocol.h"
#include "mcp/redaction.h"
#include "mcp/tool.h"
#include "session/session.h"

struct ask;
struct callask;
struct exec_call;

/* Does the client show pages (MCP Apps)? Over HTTP clients of the older era say so in another
 * request, of which nothing is kept. */
enum call_pages { PAGES_UNKNOWN, PAGES_NONE, PAGES_SHOWN };

struct call {
	struct list link; /* of conn->calls */
	struct mcp_server *server;
	struct mcp_conn *conn; /* NULL: it has gone, and nobody is told anything */
	char *principal;
	struct policy *policy; /* as it was when the call came, to its end */
	json_t *id;
	uint64_t number; /* see transport.h */
	struct delivery delivery;
	char delivery_text[DELIVERY_TEXT];
	bool again;          /* a broker that died had begun it */
	bool keyed;          /* it goes on when its connection has gone */
	bool unrecorded;     /* refused before anything was put on record */
	bool awaits_secrets; /* it has not begun: its principal's secrets are on their way */
	struct provider_wait provider; /* the same, of what its sandbox can be made with */
	bool silent;                   /* nothing in its answer comes from the sandbox */
	bool cancelled;                /* no answer goes out, but its end is told … */
	uint64_t cancel_number;        /* … together with that of the message that cancelled it */
	const char *why;               /* it ends early; static text */
	bool modern;
	json_t *progress_token; /* NULL: none wanted */
	bool reports;           /* the tool tells its progress itself */
	enum call_pages pages;
	int log_level;          /* from which on its client wants log messages; -1: none */
	struct ask *ask;        /* what it asks its client; NULL: its tool asks nothing */
	struct callask *asking; /* it waits for the client's answers; NULL: it does not */
	const struct tool *tool;
	const char *action;        /* NULL: the tool has none */
	json_t *args;              /* checked */
	struct session *session;   /* NULL: none yet. Held: it stays, although it may be closed */
	char handle[ID_TEXT_SIZE]; /* of that session; "": none */
	char sandbox_id[ID_TEXT_SIZE]; /* of one that is gone; "": as the session says */
	bool session_over;             /* closed by this call: not to be passed on */
	uint64_t started_us;           /* CLOCK_MONOTONIC */
	uint64_t told_us;              /* when its client heard of progress last; 0: not yet */
	char doing[120];               /* for progress messages */

	/* the answer as it grows */
	bool is_error; /* it tells of a failure, although it was made as asked */
	bool bare;     /* its text begins without the session's handle */
	struct buf text;
	json_t *structured;
	json_t *blocks; /* content after the text: images */
	json_t *meta;   /* _meta of the result; NULL: none */
	/* … or what is answered in its place; NULL: nothing is */
	json_t *result;
	struct jsonrpc_error *refusal;
	/* for the audit */
	char job[ID_TEXT_SIZE];
	bool has_exit;
	int exit_code;
	const char *exit_reason;
	struct redact_hits hits; /* secrets that were masked */

	struct exec_call *op; /* what will call back; NULL: nothing, or what cannot be abandoned */
	void *state;          /* the tool's own; freed with state_free */
	void (*state_free)(void *state);
};

/* A tools/call request. Answers at once or later. */
void call_start(struct mcp_conn *conn, const struct mcp_message *message,
	const struct jsonrpc_msg *m, const struct mcp_envelope *envelope);
/* The client wants no answer any more, and says so in the message of that number. Both messages are
 * done once the end is on record: for what runs in a sandbox, once the agent has acknowledged it.
 */
void call_cancel(struct call *c, uint64_t number);
/* Its connection has gone: it is cancelled, unless it has an idempotency key. */
void call_orphan(struct call *c);
/* Something has come that it may have waited for. */
void call_secrets(struct call *c);

/* ---- for tools ---- */

/* Takes s as the session of this call: named in the answer, held until the end. */
void call_use_session(struct call *c, struct session *s);
/* The session named by the argument, else the connection's own; made where create is true and there
 * is none. 0 and c->session, or a negative errno. */
int call_find_session(struct call *c, bool create, struct err *err) MUST_CHECK;

/* May it use that session: does the policy permit its mounts and what holds its sandbox? On record
 * where not. (Closing it is always permitted.) */
int call_permit_session(struct call *c, const struct session *s, struct err *err) MUST_CHECK;
/* May it run that language, once it is known which? */
int call_permit_language(struct call *c, const char *language, struct err *err) MUST_CHECK;
/* May it do, as a part of it, what that other tool is there for? */
int call_permit_tool(struct call *c, const char *tool, struct err *err) MUST_CHECK;
/* Which secrets a new session was not given, and why. */
void call_tell_secrets(struct call *c, const struct session *s);

/* What a call changes in its sandbox, step by step: each once, however often it is delivered. */
enum call_step { STEP_CHANGE, STEP_CANCEL };
/* The tag of that step, made in room; NULL where nobody will deliver it again. */
const uint8_t *call_tag(
	const struct call *c, enum call_step step, uint8_t room[static DELIVERY_TAG]);

/* What this call's texts are masked with, as it is at this moment; for as long as the loop does not
 * go on. Whatever a tool answers is masked in the end; what it cuts or collapses it masks before.
 */
struct redacting call_redacting(struct call *c);

/* Appends to the answer's text; what passes its maximum is dropped. */
void call_print(struct call *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
void call_print_n(struct call *c, const void *p, size_t n);
/* Appends a content block; stolen. Images and the like: policy may leave them out. */
void call_block(struct call *c, json_t *block);
/* Sets a member of structuredContent; v is stolen. */
void call_set(struct call *c, const char *name, json_t *v);
void call_set_text(struct call *c, const char *name, const char *text);
void call_set_u64(struct call *c, const char *name, uint64_t v);

/* The two ends. Both free the call. */
void call_finish(struct call *c);
void call_fail(struct call *c, const struct err *err) UNLIKELY_CALL;
void call_failf(struct call *c, enum err_code code, const char *fmt, ...)
	PRINTF_LIKE(3, 4) UNLIKELY_CALL;
/* The end with a result of its own (stolen), or with a protocol error (e stays the caller's);
 * detail is for the audit, static text. */
void call_end_with(struct call *c, json_t *result, const char *detail);
void call_refuse(struct call *c, const struct jsonrpc_error *e);
/* The end of a call that was cancelled. */
void call_end_cancelled(struct call *c);

/* An audit event of this call's tool, session and principal; e->event and what is special to it are
 * set by the caller. Where a broker that died has put it on record, it is there once. */
int call_audit(struct call *c, struct audit_event *e, struct err *err) MUST_CHECK;
