/* follow.h: jobs that go on after their call was answered: their end is put on record, and their
 * session counts as busy until then. */
#pragma once

#include "audit/audit.h"
#include "exec/exec.h"
#include "mcp/conn.h"
#include "session/session.h"

struct follow_who {
	struct session *session;
	const char *job, *tool;
	bool once; /* a broker that died may have put its end on record */
};

/* Watches the job until it ends. The texts are copied, the session is held. */
void follow_job(struct mcp_server *s, const struct follow_who *who);
/* Every job that a broker which died has left without an end, in a session that was found again. */
void follow_restored(struct mcp_server *s);
/* For the end, once the sessions are gone. */
void follow_drop_all(struct mcp_server *s);
/* exec.end of a finished job, and how its key is answered from now on; status NULL: it ended
 * otherwise, for the reason why. with_next: see struct audit_event. */
int follow_record_end(struct mcp_server *s, const struct follow_who *who,
	const struct exec_status *status, const char *why, bool with_next,
	struct err *err) MUST_CHECK;
